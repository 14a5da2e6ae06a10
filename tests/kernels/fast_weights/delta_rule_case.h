// Random delta-rule problems, run through the kernels with poisoned memory and through the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/fast_weights/delta_rule/chain.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "kernels/fast_weights/delta_rule/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

enum class Betas { kRandom, kZeroOneTwo };
enum class Keys { kRandom, kDuplicate, kZeroRows };
// No decay, decays of 1, near 1, exp(-20), of all these kinds from step to step, and near 1 but for every seventh of 0.
enum class DecayKind { kNone, kOne, kMild, kStrong, kMixed, kForgetful };

struct Case {
  DeltaRuleShape shape;
  Dtype dtype = Dtype::kBfloat16;
  bool ragged = true;   // lengths 0 .. T, the first row's T
  bool states = false;  // of steps: an initial state, and a gradient of the final one
  int gap = 0;          // elements between the rows of q, k, v
  Betas betas = Betas::kRandom;
  Keys keys = Keys::kRandom;
  double value_scale = 1;
  unsigned seed = 0;
  FastWeightWrite write = FastWeightWrite::kDelta;
  DecayKind decay = DecayKind::kNone;

  std::string name() const {
    return "B " + std::to_string(shape.batch) + " T " + std::to_string(shape.time) + " H " +
           std::to_string(shape.heads) + " D " + std::to_string(shape.width) +
           (gap > 0 ? " gap " + std::to_string(gap) : "") + (dtype == Dtype::kFloat32 ? " float" : " bfloat16") +
           (write == FastWeightWrite::kSum ? " sum" : " delta") + " decay " + std::to_string(static_cast<int>(decay)) +
           " seed " + std::to_string(seed);
  }
};

// bfloat16 keeps 8 bits: rounding the output alone gives 0.0011, and a handful of rounded intermediates twice to
// three times that. float: 24 bits, a few hundred roundings. Where all keys are alike, decays keep fewer of the rounded
// terms, which then do not average out.
inline double forward_tolerance(const Case& c) {
  if (c.dtype == Dtype::kFloat32) return 1e-5;
  return c.keys == Keys::kDuplicate && c.decay != DecayKind::kNone ? 0.012 : 0.005;
}
// As in the forward pass, with about twice as many rounded intermediates between input and gradient. Where all keys are
// alike, a chunk's triangular system is as far from the identity as it can be; and the gradients of a single step are
// products of a few small inner products: there rounding to bfloat16 weighs more.
inline double gradient_tolerance(const Case& c) {
  if (c.dtype == Dtype::kFloat32) return 1e-5;
  return c.keys == Keys::kDuplicate || c.shape.time == 1 ? 0.025 : 0.008;
}

// A difference of large sums: of what is read from a step on, and of what was written from it on. It is smallest beside
// them where all keys are alike.
inline double decay_tolerance(const Case& c) {
  if (c.dtype == Dtype::kFloat32) return 1e-4;
  return c.keys == Keys::kDuplicate ? 0.08 : 0.025;
}

// Where a result is most wrong, for who reads a failed test: that element, how many are no numbers, and how many are
// off by a tenth of the expected numbers' RMS, with the first of them. Chunks of 64 steps, bfloat16's.
inline std::string worst_element(const DeltaRuleShape& s, const std::vector<double>& actual,
                                 const std::vector<double>& expected) {
  const std::size_t columns = expected.size() / s.batch / s.time / s.heads;
  double size = 0;
  for (const double x : expected) size += x * x;
  const double far = 0.1 * std::sqrt(size / static_cast<double>(expected.size()));
  std::size_t worst = 0, first = expected.size(), wrong = 0, not_numbers = 0;
  const auto error = [&](std::size_t i) {
    const double difference = std::abs(actual[i] - expected[i]);
    return difference == difference ? difference : std::numeric_limits<double>::infinity();
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    not_numbers += std::isnan(actual[i]);
    if (error(i) > error(worst)) worst = i;
    if (error(i) <= far) continue;
    first = std::min(first, i);
    ++wrong;
  }
  const auto place = [&](std::size_t i) {
    const std::size_t step = i / columns / s.heads % s.time;
    return "row " + std::to_string(i / columns / s.heads / s.time) + " step " + std::to_string(step) + " (chunk " +
           std::to_string(step / 64) + ", " + std::to_string(step % 64) + ") head " +
           std::to_string(i / columns % s.heads) + " column " + std::to_string(i % columns) + ": " +
           std::to_string(actual[i]) + ", not " + std::to_string(expected[i]);
  };
  return "RMS error over RMS " + std::to_string(relative_error(actual, expected)) + "; worst at " + place(worst) +
         "; " + std::to_string(not_numbers) + " NaN, " + std::to_string(wrong) + " of " +
         std::to_string(expected.size()) + " far off" + (wrong > 0 ? ", first at " + place(first) : "");
}

