#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/parallel_for.h"
#include "tests/kernels/acting/agent_step_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// So many that clusters take several environments, which are computed another way than a few.
constexpr int kManyRows = 20;

AgentStepShape published() {
  AgentStepShape shape;
  shape.channels = 3, shape.height = 5, shape.columns = 5;
  shape.width = 100, shape.inner_width = 512, shape.layers = 3, shape.heads = 2, shape.window = 64;
  shape.hidden_width = 256, shape.actions = 4;
  return shape;
}

template <typename Change>
AgentStepShape changed(AgentStepShape shape, const Change& change) {
  change(shape);
  return shape;
}

AgentStepShape sized(int width, int heads, int layers, int window, bool rope) {
  AgentStepShape shape = published();
  shape.width = width, shape.heads = heads, shape.layers = layers, shape.window = window, shape.rope = rope;
  shape.inner_width = 100, shape.hidden_width = 33;
  return shape;
}

std::vector<AgentStepShape> shapes() {
  std::vector<AgentStepShape> all{published()};
  const auto add = [&](const AgentStepShape& shape) { all.push_back(shape); };
  const auto vary = [&](const auto& change) { add(changed(published(), change)); };
  // Every option at least twice, in different company.
  vary([](auto& s) { s.window = 0; });
  vary([](auto& s) { s.window = 5, s.mixing = AgentStepMixing::kScalar, s.beta_factor = 1; });
  vary([](auto& s) { s.window = 1, s.mixing = AgentStepMixing::kSum, s.rope = false, s.heads = 1; });
  vary([](auto& s) {
    s.width = 64, s.inner_width = 256, s.heads = 4, s.layers = 2, s.mixing = AgentStepMixing::kSum, s.hidden_width = 64;
  });
  vary([](auto& s) {
    s.width = 32, s.inner_width = 256, s.heads = 4, s.layers = 1, s.mixing = AgentStepMixing::kScalar;
    s.hidden_width = 40, s.channels = 7, s.height = s.columns = 0, s.observation_is_uint8 = false, s.rope = false;
    s.window = 20;
  });
  vary([](auto& s) {
    s.width = 128, s.heads = 1, s.window = 16, s.actions = 17, s.hidden_width = 100;
    s.channels = 40, s.height = s.columns = 0, s.beta_factor = 1;
  });
  vary([](auto& s) {
    s.width = 64, s.inner_width = 256, s.heads = 2, s.layers = 2, s.window = 0, s.actions = 2;
    s.channels = 2, s.height = s.columns = 0, s.observation_is_uint8 = false;
  });
  vary([](auto& s) {
    s.width = 12, s.inner_width = 256, s.heads = 3, s.layers = 2, s.window = 7, s.hidden_width = 8;
    s.channels = 1, s.height = 3, s.columns = 7;
  });
  // Hidden units that fill no whole number of tiles, or not one for every block of a cluster.
  vary([](auto& s) { s.inner_width = 265; });
  vary([](auto& s) { s.inner_width = 7, s.window = 0, s.layers = 2; });
  // Sizes that the compiler knows.
  vary([](auto& s) { s.width = 64, s.inner_width = 256, s.layers = 1, s.hidden_width = 64; });
  add(changed(all.back(), [](auto& s) { s.width = 32, s.window = 0; }));
  // MiniGrid's images and actions.
  vary([](auto& s) { s.height = s.columns = 7, s.actions = 7; });
  vary([](auto& s) { s.height = s.columns = 7, s.actions = 7, s.window = 0; });
  // Heads of odd width, which lie padded.
  add(sized(33, 3, 2, 0, false)), add(sized(35, 7, 2, 9, false)), add(sized(15, 3, 1, 0, false));
  add(changed(sized(45, 3, 2, 6, false), [](auto& s) { s.mixing = AgentStepMixing::kScalar; }));
  // Even widths that are no multiple of 4, whose rings are copied in smaller pieces.
  add(sized(50, 1, 2, 11, true));
  add(changed(sized(66, 3, 1, 64, true), [](auto& s) { s.mixing = AgentStepMixing::kSum; }));
  // More channels than 128.
  add(sized(256, 2, 1, 0, false)), add(sized(200, 4, 2, 20, true)), add(sized(255, 5, 1, 3, false));
  return all;
}

