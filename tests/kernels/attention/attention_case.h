// Random attention problems, run through the kernels with poisoned memory and through the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

constexpr int kFullWindow = 1 << 30;

enum class AttentionKeys { kRandom, kDuplicate, kZeroRows };

struct AttentionCase {
  AttentionShape shape;
  int window = kFullWindow;
  Dtype dtype = Dtype::kBfloat16;
  int rotary_width = -1;  // -1: all channels
  int zero_channels = 0;  // the last channels of every head, as where a width is padded
  bool ragged = true;     // lengths 0 .. T, the first row's T
  int gap = 0;            // elements between the rows, which hold q, k and v beside each other
  AttentionKeys keys = AttentionKeys::kRandom;
  double value_scale = 1, key_scale = 1, dropout = 0;
  int slots = 0;  // of the ring of a step; with a past unless `fresh`
  bool fresh = false, chunked = false;
  int output_padding = 0;  // elements after the width
  Dtype ring_dtype = Dtype::kFloat32;
  unsigned seed = 0;

  int rotary() const { return rotary_width < 0 ? shape.width - zero_channels : rotary_width; }
  std::string name() const {
    return joined("B ", shape.batch, " T ", shape.time, " H ", shape.heads, " W ", shape.width, " window ",
                  window == kFullWindow ? "full" : std::to_string(window), " rotary ", rotary(), " gap ", gap, " ",
                  name_of(dtype), dropout > 0 ? " dropout" : "", " slots ", slots, chunked ? " chunked" : "",
                  " padding ", output_padding, " seed ", seed);
  }
};

struct AttentionProblem {
  AttentionReferenceInput input;
  Numbers d_output_BTHW;
};

inline AttentionProblem make_attention(const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  Rng rng(c.seed, Purpose::kTest, static_cast<unsigned>(s.width), static_cast<unsigned>(s.time));
  const std::size_t step = static_cast<std::size_t>(s.heads) * s.width, vectors = step * s.batch * s.time;
  const auto vectors_of = [&](std::size_t size, double scale, Dtype dtype) {
    return normal_rows(rng, size / s.width, s.width - c.zero_channels, s.width, dtype, scale);
  };
  AttentionProblem problem;
  AttentionReferenceInput& in = problem.input;
  in.shape = s;
  in.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.width - c.zero_channels)));
  in.window = c.window;
  in.chunked = c.chunked && c.slots == 0;
  in.rotary_width = c.rotary();
  in.q_BTHW = vectors_of(vectors, 1, c.dtype);
  in.k_BTHW = vectors_of(vectors, c.key_scale, c.dtype);
  in.v_BTHW = vectors_of(vectors, c.value_scale, c.dtype);
  for (std::size_t i = 0; i < vectors; ++i) {
    const std::size_t t = i / step % s.time;
    if (c.keys == AttentionKeys::kDuplicate && t % 2 == 1) in.k_BTHW[i] = in.k_BTHW[i - step];
    if (c.keys == AttentionKeys::kZeroRows && t % 3 == 1) in.k_BTHW[i] = in.q_BTHW[i] = in.v_BTHW[i] = 0;
  }
  const std::vector<int> lengths = c.ragged ? ragged_lengths(rng, s.batch, s.time) : std::vector(s.batch, s.time);
  in.length_B.assign(lengths.begin(), lengths.end());
  in.slots = c.slots;
  in.position_B.assign(s.batch, 0);
  if (c.slots > 0 && !c.fresh) {
    const std::size_t ring = step * s.batch * c.slots;
    in.past_key_BSHW = vectors_of(ring, c.key_scale, c.ring_dtype);
    in.past_value_BSHW = vectors_of(ring, c.value_scale, c.ring_dtype);
    for (auto& position : in.position_B) position = rng.below(2 * c.slots + 1) % (c.chunked ? c.slots : INT32_MAX);
  }
  problem.d_output_BTHW = vectors_of(vectors, 1, c.dtype);
  return problem;
}

// Everything the kernels write, as bytes of the element type in use, and as doubles.
struct AttentionResult {
  Numbers output, q, k, v;
  int output_zeros = 0;  // what follows the width included
  std::vector<Bytes> bytes;
};

