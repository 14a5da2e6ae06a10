#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "kernels/block/pack.h"
#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Two segments below each other, their rows and columns in groups: what the projections of heads look like. One where
// the second has no rows.
struct Packing {
  Dtype dtype;
  PackGroups rows[2], columns[2];
  int first_row[2], packed_rows, packed_columns;
  bool upper_first = false;  // in the list

  std::size_t size() const { return static_cast<std::size_t>(packed_rows) * packed_columns; }
};

const std::vector<Packing> kPackings = {
    {Dtype::kFloat32, {{100, 50, 56}, {2, 2, 8}}, {{100, 100, 104}, {100, 100, 104}}, {0, 112}, 120, 104},
    {Dtype::kBfloat16, {{100, 50, 56}, {2, 2, 8}}, {{100, 100, 104}, {100, 100, 104}}, {0, 112}, 120, 104},
    {Dtype::kBfloat16, {{59, 59, 64}, {17, 5, 8}}, {{7, 7, 8}, {3, 1, 4}}, {0, 70}, 104, 16},  // rows that no segment
                                                                                               // has
    {Dtype::kFloat32, {{1, 1, 1}, {3, 3, 3}}, {{5, 5, 5}, {4, 2, 3}}, {0, 1}, 5, 6},
    {Dtype::kBfloat16, {{10, 5, 8}, {1, 1, 1}}, {{7, 7, 16}, {7, 7, 16}}, {0, 16}, 17, 16, /*upper_first=*/true},
    {Dtype::kFloat32, {{1, 1, 1}, {0, 1, 1}}, {{7, 7, 16}, {1, 1, 1}}, {0, 1}, 1, 16}};

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
  Numbers expected;

  explicit Device(const Packing& p, unsigned seed = 7)
      : packing(p), packed(poisoned(p.size(), p.dtype)), expected(p.size()) {
    Rng rng(1, Purpose::kTest, seed, static_cast<unsigned>(p.packed_rows));
    for (int s = 0; s < 2; ++s) {
      const Numbers given =
          normals(rng, static_cast<std::size_t>(p.rows[s].count) * p.columns[s].count, Dtype::kFloat32);
      segment[s] = upload(given, Dtype::kFloat32);
      for (int r = 0; r < p.rows[s].count; ++r)
        for (int c = 0; c < p.columns[s].count; ++c)
          expected[position(p, s, r, c)] = rounded(given[r * p.columns[s].count + c], p.dtype);
    }
  }
  PackedMatrix matrix() {
    PackedMatrix m{packing.dtype, packing.packed_rows, packing.packed_columns, packed.data(), {}};
    for (const int s : {packing.upper_first ? 0 : 1, packing.upper_first ? 1 : 0})
      if (packing.rows[s].count > 0)
        m.segments.push_back({floats(segment[s]), packing.first_row[s], packing.rows[s], packing.columns[s]});
    return m;
  }
};

}  // namespace

TEST_CASE("small shapes: every weight stands in its place of a packed matrix, zeros in the padding") {
  if (skip_without_gpu()) return;
  for (const Packing& packing : kPackings) {
    Device device(packing);
    pack({device.matrix()}, nullptr);
    CHECK(download(device.packed, packing.dtype) == device.expected);
  }
}

TEST_CASE("small shapes: more matrices of both types than a launch holds are packed by one call") {
  if (skip_without_gpu()) return;
  std::vector<Device> devices;
  std::vector<PackedMatrix> matrices;
  for (unsigned i = 0; i < 2 * kPackSegmentsOfLaunch / 3; ++i) {
    devices.emplace_back(kPackings[i % kPackings.size()], i);
    matrices.push_back(devices.back().matrix());
  }
  pack(matrices, nullptr);
  for (const Device& device : devices) CHECK(download(device.packed, device.packing.dtype) == device.expected);
  pack({}, nullptr);
}

TEST_CASE("the same weights give the same packed bits 1,000 times") {
  if (skip_without_gpu()) return;
  Device device(kPackings[1]);
  CHECK(different_runs([&] {
          poison(device.packed, device.packing.size(), device.packing.dtype);
          pack({device.matrix()}, nullptr);
          return device.packed.to_host();
        }) == 0);
}
