#include "kernels/acting/reset_rows/reset_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Rows of all bytes 0xff in front of, in and behind a tensor that begins `offset` bytes into its buffer.
struct Tensor {
  std::size_t offset, row_bytes;
  DeviceBytes buffer;
};

constexpr std::size_t kMargin = 64;

std::vector<Tensor> poisoned_tensors(int count, int rows) {
  const std::size_t row_bytes[] = {8, 4, 16, 12, 0, 4096, 4100, 16 * 257, 20000};
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    tensors.push_back({i % 3 == 1 ? kMargin + 4 : kMargin, row_bytes[i % 9], {}});
    poison(tensors.back().buffer, 2 * kMargin + 4 + rows * tensors.back().row_bytes);
  }
  return tensors;
}

}  // namespace

TEST_CASE("small shapes: fresh rows become zero, nothing else changes") {
  if (skip_without_gpu()) return;
  for (const int rows : {1, 7, 300, 2500})
    for (const int count : {1, 9, 64, 70})
      for (const int every : {0, 1, 3, 1000}) {  // 0: no row is fresh; else rows 0, every, 2 every ...
        if (rows > 1000 && count > 9) continue;
        CAPTURE(rows);
        CAPTURE(count);
        CAPTURE(every);
        std::vector<std::uint8_t> fresh(rows);
        for (int row = 0; row < rows && every > 0; row += every) fresh[row] = static_cast<std::uint8_t>(1 + row % 255);
        const DeviceBuffer<std::uint8_t> device_fresh(fresh);
        std::vector<Tensor> tensors = poisoned_tensors(count, rows);
        std::vector<RowTensor> views;
        for (Tensor& tensor : tensors)
          views.push_back({tensor.buffer.data() + tensor.offset, static_cast<std::int64_t>(tensor.row_bytes)});
        reset_rows(views, device_fresh.data(), rows, nullptr);
        CHECK(device_fresh.to_host() == fresh);
        int wrong = 0;
        for (const Tensor& tensor : tensors) {
          Bytes expected(tensor.buffer.size(), 0xff);
          for (int row = 0; row < rows; ++row)
            if (fresh[row] != 0)
              std::fill_n(expected.begin() + tensor.offset + row * tensor.row_bytes, tensor.row_bytes, 0);
          wrong += tensor.buffer.to_host() != expected;
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE("rows that are no whole number of words are refused") {
  if (skip_without_gpu()) return;
  CHECK_THROWS(reset_rows({{nullptr, 6}}, nullptr, 1, nullptr));
}