// The device's copy of a problem. Memory the kernels must not depend on holds NaN: outputs, scratch, gaps, inputs at
// t >= length, and the ring's slots that no step has filled.
class AttentionDevice {
 public:
  AttentionDevice(const AttentionCase& c, const AttentionProblem& problem)
      : case_(c),
        step_(static_cast<std::int64_t>(c.shape.heads) * c.shape.width),
        row_stride_(3 * step_ + c.gap),
        length_(problem.input.length_B),
        position_(device_positions(c, problem)) {
    const AttentionShape& s = c.shape;
    const AttentionReferenceInput& in = problem.input;
    const auto has_step = [&](std::size_t step) { return !is_behind(in.length_B, s.time, step); };
    Numbers projection(in.q_BTHW.size() / step_ * row_stride_, kNaN);
    for (std::size_t row = 0; row < in.q_BTHW.size() / step_; ++row)
      for (int part = 0; part < 3 && has_step(row); ++part) {
        const Numbers& x = part == 0 ? in.q_BTHW : part == 1 ? in.k_BTHW : in.v_BTHW;
        std::copy_n(&x[row * step_], step_, &projection[row * row_stride_ + part * step_]);
      }
    projection_ = upload(projection, c.dtype);
    d_output_ = upload(spread(problem.d_output_BTHW, step_, step_, has_step), c.dtype);
    seed_tick_ = DeviceBuffer<std::int64_t>(std::vector<std::int64_t>{7, static_cast<std::int64_t>(c.seed)});
    if (!in.past_key_BSHW.empty()) {
      const auto is_filled = [&](std::size_t slot) { return !is_behind(in.position_B, c.slots, slot); };
      ring_key_ = upload(spread(in.past_key_BSHW, step_, step_, is_filled), c.ring_dtype);
      ring_value_ = upload(spread(in.past_value_BSHW, step_, step_, is_filled), c.ring_dtype);
    }
    poison_all();
    const auto part = [&](DeviceBytes& of, int i) { return of.data() + i * step_ * dtype_bytes(c.dtype); };
    input_ = {s,
              c.dtype,
              static_cast<float>(in.scale),
              c.window,
              c.rotary(),
              s.width,
              {part(projection_, 0), row_stride_},
              {part(projection_, 1), row_stride_},
              {part(projection_, 2), row_stride_},
              c.ragged ? length_.data() : nullptr,
              DropoutKey(seed_tick_.data(), 3, c.dropout),
              in.chunked};
    gradient_ = {s.width,
                 {part(d_projection_, 0), row_stride_},
                 {part(d_projection_, 1), row_stride_},
                 {part(d_projection_, 2), row_stride_}};
  }

  void poison_all() {
    const AttentionShape& s = case_.shape;
    const std::size_t rows = static_cast<std::size_t>(s.batch) * s.time;
    poison(output_, rows * s.heads * (s.width + case_.output_padding), case_.dtype);
    poison(d_projection_, rows * row_stride_, case_.dtype);
    poison(saved_, attention_saved_bytes(s, case_.dtype, case_.dropout > 0));
    poison(scratch_, attention_backward_scratch_bytes(s));
  }

  // Both passes, into poisoned memory.
  AttentionResult forward_and_backward() {
    poison_all();
    attention_forward(input_, output_.data(), saved_.data(), nullptr);
    attention_backward(input_, {output_.data(), saved_.data(), d_output_.data()}, gradient_, scratch_.data(), nullptr);
    return result();
  }
  // One step of every row after its past.
  void step() {
    const AttentionInput& in = input_;
    attention_step({case_.shape.batch, case_.shape.heads, case_.shape.width, case_.dtype, in.scale, in.rotary_width,
                    in.head_stride, in.q, in.k, in.v, position_.data(), ring(), case_.chunked,
                    case_.shape.width + case_.output_padding, output_.data(), in.dropout},
                   nullptr);
  }
  AttentionRing ring() { return {case_.ring_dtype, case_.slots, ring_key_.data(), ring_value_.data()}; }

  // In chunks those of the problem count from the chunk's beginning.
  static std::vector<std::int64_t> device_positions(const AttentionCase& c, const AttentionProblem& problem) {
    std::vector<std::int64_t> positions = problem.input.position_B;
    for (std::size_t row = 0; c.chunked && row < positions.size(); ++row)
      positions[row] += static_cast<std::int64_t>(row % 3) * c.slots;
    return positions;
  }

