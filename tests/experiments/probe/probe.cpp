// engram probe: known answers at small sizes, and cells that are computed once.
#include "experiments/probe/probe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/formatted.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

struct Folder : TemporaryFolder {
  Folder() { std::filesystem::create_directories(*this / "cells"); }
};

ProbeOptions small_options(const std::string& tasks, const std::string& backbones) {
  torch::set_num_threads(1);
  ProbeOptions options(ProbePreset::kSmall);
  options.tasks = tasks;
  options.backbones = backbones;
  options.seeds = std::string("0");
  return options;
}

}  // namespace

// Trained up to 20 symbols, tested at 20 to 64. Who cannot keep the parity of more than its window guesses: half of the
// answers, 0 normalised, with a standard error of less than 9 points for 128 sequences (their answers hang together):
// 0.25 is three of them.
TEST_CASE("tasks that are chosen keep the sizes of the preset") {
  CHECK(with_preset_sizes("parity,recall", ProbePreset::kSmall) ==
        "parity:train_length=20:test_length=64,recall:pairs=4:length=24:alphabet=8");
  CHECK(with_preset_sizes("parity:test_length=80:answers=every", ProbePreset::kSmall) ==
        "parity:test_length=80:answers=every:train_length=20");
  const std::string whole = ProbeOptions(ProbePreset::kSmall).tasks;
  CHECK(with_preset_sizes(whole, ProbePreset::kSmall) == whole);
  CHECK(with_preset_sizes("parity,copy:items=3", ProbePreset::kFull) == "parity,copy:items=3");
  CHECK(with_preset_sizes("party", ProbePreset::kSmall) == "party");  // refused where it is made

  // What is computed is what the preset's own entry computes.
  ProbeOptions chosen(ProbePreset::kSmall), all(ProbePreset::kSmall);
  chosen.tasks = with_preset_sizes("recall", ProbePreset::kSmall);
  for (ProbeOptions* options : {&chosen, &all}) options->backbones = "gru", options->seeds = "1";
  const std::vector<ProbeCell> cells = plan_probe(chosen);
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].file == plan_probe(all)[2].file);
}

TEST_CASE("fast weights with negative eigenvalues solve parity; without, delayed, or by attention they do not") {
  const Folder folder;
  ProbeOptions options =
      small_options("parity:train_length=20:test_length=64",
                    "deltanet,hqlt,deltanet:beta_factor=1,hqlt:beta_factor=1,hqlt_delayed_stream,hqlt_delayed_chunk,"
                    "transformer");
  options.training.steps = 300;
  for (const ProbeCell& cell : plan_probe(options)) {
    CAPTURE(cell.backbone);
    const ProbeResult result = run_probe_cell(cell, options, torch::kCPU, folder / "cells");
    CHECK(!result.diverged_at);
    MESSAGE(cell.backbone << ": " << result.normalised() << " in " << result.seconds << " s");
    if (cell.backbone == "deltanet" || cell.backbone == "hqlt")
      CHECK(result.normalised() >= 0.99);
    else
      CHECK(result.normalised() < 0.25);
  }
}

TEST_CASE("a backbone with weights that no gradient reaches is probed as any other") {
  const Folder folder;
  ProbeOptions options = small_options("recall:pairs=2:length=6:alphabet=4", "performer:favor_features=8");
  options.training.steps = 20;
  const ProbeCell cell = plan_probe(options).front();
  const ProbeResult result = run_probe_cell(cell, options, torch::kCPU, folder / "cells");
  CHECK(!result.diverged_at);
  CHECK(result.accuracy > 0);
}

TEST_CASE("a backbone that draws in training is probed as any other, and alike with the same seed") {
  ProbeOptions options = small_options("recall:pairs=2:length=6:alphabet=4", "shm:memory_width=6");
  options.training.steps = 3;
  const ProbeCell cell = plan_probe(options).front();
  const auto loss = [&] {
    const Folder folder;
    return run_probe_cell(cell, options, torch::kCPU, folder / "cells").loss;
  };
  CHECK(loss() == loss());
}

TEST_CASE("DeltaNet with two heads recalls values of keys") {
  const Folder folder;
  ProbeOptions options = small_options("recall:pairs=4:length=20:alphabet=6", "deltanet");
  options.training.steps = 1000;
  const ProbeCell cell = plan_probe(options).front();
  const ProbeResult result = run_probe_cell(cell, options, torch::kCPU, folder / "cells");
  MESSAGE(result.normalised() << " in " << result.seconds << " s");
  CHECK(result.normalised() > 0.9);
}

