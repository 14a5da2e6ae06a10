// Random delta-rule problems, run through the kernels with poisoned memory and through the reference.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

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
    return joined("B ", shape.batch, " T ", shape.time, " H ", shape.heads, " D ", shape.width, " segments ",
                  shape.segments, " gap ", gap, " ", name_of(dtype), write == FastWeightWrite::kSum ? " sum" : " delta",
                  " decay ", static_cast<int>(decay), " seed ", seed);
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
inline std::string worst_element(const DeltaRuleShape& s, const Numbers& actual, const Numbers& expected) {
  const std::size_t columns = expected.size() / s.batch / s.time / s.heads;
  const double far = 0.1 * root_mean_square(expected);
  std::size_t worst = 0, first = expected.size(), wrong = 0, not_numbers = 0;
  const auto error = [&](std::size_t i) {
    return std::isnan(actual[i]) ? INFINITY : std::abs(actual[i] - expected[i]);
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
    return joined("row ", i / columns / s.heads / s.time, " step ", step, " (chunk ", step / 64, ", ", step % 64,
                  ") head ", i / columns % s.heads, " column ", i % columns, ": ", actual[i], ", not ", expected[i]);
  };
  return joined("RMS error over RMS ", relative_error(actual, expected), "; worst at ", place(worst), "; ", not_numbers,
                " NaN, ", wrong, " of ", expected.size(), " far off", wrong > 0 ? ", first at " + place(first) : "");
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
  const auto unit_vectors = [&] {
    Numbers x = normals(rng, vectors, Dtype::kFloat32);
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
  in.v_BTHD = normals(rng, vectors, c.dtype, c.value_scale);
  in.beta_BTH.resize(scalars);
  for (double& beta : in.beta_BTH)
    beta = c.betas == Betas::kZeroOneTwo ? rng.below(3) : rounded(2 / (1 + std::exp(-normal(rng))), c.dtype);
  in.length_B = c.ragged ? ragged_lengths(rng, s.batch, s.time) : std::vector<int>(s.batch, s.time);
  in.initial_state_BHKV = normals(rng, states, Dtype::kFloat32, c.states ? c.value_scale : 0);
  problem.output_gradient.output_BTHD = normals(rng, vectors, c.dtype);
  problem.output_gradient.final_state_BHKV = normals(rng, states, Dtype::kFloat32, c.states ? 1 : 0);
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
  for (std::size_t i = 3; forgetful && i < scalars; i += 7) in.log_decay_BTH[i] = -INFINITY;
  return problem;
}

// Everything the kernels write, as bytes of the element type in use, and as doubles.
struct KernelResult {
  Numbers output, q, k, v, beta, log_decay;
  std::vector<Bytes> bytes;
};

// The device's copy of a problem. Memory the kernels must not depend on holds NaN: outputs, scratch, and inputs at
// t >= length.
class DeviceProblem {
 public:
  DeviceProblem(const Case& c, const Problem& problem)
      : case_(c),
        columns_(static_cast<std::int64_t>(c.shape.heads) * c.shape.width),
        row_stride_(columns_ + c.gap),
        length_(problem.input.length_B) {
    const DeltaRuleReferenceInput& in = problem.input;
    const int heads = c.shape.heads;
    const auto upload_rows = [&](const Numbers& x, std::int64_t columns, std::int64_t stride, Dtype dtype) {
      const auto has_step = [&](std::size_t step) { return !is_behind(in.length_B, c.shape.time, step); };
      return upload(spread(x, columns, stride, has_step), dtype);
    };
    q_ = upload_rows(in.q_BTHD, columns_, row_stride_, c.dtype);
    k_ = upload_rows(in.k_BTHD, columns_, row_stride_, c.dtype);
    v_ = upload_rows(in.v_BTHD, columns_, row_stride_, c.dtype);
    beta_ = upload_rows(in.beta_BTH, heads, heads, c.dtype);
    d_output_ = upload_rows(problem.output_gradient.output_BTHD, columns_, columns_, c.dtype);
    if (c.decay != DecayKind::kNone) log_decay_ = upload_rows(in.log_decay_BTH, heads, heads, Dtype::kFloat32);
    input_ = {.shape = c.shape,
              .dtype = c.dtype,
              .scale = static_cast<float>(in.scale),
              .row_stride = row_stride_,
              .q_BTHD = q_.data(),
              .k_BTHD = k_.data(),
              .v_BTHD = v_.data(),
              .beta_BTH = beta_.data(),
              .length_B = c.ragged ? length_.data() : nullptr,
              .write = c.write,
              .log_decay_BTH = floats(log_decay_)};
    poison_all();
  }

  void poison_all() {
    const std::size_t rows = static_cast<std::size_t>(case_.shape.batch) * case_.shape.time;
    poison(output_, rows * columns_, case_.dtype);
    for (DeviceBytes* d : {&d_q_, &d_k_, &d_v_}) poison(*d, rows * row_stride_, case_.dtype);
    poison(d_beta_, rows * case_.shape.heads, case_.dtype);
    if (case_.decay != DecayKind::kNone) poison(d_log_decay_, rows * case_.shape.heads, Dtype::kFloat32);
    poison(saved_, delta_rule_saved_bytes(case_.shape, case_.dtype));
    poison(scratch_, delta_rule_backward_scratch_bytes(case_.shape, case_.dtype));
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
  // Both passes, into poisoned memory.
  KernelResult forward_and_backward() {
    poison_all();
    forward();
    backward();
    return result();
  }

  KernelResult result() {
    check_cuda(cudaDeviceSynchronize(), "run");
    KernelResult r;
    const auto of_rows = [&](const DeviceBytes& buffer, std::int64_t columns, std::int64_t stride, Dtype dtype) {
      r.bytes.push_back(buffer.to_host());
      return decode(r.bytes.back(), dtype, columns, stride);
    };
    const int heads = case_.shape.heads;
    r.output = of_rows(output_, columns_, columns_, case_.dtype);
    r.q = of_rows(d_q_, columns_, row_stride_, case_.dtype);
    r.k = of_rows(d_k_, columns_, row_stride_, case_.dtype);
    r.v = of_rows(d_v_, columns_, row_stride_, case_.dtype);
    r.beta = of_rows(d_beta_, heads, heads, case_.dtype);
    if (case_.decay != DecayKind::kNone) r.log_decay = of_rows(d_log_decay_, heads, heads, Dtype::kFloat32);
    return r;
  }

 private:
  DeltaRuleInputGradient input_gradient() {
    return {d_q_.data(), d_k_.data(), d_v_.data(), d_beta_.data(), floats(d_log_decay_)};
  }

  Case case_;
  std::int64_t columns_, row_stride_;
  DeltaRuleInput input_{};
  DeviceBuffer<int> length_;
  DeviceBytes q_, k_, v_, beta_, log_decay_, d_output_, output_, d_q_, d_k_, d_v_, d_beta_, d_log_decay_, saved_,
      scratch_;
};

// Both passes' results, `by` the kernels that it names, against the recurrence's. A single step's decay has no
// gradient to compare.
inline void check_delta_rule(const Case& c, const std::string& by, const KernelResult& actual,
                             const DeltaRuleReferenceOutput& expected, const DeltaRuleReferenceGradient& gradient) {
  const auto check = [&](const char* tensor, const Numbers& own, const Numbers& wanted, double tolerance) {
    INFO(tensor, " of ", c.name(), " by ", by, ": ", worst_element(c.shape, own, wanted));
    CHECK(relative_error(own, wanted) <= tolerance);
  };
  check("output", actual.output, expected.output_BTHD, forward_tolerance(c));
  check("dV", actual.v, gradient.v_BTHD, gradient_tolerance(c));
  check("dQ", actual.q, gradient.q_BTHD, gradient_tolerance(c));
  check("dK", actual.k, gradient.k_BTHD, gradient_tolerance(c));
  check("dbeta", actual.beta, gradient.beta_BTH, gradient_tolerance(c));
  if (c.decay != DecayKind::kNone && c.shape.time > 1)
    check("dlog a", actual.log_decay, gradient.log_decay_BTH, decay_tolerance(c));
}

// The same of the kernels that the shape takes; returns their results.
inline KernelResult check_delta_rule(const Case& c, const std::string& by) {
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference(problem.input);
  const auto gradient = delta_rule_reference_backward(problem.input, problem.output_gradient);
  const std::lock_guard lock(gpu_in_use);
  KernelResult actual = DeviceProblem(c, problem).forward_and_backward();
  check_delta_rule(c, by, actual, expected, gradient);
  return actual;
}

// Every head width is met with every length, in both types; rows, heads and gaps vary. The contract promises
// bfloat16's accuracy from width 16 on.
inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  unsigned seed = 1;
  for (const Dtype dtype : kDtypes)
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
  for (const Dtype dtype : kDtypes)
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
    for (const Dtype dtype : kDtypes)
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