  AttentionResult result() {
    check_cuda(cudaDeviceSynchronize(), "run");
    AttentionResult r;
    r.bytes = {output_.to_host(), d_projection_.to_host()};
    const int width = case_.shape.width;
    r.output = decode(r.bytes[0], case_.dtype, width, width + case_.output_padding);
    for (const double x : decode(r.bytes[0], case_.dtype)) r.output_zeros += x == 0;
    const Numbers parts = decode(r.bytes[1], case_.dtype, 3 * step_, row_stride_);
    r.q = columns(parts, 3 * step_, 0, step_);
    r.k = columns(parts, 3 * step_, step_, step_);
    r.v = columns(parts, 3 * step_, 2 * step_, step_);
    return r;
  }

 private:
  AttentionCase case_;
  std::int64_t step_, row_stride_;
  AttentionInput input_{};
  AttentionInputGradient gradient_{};
  DeviceBuffer<std::int64_t> length_, position_, seed_tick_;
  DeviceBytes projection_, d_projection_, output_, d_output_, saved_, scratch_, ring_key_, ring_value_;
};

// The reference's input with dropout as the device draws it; `seed_tick` must outlive it.
inline void draw_as_device(AttentionReferenceInput& input, const AttentionCase& c, std::int64_t (&seed_tick)[2]) {
  seed_tick[0] = 7;
  seed_tick[1] = c.seed;
  input.dropout = DropoutKey(seed_tick, 3, c.dropout);
}

// A measure of the reference's arithmetic, to keep tests short.
inline double attention_work(const AttentionCase& c) {
  return 1.0 * c.shape.batch * c.shape.heads * c.shape.time * std::min(c.shape.time, c.window) * c.shape.width;
}

// Every head width is met with every length, in both types; windows, rows, heads, gaps and dropout vary.
inline std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  unsigned seed = 1;
  for (const Dtype dtype : kDtypes)
    for (const int time : {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 255, 781, 1023, 1025, 8192})
      for (const int width : {16, 40, 50, 56, 60, 64, 100, 128}) {
        const int batches[] = {1, 2, 3, 5, 64, 4, 7};
        const int windows[] = {64, kFullWindow, 16, 65, 256, 1, 63, kFullWindow, 5, 64, 40};
        AttentionCase c{{batches[seed % 7], time, 1 + static_cast<int>(seed % 3), width}, windows[seed % 11], dtype};
        while (c.shape.batch > 1 && attention_work(c) > 2e7) c.shape.batch /= 2;
        while (attention_work(c) > 1e8) c.window = std::min(time, c.window) / 2;
        c.zero_channels = width == 56 ? 6 : 0;
        if (seed % 6 == 1) c.rotary_width = seed % 4 == 1 ? 0 : width / 4 * 2;
        c.ragged = seed % 4 != 0;
        c.gap = seed % 5 == 0 ? 2 * (1 + width) : seed % 5 == 1 ? 8 : 0;
        c.seed = seed++;
        cases.push_back(c);
      }
  cases.push_back({{1, 8192, 1, 16}});
  return cases;
}

// In chunks: of one step, of a few, as long as a block and longer, and longer than the sequence.
inline std::vector<AttentionCase> attention_chunk_cases() {
  std::vector<AttentionCase> cases;
  unsigned seed = 4000;
  for (const Dtype dtype : kDtypes)
    for (const int width : {16, 32, 50, 64, 128})
      for (const int window : {1, 7, 16, 33, 64, 100, 300})
        for (const int time : {130, 257}) {
          AttentionCase c{{5, time, 2, width}, window, dtype};
          c.chunked = true, c.dropout = window > 1 && seed % 4 == 0 ? 0.1 : 0, c.gap = seed % 3 == 0 ? 6 : 0;
          c.rotary_width = seed % 5 == 0 ? 8 : -1;
          c.seed = seed++;
          cases.push_back(c);
        }
  return cases;
}

// Inputs at the edge of what the contract allows, and dropout, at a length that is no multiple of a block.
inline std::vector<AttentionCase> attention_edge_cases() {
  std::vector<AttentionCase> cases;
  unsigned seed = 1000;
  for (const Dtype dtype : kDtypes)
    for (const int width : {50, 56, 64, 128})
      for (const int window : {64, kFullWindow})
        for (const double dropout : {0.0, 0.1})
          for (const AttentionKeys keys : {AttentionKeys::kRandom, AttentionKeys::kDuplicate, AttentionKeys::kZeroRows})
            for (const double value_scale : {1.0, 1e18}) {
              AttentionCase c{{4, 200, 2, width}, window, dtype};
              c.keys = keys, c.value_scale = value_scale, c.dropout = dropout, c.seed = seed++;
              cases.push_back(c);
            }
  return cases;
}

}  // namespace engram::testing
