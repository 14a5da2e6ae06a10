// A lane of a warp that holds a vector of a head, as maths.h and walk.h ask for it: eight or sixteen lanes share a
// head.
#pragma once

#include "kernels/block/row_vector.cuh"
#include "kernels/fast_weights/passes/walk.h"

namespace engram::fast_weight_passes {

constexpr int kThreads = 256;  // of a block
constexpr int kMaxPadded = 128;

// Of numbers alone.
struct DeviceMaths {
  using Number = float;
  __device__ static float sigmoid(float x) { return fast_sigmoid(x); }
  __device__ static float exp(float x) { return expf(x); }
  __device__ static float exp2(float x) { return exp2f(x); }
  __device__ static float log1p(float x) { return log1pf(x); }
  __device__ static float inverse_root(float x) { return rsqrtf(x); }
};

template <class T, int kLanes, bool kHasExchange>
class WarpLane : public DeviceMaths {
 public:
  using Vector = RowVector;
  using Element = T;
  using Stored = StoredVector<T>;
  static constexpr int kHeld = kVector;
  static constexpr bool kExchanges = kHasExchange;
  static constexpr int kHeads = kThreads / kLanes;  // that a block has at a time
  // Floats a head: DPFP's 2 C and the features, one more behind every 32, and a few, so that what lanes read eight
  // apart, in all heads of a warp, stands in banks of its own.
  static constexpr int kExchanged = 2 * kLanes * kVector + (kLanes == 8 ? 6 : 12);

  // `exchanged`: shared, kHeads * kExchanged floats; `directions`: shared, kVector numbers for each lane and channel,
  // in the order of direction_at(). Either may be null where no map needs it.
  __device__ explicit WarpLane(float* exchanged = nullptr, const float* directions = nullptr)
      : exchanged_(exchanged + threadIdx.x / kLanes * kExchanged), directions_(directions) {}

  __device__ int first() const { return lane_id() % kLanes * kVector; }
  __device__ float sum(float x) const { return row_sum<kLanes>(x); }
  __device__ float& exchanged(int i) const { return exchanged_[i + static_cast<int>(static_cast<unsigned>(i) / 32)]; }
  __device__ void synchronise() const { __syncwarp(); }
  __device__ RowVector direction(int c) const {
    const float4* const at = reinterpret_cast<const float4*>(directions_) + 2 * c * kLanes + lane_id() % kLanes;
    const float4 low = at[0], high = at[kLanes];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
  // Where feature f of channel c stands: lanes beside each other read 16 bytes beside each other.
  __device__ static int direction_at(int c, int f) {
    return 4 * ((2 * c + f % kVector / 4) * kLanes + f / kVector) + f % 4;
  }

  __device__ static Stored fetch(bool holds, const T* p) { return {holds, p}; }
  __device__ static RowVector floats(const Stored& stored) { return stored.floats(); }
  __device__ static void store(T* p, const RowVector& v) { store_vector(p, v); }

 private:
  float* exchanged_;
  const float* directions_;
};

// Calls launch.operator()<T, kLanes>() for heads of up to `padded` elements.
template <typename Launch>
void dispatch_lanes(Dtype dtype, int padded, Launch launch) {
  dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    if (padded <= 64)
      launch.template operator()<T, 8>();
    else
      launch.template operator()<T, 16>();
  });
}

}  // namespace engram::fast_weight_passes
