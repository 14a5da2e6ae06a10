#include <doctest/doctest.h>

#include "kernels/block/pack.h"
#include "tests/kernels/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Two segments below each other, their rows and columns in groups: what the projections of heads look like.
struct Packing {
  Dtype dtype;
  PackGroups rows[2], columns[2];
  int first_row[2], packed_rows, packed_columns;

  std::size_t size() const { return static_cast<std::size_t>(packed_rows) * packed_columns; }
};

const std::vector<Packing> kPackings = {
    {Dtype::kFloat32, {{100, 50, 56}, {2, 2, 8}}, {{100, 100, 104}, {100, 100, 104}}, {0, 112}, 120, 104},
    {Dtype::kBfloat16, {{100, 50, 56}, {2, 2, 8}}, {{100, 100, 104}, {100, 100, 104}}, {0, 112}, 120, 104},
    {Dtype::kBfloat16, {{59, 59, 64}, {17, 5, 8}}, {{7, 7, 8}, {3, 1, 4}}, {0, 70}, 104, 16},  // rows that no segment
                                                                                               // has
    {Dtype::kFloat32, {{1, 1, 1}, {3, 3, 3}}, {{5, 5, 5}, {4, 2, 3}}, {0, 1}, 5, 6}};

// Where element (r, c) of a segment's matrix stands.
std::size_t position(const Packing& p, int segment, int r, int c) {
  const auto spread = [](const PackGroups& groups, int i) {
    return i / groups.group * groups.padded + i % groups.group;
  };
  return static_cast<std::size_t>(p.first_row[segment] + spread(p.rows[segment], r)) * p.packed_columns +
         spread(p.columns[segment], c);
}

struct Device {
  Packing packing;
  DeviceBytes segment[2], packed;

  PackedMatrix matrix() {
    PackedMatrix m{packing.dtype, packing.packed_rows, packing.packed_columns, packed.data(), 2, {}};
    for (int s = 0; s < 2; ++s)
      m.segment[s] = {floats(segment[s]), packing.first_row[s], packing.rows[s], packing.columns[s]};
    return m;
  }
};

void check_packing(const Packing& p) {
  Rng rng(1, Purpose::kTest, 7, static_cast<unsigned>(p.packed_rows));
  Device device{p, {}, poisoned(p.size(), p.dtype)};
  Numbers expected(p.size()), given[2];
  for (int s = 0; s < 2; ++s) {
    given[s] = normals(rng, static_cast<std::size_t>(p.rows[s].count) * p.columns[s].count, Dtype::kFloat32);
    device.segment[s] = upload(given[s], Dtype::kFloat32);
    for (int r = 0; r < p.rows[s].count; ++r)
      for (int c = 0; c < p.columns[s].count; ++c)
        expected[position(p, s, r, c)] = rounded(given[s][r * p.columns[s].count + c], p.dtype);
  }
  pack({device.matrix()}, nullptr);
  CHECK(download(device.packed, p.dtype) == expected);
  // And back, over NaN in segments and padding: a number for every element, read from its own place.
  Numbers filled(p.size(), std::nan(""));
  for (int s = 0; s < 2; ++s)
    for (int r = 0; r < p.rows[s].count; ++r)
      for (int c = 0; c < p.columns[s].count; ++c) {
        const std::size_t at = position(p, s, r, c);
        filled[at] = expected[at];
        given[s][r * p.columns[s].count + c] = expected[at];
      }
  device.packed = upload(filled, p.dtype);
  for (int s = 0; s < 2; ++s) device.segment[s] = poisoned(given[s].size(), Dtype::kFloat32);
  unpack({device.matrix()}, nullptr);
  for (int s = 0; s < 2; ++s) CHECK(download(device.segment[s], Dtype::kFloat32) == given[s]);
}

}  // namespace

TEST_CASE("small shapes: every weight stands in its place of a packed matrix, zeros in the padding, and comes back") {
  if (skip_without_gpu()) return;
  for (const Packing& packing : kPackings) check_packing(packing);
}

TEST_CASE("the same weights give the same packed bits 1,000 times") {
  if (skip_without_gpu()) return;
  const Packing& p = kPackings[1];
  Rng rng(1, Purpose::kTest, 8, 0);
  Device device{p, {}, {}};
  for (int s = 0; s < 2; ++s)
    device.segment[s] = upload(normals(rng, p.rows[s].count * p.columns[s].count, Dtype::kFloat32), Dtype::kFloat32);
  CHECK(different_runs([&] {
          poison(device.packed, p.size(), p.dtype);
          pack({device.matrix()}, nullptr);
          unpack({device.matrix()}, nullptr);
          return std::vector{device.packed.to_host(), device.segment[0].to_host(), device.segment[1].to_host()};
        }) == 0);
}