struct Problem {
  DeltaRuleReferenceInput input;
  DeltaRuleReferenceOutput output_gradient;
};

inline Problem make_problem(const Case& c) {
  Rng rng(c.seed, Purpose::kTest, static_cast<unsigned>(c.shape.width), static_cast<unsigned>(c.shape.time));
  const DeltaRuleShape& s = c.shape;
  const std::size_t scalars = static_cast<std::size_t>(s.batch) * s.time * s.heads, vectors = scalars * s.width;
  const std::size_t states = static_cast<std::size_t>(s.batch) * s.heads * s.width * s.width;
  const auto normals = [&](std::size_t size, double scale, Dtype dtype) {
    std::vector<double> x(size);
    for (double& element : x) element = rounded(scale * normal(rng), dtype);
    return x;
  };
  const auto unit_vectors = [&] {
    std::vector<double> x = normals(vectors, 1, Dtype::kFloat32);
    for (std::size_t i = 0; i < vectors; i += s.width) {
      double norm = 1e-6;
      for (int j = 0; j < s.width; ++j) norm += x[i + j] * x[i + j];
      for (int j = 0; j < s.width; ++j) x[i + j] = rounded(x[i + j] / std::sqrt(norm), c.dtype);
    }
    return x;
  };
  Problem problem;
  DeltaRuleReferenceInput& in = problem.input;
  in.shape = s;
  in.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.width)));
  in.q_BTHD = unit_vectors();
  in.k_BTHD = unit_vectors();
  const std::size_t step = static_cast<std::size_t>(s.heads) * s.width;
  for (std::size_t i = 0; i < vectors; ++i) {
    const std::size_t t = i / step % s.time;
    if (c.keys == Keys::kDuplicate && t > 0) in.k_BTHD[i] = in.k_BTHD[i - step];
    if (c.keys == Keys::kZeroRows && t % 3 == 1) in.k_BTHD[i] = in.q_BTHD[i] = 0;
  }
  in.v_BTHD = normals(vectors, c.value_scale, c.dtype);
  in.beta_BTH.resize(scalars);
  for (double& beta : in.beta_BTH)
    beta = c.betas == Betas::kZeroOneTwo ? rng.below(3) : rounded(2 / (1 + std::exp(-normal(rng))), c.dtype);
  in.length_B.assign(s.batch, s.time);
  if (c.ragged)
    for (int row = 1; row < s.batch; ++row) in.length_B[row] = static_cast<int>(rng.below(s.time + 1));
  if (c.ragged && s.batch > 2) in.length_B[2] = 0;
  const double state_scale = c.states ? c.value_scale : 0;
  in.initial_state_BHKV = normals(states, state_scale, Dtype::kFloat32);
  problem.output_gradient.output_BTHD = normals(vectors, 1, c.dtype);
  problem.output_gradient.final_state_BHKV = normals(states, c.states ? 1 : 0, Dtype::kFloat32);
  in.write = c.write;
  if (c.decay == DecayKind::kNone) return problem;
  in.log_decay_BTH.resize(scalars);
  const auto log_decay = [&](DecayKind kind) {
    return kind == DecayKind::kStrong ? -20 : kind == DecayKind::kMild ? -0.1 * rng.uniform() : 0.0;
  };
  constexpr DecayKind kKinds[] = {DecayKind::kOne, DecayKind::kMild, DecayKind::kMild, DecayKind::kStrong};
  const bool forgetful = c.decay == DecayKind::kForgetful;
  for (double& x : in.log_decay_BTH) {
    const DecayKind usual = forgetful ? DecayKind::kMild : c.decay;
    x = rounded(log_decay(c.decay == DecayKind::kMixed ? kKinds[rng.below(4)] : usual), Dtype::kFloat32);
  }
  for (std::size_t i = 3; forgetful && i < scalars; i += 7)
    in.log_decay_BTH[i] = -std::numeric_limits<double>::infinity();
  return problem;
}

// Everything the kernels write, as bytes of the element type in use, and as doubles.
struct KernelResult {
  std::vector<double> output, q, k, v, beta, log_decay;
  std::vector<std::vector<unsigned char>> bytes;
};

