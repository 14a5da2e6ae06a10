// Presets of engram probe, and what they set of a training: its steps, its rates, when it ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/probe/network.h"
#include "experiments/probe/probe.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

nlohmann::json identity(const ProbeCell& cell) { return nlohmann::json::parse(cell.identity); }

}  // namespace

TEST_CASE("every preset can be planned, with a cell for each task, backbone, rate and seed") {
  const std::vector<std::pair<ProbePreset, std::size_t>> cells = {
      {ProbePreset::kFull, 7 * 7 * 2 * 3}, {ProbePreset::kSmall, 7 * 7 * 3},   {ProbePreset::kPublished, 6 * 4 * 3},
      {ProbePreset::kMqar, 9 * 4 * 4},     {ProbePreset::kMad, 66 * 5 * 3},    {ProbePreset::kRegBench, 5 * 5},
      {ProbePreset::kCapacity, 30 * 8},    {ProbePreset::kUpdateRules, 10 * 7}};
  for (const auto& [preset, count] : cells) {
    CAPTURE(static_cast<int>(preset));
    ProbeOptions options(preset);
    CHECK(plan_probe(options).size() == count);
    CHECK(with_preset_sizes(options.tasks, preset) == options.tasks);
  }
  // Where a preset has several settings of a task, its first ones are the sizes of a task that is named alone.
  CHECK(with_preset_sizes("mad_recall,mad_recall:length=256", ProbePreset::kMad) == "mad_recall,mad_recall:length=256");
  CHECK(with_preset_sizes("mad_memorize", ProbePreset::kSmall) ==
        "mad_memorize:vocabulary=32:length=16:training_sequences=0");
}

TEST_CASE("a text is learnt by memories of as many parameters, each named once") {
  ProbeOptions options(ProbePreset::kText);
  CHECK(with_preset_sizes(options.tasks, ProbePreset::kText) == options.tasks);
  const TemporaryFolder folder;
  write_text(folder / "text", std::string(std::size_t{20} * 513, 'a'));
  options.tasks = with_text(options.tasks, (folder / "text").string());
  const std::vector<ProbeCell> cells = plan_probe(options);  // throws where a backbone has no such width
  std::set<std::string> files;
  for (const ProbeCell& cell : cells) files.insert(cell.file);
  CHECK(cells.size() == 38 * 2);
  CHECK(files.size() == cells.size());
}

