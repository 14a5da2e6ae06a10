// Mortar mayhem: commands are shown one after the other; then each has to be carried out in its turn, a step to another
// tile or none, before all tiles but the right one explode. Source and agent: memory_gym.h; the rules are those of
// mortar_mayhem_grid.py, mortar_mayhem_b_grid.py (the form act) and endless_mortar_mayhem.py.
//
// The forms:
//   sequence   all commands are shown, then carried out
//   act        none is shown: all are seen at every step ("MMAct")
//   endless    one command is shown, then carried out; then one more is shown, and all are carried out from the first
//              on; and so on. Opposite borders of the arena are joined, so that any command can follow.
//
// Observation, of float: one-hot codes of the command shown, all 0 for none (act: of all commands, in their order); of
// the agent's x and y; of its direction; and 1 while tiles explode. With full_state one-hot codes follow of the x and y
// of the tile to be on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"
#include "envs/tasks/memory_gym/memory_gym.h"
#include "envs/tasks/popgym/cards.h"

namespace engram {

enum class MortarForm : std::uint8_t { kSequence, kAct, kEndless };

struct MortarMayhem {
  static constexpr const char* kName = "mortar_mayhem";
  static constexpr const char* kDescription = "commands are shown, then carried out before the other tiles explode";
  static constexpr const char* kMemoryDemand = "a sequence of commands";
  static constexpr const char* kSource = memory_gym::kSource;
  static constexpr int kNumActions = memory_gym::kNumActions;
  static constexpr auto& kActionNames = memory_gym::kActionNames;
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource =
      "it depends on the number of commands, n: guessing solves less than one episode in 3^n at the published sizes";
  // Of the original.
  static constexpr int kSmallestArena = 2, kLargestArena = 6, kFewestKinds = 4, kKinds = 9;
  static constexpr int kMostCommands = 64, kLongest = 1'000;

  struct Options : TaskOptions<MortarMayhem> {
    MortarForm form = MortarForm::kSequence;
    int arena_size = 5;
    int allowed_commands = 5;
    int commands = 10;
    int show_duration = 3;
    int show_delay = 1;
    int explosion_delay = 6;
    int explosion_duration = 2;
    double command_reward = 0.1;
    double sequence_reward = 0;
    double failure_reward = 0;

    void list_options(OptionList& list);
  };

  struct Params {
    std::int32_t size;                      // of the arena, in tiles
    std::int32_t kinds;                     // of commands
    std::int32_t commands;                  // of the sequence; of the longest, in the form endless
    std::int32_t show_duration, show_time;  // steps that a command is shown; that it takes, with what is shown after it
    std::int32_t explosion_delay, explosion_duration;
    float command_reward, last_reward, failure_reward;  // last: of the sequence's last command
    MortarForm form;
    bool full_state;
  };

  using Commands = cards::Pile<4, kMostCommands>;

  struct State {
    Commands commands;
    memory_gym::Agent agent;
    memory_gym::Cell target;  // the tile to be on at the next explosion, or during this one
    std::int8_t shown;        // the command in sight, or kNone
    std::uint8_t current;     // commands carried out of the sequence, that of this explosion included
    std::uint8_t length;      // of the sequence
    bool exploding;
    bool solved;
    std::int32_t to_show;   // steps that still show commands, or the pauses after them
    std::int32_t waited;    // steps for the current command so far
    std::int32_t exploded;  // steps of this explosion so far
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    const int places = params.full_state ? 4 : 2;
    const int seen = params.form == MortarForm::kAct ? params.commands : 1;
    return {seen * params.kinds + places * params.size + memory_gym::kDirections + 1};
  }
  static int max_episode_steps(const Params& params);

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    const auto coordinate = [&] {
      return static_cast<std::uint8_t>(rng.below(static_cast<std::uint32_t>(params.size)));
    };
    const std::uint8_t x = coordinate(), y = coordinate();
    Commands commands{};
    memory_gym::Cell at{x, y};
    for (int i = 0; i < params.commands; ++i) {
      const int command = draw_command(params, at, rng);
      commands.set(i, command);
      at = moved(params, at, command);
    }
    return start(params, {x, y}, commands);
  }

