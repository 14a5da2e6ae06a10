// The next byte of a file: which passages are drawn, and bits a byte where the answer is known.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "experiments/probe/learner.h"
#include "experiments/probe/probe.h"
#include "experiments/probe/tasks/tasks.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

std::string written(const TemporaryFolder& folder, const std::string& text) {
  const std::string path = (folder.path() / "text, of 3:words").string();
  write_text(path, text);
  return path;
}

std::string entry_of(const std::string& file, int length) {
  return "text:file=[" + file + "]:length=" + std::to_string(length);
}

// Every byte value, of a sequence in which no passage of four bytes comes twice.
std::string scrambled(int bytes) {
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

double bits(const std::string& entry, std::uint64_t seed) {
  torch::set_num_threads(1);
  const auto task = make_probe_task(entry);
  BackboneConfig backbone("gru");
  backbone.options().set("memory.width", "16");
  ProbeTraining training;
  training.steps = 200;
  training.batch = 16;
  training.learning_rate = 0.02;
  training.validate_every = 50;
  ProbeLearner learner(*task, backbone, training, seed, torch::kCPU);
  CHECK(!learner.train(64));
  for (const ProbeValidation& validation : learner.validations()) CHECK(validation.loss >= learner.best().loss);
  return learner.evaluate(Split::kTest, 256).loss;
}

}  // namespace

TEST_CASE("a passage stands in its part of the file, and what is asked is its next byte") {
  const TemporaryFolder folder;
  constexpr int kBytes = 4000, kLength = 30, kRows = 200;
  const std::string text = scrambled(kBytes);
  const auto task = make_probe_task(entry_of(written(folder, text), kLength));
  for (const auto& [split, begin, end] :
       {std::tuple(Split::kTraining, 0, 3600), {Split::kValidation, 3600, 3800}, {Split::kTest, 3800, 4000}}) {
    const ProbeBatch batch = task->draw(split, 1, 0, 1, kRows);
    CHECK(batch.symbol_BT.sizes() == torch::IntArrayRef({1, kRows, kLength}));
    std::size_t first = text.size(), last = 0;
    for (int row = 0; row < kRows; ++row) {
      const torch::Tensor symbol = batch.symbol_BT[0][row], label = batch.label_BQ[0][row];
      std::string passage;
      for (int t = 0; t < kLength; ++t) {
        passage += static_cast<char>(symbol[t].item<int>());
        CHECK(batch.position_BQ[0][row][t].item<int>() == t);
      }
      const std::size_t at = text.find(passage);
      REQUIRE(at != std::string::npos);
      for (int t = 0; t < kLength; ++t)
        CHECK(label[t].item<int>() == static_cast<unsigned char>(text[at + 1 + static_cast<std::size_t>(t)]));
      first = std::min(first, at), last = std::max(last, at + kLength);
    }
    // From its first byte to its last, near which 200 passages come.
    CHECK(first >= static_cast<std::size_t>(begin));
    CHECK(last < static_cast<std::size_t>(end));
    CHECK(first < static_cast<std::size_t>(begin + (end - begin) / 10));
    CHECK(last >= static_cast<std::size_t>(end - (end - begin) / 10));
  }
}

TEST_CASE("bits a byte: one for fair coins, none for what repeats itself") {
  const TemporaryFolder folder;
  std::string coins, periodic;
  for (const char byte : scrambled(20'000)) {
    coins += (byte & 1) != 0 ? 'h' : 't';
    periodic += "engram, "[periodic.size() % 8];
  }
  const double fair = bits(entry_of(written(folder, coins), 32), 1);
  CHECK(fair > 0.99);
  CHECK(fair < 1.1);
  CHECK(bits(entry_of(written(folder, periodic), 32), 1) < 0.2);
}

TEST_CASE("the same options with another text are another cell") {
  const TemporaryFolder folder;
  ProbeOptions options;
  options.backbones = "gru";
  options.seeds = "0";
  const auto file_of = [&](const std::string& text) {
    options.tasks = with_text("text:length=10", written(folder, text));
    return plan_probe(options).front().file;
  };
  const std::string text = scrambled(1000);
  const std::string once = file_of(text);
  CHECK(file_of(text) == once);
  CHECK(file_of(text + "x") != once);
}

TEST_CASE("what is wrong with a text or its option is said") {
  const TemporaryFolder folder;
  const auto refusal = [](const auto& action) { return message_of<UserError>(action); };
  CHECK(refusal([] { make_probe_task("text"); }) == "probe task 'text': no file is given; --text FILE names it");
  CHECK(refusal([] { make_probe_task("text:file=nowhere"); }) ==
        "probe task 'text:file=nowhere': file 'nowhere' cannot be read");
  CHECK(refusal([&] { make_probe_task("text:file=[" + folder.path().string() + "]"); }).ends_with("cannot be read"));
  const std::string file = written(folder, std::string(599, 'a'));
  CHECK(refusal([&] {
          make_probe_task(entry_of(file, 30));
        }).ends_with("has 599 bytes; a test on the last 5% with passages of 30 needs 620"));
  written(folder, std::string(620, 'a'));
  CHECK_NOTHROW(make_probe_task(entry_of(file, 30)));
  CHECK(refusal([] { with_text("parity,copy", "a.txt"); }) ==
        "--text 'a.txt' is for the task text, which is not among --tasks parity,copy");
  CHECK(refusal([] { with_text("text:file=b.txt", "a.txt"); }) ==
        "--text 'a.txt' and 'text:file=b.txt' both name a file");
  CHECK(with_text("parity,text:length=9", "a.txt") == "parity,text:length=9:file=[a.txt]");
}

TEST_CASE("--match gives the other backbones as many parameters as the first") {
  ProbeOptions options;
  options.tasks = "parity";
  options.backbones = "deltanet,gru,transformer";
  options.seeds = "0";
  options.rates = "0.001";
  options.layers = "2";
  options.match = Match::kParameters;
  options.training.steps = 1;
  options.training.batch = 2;
  options.test_sequences = 2;
  options.width = 32;
  const TemporaryFolder folder;
  std::vector<double> parameters;
  for (const ProbeCell& cell : plan_probe(options))
    parameters.push_back(
        static_cast<double>(run_probe_cell(cell, options, torch::kCPU, folder.path()).cost.parameters));
  for (const double count : parameters) CHECK(count == doctest::Approx(parameters.front()).epsilon(0.03));
  options.match = Match::kNone;
  CHECK(
      static_cast<double>(run_probe_cell(plan_probe(options)[1], options, torch::kCPU, folder.path()).cost.parameters) <
      0.9 * parameters.front());
}