// Of each mixing: sizes that the compiler knows, a padded head, and any. In wide heads, which seldom answer so little
// that the norm makes float's rounding of it visible.
std::vector<AgentStepShape> shapes_with_branch_norm() {
  const auto normed = [](AgentStepShape shape, AgentStepMixing mixing) {
    shape.branch_norm = true;
    shape.mixing = mixing;
    return shape;
  };
  return {normed(published(), AgentStepMixing::kVector), normed(sized(99, 1, 2, 6, false), AgentStepMixing::kVector),
          normed(sized(128, 2, 1, 64, true), AgentStepMixing::kScalar),
          normed(sized(100, 1, 2, 11, true), AgentStepMixing::kSum)};
}

// Steps every row of the reference, spread over the processor's threads.
class ReferenceAgents {
 public:
  ReferenceAgents(const AgentStepShape& shape, const AgentStepHostWeights& weights, int rows, bool round_operands)
      : shape_(shape), weights_(weights), round_(round_operands), row_(rows, AgentStepReferenceRow(shape)) {}

  void forget(int row) { row_[row] = AgentStepReferenceRow(shape_); }
  // Takes over what the device holds.
  void adopt(const DeviceAgents& device) {
    for (std::size_t layer = 0; layer < row_[0].layers.size(); ++layer)
      for (int kind = 0; kind < 3; ++kind) {
        const std::vector<float> memory = device.memory(static_cast<int>(3 * layer) + kind);
        const std::size_t size = memory.size() / row_.size();
        for (std::size_t row = 0; row < row_.size(); ++row)
          std::copy_n(memory.begin() + row * size, size, tensor(row, layer, kind).begin());
      }
  }
  Numbers step(const AgentStepRows& rows, const std::vector<Numbers>& observation) {
    Numbers probabilities(row_.size() * shape_.actions);
    parallel_for(row_.size(), [&](std::size_t row) {
      const auto own = agent_step_reference(shape_, weights_, rows, round_, static_cast<std::int64_t>(row),
                                            observation[row], row_[row]);
      std::copy(own.begin(), own.end(), probabilities.begin() + row * shape_.actions);
    });
    return probabilities;
  }
  Numbers memory(std::size_t layer, int kind) {
    Numbers all;
    for (std::size_t row = 0; row < row_.size(); ++row) {
      const auto& own = tensor(row, layer, kind);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  std::int64_t position(int row) const { return row_[row].position; }

 private:
  Numbers& tensor(std::size_t row, std::size_t layer, int kind) {
    AgentStepReferenceRow::Layer& l = row_[row].layers[layer];
    return kind == 0 ? l.fast_weights_HKV : kind == 1 ? l.key_ring_SHK : l.value_ring_SHK;
  }

  const AgentStepShape& shape_;
  const AgentStepHostWeights& weights_;
  bool round_;
  std::vector<AgentStepReferenceRow> row_;
};

struct Run {
  Dtype operands;
  bool round_operands;  // of the reference
  bool adopt;           // the reference continues from the device's memory after every step
  int rows, steps;
  double probability_bound, memory_bound;
  double dropout = 0;
};

void check_run(const AgentStepShape& shape, const Run& run, unsigned seed) {
  INFO(name_of(shape), " rows ", run.rows, " ", name_of(run.operands), run.adopt ? " step by step" : "");
  Rng rng(seed, Purpose::kTest, 0, 0);
  const AgentStepHostWeights weights = random_weights(shape, rng);
  DeviceAgents device(shape, run.operands, weights, run.rows);
  ReferenceAgents reference(shape, weights, run.rows, run.round_operands);
  AgentStepRows host_rows;
  DeviceBuffer<std::int64_t> device_tick(std::vector<std::int64_t>{99, 5});
  std::int64_t host_tick[2] = {99, 5};
  if (run.dropout > 0) {
    set_dropout(device.rows(), shape.layers, device_tick.data(), run.dropout);
    set_dropout(host_rows, shape.layers, host_tick, run.dropout);
    device.rows().dropout_tick = device_tick.data() + 1;
  }
  double probability_error = 0, memory_error = 0;  // the largest difference; the worst tensor's relative error
  int first_step = -1, first_element = -1;         // where the probability's bound was first missed
  double spread = 0;
  Numbers before;
  int equal_rows = 0;  // rows and steps whose probabilities are equal up to float arithmetic
  for (int step = 0; step < run.steps; ++step) {
    for (int row = 0; row < run.rows; ++row)
      if (step > 0 && rng.below(60) == 0) {
        device.forget(row);
        reference.forget(row);
      }
    const auto observation = device.observe(rng);
    device.step();
    const Numbers expected = reference.step(host_rows, observation);
    const std::vector<float> actual = device.probabilities();
    if (run.dropout > 0) ++host_tick[1];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(actual[i] - expected[i]);
      if (!(error <= run.probability_bound) && first_step < 0) first_step = step, first_element = static_cast<int>(i);
      keep_worst(probability_error, error);
      if (!before.empty()) spread = std::max(spread, std::abs(expected[i] - before[i]));
    }
    before = expected;
    for (int row = 0; row < run.rows; ++row) {
      bool equal = true;
      for (int i = row * shape.actions; i < (row + 1) * shape.actions; ++i)
        equal = equal && std::abs(actual[i] - expected[i]) <= 2e-5;
      equal_rows += equal;
    }
    if (run.adopt || step + 1 == run.steps) {
      for (int layer = 0; layer < shape.layers; ++layer)
        for (int kind = 0; kind < (shape.window > 0 ? 3 : 1); ++kind)
          keep_worst(memory_error, relative_error(device.memory(3 * layer + kind), reference.memory(layer, kind)));
      if (run.adopt) reference.adopt(device);
    }
  }
  if (shape.window > 0) {
    const auto positions = device.positions();
    for (int row = 0; row < run.rows; ++row) CHECK(positions[row] == reference.position(row));
  }
  CHECK(device_tick.to_host()[1] == host_tick[1]);
  INFO("first at step ", first_step, ", element ", first_element);
  CHECK(spread > 0.05);  // else there is nothing to compare
  CHECK(probability_error <= run.probability_bound);
  CHECK(memory_error <= run.memory_bound);
  if (run.adopt) CHECK(equal_rows >= 0.05 * run.rows * run.steps);
  CHECK(!device.diverged());
}

}  // namespace

