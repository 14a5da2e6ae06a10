#include "ranks/launch.h"

#include <charconv>
#include <cstddef>
#include <limits>

#include "base/error.h"

namespace engram {
namespace {

constexpr int kMostRanks = 1 << 20;

std::string text_of(const EnvironmentOf& environment, const char* name) {
  const char* const text = environment(name);
  return text == nullptr ? "" : text;
}

int number_of(const EnvironmentOf& environment, const char* name, int low, int high) {
  const std::string text = text_of(environment, name);
  if (text.empty())
    throw UserError(std::string("the environment has no ") + name + ", which a run of several ranks needs");
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < low || number > high)
    throw UserError(std::string("the environment's ") + name + " '" + text + "' is not a number from " +
                    std::to_string(low) + " to " + std::to_string(high));
  return number;
}

// "node[03-07,9],other" -> "node03"
std::string first_host(const std::string& nodes) {
  const std::size_t bracket = nodes.find('['), comma = nodes.find(',');
  if (bracket == std::string::npos || comma < bracket) return nodes.substr(0, comma);
  const std::size_t end = nodes.find_first_of("-,]", bracket);
  return nodes.substr(0, bracket) + nodes.substr(bracket + 1, end == std::string::npos ? end : end - bracket - 1);
}

// One for each step, so that the steps of one machine do not meet.
std::uint16_t port_of_step(const EnvironmentOf& environment) {
  constexpr int kFirst = 20'000, kPorts = 12'000;
  constexpr int kMost = std::numeric_limits<int>::max();
  const std::int64_t job = number_of(environment, "SLURM_JOB_ID", 0, kMost);
  const std::int64_t step = number_of(environment, "SLURM_STEP_ID", 0, kMost);
  return static_cast<std::uint16_t>(kFirst + (job * 31 + step) % kPorts);
}

}  // namespace

Launch launch_of(const EnvironmentOf& environment) {
  Launch launch;
  const auto& [by_hand, of_slurm] = kLaunchVariables;
  const bool by_slurm = text_of(environment, by_hand).empty();
  if (by_slurm && text_of(environment, of_slurm).empty()) return launch;
  launch.size = number_of(environment, by_slurm ? of_slurm : by_hand, 1, kMostRanks);
  if (launch.alone()) return launch;
  launch.rank = number_of(environment, by_slurm ? "SLURM_PROCID" : "RANK", 0, launch.size - 1);

  launch.address = text_of(environment, "MASTER_ADDR");
  if (launch.address.empty() && by_slurm) launch.address = first_host(text_of(environment, "SLURM_STEP_NODELIST"));
  if (launch.address.empty())
    throw UserError("the environment has no MASTER_ADDR, the machine of rank 0, where ranks meet");
  launch.port = by_slurm && text_of(environment, "MASTER_PORT").empty()
                    ? port_of_step(environment)
                    : static_cast<std::uint16_t>(number_of(environment, "MASTER_PORT", 1, 65'535));
  launch.store_is_launchers = text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.attempt = text_of(environment, "TORCHELASTIC_RESTART_COUNT");
  return launch;
}

}  // namespace engram