TEST_CASE("the weights of the best validation are kept, and a perfect one ends the training") {
  torch::set_num_threads(1);
  constexpr int kSequences = 64;
  ProbeTraining training;
  training.batch = 16;
  training.validate_every = 30;
  const auto validated = [&](const std::string& task_entry, const BackboneConfig& backbone) {
    const auto task = make_probe_task(task_entry);
    ProbeLearner learner(*task, backbone, training, 1, torch::kCPU);
    CHECK(!learner.train(kSequences));
    CHECK(learner.evaluate(Split::kValidation, kSequences).accuracy == learner.best().accuracy);
    const auto& validations = learner.validations();
    const auto best = std::max_element(validations.begin(), validations.end(),
                                       [](const auto& a, const auto& b) { return a.accuracy < b.accuracy; });
    CHECK(best->step == learner.best().step);
    CHECK(best->accuracy == learner.best().accuracy);
    return validations;
  };
  // Guesses at lengths far beyond those of training: they go up and down.
  training.steps = 100;
  auto validations = validated("parity:train_length=4:test_length=40", BackboneConfig("gru"));
  REQUIRE(validations.size() == 4);
  CHECK(validations[2].step == 90);
  CHECK(validations[3].step == 100);
  const double last = validations.back().accuracy;
  CHECK(std::any_of(validations.begin(), validations.end(), [&](const auto& v) { return v.accuracy > last; }));

  training.steps = 10'000;
  training.learning_rate = 0.01;
  validations = validated("copy:items=2:alphabet=2:delay=3", BackboneConfig("gru"));
  CHECK(validations.back().step < training.steps);
  CHECK(validations.back().accuracy == 1);
}

TEST_CASE("a cell is found again, with what it holds, and made afresh when anything that it depends on changes") {
  const Folder folder;
  ProbeOptions options =
      small_options("copy:items=2:alphabet=3:delay=3,parity:train_length=5:test_length=9", "none,gru");
  options.training.steps = 3;
  options.rates = "0.01,0.001";
  options.seeds = "0,4";
  const std::vector<ProbeCell> cells = plan_probe(options);
  REQUIRE(cells.size() == 16);
  ProbeSummary summary = summarise_probe(options, folder.path());
  CHECK(summary.missing == 16);
  const ProbeResult result = run_probe_cell(cells[0], options, torch::kCPU, folder / "cells");
  const auto read = read_probe_cell(cells[0], folder / "cells");
  REQUIRE(read);
  CHECK(read->accuracy == result.accuracy);
  CHECK(read->validation_accuracy == result.validation_accuracy);
  CHECK(read->best_step == result.best_step);
  REQUIRE(result.test_loss);
  CHECK(*result.test_loss > 0);
  CHECK(read->test_loss == result.test_loss);
  CHECK(read->validation_loss == result.validation_loss);
  CHECK(read->cost.parameters == result.cost.parameters);
  CHECK(read->seconds == result.seconds);
  CHECK(!read_probe_cell(cells[1], folder / "cells"));
  // The same again, bit for bit.
  CHECK(run_probe_cell(cells[0], options, torch::kCPU, folder / "cells").accuracy == result.accuracy);

  for (const ProbeCell& cell : cells) run_probe_cell(cell, options, torch::kCPU, folder / "cells");
  summary = summarise_probe(options, folder.path());
  CHECK(summary.missing == 0);
  CHECK(summary.table.tasks.size() == 2);
  CHECK(summary.table.methods == std::vector<std::string>{"none", "gru"});
  CHECK(summary.table.seeds == std::vector<std::uint64_t>{0, 4});
  for (const auto& score : summary.table.scores) CHECK(score.has_value());
  CHECK(read_score_table(folder / "scores.json") == summary.table);
  CHECK(read_score_table(folder / "scores.csv") == summary.table);
  CHECK(summary.losses.at(0, 0, 0).has_value());
  CHECK(read_score_table(folder / "losses.csv") == summary.losses);

  for (const auto change : {+[](ProbeOptions& o) { o.training.steps = 4; }, +[](ProbeOptions& o) { o.width = 16; },
                            +[](ProbeOptions& o) { o.rates = "0.02"; }, +[](ProbeOptions& o) { o.test_sequences = 99; },
                            +[](ProbeOptions& o) { o.tasks = "copy:items=2:alphabet=3:delay=4"; }}) {
    ProbeOptions other = options;
    change(other);
    for (const ProbeCell& cell : plan_probe(other)) CHECK(!read_probe_cell(cell, folder / "cells"));
  }

  write_text(folder / "cells" / cells[0].file, "{\"accuracy\": 1}");
  CHECK_THROWS_AS(read_probe_cell(cells[0], folder / "cells"), UserError);
}

TEST_CASE("a result of an earlier version, which had no losses of validation and test, is read") {
  const Folder folder;
  ProbeOptions options = small_options("copy:items=2:alphabet=3:delay=3", "none");
  options.training.steps = 1;
  const ProbeCell cell = plan_probe(options).front();
  run_probe_cell(cell, options, torch::kCPU, folder / "cells");
  const auto file = folder / "cells" / cell.file;
  std::string kept;
  std::istringstream stream(read_text(file));
  for (std::string line; std::getline(stream, line);)
    if (line.find("test_loss") == std::string::npos && line.find("validation_loss") == std::string::npos)
      kept += line + "\n";
  write_text(file, kept);
  const auto read = read_probe_cell(cell, folder / "cells");
  REQUIRE(read);
  CHECK(!read->test_loss);
  const ProbeSummary summary = summarise_probe(options, folder.path());
  CHECK(summary.table.at(0, 0, 0).has_value());
  CHECK(!summary.losses.at(0, 0, 0).has_value());
}

