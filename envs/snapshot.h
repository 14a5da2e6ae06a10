// EnvRows: what the next steps of N environments depend on, and the bytes that VecEnv and CudaVecEnv keep it in.
// A snapshot is, in this order and without gaps: a text that names task, options and N; the seed (8 bytes) and the
// purpose (4); State [N], Rng [N], episode uint32 [N], reward float32 [N], End [N].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "envs/registry.h"
#include "envs/task.h"

namespace engram {

// What a snapshot must agree with: task, options and N.
inline std::string snapshot_identity(TaskConfig task, int num_envs) {
  std::string text = task.name() + " x " + std::to_string(num_envs);
  const OptionList list = task.options();
  for (const Option& option : list.options()) text += ", " + option.name + " = " + option.get();
  return text;
}

template <class State>
struct EnvRows {
  EnvRows(std::uint64_t seed, Purpose purpose, int num_envs)
      : seed(seed),
        purpose(purpose),
        states(num_envs),
        rngs(num_envs),
        episodes(num_envs),
        rewards(num_envs),
        ends(num_envs) {}

  std::vector<std::byte> to_snapshot(const std::string& identity) const {
    std::vector<std::byte> snapshot(identity.size() + size_in_bytes());
    std::memcpy(snapshot.data(), identity.data(), identity.size());
    std::byte* to = snapshot.data() + identity.size();
    visit(*this, [&](const auto* data, std::size_t count) {
      std::memcpy(to, data, count * sizeof(*data));
      to += count * sizeof(*data);
    });
    return snapshot;
  }

  // Throws std::invalid_argument, and changes nothing, unless the snapshot is one of `identity`.
  void from_snapshot(const std::string& identity, std::span<const std::byte> snapshot) {
    if (snapshot.size() != identity.size() + size_in_bytes() ||
        std::memcmp(snapshot.data(), identity.data(), identity.size()) != 0)
      throw std::invalid_argument("the snapshot is not one of: " + identity);
    const std::byte* from = snapshot.data() + identity.size();
    visit(*this, [&](auto* data, std::size_t count) {
      std::memcpy(data, from, count * sizeof(*data));
      from += count * sizeof(*data);
    });
  }

  std::uint64_t seed;
  Purpose purpose;
  std::vector<State> states;
  std::vector<Rng> rngs;
  std::vector<std::uint32_t> episodes;
  std::vector<float> rewards;  // of the last step; 0 after a reset
  std::vector<End> ends;       // kNone after a reset

 private:
  // Calls function(pointer, count) for every array, in the order of a snapshot.
  template <class Rows, class Function>
  static void visit(Rows& rows, Function function) {
    function(&rows.seed, 1);
    function(&rows.purpose, 1);
    function(rows.states.data(), rows.states.size());
    function(rows.rngs.data(), rows.rngs.size());
    function(rows.episodes.data(), rows.episodes.size());
    function(rows.rewards.data(), rows.rewards.size());
    function(rows.ends.data(), rows.ends.size());
  }
  std::size_t size_in_bytes() const {
    std::size_t size = 0;
    visit(*this, [&](const auto* data, std::size_t count) { size += count * sizeof(*data); });
    return size;
  }
};

}  // namespace engram
