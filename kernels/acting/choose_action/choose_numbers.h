// The end of a step of acting with a continuous action: its numbers from what a policy says of them.
//
//   action_n = the means of row n, or drawn from independent normal distributions by draw_numbers()
//   (base/sample_action.h) with row n's own stream
//
// N rows of A >= 1 numbers, all arrays contiguous, on the device, 4-byte aligned (streams 8), none overlapping another.
// Computed in float. Rows are independent of each other: the same numbers and streams give the same bits. Work is
// queued on `stream`. Errors: std::runtime_error for sizes outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/rng.h"

namespace engram {

struct ChooseNumbers {
  int rows;     // 0: nothing is done
  int numbers;  // A
  bool greedy;
  const float* normal_NX;  // [N, 2 A]: means, then logarithms of standard deviations
  Rng* stream_N;           // advanced by two draws for every two numbers; not read by the greedy choice
  float* kept_NX;          // out: normal_NX
  std::int32_t* action_N;  // out, [N, A]: the bits of the numbers
  std::uint8_t* fresh_N;   // set to 0: the row has taken a step of its episode
  int* diverged;           // set to 1 if a number is not finite; never set to 0
};
void choose_numbers(const ChooseNumbers& choice, cudaStream_t stream);

}  // namespace engram