TEST_CASE("exact products: 150 steps with episodes of any length equal the reference") {
  if (skip_without_gpu()) return;
  unsigned seed = 0;
  // Float arithmetic: 1e-7 an operation, grown by sums of 500 terms and by what 12 products a layer pass on.
  for (const auto& list : {shapes(), shapes_with_branch_norm()})
    for (const AgentStepShape& shape : list) {
      for (const int rows : {1, 3}) check_run(shape, {Dtype::kFloat32, false, false, rows, 150, 5e-5, 2e-5}, ++seed);
      check_run(shape, {Dtype::kFloat32, false, false, kManyRows, 80, 5e-5, 2e-5}, ++seed);
    }
}

TEST_CASE("exact products: any number of rows") {
  if (skip_without_gpu()) return;
  unsigned seed = 100;
  for (const int rows : {8, 9, 64, 67, 1000})
    check_run(published(), {Dtype::kFloat32, false, false, rows, rows < 100 ? 8 : 3, 5e-5, 2e-5}, ++seed);
  for (const int rows : {17, 600})
    check_run(shapes()[5], {Dtype::kFloat32, false, false, rows, 30, 5e-5, 2e-5}, ++seed);
}

TEST_CASE("dropout drops what the reference drops") {
  if (skip_without_gpu()) return;
  unsigned seed = 200;
  for (const auto& list : {shapes(), shapes_with_branch_norm()})
    for (const AgentStepShape& shape : list)
      for (const int rows : {9, kManyRows})
        check_run(shape, {Dtype::kFloat32, false, false, rows, 12, 5e-5, 2e-5, 0.2}, ++seed);
  check_run(published(), {Dtype::kFloat32, false, false, 600, 3, 5e-5, 2e-5, 0.2}, ++seed);
}

