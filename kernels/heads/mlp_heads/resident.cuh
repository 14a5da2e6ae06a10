// ResidentWeights: a head's packed weights in shared memory, which all warps of a block read and, piece by piece,
// replace by the next head's: the warp that is the last to give a piece back loads the next.
#pragma once

#include <cstdint>

#include "kernels/common/wgmma.cuh"
#include "kernels/heads/mlp_heads/layout.cuh"

namespace engram::mlp {

template <class Image>
struct ResidentWeights {
  SharedBarrier loaded[Image::kPieces], free[Image::kPieces];  // a phase a head
  unsigned given_back[Image::kPieces];                         // by how many warps so far

  // Called by one thread, before the others are let in.
  __device__ void start(unsigned char* shared, const unsigned char* image) {
    for (int piece = 0; piece < Image::kPieces; ++piece) {
      loaded[piece].initialize(/*arrivals=*/1);
      free[piece].initialize(/*arrivals=*/kWarps * 32);
      given_back[piece] = 0;
    }
    publish_barriers();
    for (int piece = 0; piece < Image::kPieces; ++piece) load(piece, shared, image);
  }
  __device__ void wait(int piece, int phase) { loaded[piece].wait(phase % 2); }
  // Called by all threads of a warp that has read the piece, once a head. next_image: null after the last.
  __device__ void give_back(int piece, int phase, unsigned char* shared, const unsigned char* next_image) {
    if (next_image == nullptr) return;
    free[piece].arrive();  // every lane for what it has read
    if (threadIdx.x % 32 != 0) return;
    if (atomicAdd(&given_back[piece], 1) % kWarps != kWarps - 1) return;
    free[piece].wait(phase % 2);
    load(piece, shared, next_image);
  }

 private:
  __device__ void load(int piece, unsigned char* shared, const unsigned char* image) {
    const int begin = Image::piece_begin(piece), bytes = Image::piece_begin(piece + 1) - begin;
    loaded[piece].arrive_expecting(bytes);
    loaded[piece].copy(shared + begin, image + begin, bytes);
  }
};

}  // namespace engram::mlp
