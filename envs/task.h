// What a task is: plain-data parameters and state, and pure rules compiled for the CPU and the GPU alike.
//
// A task is a struct without data that names these members (VisualMatch, tasks/visual_match.h, is an example):
//   kName, kNumActions, kActionNames     constants
//   Options                              host-side options, with list_options(OptionList&) and check()
//   Params, State                        plain data; static maps live in Params, State stays small
//   Element                              std::uint8_t (an image, channels x height x width) or float (a vector)
//   make_params(options, seed, purpose)  host; draws what is fixed for a whole run (seed = the run's seed)
//   observation_shape(params)            host
//   max_episode_steps(params)            host; length of the longest episode, in steps
//   reset(params, rng) -> State          a fresh episode
//   step(params, state, action, rng) -> Outcome
//   success(params, state)               whether the episode so far counts as solved
//   observe(params, state, out)          writes one observation; changes nothing
//   draw(params, state, canvas), phase(params, state)   host; for people
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/options.h"
#include "base/rng.h"

namespace engram {

enum class End : std::uint8_t { kNone = 0, kTerminated = 1, kTruncated = 2 };

struct Outcome {
  float reward;
  End end;
};

struct Rgb {
  std::uint8_t red, green, blue;
  friend constexpr bool operator==(const Rgb&, const Rgb&) = default;
};

// A board of coloured cells, row 0 at the top.
class Canvas {
 public:
  void resize(int rows, int columns, Rgb background) {
    rows_ = rows;
    columns_ = columns;
    cells_.assign(static_cast<std::size_t>(rows) * columns, background);
  }
  void set(int row, int column, Rgb colour) { cells_[static_cast<std::size_t>(row) * columns_ + column] = colour; }
  Rgb at(int row, int column) const { return cells_[static_cast<std::size_t>(row) * columns_ + column]; }
  int rows() const { return rows_; }
  int columns() const { return columns_; }

 private:
  int rows_ = 0;
  int columns_ = 0;
  std::vector<Rgb> cells_;
};

template <class Task>
concept GridTask =
    std::is_trivially_copyable_v<typename Task::Params> && std::is_trivially_copyable_v<typename Task::State> &&
    (std::same_as<typename Task::Element, std::uint8_t> || std::same_as<typename Task::Element, float>) &&
    requires(const typename Task::Options& options, const typename Task::Params& params, typename Task::State& state,
             const typename Task::State& const_state, Rng& rng, typename Task::Element* observation, Canvas& canvas) {
      { Task::kName } -> std::convertible_to<std::string>;
      { Task::kNumActions } -> std::convertible_to<int>;
      { options.check() };
      { Task::make_params(options, std::uint64_t{}, Purpose{}) } -> std::same_as<typename Task::Params>;
      { Task::observation_shape(params) } -> std::same_as<std::vector<std::int64_t>>;
      { Task::max_episode_steps(params) } -> std::same_as<int>;
      { Task::reset(params, rng) } -> std::same_as<typename Task::State>;
      { Task::step(params, state, int{}, rng) } -> std::same_as<Outcome>;
      { Task::success(params, const_state) } -> std::same_as<bool>;
      { Task::observe(params, const_state, observation) };
      { Task::draw(params, const_state, canvas) };
      { Task::phase(params, const_state) } -> std::same_as<std::string>;
    };

}  // namespace engram
