// A training that is ended and goes on from what was kept, on a device.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>

#include "base/text/text.h"
#include "experiments/probe/kept_training.h"
#include "tests/storage/temporary_folder.h"

namespace engram::testing {

inline constexpr int kSequences = 8;

struct Ended {};  // thrown in place of a signal

inline ProbeTraining ended_training(Decayed decayed) {
  ProbeTraining result;
  result.steps = 25;
  result.batch = 4;
  result.weight_decay = 0.1;
  result.decayed = decayed;
  result.validate_every = 10;
  result.stop_accuracy = 2;  // never
  return result;
}

// Keeps the training at its validations as if a minute had gone by between them, and ends it at one of them.
inline void end_after(int validation, ProbeLearner& learner, KeptTraining& kept) {
  int seen = 0;
  CHECK_THROWS_AS(learner.train(kSequences,
                                [&] {
                                  kept.keep(learner, std::chrono::seconds(0));
                                  if (++seen == validation) throw Ended();
                                }),
                  Ended);
}

// Ended at each of its validations but the last, the training goes on to the bytes of one that is not ended.
inline void check_goes_on(const std::string& backbone, Decayed decayed, torch::Device device) {
  const TemporaryFolder folder;
  const auto task = make_probe_task("copy:items=2:alphabet=3:delay=3");
  const NamedSettings parsed = parse_named_settings(backbone);
  BackboneConfig config(parsed.name);
  OptionList list = config.options();
  list.set("memory.width", "12");
  for (const auto& [key, value] : parsed.settings) list.set("memory." + key, value);
  const auto make = [&] { return ProbeLearner(*task, config, ended_training(decayed), 3, device); };
  ProbeLearner whole = make();
  CHECK(!whole.train(kSequences));
  REQUIRE(whole.validations().size() == 3);
  const auto expected = whole.network().named_parameters();
  CAPTURE(backbone);
  for (const int ended : {1, 2}) {
    CAPTURE(ended);
    const std::filesystem::path file = folder / "kept.safetensors";
    {
      ProbeLearner first = make();
      KeptTraining kept(file, "cell");
      end_after(ended, first, kept);
    }
    ProbeLearner second = make();
    KeptTraining kept(file, "cell");
    kept.restore(second);
    CHECK(second.validations().size() == static_cast<std::size_t>(ended));
    CHECK(!second.train(kSequences));
    CHECK(second.last_loss() == whole.last_loss());
    CHECK(second.best().step == whole.best().step);
    REQUIRE(second.validations().size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(second.validations()[i].step == whole.validations()[i].step);
      CHECK(second.validations()[i].loss == whole.validations()[i].loss);
    }
    for (const auto& item : second.network().named_parameters()) {
      CAPTURE(item.key());
      CHECK(torch::equal(item.value(), expected[item.key()]));
    }
    kept.remove();
    CHECK(!std::filesystem::exists(file));
  }
}

}  // namespace engram::testing
