#include "kernels/learner/tensor_list/tensor_list.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// More tensors than a launch takes, sizes around that of a block, none and many blocks.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all{0, 1, 31, 4095, 4096, 4097, 100000};
  for (std::size_t i = 0; i < 140; ++i) all.push_back(i * 13);
  return all;
}

struct Lists {
  std::vector<Numbers> numbers;
  std::vector<DeviceBytes> device;
};

Lists make_lists(unsigned seed) {
  Rng rng(seed, Purpose::kTest, 30, 0);
  Lists lists;
  for (const std::size_t size : sizes()) {
    lists.numbers.push_back(normals(rng, size, Dtype::kFloat32, 3));
    lists.device.push_back(upload(lists.numbers.back(), Dtype::kFloat32));
  }
  return lists;
}

std::vector<TensorView> views(const Lists& lists) {
  std::vector<TensorView> tensors;
  for (std::size_t i = 0; i < lists.device.size(); ++i)
    tensors.push_back({floats(lists.device[i]), static_cast<std::int64_t>(lists.numbers[i].size())});
  return tensors;
}

DeviceBytes norms_of(const std::vector<TensorView>& tensors) {
  DeviceBytes scratch, norms = poisoned(tensors.size(), Dtype::kFloat32);
  poison(scratch, tensor_norms_scratch_bytes(tensors));
  tensor_norms(tensors, floats(norms), scratch.data(), nullptr);
  return norms;
}

}  // namespace

// A sum of squares adds up at most 16 numbers in a row and then partial sums: some ten roundings of 2^-24.
TEST_CASE("small shapes: norms of many tensors are those of double precision") {
  if (skip_without_gpu()) return;
  const Lists lists = make_lists(1);
  const std::vector<TensorView> tensors = views(lists);
  const Numbers actual = download(norms_of(tensors), Dtype::kFloat32);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(tensors[i].size);
    double square = 0;
    for (const double x : lists.numbers[i]) square += x * x;
    CHECK(std::abs(actual[i] - std::sqrt(square)) <= 1e-6 * std::sqrt(square));
  }
}

TEST_CASE("NaN and infinity in one tensor reach its norm alone") {
  if (skip_without_gpu()) return;
  Lists lists = make_lists(2);
  lists.numbers[4][4000] = kNaN, lists.numbers[6][99999] = INFINITY;
  for (const std::size_t i : {4, 6}) lists.device[i] = upload(lists.numbers[i], Dtype::kFloat32);
  const std::vector<TensorView> tensors = views(lists);
  const Numbers actual = download(norms_of(tensors), Dtype::kFloat32);
  for (std::size_t i = 0; i < actual.size(); ++i) CHECK(std::isfinite(actual[i]) == (i != 4 && i != 6));
}

TEST_CASE("the same tensors give the same norms 1,000 times") {
  if (skip_without_gpu()) return;
  const Lists lists = make_lists(3);
  const std::vector<TensorView> tensors = views(lists);
  CHECK(different_runs([&] { return norms_of(tensors).to_host(); }) == 0);
}

TEST_CASE("small shapes: a watch counts updates and bad ones and remembers the first of these") {
  if (skip_without_gpu()) return;
  constexpr int kCount = 300;
  DeviceBuffer<std::int64_t> watch(std::vector<std::int64_t>{41, 0, 0, 0});
  DeviceBuffer<float> out(2);
  const auto run = [&](float loss, std::vector<float> norms) {
    const DeviceBuffer<float> device_loss(std::vector<float>{loss}), device_norms(norms);
    watch_update({device_loss.data(), device_norms.data(), kCount, watch.data(), out.data(), out.data() + 1}, nullptr);
  };
  std::vector<float> norms(kCount, 0.5f);
  run(1, norms);
  CHECK(watch.to_host() == std::vector<std::int64_t>{42, 0, 0, 0});
  CHECK(out.to_host()[0] == 0);
  CHECK(std::abs(out.to_host()[1] - std::sqrt(kCount * 0.25)) < 1e-5);
  norms[299] = INFINITY, norms[7] = NAN;
  run(1, norms);
  CHECK(watch.to_host() == std::vector<std::int64_t>{43, 1, 43, 8});
  CHECK(out.to_host()[0] == 1);
  run(NAN, std::vector<float>(kCount, 1));
  CHECK(watch.to_host() == std::vector<std::int64_t>{44, 2, 43, 8});
  CHECK(out.to_host()[0] == 1);
  run(1, std::vector<float>(kCount, 1));
  CHECK(watch.to_host() == std::vector<std::int64_t>{45, 2, 43, 8});
  CHECK(out.to_host()[0] == 0);
}

TEST_CASE("small shapes: tensors move towards others, and reach them at a rate of 1") {
  if (skip_without_gpu()) return;
  const Lists from = make_lists(4), to = make_lists(5);
  for (const float rate : {0.0f, 0.005f, 0.7f, 1.0f}) {
    CAPTURE(rate);
    std::vector<DeviceBytes> x(from.device.size());
    std::vector<TensorPair> pairs;
    for (std::size_t i = 0; i < x.size(); ++i) {
      copy(x[i], from.device[i]);
      pairs.push_back({floats(x[i]), floats(to.device[i]), static_cast<std::int64_t>(to.numbers[i].size())});
    }
    move_towards(pairs, rate, nullptr);
    for (std::size_t i = 0; i < x.size(); ++i) {
      Numbers expected = from.numbers[i];
      for (std::size_t j = 0; j < expected.size(); ++j) expected[j] += rate * (to.numbers[i][j] - expected[j]);
      CHECK(relative_error(download(x[i], Dtype::kFloat32), expected) <= 1e-6);
      if (rate == 1.0f) CHECK(x[i].to_host() == to.device[i].to_host());
    }
  }
}
