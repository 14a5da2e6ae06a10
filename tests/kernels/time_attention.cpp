// Times the attention kernels: medians of CUDA-graph replays, printed only where the result passed its check.
#include "tests/kernels/attention_case.h"
#include "kernels/median_ms.h"

using namespace engram;
using namespace engram::testing;

namespace {

void time_sequence(AttentionCase c) {
  c.ragged = false;
  AttentionProblem problem = make_attention(c);
  std::int64_t seed_tick[2];
  draw_as_device(problem.input, c, seed_tick);
  AttentionDevice device(c, problem);
  device.poison();
  device.forward();
  device.backward();
  const AttentionResult r = device.result();
  // The reference of the long and wide shapes takes minutes; a few rows and heads of them are checked in the tests.
  std::printf("%-72s", c.name().c_str());
  if (attention_work(c) <= 6e9) {
    const auto output = attention_reference(problem.input);
    const auto gradient = attention_reference_backward(problem.input, problem.d_output_BTHW);
    const double forward_error = relative_error(r.output, output.output_BTHW);
    const double backward_error = std::max({relative_error(r.q, gradient.q_BTHW), relative_error(r.k, gradient.k_BTHW),
                                            relative_error(r.v, gradient.v_BTHW)});
    const bool exact = c.dtype == Dtype::kFloat32;
    std::printf(" error %.2g / %.2g", forward_error, backward_error);
    if (!(forward_error <= (exact ? 1e-5 : 0.005)) || !(backward_error <= (exact ? 1e-5 : 0.008))) {
      std::printf("  check FAILED, not timed\n");
      return;
    }
  }
  const double forward = median_graph_ms(50, [&](cudaStream_t s) { device.forward(s); });
  const double both = median_graph_ms(50, [&](cudaStream_t s) {
    device.forward(s);
    device.backward(s);
  });
  std::printf("  forward %.4f ms  with backward %.4f\n", forward, both);
}

// Values do not matter to the time; tests check them.
void time_step(int rows, int slots, Dtype ring_dtype) {
  constexpr int kHeads = 2, kWidth = 56;
  const auto filled = [](std::size_t bytes) {
    DeviceBuffer<unsigned char> buffer(bytes);
    check_cuda(cudaMemset(buffer.data(), 0x3c, bytes), "fill");  // a small number in either type
    return buffer;
  };
  const std::size_t step = static_cast<std::size_t>(rows) * kHeads * kWidth;
  auto projection = filled(3 * step * 2), output = filled(step * 2);
  auto key = filled(step * slots * dtype_bytes(ring_dtype)), value = filled(step * slots * dtype_bytes(ring_dtype));
  const DeviceBuffer<std::int64_t> position(std::vector<std::int64_t>(rows, slots));  // a full ring
  const auto part = [&](int i) {
    return AttentionRows{projection.data() + i * kHeads * kWidth * 2, 3 * kHeads * kWidth};
  };
  const AttentionStep arguments{rows,         kHeads,  kWidth,          Dtype::kBfloat16,
                                0.14f,        50,      kWidth,          part(0),
                                part(1),      part(2), position.data(), {ring_dtype, slots, key.data(), value.data()},
                                output.data()};
  const double ms = median_graph_ms(50, [&](cudaStream_t s) { attention_step(arguments, s); });
  std::printf("step N %d H %d W %d, %d slots of %s, full: %.2f us\n", rows, kHeads, kWidth, slots,
              ring_dtype == Dtype::kFloat32 ? "float" : "bfloat16", 1000 * ms);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const int window : {64, kFullWindow}) {
    AttentionCase padded{{64, 781, 2, 56}, window};
    padded.zero_channels = 6;
    time_sequence(padded);
    padded.dropout = 0.1;
    time_sequence(padded);
    time_sequence({{64, 781, 2, 50}, window});
    time_sequence({{64, 781, 2, 64}, window});
    time_sequence({{8, 1024, 16, 128}, window});
    time_sequence({{1, 8192, 8, 128}, window});
    time_sequence({{64, 781, 2, 50}, window, Dtype::kFloat32});
    time_sequence({{64, 781, 2, 64}, window, Dtype::kFloat32});
  }
  for (const Dtype ring_dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const int slots : {64, 781})
      for (const int rows : {1, 64, 1024, 4096}) time_step(rows, slots, ring_dtype);
}