TEST_CASE("bfloat16 products: each step equals a reference that rounds the same operands") {
  if (skip_without_gpu()) return;
  unsigned seed = 300;
  // Where float and double round an operand to different neighbours, 2^-8 apart, later operands differ, too: such steps
  // come near what rounding itself does to the probabilities (the test below). In all others, and that some are is
  // checked, the difference is that of float arithmetic.
  const auto check_all = [&](const std::vector<AgentStepShape>& list) {
    for (const AgentStepShape& shape : list) {
      check_run(shape, {Dtype::kBfloat16, true, true, 9, 70, 0.02, 4e-3}, ++seed);
      check_run(shape, {Dtype::kBfloat16, true, true, kManyRows, 20, 0.02, 4e-3}, ++seed);
    }
  };
  check_all(shapes());
  // A single row's memory of 3 steps is so little that one such operand comes to 4e-3: with these seeds none does.
  for (const int rows : {1, 64, 130, 1000})
    check_run(published(), {Dtype::kBfloat16, true, true, rows, 3, 0.02, 4e-3}, ++seed);
  check_all(shapes_with_branch_norm());
}

TEST_CASE("bfloat16 products: 150 steps stay near the exact network") {
  if (skip_without_gpu()) return;
  unsigned seed = 400;
  // 2^-9 an operand, over 12 products a step and a memory that keeps what was written.
  for (const auto& list : {shapes(), shapes_with_branch_norm()})
    for (const AgentStepShape& shape : list)
      check_run(shape, {Dtype::kBfloat16, false, false, 3, 150, 0.1, 0.03}, ++seed);
}

TEST_CASE("the actions are those that the host samples from the same probabilities and streams") {
  if (skip_without_gpu()) return;
  Rng rng(1, Purpose::kTest, 1, 1);
  const AgentStepShape shape = published();
  const int rows = 300;
  DeviceAgents device(shape, Dtype::kBfloat16, random_weights(shape, rng), rows);
  std::vector<Rng> streams = action_streams(rows);
  int different = 0, drawn[4] = {};
  for (int step = 0; step < 40; ++step) {
    device.observe(rng);
    device.rows().greedy = step % 4 == 3;
    device.step();
    const auto probabilities = device.probabilities();
    const auto actions = device.actions();
    for (int row = 0; row < rows; ++row) {
      const float* own = &probabilities[static_cast<std::size_t>(row) * shape.actions];
      const int expected =
          device.rows().greedy ? greedy_action(own, shape.actions) : sample_action(own, shape.actions, streams[row]);
      different += actions[row] != expected;
      ++drawn[actions[row]];
    }
  }
  CHECK(different == 0);
  for (const int count : drawn) CHECK(count > 100);
}

namespace {

// Everything that a run of `steps` steps leaves behind, by plain launches or by replays of a graph.
std::vector<float> bits_after(const AgentStepShape& shape, Dtype operands, int rows, int steps, bool graph) {
  Rng rng(5, Purpose::kTest, 2, 2);
  const AgentStepHostWeights weights = random_weights(shape, rng);
  DeviceAgents device(shape, operands, weights, rows);
  Rng observations(6, Purpose::kTest, 2, 2);
  std::optional<CapturedGraph> captured;
  if (graph)
    captured.emplace([&](cudaStream_t stream) {
      device.pack(stream);
      device.step(stream);
    });
  for (int step = 0; step < steps; ++step) {
    device.observe(observations);
    if (step == steps / 2) device.forget(rows / 2);
    if (graph)
      captured->replay();
    else
      device.step();
  }
  std::vector<float> all = device.probabilities();
  for (const std::int32_t action : device.actions()) all.push_back(static_cast<float>(action));
  for (int i = 0; i < (shape.window > 0 ? 3 : 1); ++i) {
    const auto memory = device.memory(3 * (shape.layers - 1) + i);
    all.insert(all.end(), memory.begin(), memory.end());
  }
  return all;
}

}  // namespace