TEST_CASE("the published training of modular arithmetic is what a cell says") {
  const ProbeOptions options(ProbePreset::kPublished);
  for (const ProbeCell& cell : plan_probe(options)) {
    const nlohmann::json json = identity(cell);
    CHECK(json["task"] == "modular");
    CHECK(json["task_options"]["train_length"] == "40");
    CHECK(json["task_options"]["test_length"] == "256");
    CHECK(json["steps"] == 20'000);
    CHECK(json["batch"] == 1024);
    CHECK(json["warmup"] == 0.5);
    CHECK(json["final_rate"] == 0.97);
    CHECK(json["weight_decay"] == 0.1);
    CHECK(json["test_sequences"] == 8192);
    CHECK(json["embedding_std"] == 0.006);
    CHECK(json["backbone_options"]["memory.output_weights"] == "kaiming");
    CHECK(json["backbone_options"]["memory.weight_std"] == "0.006");
    if (json["backbone"] == "transformer++") {
      CHECK(json["backbone_options"]["memory.stack"] == "attention,attention,attention");
      continue;
    }
    CHECK(json["backbone_options"]["memory.convolution"] == "true");
    CHECK(json["backbone_options"]["memory.layers"] == "3");
    if (json["backbone"] != "deltanet")
      CHECK(json["backbone_options"]["memory.window"] == (json["backbone"] == "hqlt_delayed_chunk" ? "16" : "8"));
  }
}

TEST_CASE("the published training of recall over widths says its answers by the embeddings of the symbols") {
  const ProbeOptions options(ProbePreset::kMqar);
  for (const ProbeCell& cell : plan_probe(options)) {
    const nlohmann::json json = identity(cell);
    CHECK(json["answers_by"] == "embeddings");
    CHECK(json["embedding_std"] == 0.02);
    CHECK(json["steps"] == 50'000);
    CHECK(json["batch"] == 128);
    CHECK(json["weight_decay"] == 0.1);
    CHECK(json["decayed"] == "all");
  }
}

TEST_CASE("answers by embeddings are said by those of their symbols") {
  const auto task = make_probe_task("recall:pairs=2:length=12:alphabet=6");
  const ProbeBatch drawn = task->draw(Split::kTest, 1, 0, 1, 3);
  const ProbeBatch batch{drawn.symbol_BT[0], drawn.position_BQ[0], drawn.label_BQ[0], {}};
  torch::manual_seed(5);
  const auto network = make_probe_network(*task, BackboneConfig("gru"), {.answers_by = AnswersBy::kEmbeddings}, 1);
  CHECK_FALSE(network->named_parameters().contains("output.weight"));
  const torch::NoGradGuard no_grad;
  network->eval();
  const torch::Tensor embedding = network->named_parameters()["embedding.weight"];
  // Values, which are classes 0 to 5, are the symbols from 6 on. One that no sequence shows changes no output but its
  // own.
  std::int64_t unseen = 6;
  while ((batch.symbol_BT == unseen).any().item<bool>()) ++unseen;
  REQUIRE(unseen < 12);
  const std::int64_t own = unseen - 6, other = (own + 1) % 6;
  const torch::Tensor before = network->forward(batch).clone();
  embedding[unseen] = 2 * embedding[6 + other];
  const torch::Tensor after = network->forward(batch);
  for (std::int64_t c = 0; c < 6; ++c)
    CHECK(torch::allclose(after.select(2, c), c == own ? 2 * before.select(2, other) : before.select(2, c)));
  CHECK(before.select(2, other).abs().max().item<double>() > 1e-3);

  ProbeOptions options(ProbePreset::kSmall);
  options.tasks = "parity";
  options.training.network.answers_by = AnswersBy::kEmbeddings;
  CHECK_THROWS_WITH_AS(plan_probe(options),
                       "--answers_by embeddings is for tasks that answer with symbols of their sequences, and 'parity' "
                       "does not",
                       UserError);
}

TEST_CASE("weight decay is of matrices but embeddings, or of everything") {
  const auto task = make_probe_task("copy:items=2:alphabet=3:delay=2");
  const BackboneConfig backbone("gru");
  ProbeTraining training;
  training.learning_rate = 0.01;
  training.steps = 1;
  training.batch = 4;
  training.warmup = 0;
  training.weight_decay = 0.5;
  ProbeLearner of_matrices(*task, backbone, training, 1, torch::kCPU);
  training.decayed = Decayed::kAll;
  ProbeLearner of_all(*task, backbone, training, 1, torch::kCPU);
  const ProbeLearner untrained(*task, backbone, training, 1, torch::kCPU);
  const auto first = untrained.network().named_parameters();
  of_matrices.train(4);
  of_all.train(4);
  int others = 0;
  const auto by_all = of_all.network().named_parameters();
  for (const auto& item : of_matrices.network().named_parameters()) {
    CAPTURE(item.key());
    const bool matrix = item.value().dim() >= 2 && item.key().find("embedding") == std::string::npos;
    if (!matrix) ++others;
    const torch::Tensor shrunk = 0.01 * (matrix ? 0.0 : 0.5) * first[item.key()];
    CHECK(torch::allclose(by_all[item.key()], item.value() - shrunk, 1e-6, 1e-8));
    if (item.key().find("norm") != std::string::npos && item.key().ends_with("weight")) CHECK(!matrix);
  }
  CHECK(others > 0);
  ProbeOptions options(ProbePreset::kPublished);
  CHECK(identity(plan_probe(options)[0])["decayed"] == "all");
  options.training.decayed = Decayed::kMatrices;
  CHECK(!identity(plan_probe(options)[0]).contains("decayed"));
}

TEST_CASE("passes over a training set are as many steps as its sequences take") {
  ProbeOptions options(ProbePreset::kMad);
  options.tasks = "mad_recall,mad_memorize,mad_recall:training_sequences=800";
  options.backbones = "gru";
  options.rates = "0.001";
  std::vector<int> steps;
  for (const ProbeCell& cell : plan_probe(options)) steps.push_back(identity(cell)["steps"].get<int>());
  CHECK(steps == std::vector<int>{20'000, 400, 1250});
  options.tasks = "parity";
  CHECK_THROWS_WITH_AS(plan_probe(options),
                       "--epochs 200 are passes over a training set, and 'parity' has none: every sequence is new",
                       UserError);
  options.tasks = "retrieval:model=memory";
  options.epochs = 0;
  CHECK_THROWS_WITH_AS(plan_probe(options),
                       "'gru' has no memory that stands alone; transformer and fast weights have one", UserError);
}

TEST_CASE("rates rise in a straight line and fall by a cosine, or stay") {
  ProbeTraining training;
  training.steps = 10;
  training.learning_rate = 2;
  training.warmup = 0.5;
  training.final_rate = 0.1;
  const std::vector<float> rates = rates_of_steps(training);
  REQUIRE(rates.size() == 10);
  for (std::size_t i = 0; i < 5; ++i) CHECK(rates[i] == doctest::Approx(0.4 * static_cast<double>(i + 1)));
  CHECK(rates[9] == doctest::Approx(0.2));
  // Two fifths of the way: cos(2 pi / 5) = 0.309017.
  CHECK(rates[6] == doctest::Approx(2 * (0.1 + 0.9 * (1 + 0.309017) / 2)));
  training.warmup = 0, training.final_rate = 1;
  for (const float rate : rates_of_steps(training)) CHECK(rate == 2);
}

TEST_CASE("a training ends when nothing improves, or with the accuracy that is enough") {
  torch::set_num_threads(1);
  ProbeTraining training;
  training.steps = 2000;
  training.batch = 16;
  training.validate_every = 10;
  training.patience = 40;
  const auto parity = make_probe_task("parity:train_length=6:test_length=30");
  ProbeLearner hopeless(*parity, BackboneConfig("none"), training, 1, torch::kCPU);
  CHECK(!hopeless.train(64));
  CHECK(hopeless.validations().back().step == hopeless.best().step + 40);

  training.patience = 0;
  training.learning_rate = 0.01;
  training.stop_accuracy = 0.7;
  const auto copy = make_probe_task("copy:items=2:alphabet=2:delay=3");
  ProbeLearner learner(*copy, BackboneConfig("gru"), training, 1, torch::kCPU);
  CHECK(!learner.train(64));
  const auto& validations = learner.validations();
  CHECK(validations.back().accuracy >= 0.7);
  CHECK(std::all_of(validations.begin(), validations.end() - 1, [](const auto& v) { return v.accuracy < 0.7; }));
}

TEST_CASE("what a sequence held is said from its last output alone") {
  torch::set_num_threads(1);
  ProbeTraining training;
  training.steps = 600;
  training.batch = 32;
  training.learning_rate = 0.01;
  const auto task = make_probe_task("mad_compress:vocabulary=4:length=4:training_sequences=0");
  BackboneConfig backbone("gru");
  OptionList list = backbone.options();
  list.set("memory.width", "32");
  ProbeLearner learner(*task, backbone, training, 1, torch::kCPU);
  CHECK(!learner.train(128));
  CHECK(learner.evaluate(Split::kTest, 128).accuracy > 0.95);
}

namespace {

// One symbol; the first question is answered rightly by anything, the second by nothing, the third is never asked.
class AnyAnswer final : public ProbeTask {
  void list_options(OptionList&) override {}
  int symbols() const override { return 1; }
  int classes() const override { return 2; }
  bool several_right() const override { return true; }
  int length(Split) const override { return 3; }
  int questions(Split) const override { return 3; }
  void fill(Split, Rng, const Sequence& out) const override {
    for (int q = 0; q < 3; ++q) {
      out.symbol_T[q] = 0;
      out.position_Q[q] = q;
      out.label_Q[q] = q == 2 ? kNotAsked : 1;
      out.right_Q[q] = q == 0 ? 3 : 0;
    }
  }
};

}  // namespace

TEST_CASE("several answers may be right, and what is not asked counts nowhere") {
  const AnyAnswer task;
  ProbeTraining training;
  training.batch = 4;
  training.steps = training.validate_every = 60;
  training.learning_rate = 0.1;
  BackboneConfig backbone("none");
  OptionList list = backbone.options();
  list.set("memory.width", "4");
  ProbeLearner learner(task, backbone, training, 1, torch::kCPU);
  CHECK(!learner.train(4));
  const ProbeAccuracy test = learner.evaluate(Split::kTest, 4);
  CHECK(test.accuracy == 0.5);
  REQUIRE(test.by_question.size() == 3);
  CHECK(test.by_question[0] == 1);
  CHECK(test.by_question[1] == 0);
  CHECK(std::isnan(test.by_question[2]));
  CHECK(test.loss < 0.05);  // of the labels, both of which are 1
}
