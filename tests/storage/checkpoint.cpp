#include "storage/tensors/checkpoint.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

StateArchive some_state(std::int64_t steps) {
  StateArchive archive;
  torch::Tensor weights = torch::arange(12, torch::kFloat32);
  std::vector<std::int32_t> actions = {3, 1, 2};
  archive.value("steps", steps);
  archive.tensor("weights", weights);
  archive.within("replay", [&] { archive.array("action", actions); });
  return archive;
}

std::filesystem::path write(const TemporaryFolder& folder, std::int64_t steps, int keep) {
  return write_checkpoint(folder.path(), some_state(steps), "[task]\nname = tmaze\n[run]\nseed = 5\n", steps, steps / 4,
                          keep);
}

const auto no_warning = [](const std::string& text) { FAIL(text); };

}  // namespace

TEST_CASE("the newest checkpoint comes back as it was written, and only the newest stay") {
  const TemporaryFolder folder;
  CHECK_FALSE(load_newest_checkpoint(folder / "none", no_warning).has_value());
  CHECK_FALSE(load_newest_checkpoint(folder.path(), no_warning).has_value());
  for (const int steps : {10, 20, 30, 40}) write(folder, steps, 3);
  const auto files = list_checkpoints(folder.path());
  REQUIRE(files.size() == 3);
  CHECK(files.front().filename() == "checkpoint_000002.safetensors");

  Checkpoint checkpoint = *load_newest_checkpoint(folder.path(), no_warning);
  CHECK(checkpoint.file == files.back());
  CHECK(checkpoint.steps == 40);
  CHECK(checkpoint.updates == 10);
  CHECK((checkpoint.config == Settings{{"task.name", "tmaze"}, {"run.seed", "5"}}));
  std::int64_t steps = 0;
  torch::Tensor weights = torch::zeros({12});
  std::vector<std::int32_t> actions;
  checkpoint.state.value("steps", steps);
  checkpoint.state.tensor("weights", weights);
  CHECK(mentions(message_of<UserError>([&] { checkpoint.state.check_all_restored(); }), "replay.action"));
  checkpoint.state.within("replay", [&] { checkpoint.state.array("action", actions); });
  checkpoint.state.check_all_restored();
  CHECK(steps == 40);
  CHECK(torch::equal(weights, torch::arange(12, torch::kFloat32)));
  CHECK(actions == std::vector<std::int32_t>{3, 1, 2});
}

TEST_CASE("numbers are not used again, and other files are left alone") {
  const TemporaryFolder folder;
  write_text(folder / "checkpoint_x.safetensors", "mine");
  write_text(folder / "checkpoint_000007.safetensors.old", "mine");
  for (const int steps : {10, 20, 30}) write(folder, steps, 1);
  std::filesystem::remove(folder / "checkpoint_000001.safetensors");
  CHECK(write(folder, 40, 1).filename() == "checkpoint_000004.safetensors");
  CHECK(list_checkpoints(folder.path()).size() == 1);
  CHECK(read_text(folder / "checkpoint_x.safetensors") == "mine");
  CHECK(read_text(folder / "checkpoint_000007.safetensors.old") == "mine");
}

TEST_CASE("10,000 flipped bits and every truncation of a checkpoint are refused, and an older one is gone on from") {
  const TemporaryFolder folder;
  write(folder, 10, 2);
  const auto newest = write(folder, 20, 2);
  const std::string whole = read_text(newest);
  std::mt19937 random(1);
  int refused = 0;
  const auto check = [&](const std::string& damaged) {
    write_text(newest, damaged);
    try {
      load_checkpoint(newest);
    } catch (const UserError& error) {
      refused += std::string(error.what()).find('\n') == std::string::npos;
    }
  };
  for (int i = 0; i < 10'000; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    check(damaged);
  }
  CHECK(refused == 10'000);
  refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) check(whole.substr(0, length));
  CHECK(refused == static_cast<int>(whole.size()));

  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  CHECK(load_newest_checkpoint(folder.path(), warn)->steps == 10);
  REQUIRE(warnings.size() == 1);
  CHECK(mentions(warnings[0], "checkpoint_000002.safetensors"));
  write_text(folder / "checkpoint_000001.safetensors", "");
  warnings.clear();
  CHECK(
      mentions(message_of<UserError>([&] { load_newest_checkpoint(folder.path(), warn); }), "can be read; the newest"));
  CHECK(warnings.empty());
}

TEST_CASE("a file that is no checkpoint is refused as such") {
  const TemporaryFolder folder;
  save_safetensors(folder / "weights.safetensors", {{"a", torch::zeros({2})}}, {});
  CHECK(mentions(message_of<UserError>([&] { load_checkpoint(folder / "weights.safetensors"); }), "not a checkpoint"));
  CHECK(mentions(message_of<UserError>([&] { load_checkpoint(folder / "none"); }), "does not exist"));
}