TEST_CASE("replays of a captured step give the same bits as launches") {
  if (skip_without_gpu()) return;
  for (const AgentStepShape& shape : {published(), shapes()[5]})
    for (const Dtype operands : {Dtype::kBfloat16, Dtype::kFloat32})
      for (const int rows : {3, 21})
        CHECK(bits_after(shape, operands, rows, 12, true) == bits_after(shape, operands, rows, 12, false));
}

TEST_CASE("same input, same bits: 1,000 runs of one step, alone and among many") {
  if (skip_without_gpu()) return;
  const AgentStepShape shape = published();
  for (const Dtype operands : {Dtype::kBfloat16, Dtype::kFloat32}) {
    Rng rng(5, Purpose::kTest, 3, 3);
    const AgentStepHostWeights weights = random_weights(shape, rng);
    const auto agents = [&](int rows) {
      auto device = std::make_unique<DeviceAgents>(shape, operands, weights, rows);
      Rng observations(6, Purpose::kTest, 2, 2);
      device->observe(observations);
      return device;
    };
    const auto step = [&](DeviceAgents& device) {
      for (int row = 0; row < device.rows().rows; ++row) device.forget(row);
      device.step();
      return device.probabilities();
    };
    const auto many = agents(70), one = agents(1);
    CHECK(different_runs([&] { return step(*many); }, 1001) == 0);
    CHECK(different_runs([&] { return step(*one); }) == 0);
    const std::vector<float> among = step(*many), alone = step(*one);
    CHECK(std::equal(alone.begin(), alone.end(), among.begin()));
  }
}

TEST_CASE("a NaN in one row reaches no other and is reported") {
  if (skip_without_gpu()) return;
  const AgentStepShape shape = shapes()[7];
  Rng rng(5, Purpose::kTest, 4, 4);
  const AgentStepHostWeights weights = random_weights(shape, rng);
  DeviceAgents device(shape, Dtype::kBfloat16, weights, 20);
  const float nan = NAN;
  Rng observations(6, Purpose::kTest, 2, 2);
  device.observe(observations);
  check_cuda(cudaMemcpy(const_cast<void*>(device.rows().observation_N), &nan, sizeof nan, cudaMemcpyHostToDevice),
             "NaN");
  device.step();
  const auto probabilities = device.probabilities();
  CHECK(device.diverged());
  CHECK(std::isnan(probabilities[0]));
  for (std::size_t i = shape.actions; i < probabilities.size(); ++i) CHECK(std::isfinite(probabilities[i]));
}

TEST_CASE("a shape outside the contract is refused with its reason") {
  if (skip_without_gpu()) return;
  const AgentStepShape p = published();
  const auto reason = [&](const auto& change) {
    return AgentStepper::supports(changed(p, change), Dtype::kBfloat16).reason();
  };
  CHECK(reason([](auto&) {}) == "");
  CHECK(reason([](auto& s) { s.heads = 4; }) == "rotary positions need an even head width, not 25");
  CHECK(reason([](auto& s) { s.heads = 4, s.rope = false; }) == "");
  CHECK(reason([](auto& s) { s.heads = 3; }) == "width 100 is not divisible by heads 3");
  CHECK(reason([](auto& s) { s.width = 260; }) == "width 260 is more than 256");
  CHECK(reason([](auto& s) { s.width = 130, s.heads = 1; }) == "head width 130 is more than 128");
  CHECK(reason([](auto& s) { s.actions = 33; }) == "actions 33 is more than 32");
  CHECK(reason([](auto& s) { s.inner_width = 0; }) == "the number or size of the inner width is 0");
  CHECK(reason([](auto& s) { s.window = 4096; }).find("bytes of shared memory") != std::string::npos);
  CHECK_THROWS(AgentStepper(changed(p, [](auto& s) { s.width = 99; }), Dtype::kFloat32, {}));
}
