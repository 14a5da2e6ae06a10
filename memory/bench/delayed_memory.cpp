#include "memory/bench/delayed_memory.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delayed_memory/reference.h"
#include "memory/bench/kernel_case.h"
#include "memory/ops/fast_weight_ops.h"
#include "memory/ops/ops.h"
#include "nn/device/cuda_support.h"

namespace engram {
namespace {

using torch::Tensor;

// Of rows that all write: streams past their window, chunks at their last step.
struct DelayedStep {
  KernelShape shape;
  Delay delay;
  int slots;
  Tensor q, beta, position_B, key_BSHK, value_BSHV, beta_BSH, fast_BHKV, output;

  DelayedStep(const KernelShape& of, Delay delay_of, int slots_of)
      : shape(of),
        delay(delay_of),
        slots(slots_of),
        q(random_padded(of)),
        beta(strengths({of.batch, of.heads}).to(torch::kBFloat16)),
        position_B(
            torch::full({of.batch}, delay_of == Delay::kStream ? slots_of : slots_of - 1, on_gpu(torch::kInt64))),
        key_BSHK(torch::randn({of.batch, slots_of, of.heads, of.width}, on_gpu(torch::kFloat32))),
        value_BSHV(torch::randn_like(key_BSHK)),
        beta_BSH(strengths({of.batch, slots_of, of.heads})),
        fast_BHKV(torch::randn({of.batch, of.heads, of.width, of.width}, on_gpu(torch::kFloat32))),
        output(torch::empty_like(q)) {}

  void forward(cudaStream_t stream) const {
    delayed_memory_step({.delay = delay,
                         .rows = shape.batch,
                         .heads = shape.heads,
                         .width = shape.width,
                         .output_width = shape.padded,
                         .slots = slots,
                         .dtype = Dtype::kBfloat16,
                         .scale = shape.scale(),
                         .rotary_width = shape.width,
                         .q_row_stride = shape.part(),
                         .q_head_stride = shape.padded,
                         .q = q.data_ptr(),
                         .beta_NH = beta.data_ptr(),
                         .position_N = position_B.data_ptr<std::int64_t>(),
                         .key_ring_NSHW = key_BSHK.data_ptr<float>(),
                         .value_ring_NSHW = value_BSHV.data_ptr<float>(),
                         .beta_ring_NSH = beta_BSH.data_ptr<float>(),
                         .fast_NHWW = fast_BHKV.data_ptr<float>(),
                         .output_NHP = output.data_ptr()},
                        stream);
  }

  ForwardBackward check() const {
    const auto some = [&](const Tensor& x) { return numbers(all_heads_checked(x, shape)); };
    const Tensor query = all_heads_checked(plain(q, shape), shape);
    const int rows = shape.checked_rows();
    DelayedMemoryReference reference{.delay = delay,
                                     .rows = rows,
                                     .heads = shape.heads,
                                     .width = shape.width,
                                     .slots = slots,
                                     .rotary_width = shape.width,
                                     .scale = shape.scale(),
                                     .q_NHW = numbers(query),
                                     .beta_NH = some(beta),
                                     .position_N = std::vector<std::int64_t>(rows, position_B[0].item<std::int64_t>()),
                                     .key_ring_NSHW = some(key_BSHK),
                                     .value_ring_NSHW = some(value_BSHV),
                                     .beta_ring_NSH = some(beta_BSH),
                                     .fast_NHWW = some(fast_BHKV)};
    forward(current_stream());
    const std::vector<double> expected = delayed_memory_reference(reference);
    WorstError error(shape);
    error.compare(all_heads_checked(plain(output, shape), shape), tensor_of(expected, query.sizes()));
    const Tensor fast = all_heads_checked(fast_BHKV, shape);
    error.compare(fast, tensor_of(reference.fast_NHWW, fast.sizes()));
    return {error.get(), NAN};
  }

  // LibTorch's operations take a single type, that of the state.
  void torch_forward() const {
    const Tensor query_BHK = plain(q, shape).select(1, 0).to(torch::kFloat32);
    const auto feature = [](const Tensor& x) { return l2_normalize(torch::silu(x)); };
    if (delay == Delay::kStream) {
      const Tensor slot_B1 = position_B.remainder(slots).unsqueeze(1);
      const Rotary back(slots - position_B, shape.width, torch::kFloat32);
      plain_fast_weight_step({.delta = true},
                             {query_BHK,
                              feature(back.turn(pick_steps(key_BSHK, slot_B1).squeeze(1))),
                              pick_steps(value_BSHV, slot_B1).squeeze(1),
                              beta.to(torch::kFloat32),
                              {}},
                             {fast_BHKV, {}, {}});
      return;
    }
    const Rotary back(-torch::arange(slots, position_B.options()), shape.width, torch::kFloat32);
    const Tensor key_BSHK_back = feature(back.turn(key_BSHK));
    torch::matmul(query_BHK.unsqueeze(2), fast_BHKV);
    fast_weights({.delta = true}, {key_BSHK_back, key_BSHK_back, value_BSHV, beta_BSH, {}}, {fast_BHKV, {}, {}},
                 torch::full_like(position_B, slots));
  }

 private:
  // 0 .. 2
  static Tensor strengths(torch::IntArrayRef sizes) {
    return 2 * torch::randn(sizes, on_gpu(torch::kFloat32)).sigmoid();
  }
};

// Bytes: the fast weights in and out as float, the pairs that are written, and the vectors.
KernelRow delayed_memory_row(int rows, Delay delay, int slots) {
  const KernelShape shape{rows, 1, 2, 50, 56};
  const auto step = std::make_shared<DelayedStep>(shape, delay, slots);
  const double states = shape.vectors() * shape.width * shape.width, vectors = shape.vectors() * shape.width;
  const int pairs = delay == Delay::kStream ? 1 : slots;
  return {
      .operation =
          delay == Delay::kStream ? "delayed stream step" : "delayed chunk, its last step of " + std::to_string(slots),
      .shape = "N " + std::to_string(rows) + " " + std::to_string(shape.heads) + " x " + std::to_string(shape.width),
      .flops = {(2 + 4.0 * pairs) * states, NAN},
      .bytes = {sizeof(float) * (2 * states + 2 * pairs * vectors) + kElementBytes * 2 * vectors, NAN},
      .bound = kBfloat16Bound,
      .check = [step] { return step->check(); },
      .forward = [step](cudaStream_t stream) { step->forward(stream); },
      .backward = {},
      .torch_forward = [step] { step->torch_forward(); },
      .torch_forward_and_backward = {}};
}

}  // namespace

std::vector<std::function<KernelRow()>> delayed_memory_rows() {
  constexpr int kWindow = 64;
  std::vector<std::function<KernelRow()>> rows;
  for (const Delay delay : {Delay::kStream, Delay::kChunk})
    for (const int n : {1, 64, 1024, 4096}) rows.push_back([=] { return delayed_memory_row(n, delay, kWindow); });
  return rows;
}

}  // namespace engram
