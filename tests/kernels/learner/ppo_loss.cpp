#include "kernels/learner/ppo_loss/ppo_loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/agents/learn/ppo/plain_ppo.h"
#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;
using plain_ppo::Options;
using plain_ppo::Problem;

namespace {

struct Case {
  int batch, time, actions, stride, value_stride;
  Options options = {};
  double logit_scale = 1;
  unsigned seed = 0;

  std::string name() const {
    return joined("B ", batch, " T ", time, " A ", actions, " in ", stride, ", V in ", value_stride, ", logits ",
                  logit_scale, ", seed ", seed);
  }
};

// What the kernel may not read is NaN, or an action that does not exist. A third episode has no step.
Problem make_problem(const Case& c) {
  Problem p = plain_ppo::random_problem(c.batch, c.time, c.actions, c.options, c.seed, c.logit_scale);
  if (c.batch <= 2) return p;
  p.length[2] = 0;
  const auto wipe = [&](Numbers& x, int rows, int columns) {
    const std::size_t size = static_cast<std::size_t>(rows) * columns;
    std::fill_n(x.begin() + 2 * static_cast<std::ptrdiff_t>(size), size, kNaN);
  };
  wipe(p.logits, c.time + 1, c.actions), wipe(p.value, c.time + 1, 1);
  for (Numbers* x : {&p.log_prob, &p.old_value, &p.advantage}) wipe(*x, c.time, 1);
  std::fill_n(p.action.begin() + 2 * std::ptrdiff_t{c.time}, c.time, std::int64_t{1'000'000'000});
  return p;
}

struct Result {
  Numbers losses, d_logits, d_value;
  std::vector<Bytes> bits;  // of all of them
};

// The problem on the device, and outputs and scratch that begin as NaN.
class Launch {
 public:
  Launch(const Case& c, const Problem& p)
      : logits_(upload(spread(p.logits, c.actions, c.stride), Dtype::kFloat32)),
        value_(upload(spread(p.value, 1, c.value_stride), Dtype::kFloat32)),
        log_prob_(upload(p.log_prob, Dtype::kFloat32)),
        old_value_(upload(p.old_value, Dtype::kFloat32)),
        advantage_(upload(p.advantage, Dtype::kFloat32)),
        scales_(upload({p.options.mean, p.options.deviation, p.options.kl_weight}, Dtype::kFloat32)),
        action_(p.action),
        steps_(p.length) {
    const Options& o = p.options;
    input_ = {.batch = c.batch,
              .time = c.time,
              .actions = c.actions,
              .stride = c.stride,
              .value_stride = c.value_stride,
              .weights = {static_cast<float>(o.clip), static_cast<float>(o.value_clip),
                          static_cast<float>(o.value_error_bound), static_cast<float>(o.value_weight),
                          static_cast<float>(o.entropy_weight)},
              .mean = floats(scales_),
              .deviation = floats(scales_) + 1,
              .kl_weight = floats(scales_) + 2,
              .logits_BTA = floats(logits_),
              .value_BTA = floats(value_),
              .action_BT = action_.data(),
              .log_prob_BT = floats(log_prob_),
              .old_value_BT = floats(old_value_),
              .advantage_BT = floats(advantage_),
              .steps_B = steps_.data()};
    poison_outputs();
  }

  void poison_outputs() {
    poison(losses_, kPpoLosses, Dtype::kFloat32);
    poison(d_logits_, logits_.size());
    poison(d_value_, value_.size());
    poison(scratch_, ppo_loss_scratch_bytes(input_));
  }
  void on(cudaStream_t stream) {
    ppo_loss(input_, {floats(losses_), floats(d_logits_), floats(d_value_)}, scratch_.data(), stream);
  }
  Result result() const {
    return {download(losses_, Dtype::kFloat32), download(d_logits_, Dtype::kFloat32),
            download(d_value_, Dtype::kFloat32), bits_of(losses_, d_logits_, d_value_)};
  }

 private:
  const DeviceBytes logits_, value_, log_prob_, old_value_, advantage_, scales_;
  const DeviceBuffer<std::int64_t> action_, steps_;
  PpoLossInput input_{};
  DeviceBytes losses_, d_logits_, d_value_, scratch_;
};

Result run(const Case& c, const Problem& p) {
  const std::lock_guard<std::mutex> lock(gpu_in_use);
  Launch launch(c, p);
  launch.on(nullptr);
  return launch.result();
}

// In rows of `stride`, zeros behind.
Numbers in_rows(const Numbers& x, int columns, int stride) {
  Numbers y(x.size() / columns * stride);
  for (std::size_t i = 0; i < x.size(); ++i) y[i / columns * stride + i % columns] = x[i];
  return y;
}

// Where nothing is to be learnt there is exactly 0.
void check_gradient(const char* name, const Numbers& actual, const Numbers& expected, double tolerance) {
  INFO(std::string(name));
  REQUIRE(actual.size() == expected.size());
  CHECK(relative_error(actual, expected) <= tolerance);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += expected[i] == 0 && actual[i] != 0;
  CHECK(wrong == 0);
}

void check_case(const Case& c) {
  INFO(c.name());
  const Problem p = make_problem(c);
  const plain_ppo::Solution expected = plain_ppo::solve(p);
  const Result actual = run(c, p);
  const plain_ppo::Terms<double>& means = expected.means;
  const double losses[kPpoLosses] = {means.total, means.actor,   means.critic, means.entropy,
                                     means.kl,    means.clipped, means.value};
  // Means over up to 50,000 steps in float, all of numbers of the size 1, which may cancel.
  for (int i = 0; i < kPpoLosses; ++i) {
    CAPTURE(i);
    CHECK(std::abs(actual.losses[i] - losses[i]) <= 1e-5 * std::max(1.0, std::abs(losses[i])));
  }
  // log pi is a number of the size of the logits, and its rounding in float is that of d.
  const double tolerance = 1e-5 * c.logit_scale;
  check_gradient("logits", actual.d_logits, in_rows(expected.d_logits, c.actions, c.stride), tolerance);
  check_gradient("value", actual.d_value, in_rows(expected.d_value, 1, c.value_stride), tolerance);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  unsigned seed = 1;
  for (const auto& [batch, time] : {std::pair(1, 1), {3, 5}, {5, 127}, {4, 255}, {7, 256}, {20, 781}})
    for (const auto& [actions, stride] : {std::pair(2, 2), {3, 8}, {4, 8}, {31, 32}, {64, 64}, {256, 257}})
      if (batch * (time + 1) * actions <= 70'000)  // the reference takes rows x actions^2
        for (const Options& options : plain_ppo::all_options()) {
          const int value_stride = seed % 2 == 0 ? 1 : stride;
          all.push_back({batch, time, actions, stride, value_stride, options, seed % 3 == 0 ? 4.0 : 1.0, seed});
          ++seed;
        }
  return all;
}

const Case kUsual{16, 130, 4, 8, 8, plain_ppo::all_options().back(), 1, 4};

}  // namespace

TEST_CASE("PPO's losses and gradients equal the formulas, for ragged episodes") {
  if (skip_without_gpu()) return;
  check_each(cases(), check_case);
}

TEST_CASE("50,000 rows of one launch, and as many actions as there may be in several blocks") {
  if (skip_without_gpu()) return;
  check_case({961, 51, 4, 4, 1, {.entropy_weight = 0.1, .kl_weight = 0.5}, 1, 9});
  check_case({2, 300, kMaxPpoActions, 257, 1, {.entropy_weight = 0.1}, 1, 10});
}

TEST_CASE("NaN in one episode of PPO's losses reaches no gradient of another") {
  if (skip_without_gpu()) return;
  const Problem p = make_problem(kUsual);
  Problem dirty = p;
  std::fill_n(dirty.logits.begin(), (kUsual.time + 1) * kUsual.actions, kNaN);
  const Result before = run(kUsual, p), after = run(kUsual, dirty);
  CHECK(std::isnan(after.losses[kPpoTotal]));
  CHECK(std::isnan(after.d_logits[0]));
  const std::size_t rows = kUsual.time + 1;
  CHECK(equal_but_for(before.d_logits, after.d_logits, rows * kUsual.stride, 0, 1));
  CHECK(before.d_value == after.d_value);
}

TEST_CASE("NaN in any input of PPO's losses reaches the total, also where another action is taken") {
  if (skip_without_gpu()) return;
  const Problem p = make_problem(kUsual);
  const std::size_t untaken = p.action[0] == 0 ? 1 : 0;
  const auto total = [&](const Problem& spoilt) { return run(kUsual, spoilt).losses[kPpoTotal]; };
  CHECK_FALSE(std::isnan(total(p)));
  for (const auto& [input, at] :
       {std::pair(&Problem::logits, untaken), std::pair(&Problem::value, std::size_t{0}),
        std::pair(&Problem::log_prob, std::size_t{0}), std::pair(&Problem::old_value, std::size_t{0}),
        std::pair(&Problem::advantage, std::size_t{0})}) {
    Problem spoilt = p;
    (spoilt.*input)[at] = kNaN;
    CHECK(std::isnan(total(spoilt)));
  }
  for (const auto scale : {&Options::mean, &Options::deviation, &Options::kl_weight}) {
    Problem spoilt = p;
    spoilt.options.*scale = kNaN;
    CHECK(std::isnan(total(spoilt)));
  }
}

TEST_CASE("a single action earns no gradient of PPO's policy") {
  if (skip_without_gpu()) return;
  const Case c{3, 9, 1, 8, 1, {.entropy_weight = 0.1}, 1, 5};
  for (const double x : run(c, make_problem(c)).d_logits) CHECK(x == 0);
}

TEST_CASE("the same losses of PPO give the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  const Problem p = make_problem(kUsual);
  CHECK(different_runs([&] { return run(kUsual, p).bits; }) == 0);
}

TEST_CASE("PPO's losses are captured and replayed") {
  if (skip_without_gpu()) return;
  const Problem p = make_problem(kUsual);
  Launch launch(kUsual, p);
  CapturedGraph graph([&](cudaStream_t stream) { launch.on(stream); });
  launch.poison_outputs();
  graph.replay();
  CHECK(launch.result().bits == run(kUsual, p).bits);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: losses of PPO") {
  if (skip_without_gpu()) return;
  check_case({3, 5, 3, 8, 2, plain_ppo::all_options().back(), 1, 1});
  check_case({4, 130, 4, 4, 1, {}, 4, 2});
}
