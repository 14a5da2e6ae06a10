#include "agents/run/machine/memory_estimate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

Config estimated_config(const Settings& more = {}) {
  Settings settings = {{"task.name", "tmaze"}, {"task.corridor_length", "100"}, {"memory.name", "lstm"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return Config::from_settings(settings);
}

double part(const MemoryEstimate& estimate, const std::string& what) {
  return std::ranges::find(estimate.parts, what, &MemoryPart::what)->bytes;
}

std::string refusal(const Config& config, double available) {
  return message_of<UserError>([&] { check_memory(config, torch::kCPU, available); });
}

// The value that a refusal says fits.
std::int64_t offered(const std::string& message, const std::string& key) {
  const std::size_t place = message.rfind("; " + key + " ");
  REQUIRE_MESSAGE(place != std::string::npos, message);
  return std::stoll(message.substr(place + key.size() + 3));
}

constexpr double kGigabyte = 1e9;

}  // namespace

TEST_CASE("an estimate counts parameters exactly, and has what each option makes larger") {
  const Config config = estimated_config();
  const MemoryEstimate estimate = estimate_memory(config, torch::kCPU);
  double parameters = 0, trained = 0;
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  for (const torch::Tensor& parameter : network->parameters()) {
    parameters += static_cast<double>(parameter.numel());
    if (parameter.requires_grad()) trained += static_cast<double>(parameter.numel());
  }
  // Three copies of the weights, gradients and two moments, in float32.
  CHECK(part(estimate, "backbone") + part(estimate, "encoder and heads") == 4 * (3 * parameters + 3 * trained));
  CHECK(estimate.total() > part(estimate, "replay") + part(estimate, "update"));
  CHECK(std::ranges::is_sorted(estimate.parts, std::greater(), &MemoryPart::bytes));

  const auto grows = [&](const char* what, const Settings& more) {
    const MemoryEstimate larger = estimate_memory(estimated_config(more), torch::kCPU);
    for (const MemoryPart& own : larger.parts)
      if (own.what == what) CHECK_MESSAGE(own.bytes > 1.5 * part(estimate, what), what);
  };
  grows("backbone", {{"memory.width", "200"}});
  grows("encoder and heads", {{"network.hidden_width", "512"}});
  grows("replay", {{"run.steps", "20M"}, {"replay.capacity_steps", "10M"}});
  grows("environments", {{"run.num_envs", "1000"}});
  grows("update", {{"replay.batch_episodes", "128"}});
  grows("update", {{"task.corridor_length", "300"}});
}

TEST_CASE("what cannot fit is refused by the option that takes most, with the largest value that fits") {
  struct Case {
    const char* key;
    const char* value;
    Settings more;
  };
  for (const Case& one : {Case{"replay.batch_episodes", "1000000", {}},
                          Case{"replay.capacity_steps", "1000000000000", {{"run.steps", "1000000000000"}}},
                          Case{"replay.minimum_episodes", "1000000000", {{"run.steps", "1000000000000"}}},
                          Case{"run.num_envs", "1000000", {}}, Case{"network.hidden_width", "65536", {}},
                          Case{"memory.width",
                               "16384",
                               {{"memory.name", "hqlt"}, {"memory.layers", "64"}, {"replay.batch_episodes", "2"}}}}) {
    CAPTURE(one.key);
    Settings settings = one.more;
    settings.emplace_back(one.key, one.value);
    const Config config = estimated_config(settings);
    const std::string message = refusal(config, kGigabyte);
    CAPTURE(message);
    CHECK(message.starts_with(std::string(one.key) + " " + one.value + " is too much for this machine: "));
    CHECK(mentions(message, " and 1.00 GB are there; "));
    const std::int64_t most = offered(message, one.key);
    const auto with = [&](std::int64_t value) {
      settings.back().second = std::to_string(value);
      return estimated_config(settings);
    };
    CHECK(estimate_memory(with(most), torch::kCPU).total() <= kGigabyte);
    CHECK(refusal(with(most), kGigabyte) == "nothing was thrown");
    // And the next one that its other options allow does not.
    std::int64_t next = most + 1;
    while (message_of<UserError>([&] { with(next); }) != "nothing was thrown") ++next;
    CHECK(estimate_memory(with(next), torch::kCPU).total() > kGigabyte);
  }
}

TEST_CASE("what fits is not refused, and where no size alone is to blame all are named") {
  CHECK(refusal(estimated_config(), kGigabyte) == "nothing was thrown");
  // Estimates are not exact: what may fit is tried.
  const Config config = estimated_config({{"replay.batch_episodes", "2000"}});
  const double bytes = estimate_memory(config, torch::kCPU).total();
  CHECK(refusal(config, bytes / kMemoryFactor + 1) == "nothing was thrown");
  CHECK(mentions(refusal(config, bytes / kMemoryFactor - 1), "replay.batch_episodes 2000 is too much"));
  const std::string all =
      refusal(estimated_config({{"replay.batch_episodes", "1000000"}, {"run.num_envs", "1000000"}}), kGigabyte);
  CHECK(mentions(all, "no smaller value of one of its sizes alone makes it fit: replay.batch_episodes 1000000, "));
  CHECK(mentions(all, "run.num_envs 1000000"));
}

TEST_CASE("a network that no machine could build is refused, by the width that fits") {
  const Config config =
      estimated_config({{"memory.name", "transformer"}, {"memory.width", "16384"}, {"memory.layers", "64"}});
  CHECK(mentions(refusal(config, kGigabyte), "memory.width 16384 is too much"));
}