// The device's copy of a problem. Memory the kernels must not depend on holds NaN: outputs, scratch, and inputs at
// t >= length.
class DeviceProblem {
 public:
  DeviceProblem(const Case& c, const Problem& problem) : case_(c), length_(problem.input.length_B) {
    const DeltaRuleShape& s = c.shape;
    row_stride_ = static_cast<std::int64_t>(s.heads) * s.width + c.gap;
    const std::size_t rows = static_cast<std::size_t>(s.batch) * s.time;
    const auto upload_as = [&](Dtype dtype, const std::vector<double>& x, std::int64_t columns, std::int64_t stride) {
      std::vector<double> padded(rows * stride, std::nan(""));
      for (std::size_t row = 0; row < rows; ++row)
        if (static_cast<int>(row % s.time) < problem.input.length_B[row / s.time])
          std::copy_n(&x[row * columns], columns, &padded[row * stride]);
      return DeviceBuffer<unsigned char>(encode(padded, dtype));
    };
    const auto upload = [&](const std::vector<double>& x, std::int64_t columns, std::int64_t stride) {
      return upload_as(case_.dtype, x, columns, stride);
    };
    const std::int64_t columns = static_cast<std::int64_t>(s.heads) * s.width;
    q_ = upload(problem.input.q_BTHD, columns, row_stride_);
    k_ = upload(problem.input.k_BTHD, columns, row_stride_);
    v_ = upload(problem.input.v_BTHD, columns, row_stride_);
    beta_ = upload(problem.input.beta_BTH, s.heads, s.heads);
    d_output_ = upload(problem.output_gradient.output_BTHD, columns, columns);
    const std::size_t bytes = dtype_bytes(c.dtype);
    output_ = DeviceBuffer<unsigned char>(rows * columns * bytes);
    for (auto* buffer : {&d_q_, &d_k_, &d_v_}) *buffer = DeviceBuffer<unsigned char>(rows * row_stride_ * bytes);
    d_beta_ = DeviceBuffer<unsigned char>(rows * s.heads * bytes);
    if (c.decay != DecayKind::kNone) {
      log_decay_ = upload_as(Dtype::kFloat32, problem.input.log_decay_BTH, s.heads, s.heads);
      d_log_decay_ = DeviceBuffer<unsigned char>(rows * s.heads * sizeof(float));
    }
    saved_ = DeviceBuffer<unsigned char>(delta_rule_saved_bytes(s, c.dtype));
    scratch_ = DeviceBuffer<unsigned char>(delta_rule_backward_scratch_bytes(s, c.dtype));
    input_ = {.shape = s,
              .dtype = c.dtype,
              .scale = static_cast<float>(problem.input.scale),
              .row_stride = row_stride_,
              .q_BTHD = q_.data(),
              .k_BTHD = k_.data(),
              .v_BTHD = v_.data(),
              .beta_BTH = beta_.data(),
              .length_B = c.ragged ? length_.data() : nullptr,
              .write = c.write,
              .log_decay_BTH = reinterpret_cast<const float*>(log_decay_.data())};
  }

  void poison() {
    for (auto* buffer : {&output_, &d_q_, &d_k_, &d_v_, &d_beta_, &d_log_decay_, &saved_, &scratch_})
      if (buffer->size() > 0) check_cuda(cudaMemset(buffer->data(), 0xff, buffer->size()), "poison");
  }

  const DeltaRuleInput& input() const { return input_; }

  void forward() { delta_rule_forward(input_, output_.data(), saved_.data(), nullptr); }
  void backward() {
    delta_rule_backward(input_, saved_.data(), d_output_.data(), input_gradient(), scratch_.data(), nullptr);
  }
  void forward_by(DeltaRuleChain chain) {
    delta_rule_forward_by(chain, input_, output_.data(), saved_.data(), nullptr);
  }
  void backward_by(DeltaRuleChain chain) {
    delta_rule_backward_by(chain, input_, saved_.data(), d_output_.data(), input_gradient(), scratch_.data(), nullptr);
  }

  KernelResult result() {
    check_cuda(cudaDeviceSynchronize(), "run");
    const std::int64_t columns = static_cast<std::int64_t>(case_.shape.heads) * case_.shape.width;
    KernelResult r;
    const auto download = [&](const DeviceBuffer<unsigned char>& buffer, std::int64_t count, std::int64_t stride) {
      r.bytes.push_back(buffer.to_host());
      return decode(r.bytes.back(), case_.dtype, count, stride);
    };
    r.output = download(output_, columns, columns);
    r.q = download(d_q_, columns, row_stride_);
    r.k = download(d_k_, columns, row_stride_);
    r.v = download(d_v_, columns, row_stride_);
    r.beta = download(d_beta_, case_.shape.heads, case_.shape.heads);
    if (case_.decay != DecayKind::kNone) {
      r.bytes.push_back(d_log_decay_.to_host());
      r.log_decay = decode(r.bytes.back(), Dtype::kFloat32, case_.shape.heads, case_.shape.heads);
    }
    return r;
  }