  // The state in which an episode with this first tile and these commands begins.
  HOST_DEVICE static constexpr State start(const Params& params, memory_gym::Cell at, const Commands& commands) {
    State state{};
    state.commands = commands;
    state.agent = {at, memory_gym::kUp};
    state.target = moved(params, at, commands[0]);
    state.shown = kNone;
    state.length = static_cast<std::uint8_t>(params.form == MortarForm::kEndless ? 1 : params.commands);
    if (params.form == MortarForm::kAct) return state;
    state.to_show = params.show_time * state.length;
    show(params, state);
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    state.shown = kNone;
    if (state.to_show > 0) {
      show(params, state);
      return {0, End::kNone};
    }
    if (params.form == MortarForm::kEndless)
      memory_gym::act_wrapped(state.agent, action, params.size, params.size);
    else
      memory_gym::act(state.agent, action, params.size, params.size);

    float reward = 0;
    const bool explodes = !state.exploding && state.waited == params.explosion_delay;
    if (explodes) {
      state.exploding = true;
      state.exploded = 0;
      state.waited = 1;
      ++state.current;
    }
    if (state.exploding && state.exploded < params.explosion_duration) {
      if (!(state.agent.at == state.target)) return {params.failure_reward, End::kTerminated};
      ++state.exploded;
      if (explodes) {
        const bool last = state.current == state.length;
        reward = last ? params.last_reward : params.command_reward;
        if (last && state.length == params.commands) {
          state.solved = true;
          return {reward, params.form == MortarForm::kEndless ? End::kTruncated : End::kTerminated};
        }
        if (last) {  // one more command, then all again
          ++state.length;
          state.current = 0;
          state.to_show = params.show_time;
        }
      }
    } else if (state.exploding) {  // it is over: to the next command
      state.exploding = false;
      state.target = moved(params, state.target, state.commands[state.current]);
    } else {
      ++state.waited;
    }
    return {reward, End::kNone};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    if (params.form == MortarForm::kAct)
      for (int i = 0; i < params.commands; ++i) out = cards::one_hot(state.commands[i], params.kinds, out);
    else
      out = cards::one_hot(state.shown, params.kinds, out);
    out = cards::one_hot(state.agent.at.x, params.size, out);
    out = cards::one_hot(state.agent.at.y, params.size, out);
    out = cards::one_hot(state.agent.facing, memory_gym::kDirections, out);
    *out++ = state.exploding ? 1.0f : 0.0f;
    if (!params.full_state) return;
    out = cards::one_hot(state.target.x, params.size, out);
    cards::one_hot(state.target.y, params.size, out);
  }

  // Whether no command leads over a border of the arena.
  static bool stays_inside(const Params& params, memory_gym::Cell at, const Commands& commands);

  // The arena, an arrow on the agent, the tile to be on green; to the right of it a compass, in which the command shown
  // is lit.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  // "show", "move" or "explosion".
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
  // The commands that are still to be carried out, once none is shown.
  static std::optional<Cue> cue(const Params& params, const State& state);

 private:
  static constexpr std::int8_t kNone = cards::kNoAnswer;

  // In the original's order: right, down, left, up, stay, right down, right up, left down, left up.
  HOST_DEVICE static constexpr int command_x(int command) {
    constexpr int kX[kKinds] = {1, 0, -1, 0, 0, 1, 1, -1, -1};
    return kX[command];
  }
  HOST_DEVICE static constexpr int command_y(int command) {
    constexpr int kY[kKinds] = {0, 1, 0, -1, 0, 1, -1, 1, -1};
    return kY[command];
  }
  HOST_DEVICE static constexpr memory_gym::Cell moved(const Params& params, memory_gym::Cell from, int command) {
    return memory_gym::wrapped(from, command_x(command), command_y(command), params.size, params.size);
  }

  HOST_DEVICE static constexpr bool leads_inside(const Params& params, memory_gym::Cell at, int command) {
    const int x = at.x + command_x(command), y = at.y + command_y(command);
    return x >= 0 && x < params.size && y >= 0 && y < params.size;
  }
  // Evenly among the commands that do not lead over a border; in the form endless, where there is none, among all.
  HOST_DEVICE static constexpr int draw_command(const Params& params, memory_gym::Cell at, Rng& rng) {
    int allowed[kKinds] = {}, count = 0;
    for (int command = 0; command < params.kinds; ++command)
      if (params.form == MortarForm::kEndless || leads_inside(params, at, command)) allowed[count++] = command;
    return allowed[rng.below(static_cast<std::uint32_t>(count))];
  }

  // One more step of showing: of all commands of the sequence, or in the form endless of the last alone.
  HOST_DEVICE static constexpr void show(const Params& params, State& state) {
    const int step = params.show_time * state.length - state.to_show--;
    if (step % params.show_time < params.show_duration)
      state.shown = static_cast<std::int8_t>(state.commands[step / params.show_time]);
  }
};

static_assert(GridTask<MortarMayhem>);

}  // namespace engram
