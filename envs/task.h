// What a task is: plain-data parameters and state, and pure rules compiled for the CPU and the GPU alike.
//
// A task is a struct without data that names these members (VisualMatch, tasks/visual_match.h, is an example):
//   kName, kDescription (one line), kNumActions, kActionNames     constants
//   num_actions(params)                  optional: how many of the kNumActions there are, the first ones
//   kActionNumbers                       of a continuous action, instead of the two: an array of ActionNumber
//   kMemoryDemand, kSource               what it asks of memory, in a few words; where it was published
//   kChanceSuccess, kChanceSource        success rate of guessing without memory, nullopt where there is none;
//                                        where the figure comes from, or why there is none
//   Options                              host-side options, with list_options(OptionList&) and, best by TaskOptions,
//                                        as Task the task itself and full_state; optional: check(), which throws
//                                        UserError for what the bounds of single options do not refuse
//   Params, State                        plain data; static maps live in Params, State stays small
//   Element                              std::uint8_t (an image, channels x height x width) or float (a vector)
//   make_params(options, seed, purpose)  host; draws what is fixed for a whole run (seed = the run's seed)
//   observation_shape(params)            host; three dimensions: an image, otherwise a vector. Instead of it
//                                        observation_parts(params), where there are tokens or several parts
//   max_episode_steps(params)            host; length of the longest episode, in steps
//   reset(params, rng) -> State          a fresh episode
//   step(params, state, action, rng) -> Outcome         int action; of a continuous one const float*, within bounds
//   success(params, state)               whether the episode so far counts as solved
//   observe(params, state, out)          writes one observation; changes nothing
//   draw(params, state, canvas), phase(params, state)   host; for people
//   colours(params) -> std::vector<ColourMeaning>       host; for people, optional: what each colour of draw(), and of
//                                        an observation that is a picture, means
//   cue(params, state)                   host; for people, optional: what the agent has to remember, while it no longer
//                                        sees it
//   decided(params, state)               host; optional: whether the episode's decision is taken, the right one or a
//                                        wrong one; stays true
//   run_facts(options, seed)             host; for people, optional: std::vector<RunFact>, what make_params draws of
//                                        the seed
//   vector_parts(params)                 host; for people, optional: std::vector<VectorPart>, what a vector's elements
//                                        are, in order
//   shown(params, observation)           host; for people, optional: ShownObservation of an observation that is a code
//                                        and does not show itself
//   presets()                            host; optional: std::vector<TaskPreset>, its published sizes
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/host_device.h"
#include "base/observation_spec.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/run_fact.h"
#include "envs/action.h"

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

// Which way somebody on a board looks, numbered clockwise.
enum class Facing { kRight, kDown, kLeft, kUp };

// A board of coloured cells, row 0 at the top; on one of them there may be an arrow.
class Canvas {
 public:
  struct Arrow {
    int row, column;
    Facing facing;
  };

  void resize(int rows, int columns, Rgb background) {
    rows_ = rows;
    columns_ = columns;
    cells_.assign(static_cast<std::size_t>(rows) * columns, background);
    arrow_.reset();
  }
  void set_arrow(Arrow arrow) { arrow_ = arrow; }
  const std::optional<Arrow>& arrow() const { return arrow_; }
  void set(int row, int column, Rgb colour) { cells_[static_cast<std::size_t>(row) * columns_ + column] = colour; }
  Rgb at(int row, int column) const { return cells_[static_cast<std::size_t>(row) * columns_ + column]; }
  int rows() const { return rows_; }
  int columns() const { return columns_; }

 private:
  int rows_ = 0;
  int columns_ = 0;
  std::vector<Rgb> cells_;
  std::optional<Arrow> arrow_;
};

// What a colour of a task's pictures means, in a few words, and the letter that stands for it where there are no
// colours. Colours of one meaning follow one another. With `last`, shades: from `colour`, for 0, to `last`, for 1,
// which have the digits 0 to 9 instead of the letter.
struct ColourMeaning {
  char letter;
  Rgb colour;
  std::string meaning;
  std::optional<Rgb> last = {};
};