TEST_CASE("a stack is a backbone among others") {
  ProbeOptions options = small_options("parity", "gru,stack:stack=[deltanet:heads=1,window:window=3]:dropout=0,none");
  const std::vector<ProbeCell> cells = plan_probe(options);
  REQUIRE(cells.size() == 3);
  CHECK(cells[1].backbone == "stack:stack=[deltanet:heads=1,window:window=3]:dropout=0");
  CHECK(cells[1].identity.find("\"memory.stack\":\"deltanet:heads=1,window:window=3\"") != std::string::npos);
  CHECK(cells[2].backbone == "none");
}

TEST_CASE("the rate that is best in validation counts") {
  const Folder folder;
  ProbeOptions options = small_options("copy:items=2:alphabet=3:delay=3", "gru");
  options.training.steps = 150;
  options.rates = "1e-7,0.01";
  std::vector<double> scores;
  for (const ProbeCell& cell : plan_probe(options))
    scores.push_back(run_probe_cell(cell, options, torch::kCPU, folder / "cells").normalised());
  CHECK(scores[1] > scores[0] + 0.3);
  CHECK(summarise_probe(options, folder.path()).table.at(0, 0, 0) == scores[1]);
}

TEST_CASE("by a squared loss the rate of the lowest loss counts, and the table has its loss") {
  const Folder folder;
  ProbeOptions options = small_options("retrieval:keys=3", "gru");
  options.training.steps = 100;
  options.rates = "0.01,1e-7";
  std::vector<double> losses;
  for (const ProbeCell& cell : plan_probe(options))
    losses.push_back(*run_probe_cell(cell, options, torch::kCPU, folder / "cells").test_loss);
  CHECK(losses[0] < losses[1] - 0.02);
  const ProbeSummary summary = summarise_probe(options, folder.path());
  CHECK(summary.losses.at(0, 0, 0) == losses[0]);
  CHECK(summary.markdown.find(formatted(" | %.4f | 1 | 0.01 |", losses[0])) != std::string::npos);
}

TEST_CASE("a cell whose training diverged is left out by name") {
  const Folder folder;
  ProbeOptions options = small_options("copy:items=2:alphabet=3:delay=3", "gru");
  options.training.steps = 2;
  const ProbeCell cell = plan_probe(options).front();
  run_probe_cell(cell, options, torch::kCPU, folder / "cells");
  const auto file = folder / "cells" / cell.file;
  std::string text = read_text(file);
  const std::string none = "\"diverged_at\": null";
  REQUIRE(text.find(none) != std::string::npos);
  write_text(file, text.replace(text.find(none), none.size(), "\"diverged_at\": 2"));
  const ProbeSummary summary = summarise_probe(options, folder.path());
  CHECK(summary.missing == 0);
  CHECK(!summary.table.at(0, 0, 0));
  CHECK(summary.markdown.find("gru, seed 0: the loss was not finite after 2 steps") != std::string::npos);
}

TEST_CASE("plans that cannot be made are refused by name") {
  const auto error = [](const auto change) -> std::string {
    ProbeOptions options(ProbePreset::kSmall);
    change(options);
    try {
      plan_probe(options);
    } catch (const UserError& refusal) {
      return refusal.what();
    }
    return "";
  };
  CHECK(error([](ProbeOptions&) {}).empty());
  CHECK(error([](ProbeOptions& o) { o.backbones = "deltenet"; }).find("did you mean 'deltanet'") != std::string::npos);
  CHECK(error([](ProbeOptions& o) { o.backbones = "deltanet:windw=3"; }).find("backbone 'deltanet:windw=3'") == 0);
  CHECK(error([](ProbeOptions& o) { o.width = 30, o.heads = 4; }).find("memory.width 30") != std::string::npos);
  CHECK(error([](ProbeOptions& o) { o.rates = "fast"; }).find("--rates has 'fast'") == 0);
  CHECK(error([](ProbeOptions& o) { o.rates = "0.1,0.10"; }).find("twice") != std::string::npos);
  CHECK(error([](ProbeOptions& o) { o.layers = "0"; }).find("--layers has '0'") == 0);
  CHECK(error([](ProbeOptions& o) { o.tasks = "parity,"; }).find("has an empty entry") != std::string::npos);
  CHECK(error([](ProbeOptions& o) { o.backbones = "gru,stack:stack=[gru"; }).find("without its other one") !=
        std::string::npos);
  CHECK(error([](ProbeOptions& o) {
          o.backbones = "stack:stack=[deltanet,gru]";
        }).find("memory.stack, layer 2, 'gru': unknown layer 'gru'") != std::string::npos);
  CHECK(!error([](ProbeOptions& o) { o.seeds = "1-"; }).empty());
}