 private:
  DeltaRuleInputGradient input_gradient() {
    return {d_q_.data(), d_k_.data(), d_v_.data(), d_beta_.data(), reinterpret_cast<float*>(d_log_decay_.data())};
  }

  Case case_;
  std::int64_t row_stride_;
  DeltaRuleInput input_{};
  DeviceBuffer<int> length_;
  DeviceBuffer<unsigned char> q_, k_, v_, beta_, log_decay_, d_output_, output_, d_q_, d_k_, d_v_, d_beta_,
      d_log_decay_, saved_, scratch_;
};

// Every head width is met with every length, in both types; rows, heads and gaps vary. The contract promises
// bfloat16's accuracy from width 16 on.
inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  unsigned seed = 1;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const int time : {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 255, 781, 1023, 1025, 8192})
      for (const int width : {2, 16, 40, 50, 56, 60, 64, 100, 128}) {
        if (dtype == Dtype::kBfloat16 && width < 16) continue;
        const int batches[] = {1, 2, 3, 5, 64, 4, 7};
        int batch = batches[seed % 7];
        while (batch > 1 && 1.0 * batch * time * width * width > 1.5e8) batch /= 2;
        Case c{{batch, time, 1 + static_cast<int>(seed % 3), width}, dtype};
        c.ragged = seed % 4 != 0;
        c.gap = seed % 3 == 0 ? 2 * (1 + width) : 0;
        c.seed = seed++;
        cases.push_back(c);
      }
  return cases;
}

// Inputs at the edge of what the contract allows, at a length that is no multiple of the chunk.
inline std::vector<Case> edge_cases() {
  std::vector<Case> cases;
  unsigned seed = 1000;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const int width : {50, 56, 64, 128})
      for (const Betas betas : {Betas::kRandom, Betas::kZeroOneTwo})
        for (const Keys keys : {Keys::kRandom, Keys::kDuplicate, Keys::kZeroRows})
          for (const double value_scale : {1.0, 1e18}) {
            Case c{{4, 200, 2, width}, dtype};
            c.betas = betas, c.keys = keys, c.value_scale = value_scale, c.seed = seed++;
            cases.push_back(c);
          }
  return cases;
}

// The rules that are not the plain delta rule.
struct OtherRule {
  FastWeightWrite write;
  DecayKind decay;
};
constexpr OtherRule kOtherRules[] = {
    {FastWeightWrite::kDelta, DecayKind::kOne},   {FastWeightWrite::kDelta, DecayKind::kMild},
    {FastWeightWrite::kDelta, DecayKind::kMixed}, {FastWeightWrite::kDelta, DecayKind::kStrong},
    {FastWeightWrite::kSum, DecayKind::kNone},    {FastWeightWrite::kSum, DecayKind::kOne},
    {FastWeightWrite::kSum, DecayKind::kMild},    {FastWeightWrite::kSum, DecayKind::kMixed},
    {FastWeightWrite::kSum, DecayKind::kStrong}};

// Each of them at every width and at lengths around those of chunks.
inline std::vector<Case> rule_cases() {
  std::vector<Case> cases;
  unsigned seed = 2000;
  for (const OtherRule& rule : kOtherRules)
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
      for (const int time : {1, 2, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129, 781})
        for (const int width : {2, 16, 50, 56, 64, 100, 128}) {
          if (dtype == Dtype::kBfloat16 && width < 16) continue;
          // Of a few short rows an error is that of a few roundings.
          const int batch = (time < 30 ? 16 : 1) + static_cast<int>(seed % 4);
          Case c{{batch, time, 1 + static_cast<int>(seed % 3), width}, dtype};
          c.ragged = seed % 4 != 0;
          c.gap = seed % 3 == 0 ? 2 * (1 + width) : 0;
          c.seed = seed++;
          c.write = rule.write, c.decay = rule.decay;
          cases.push_back(c);
        }
  return cases;
}

// And at the edge of what the contract allows. Of the sum rule large values are no other case than small ones.
inline std::vector<Case> rule_edge_cases() {
  std::vector<Case> cases;
  for (const OtherRule& rule : kOtherRules)
    for (Case c : edge_cases()) {
      if (c.shape.width == 50 || (rule.write == FastWeightWrite::kSum && c.value_scale != 1)) continue;
      c.write = rule.write, c.decay = rule.decay, c.seed += 1000;
      cases.push_back(c);
    }
  return cases;
}

}  // namespace engram::testing