// What an agent has to remember, for people.
struct Cue {
  std::string text;           // in a few words
  std::optional<Rgb> colour;  // of the cue, where it is one
};

// A part of a vector as people read it: numbers, or a one-hot code.
struct VectorPart {
  std::string name;
  int size = 1;                          // elements
  std::vector<std::string> values = {};  // of a one-hot code, `size` of them; empty: numbers
};
// `parts`, and behind them what full_state shows.
inline std::vector<VectorPart> with_full_state(bool full_state, std::vector<VectorPart> parts,
                                               std::vector<VectorPart> more) {
  if (full_state) parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}
inline VectorPart one_hot_part(std::string name, std::vector<std::string> values) {
  return {std::move(name), static_cast<int>(values.size()), std::move(values)};
}

// What an agent sees, as people read it.
struct ShownObservation {
  std::optional<Canvas> picture;   // of an image, a cell a pixel
  std::vector<std::string> lines;  // a vector, or what the picture does not tell
};

// What there is to know about a task with its options set.
struct TaskInfo {
  std::string name;
  std::string description;    // one line
  std::string memory_demand;  // what it asks of memory, in a few words
  std::string source;         // where it was published
  ActionSpec action;
  ObservationSpec observation;
  int max_episode_steps = 0;             // length of the longest episode, in steps
  std::optional<double> chance_success;  // success rate of guessing without memory, where there is one
  std::string chance_source;             // where it comes from, or why there is none

  // Of a task with discrete actions; 0 of one with a continuous action.
  int num_actions() const { return static_cast<int>(action.names.size()); }
};

// A published size of a task, by name.
struct TaskPreset {
  std::string name;
  std::string task;
  std::vector<std::pair<std::string, std::string>> values;  // option without section -> value
  std::string source;                                       // where it was published
};

// The section that a task's options stand under.
inline constexpr const char* kTaskSection = "task";

// What a task's options have in common: struct Options : TaskOptions<Task>.
template <class OwnTask>
struct TaskOptions {
  using Task = OwnTask;

  // The observation also shows, at every step, what an agent without memory needs to solve the task.
  bool full_state = false;
};

// The option full_state, which every task lists: a control in comparisons of memories.
inline void list_full_state(OptionList& list, bool& full_state) {
  list.add("full_state", full_state, "the observation also shows, at every step, what an agent without memory needs");
}

template <class Task>
concept ContinuousTask = requires {
  { Task::kActionNumbers[0] } -> std::convertible_to<ActionNumber>;
};

template <class Task>
concept GridTask = std::is_trivially_copyable_v<typename Task::Params> &&
    std::is_trivially_copyable_v<typename Task::State> &&
    (std::same_as<typename Task::Element, std::uint8_t> || std::same_as<typename Task::Element, float>)&&requires(
        const typename Task::Options& options, const typename Task::Params& params, typename Task::State& state,
        const typename Task::State& const_state, Rng& rng, typename Task::Element* observation, Canvas& canvas) {
  requires std::same_as<typename Task::Options::Task, Task>;
  { Task::kName } -> std::convertible_to<std::string>;
  { Task::kDescription } -> std::convertible_to<std::string>;
  { Task::kMemoryDemand } -> std::convertible_to<std::string>;
  { Task::kSource } -> std::convertible_to<std::string>;
  { Task::kChanceSuccess } -> std::convertible_to<std::optional<double>>;
  { Task::kChanceSource } -> std::convertible_to<std::string>;
  { Task::make_params(options, std::uint64_t{}, Purpose{}) } -> std::same_as<typename Task::Params>;
  requires requires {
    { Task::observation_shape(params) } -> std::same_as<std::vector<std::int64_t>>;
  } || requires {
    { Task::observation_parts(params) } -> std::same_as<std::vector<ObservationPart>>;
  };
  { Task::max_episode_steps(params) } -> std::same_as<int>;
  { Task::reset(params, rng) } -> std::same_as<typename Task::State>;
  requires requires {
    { Task::kNumActions } -> std::convertible_to<int>;
    { Task::step(params, state, int{}, rng) } -> std::same_as<Outcome>;
  } || requires(const float* action) {
    requires ContinuousTask<Task>;
    { Task::step(params, state, action, rng) } -> std::same_as<Outcome>;
  };
  { Task::success(params, const_state) } -> std::same_as<bool>;
  {Task::observe(params, const_state, observation)};
  {Task::draw(params, const_state, canvas)};
  { Task::phase(params, const_state) } -> std::same_as<std::string>;
};

