#include "envs/tasks/memory_gym/mortar_mayhem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

const EnumNames<MortarForm> kForms{
    {MortarForm::kSequence, "sequence"}, {MortarForm::kAct, "act"}, {MortarForm::kEndless, "endless"}};

const std::vector<std::string> kCommandNames = {"right",      "down",     "left",      "up",     "stay",
                                                "right down", "right up", "left down", "left up"};

struct MortarColours {
  static constexpr Rgb kTile{21, 43, 77}, kExplosion{200, 0, 0}, kTarget{0, 160, 0}, kAgent{228, 148, 109};
  static constexpr Rgb kBack{25, 25, 25}, kCompass{90, 90, 90}, kCommand{255, 255, 255};
};

}  // namespace

void MortarMayhem::Options::list_options(OptionList& list) {
  list.add("form", form, kForms,
           "all commands shown first; all seen at every step; or one more shown each time that all are carried out");
  list.add("arena_size", arena_size, {kSmallestArena, kLargestArena}, "tiles along a side of the arena");
  list.add("allowed_commands", allowed_commands, {kFewestKinds, kKinds},
           "the first of right, down, left, up, stay, right down, right up, left down, left up");
  list.add("commands", commands, {1, kMostCommands}, "commands of the sequence; of the longest, in the form endless");
  list.add("show_duration", show_duration, {1, kLongest}, "steps that a command is shown; not in the form act");
  list.add("show_delay", show_delay, {0, kLongest}, "steps without a command after each; not in the form act");
  list.add("explosion_delay", explosion_delay, {1, kLongest}, "steps for a command, until the other tiles explode");
  list.add("explosion_duration", explosion_duration, {1, kLongest}, "steps that they explode");
  list.add("command_reward", command_reward, {-1e6, 1e6}, "reward of a command carried out");
  list.add("sequence_reward", sequence_reward, {-1e6, 1e6}, "further reward of the last command of the sequence");
  list.add("failure_reward", failure_reward, {-1e6, 1e6},
           "reward of being on a tile that explodes, which ends the episode");
  list_full_state(list, full_state);
}

MortarMayhem::Params MortarMayhem::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.arena_size,
          options.allowed_commands,
          options.commands,
          options.show_duration,
          options.show_duration + options.show_delay,
          options.explosion_delay,
          options.explosion_duration,
          static_cast<float>(options.command_reward),
          static_cast<float>(options.command_reward + options.sequence_reward),
          static_cast<float>(options.failure_reward),
          options.form,
          options.full_state};
}

int MortarMayhem::max_episode_steps(const Params& params) {
  // Commands that are shown, and carried out. Of the first step of a command there is one more than of the others; the
  // last explosion's first step is the episode's last.
  const int shown = params.form == MortarForm::kAct ? 0 : params.commands * params.show_time - 1;
  const int moves = params.form == MortarForm::kEndless ? params.commands * (params.commands + 1) / 2 : params.commands;
  return shown + params.explosion_delay + 1 + (moves - 1) * (params.explosion_delay + params.explosion_duration);
}

bool MortarMayhem::stays_inside(const Params& params, memory_gym::Cell at, const Commands& commands) {
  for (int i = 0; i < params.commands; ++i) {
    if (!leads_inside(params, at, commands[i])) return false;
    at = moved(params, at, commands[i]);
  }
  return true;
}

void MortarMayhem::draw(const Params& params, const State& state, Canvas& canvas) {
  using Colours = MortarColours;
  const int compass = params.size + 2;  // the column of its middle
  canvas.resize(std::max(params.size, 3), params.size + 4, Colours::kBack);
  for (int y = 0; y < params.size; ++y)
    for (int x = 0; x < params.size; ++x) canvas.set(y, x, state.exploding ? Colours::kExplosion : Colours::kTile);
  canvas.set(state.target.y, state.target.x, Colours::kTarget);
  canvas.set(state.agent.at.y, state.agent.at.x, Colours::kAgent);
  canvas.set_arrow(memory_gym::arrow_of(state.agent));
  for (int y = 0; y < 3; ++y)
    for (int x = -1; x <= 1; ++x) canvas.set(y, compass + x, Colours::kCompass);
  const bool acts = params.form == MortarForm::kAct && state.current < state.length;
  const int command = acts ? state.commands[state.current] : state.shown;
  if (command != kNone) canvas.set(1 + command_y(command), compass + command_x(command), Colours::kCommand);
}

std::vector<ColourMeaning> MortarMayhem::colours(const Params&) {
  using Colours = MortarColours;
  return {{'.', Colours::kTile, "tile"},
          {'*', Colours::kExplosion, "exploding tile"},
          {'+', Colours::kTarget, "the tile to be on"},
          {'@', Colours::kAgent, "agent"},
          {'#', Colours::kBack, "outside"},
          {'-', Colours::kCompass, "compass"},
          {'!', Colours::kCommand, "the command: where to step"}};
}

std::optional<Cue> MortarMayhem::cue(const Params& params, const State& state) {
  if (params.full_state || params.form == MortarForm::kAct || state.shown != kNone || state.to_show > 0) return {};
  std::string text;
  for (int i = state.current; i < state.length; ++i)
    text += (text.empty() ? "" : ", ") + kCommandNames[static_cast<std::size_t>(state.commands[i])];
  if (text.empty()) return {};
  return Cue{text, {}};
}

std::string MortarMayhem::phase(const Params&, const State& state) {
  if (state.to_show > 0 || state.shown != kNone) return "show";
  return state.exploding ? "explosion" : "move";
}

std::vector<VectorPart> MortarMayhem::vector_parts(const Params& params) {
  const std::vector<std::string> names(kCommandNames.begin(), kCommandNames.begin() + params.kinds);
  std::vector<VectorPart> parts;
  if (params.form == MortarForm::kAct)
    for (int i = 1; i <= params.commands; ++i) parts.push_back(one_hot_part("command " + std::to_string(i), names));
  else
    parts.push_back(one_hot_part("the command shown", names));
  parts.push_back(memory_gym::place_part("x", params.size));
  parts.push_back(memory_gym::place_part("y", params.size));
  parts.push_back(memory_gym::direction_part("direction"));
  parts.push_back({"tiles explode (1) or not (0)"});
  return with_full_state(
      params.full_state, parts,
      {memory_gym::place_part("x to be at", params.size), memory_gym::place_part("y to be at", params.size)});
}

std::vector<TaskPreset> MortarMayhem::presets() {
  const decltype(TaskPreset::values) grid = {
      {"form", "sequence"},   {"arena_size", "5"}, {"allowed_commands", "5"}, {"commands", "10"},
      {"show_duration", "3"}, {"show_delay", "1"}, {"explosion_delay", "6"},  {"explosion_duration", "2"}};
  const auto with = [&grid](decltype(TaskPreset::values) changes) {
    auto values = grid;
    for (auto& [key, value] : values)
      for (const auto& [changed, to] : changes)
        if (key == changed) value = to;
    return values;
  };
  return {{"mortar_mayhem_grid", kName, grid, kSource},
          {"mortar_mayhem_act_grid", kName, with({{"form", "act"}}), kSource},
          {"mortar_mayhem_endless", kName,
           with({{"form", "endless"}, {"arena_size", "6"}, {"allowed_commands", "9"}, {"commands", "20"}}),
           "after Pleines et al., Memory Gym: Towards endless tasks, 2024"}};
}

template TaskEntry task_entry<MortarMayhem>();

}  // namespace engram
