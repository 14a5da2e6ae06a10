// The retrieval of Schlag et al. 2021, section 6.1, in small: what is known of update rules comes out.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>

#include "experiments/probe/learner.h"

using namespace engram;

namespace {

// After training, with one head in one layer.
ProbeAccuracy retrieved(const std::string& task_entry, const std::string& backbone) {
  torch::set_num_threads(1);
  const auto task = make_probe_task(task_entry);
  BackboneConfig config(backbone);
  OptionList list = config.options();
  for (const auto& [key, value] :
       {std::pair("width", "16"), {"heads", "1"}, {"layers", "1"}, {"mlp_width", "32"}, {"dropout", "0"}})
    for (const Option& option : list.options())
      if (option.name == "memory." + std::string(key)) option.set(value);
  ProbeTraining training;
  training.steps = 400;
  training.batch = 32;
  training.learning_rate = 0.01;
  training.validate_every = 50;
  ProbeLearner learner(*task, config, training, 1, torch::kCPU);
  CHECK(!learner.train(/*validation_sequences=*/256));
  // By the squared loss the lowest is the best validation, and one below 0.001 ends the training.
  const auto& validations = learner.validations();
  if (task->loss() == ProbeLoss::kSquared) {
    for (const ProbeValidation& validation : validations) {
      CHECK(validation.loss >= learner.best().loss);
      CHECK((validation.loss >= 0.001 || validation.step == validations.back().step));
    }
    CHECK((validations.back().loss < 0.001 || validations.back().step == training.steps));
  }
  const ProbeAccuracy test = learner.evaluate(Split::kTest, 256);
  MESSAGE(task_entry << ", " << backbone << ": accuracy " << test.accuracy << ", loss " << test.loss << " after "
                     << learner.best().step << " steps");
  return test;
}

}  // namespace

// 12 writes of 6 keys. The sum of what was ever written to a key holds the last value among the others: what a sum can
// know is how often each value was written to the key.
TEST_CASE("of keys that are rewritten the delta rule retrieves the last values, the sum does not") {
  const std::string task = "retrieval:keys=6:rewritten=true";
  for (const char* const name : {"delta_2021", "deltanet"}) {
    const ProbeAccuracy delta = retrieved(task, name);
    CHECK(delta.accuracy > 0.95);
    CHECK(delta.loss < 0.05);
  }
  const ProbeAccuracy sum = retrieved(task, "dpfp");
  CHECK(sum.accuracy < 0.8);
  CHECK(sum.loss > 0.15);
}

TEST_CASE("of keys that are written once the sum retrieves the values as well") {
  const ProbeAccuracy once = retrieved("retrieval:keys=6", "dpfp");
  CHECK(once.accuracy > 0.95);
  CHECK(once.loss < 0.05);
}

// Who remembers nothing can at best say that every value is as likely as any other.
TEST_CASE("without a memory the losses are those of a guess") {
  const ProbeAccuracy squared = retrieved("retrieval:keys=6", "none");
  CHECK(squared.accuracy < 0.3);
  CHECK(squared.loss == doctest::Approx((1 - 1.0 / 6) / 2).epsilon(0.02));
  CHECK(retrieved("retrieval:keys=6:loss=cross_entropy", "none").loss == doctest::Approx(std::log(6)).epsilon(0.02));
}
