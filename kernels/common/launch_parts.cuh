// A launch that is made of several parts, such as tensors or sums, each of so many blocks.
#pragma once

namespace engram {

// Which of the `count` parts, kMost at most, this block belongs to: the last one whose first block, first_block(part),
// is not behind it. By halves, since each look waits for the one before it.
template <int kMost, class FirstBlock>
__device__ int part_of_block(int count, const FirstBlock& first_block) {
  static_assert(kMost > 0 && (kMost & (kMost - 1)) == 0);
  int own = 0;
  for (int half = kMost / 2; half > 0; half /= 2)
    if (own + half < count && static_cast<int>(blockIdx.x) >= first_block(own + half)) own += half;
  return own;
}

}  // namespace engram
