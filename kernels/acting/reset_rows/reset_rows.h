// Forgetting: zeroes the rows of many tensors whose episodes begin, in one launch for 64 tensors.
//
// Row n of a tensor is the `row_bytes` bytes at data + n * row_bytes, a multiple of 4, 4-byte aligned; rows that are
// 16-byte aligned are written four times as fast. Where nothing is fresh only the flags are read, which are never
// changed. All pointers are device memory, no tensors overlap. Work is queued on `stream`. Errors: std::runtime_error
// for rows outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace engram {

struct RowTensor {
  void* data;
  std::int64_t row_bytes;
};
// fresh_N: of each of `rows` rows, whether it is zeroed (not 0).
void reset_rows(const std::vector<RowTensor>& tensors, const std::uint8_t* fresh_N, int rows, cudaStream_t stream);

}  // namespace engram
