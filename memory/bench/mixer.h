// Both memories of synchronous HQLT and their mix, as the learner runs them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/fast_weights/passes/passes.h"
#include "memory/bench/memories.h"
#include "memory/core/block_stack.h"

namespace engram {

// Columns of the learner's projection: q, k, v, the gate, and the betas, rounded up to 8.
inline std::int64_t projected_columns(const KernelShape& s) { return 3 * s.part() + s.part() + (s.heads + 7) / 8 * 8; }

// The operations of the memories; those of the mix, ten or so an element, are left out. Bytes, everything read once:
// the delta rule's and the window's queries and keys, a value, the gate and the output, beta; backward these in and
// the gradients of all but the output out.
inline ForwardBackward mixer_flops(const KernelShape& s, int window) {
  const ForwardBackward delta = delta_flops(s), attention = attention_flops(s, window);
  return {delta.forward + attention.forward, delta.backward + attention.backward};
}
inline ForwardBackward mixer_bytes(const KernelShape& s) {
  return {(7.0 * s.padded + 1) * s.vectors() * kElementBytes, (13.0 * s.padded + 2) * s.vectors() * kElementBytes};
}

// A second stream beside the one that is given, with the events that join them.
class SecondStream {
 public:
  SecondStream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    for (cudaEvent_t* event : {&begin_, &end_})
      check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "event");
  }
  ~SecondStream() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  SecondStream(const SecondStream&) = delete;
  SecondStream& operator=(const SecondStream&) = delete;

  template <class Side, class Main>
  void side_by_side(cudaStream_t main_stream, Side side, Main main) const {
    check_cuda(cudaEventRecord(begin_, main_stream), "record");
    check_cuda(cudaStreamWaitEvent(stream_, begin_), "wait");
    side(stream_);
    check_cuda(cudaEventRecord(end_, stream_), "record");
    main(main_stream);
    check_cuda(cudaStreamWaitEvent(main_stream, end_), "wait");
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class HqltMixer {
 public:
  HqltMixer(const KernelShape& shape, int window)
      : shape(shape),
        projected_(zero_vectors(shape, projected_columns(shape))),
        d_projected_(zero_vectors(shape, projected_columns(shape))),
        fast_(shape, 3 * shape.part()),
        window_(shape, window, {random_into(projected_.q), random_into(projected_.k), fast_.in.v},
                {d_projected_.q, d_projected_.k, zero_vectors(shape, 0).v}) {
    gate_ = random_into(after(projected_.v));
    d_gate_ = after(d_projected_.v);
    weight_ = 1 + 0.1 * torch::randn({shape.width}, on_gpu(torch::kFloat32));
    d_weight_ = torch::empty_like(weight_);
    output = torch::empty_like(fast_.output);
    d_output = random_padded(shape);
    scratch_ = scratch_bytes(fast_weight_passes::answer_backward_scratch_bytes(mix()), output);
  }

  void forward(cudaStream_t stream) const {
    second_.side_by_side(
        stream, [&](cudaStream_t side) { window_.forward(side); }, [&](cudaStream_t main) { fast_.forward(main); });
    fast_weight_passes::answer_forward(mix(), output.data_ptr(), stream);
  }
  void backward(cudaStream_t stream) const {
    fast_weight_passes::answer_backward(mix(),
                                        {.out = d_output.data_ptr(),
                                         .gate = nullptr,
                                         .mix_gate = d_gate_.data_ptr(),
                                         .answer = fast_.d_output.data_ptr(),
                                         .window = window_.d_output.data_ptr()},
                                        scratch_.data_ptr(), stream);
    add_up({fast_weight_passes::answer_sum(mix(), scratch_.data_ptr(), d_weight_.data_ptr<float>())}, stream);
    second_.side_by_side(
        stream, [&](cudaStream_t side) { window_.backward(side); }, [&](cudaStream_t main) { fast_.backward(main); });
  }

  ForwardBackward check() const {
    forward(current_stream());
    backward(current_stream());
    const DeltaRuleReferenceInput delta_reference = fast_.reference_input();
    const AttentionReferenceInput window_reference = window_.reference_input();
    const torch::Tensor gate = checked(gate_, shape);
    const std::vector<torch::Tensor> x =
        leaves({tensor_of(delta_rule_reference(delta_reference).output_BTHD, gate.sizes()),
                tensor_of(attention_reference(window_reference).output_BTHW, gate.sizes()), gate});
    const torch::Tensor mixed = mixed_of(x[0], x[1], x[2], weight_.to(torch::kCPU, torch::kFloat64));
    const auto d = torch::autograd::grad({mixed}, x, {checked(d_output, shape)});
    WorstError forward_error(shape), backward_error(shape);
    forward_error.compare(checked(output, shape), mixed.detach());
    backward_error.compare(checked(d_gate_, shape), d[2]);
    fast_.compare_gradients(delta_reference, numbers(d[0].contiguous()), backward_error);
    window_.compare_gradients(window_reference, numbers(d[1].contiguous()), backward_error);
    return {forward_error.get(), backward_error.get()};
  }

  std::vector<torch::Tensor> plain_inputs() const {
    std::vector<torch::Tensor> x = fast_.plain_inputs();
    x.insert(x.end(), {plain(window_.in.q, shape), plain(window_.in.k, shape), plain(gate_, shape)});
    return x;
  }
  torch::Tensor plain_output(const std::vector<torch::Tensor>& x) const {
    return mixed_of(fast_.plain_output({x[0], x[1], x[2], x[3]}), window_.plain_output({x[4], x[5], x[2]}), x[6],
                    weight_.to(torch::kBFloat16));
  }

  const KernelShape shape;
  torch::Tensor output, d_output;

 private:
  torch::Tensor random_into(const torch::Tensor& x_BTHP) const {
    x_BTHP.narrow(3, 0, shape.width).copy_(random_vectors(shape));
    return x_BTHP;
  }
  // The next H * P columns of the same rows.
  static torch::Tensor after(const torch::Tensor& slice) {
    return slice.as_strided(slice.sizes(), slice.strides(), slice.storage_offset() + slice.size(2) * slice.size(3));
  }
  static torch::Tensor mixed_of(const torch::Tensor& fast, const torch::Tensor& window, const torch::Tensor& gate,
                                const torch::Tensor& weight) {
    const torch::Tensor share = gate.sigmoid();
    const torch::Tensor mixed = share * fast + (1 - share) * window;
    return mixed * (mixed.square().mean(-1, /*keepdim=*/true) + kRmsNormEpsilon).rsqrt() * weight;
  }
  fast_weight_passes::Answer mix() const {
    return {.kind = {.norm = fast_weight_passes::AnswerNorm::kNone,
                     .gate = fast_weight_passes::AnswerGate::kNone,
                     .channels = shape.width,
                     .epsilon = static_cast<float>(kRmsNormEpsilon),
                     .mix = fast_weight_passes::Mix::kVector},
            .rows = static_cast<std::int64_t>(shape.batch) * shape.time,
            .heads = shape.heads,
            .padded = shape.padded,
            .features_padded = shape.padded,
            .dtype = Dtype::kBfloat16,
            .projected_stride = gate_.stride(1),
            .gate = nullptr,
            .mix_gate = gate_.data_ptr(),
            .answer = fast_.output.data_ptr(),
            .weight = weight_.data_ptr<float>(),
            .one = nullptr,
            .skip_H = nullptr,
            .skip_scale = 0,
            .values = nullptr,
            .values_stride = 0,
            .window = window_.output.data_ptr()};
  }

  Vectors projected_, d_projected_;
  DeltaRule fast_;
  Attention window_;
  torch::Tensor gate_, d_gate_, weight_, d_weight_, scratch_;
  SecondStream second_;
};

}  // namespace engram
