// Times the passes of a block at the published run's size: medians of CUDA-graph replays, bytes a second beside them.
// Each launch finds its inputs in memory: it takes its turn with others whose data fill the cache.
#include <cstdio>
#include <functional>
#include <vector>

#include "kernels/block/elementwise.h"
#include "kernels/block/mixer.h"
#include "kernels/block/row_norm.h"
#include "kernels/median_ms.h"

using namespace engram;

namespace {

constexpr std::int64_t kRows = 64 * 781;
constexpr int kWidth = 100, kPadded = 112, kHeads = 2, kHeadPadded = 56, kPart = kHeads * kHeadPadded;
constexpr int kProjected = 4 * kPart + 8;
constexpr int kSets = 6;
constexpr Dtype kType = Dtype::kBfloat16;

// Values do not matter to the time; tests check them.
struct Rows {
  std::vector<DeviceBuffer<unsigned char>> set;
  explicit Rows(int columns) {
    for (int i = 0; i < kSets; ++i) {
      set.emplace_back(kRows * columns * dtype_bytes(kType));
      check_cuda(cudaMemset(set.back().data(), 0x3c, set.back().size()), "fill");  // a small number in either type
    }
  }
  void* operator[](int i) { return set[i].data(); }
};

// `columns`: read and written, of all rows.
void time(const char* name, int columns, const std::function<void(int, cudaStream_t)>& launch) {
  int turn = 0;
  const double ms = median_graph_ms(4 * kSets, [&](cudaStream_t stream) { launch(turn++ % kSets, stream); });
  std::printf("%-44s %6.1f us  %5.2f TB/s\n", name, 1e3 * ms,
              1e-9 * static_cast<double>(kRows * columns * dtype_bytes(kType)) / ms);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const DeviceBuffer<std::int64_t> seed_tick(std::vector<std::int64_t>{1, 2});
  const DeviceBuffer<float> weight(std::vector<float>(kPadded, 1.0f));
  DeviceBuffer<float> d_weight(kPadded);
  const DropoutPlace dropout(seed_tick.data(), 3, 0.1);
  Rows a(kPadded), b(kPadded), c(kPadded), d(kPadded), e(kPadded);

  const auto norm = [&](void* x) {
    return RowNorm{NormKind::kRms, kRows, kWidth, kPadded, 1e-6f, kType, x, weight.data(), nullptr};
  };
  DeviceBuffer<unsigned char> scratch(row_norm_backward_scratch_bytes(norm(nullptr)));
  time("dropout_add", 2 * kPadded, [&](int i, cudaStream_t stream) {
    dropout_add({kRows, kWidth, kPadded, kPadded, kType, dropout, a[i], nullptr}, b[i], stream);
  });
  time("dropout_add to a residual", 3 * kPadded, [&](int i, cudaStream_t stream) {
    dropout_add({kRows, kWidth, kPadded, kPadded, kType, dropout, a[i], b[i]}, c[i], stream);
  });
  time("norm", 2 * kPadded, [&](int i, cudaStream_t stream) { row_norm_forward(norm(a[i]), b[i], stream); });
  time("residual sum and norm", 4 * kPadded, [&](int i, cudaStream_t stream) {
    residual_norm_forward(norm(nullptr), {dropout, a[i], kPadded, b[i], c[i]}, d[i], stream);
  });
  for (const bool drops : {false, true})
    time(drops ? "norm backward, dropout of dx" : "norm backward", (drops ? 5 : 4) * kPadded,
         [&](int i, cudaStream_t stream) {
           const RowNormGradient gradient{
               b[i], kPadded, c[i], d[i], d_weight.data(), nullptr, dropout, drops ? e[i] : nullptr};
           row_norm_backward(norm(a[i]), gradient, scratch.data(), stream);
         });
  time("sums of the norm's weight", 0, [&](int i, cudaStream_t stream) {
    row_norm_add_sums(norm(a[i]), {b[i], kPadded, c[i], d[i], d_weight.data(), nullptr, {}, nullptr}, scratch.data(),
                      stream);
  });

  Rows projected(kProjected), features(3 * kPart), beta(kHeads), d_projected(kProjected), d_features(3 * kPart),
      d_beta(kHeads);
  const MixerShape shape{kRows, kHeads, kWidth / kHeads, kHeadPadded};
  for (const bool window : {true, false}) {
    const auto input = [&](int i) {
      MixerFeatures in{};
      in.shape = shape, in.dtype = kType, in.projected_stride = kProjected, in.beta_column = 4 * kPart;
      in.beta_factor = 2;
      in.query_dropout = in.key_dropout = in.value_dropout = dropout;
      in.drops_in_place = window;
      in.projected = projected[i];
      return in;
    };
    time(window ? "features, with a window" : "features", (window ? 8 : 6) * kPart,
         [&](int i, cudaStream_t stream) { mixer_features_forward(input(i), features[i], beta[i], stream); });
    time(window ? "features backward, with a window" : "features backward", (window ? 12 : 9) * kPart,
         [&](int i, cudaStream_t stream) {
           mixer_features_backward(input(i), {d_features[i], d_beta[i], window ? a[i] : nullptr, d_projected[i]},
                                   stream);
         });
  }
  const auto mix = [&](int i) {
    return MixerMix{shape, kType, MixKind::kVector, kProjected, static_cast<char*>(projected[i]) + 3 * kPart * 2,
                    a[i],  b[i],  weight.data(),    1e-6f};
  };
  DeviceBuffer<unsigned char> mix_scratch(mixer_mix_backward_scratch_bytes(shape));
  time("mix by a gate a channel", 4 * kPart,
       [&](int i, cudaStream_t stream) { mixer_mix_forward(mix(i), c[i], stream); });
  time("mix by a gate a channel, backward", 7 * kPart, [&](int i, cudaStream_t stream) {
    mixer_mix_backward(mix(i), {c[i], static_cast<char*>(d_projected[i]) + 3 * kPart * 2, d[i], e[i]},
                       mix_scratch.data(), stream);
  });

  constexpr int kInner = 512, kHidden = 256;
  Rows gate_up(2 * kInner), hidden(kInner), d_gate_up(2 * kInner);
  time("swiglu", 3 * kInner,
       [&](int i, cudaStream_t stream) { swiglu_forward(kRows, kInner, kType, gate_up[i], hidden[i], stream); });
  time("swiglu backward", 5 * kInner, [&](int i, cudaStream_t stream) {
    swiglu_backward(kRows, kInner, kType, gate_up[i], hidden[i], d_gate_up[i], stream);
  });
  const auto relu = [&](int i) {
    return ReluBiasGradient{kRows,     kHidden, kType,        gate_up[i], kHidden,
                            hidden[i], kHidden, d_gate_up[i], kHidden,    d_weight.data()};
  };
  DeviceBuffer<unsigned char> relu_scratch(relu_bias_backward_scratch_bytes(relu(0)));
  time("relu and bias backward, 256 columns", 3 * kHidden,
       [&](int i, cudaStream_t stream) { relu_bias_backward(relu(i), relu_scratch.data(), stream); });
}
