// The end of a step of acting: probabilities and actions from a policy's logits.
//
//   p_{n,a} = softmax of the logits of row n,  action_n = the first most probable, or drawn from p_n by
//   base/sample_action.h with row n's own stream
//
// N rows of A >= 1 actions, all arrays contiguous but for the logits, on the device, 4-byte aligned (streams 8), none
// overlapping another. Computed in float. Rows are independent of each other: the same logits and streams give the same
// bits. Work is queued on `stream`. Errors: std::runtime_error for sizes outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/rng.h"

namespace engram {

struct ChooseAction {
  int rows;     // 0: nothing is done
  int actions;  // A
  bool greedy;
  const float* logits_NA;
  std::int64_t logits_stride;  // elements between two rows, at least A
  Rng* stream_N;               // advanced by one draw; not read by the greedy choice
  float* probabilities_NA;     // out
  std::int32_t* action_N;      // out, 0 .. A - 1, also where probabilities are not finite
  std::uint8_t* fresh_N;       // set to 0: the row has taken a step of its episode
  int* diverged;               // set to 1 if a probability is not finite; never set to 0
};
void choose_action(const ChooseAction& choice, cudaStream_t stream);

}  // namespace engram