// How many actions a task has with these parameters: 0 .. this - 1; 0 where its action is continuous.
template <class Task>
HOST_DEVICE constexpr int num_actions(const typename Task::Params& params) {
  if constexpr (ContinuousTask<Task>)
    return 0;
  else if constexpr (requires { Task::num_actions(params); })
    return Task::num_actions(params);
  else
    return Task::kNumActions;
}

// ActionSpec::words() of a task.
template <class Task>
HOST_DEVICE constexpr int action_words() {
  if constexpr (ContinuousTask<Task>)
    return static_cast<int>(sizeof(Task::kActionNumbers) / sizeof(ActionNumber));
  else
    return 1;
}

// Whether a row is an action of a task with so many discrete ones; numbers have to be finite.
template <class Task>
HOST_DEVICE inline bool is_action(int num_actions, const std::int32_t* row) {
  if constexpr (ContinuousTask<Task>) {
    for (int i = 0; i < action_words<Task>(); ++i) {
      const float number = number_of(row[i]);
      if (!(number - number == 0)) return false;
    }
    return true;
  } else {
    return static_cast<std::uint32_t>(*row) < static_cast<std::uint32_t>(num_actions);
  }
}

// Number i of a row, brought into its bounds.
template <class Task, int i>
HOST_DEVICE inline float bounded_number(const std::int32_t* row) {
  constexpr float kLeast = Task::kActionNumbers[i].least, kMost = Task::kActionNumbers[i].most;
  const float number = number_of(row[i]);
  return number < kLeast ? kLeast : number > kMost ? kMost : number;
}

// A step with the action of a row, for which is_action() holds.
template <class Task>
HOST_DEVICE inline Outcome step_with_row(const typename Task::Params& params, typename Task::State& state,
                                         const std::int32_t* row, Rng& rng) {
  if constexpr (ContinuousTask<Task>) {
    return [&]<int... i>(std::integer_sequence<int, i...>) {
      const float numbers[] = {bounded_number<Task, i>(row)...};
      return Task::step(params, state, numbers, rng);
    }
    (std::make_integer_sequence<int, action_words<Task>()>());
  } else {
    return Task::step(params, state, *row, rng);
  }
}

// What a task looks like with these options, which must be valid.
template <GridTask Task>
TaskInfo task_info(const typename Task::Options& options) {
  const typename Task::Params params = Task::make_params(options, 0, Purpose::kTraining);
  TaskInfo info;
  info.name = Task::kName;
  info.description = Task::kDescription;
  info.memory_demand = Task::kMemoryDemand;
  info.source = Task::kSource;
  if constexpr (ContinuousTask<Task>) {
    info.action.numbers.assign(std::begin(Task::kActionNumbers), std::end(Task::kActionNumbers));
  } else {
    static_assert(std::size(Task::kActionNames) == Task::kNumActions);
    for (int action = 0; action < num_actions<Task>(params); ++action)
      info.action.names.emplace_back(Task::kActionNames[action]);
  }
  info.observation.type = std::is_same_v<typename Task::Element, float> ? ElementType::kFloat32 : ElementType::kUint8;
  if constexpr (requires { Task::observation_parts(params); })
    info.observation.parts = Task::observation_parts(params);
  else
    info.observation.parts = single_part(Task::observation_shape(params));
  info.max_episode_steps = Task::max_episode_steps(params);
  info.chance_success = Task::kChanceSuccess;
  info.chance_source = Task::kChanceSource;
  return info;
}

}  // namespace engram
