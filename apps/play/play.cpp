// engram play: a person plays a task, in a terminal or through a pipe.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agents/play/evaluator.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/taken_signals.h"
#include "apps/cli/terminal.h"
#include "apps/play/keys.h"
#include "apps/play/raw_terminal.h"
#include "apps/play/screen.h"
#include "base/error.h"
#include "base/text/words.h"
#include "envs/recorded/played_episode.h"
#include "envs/shown_observation.h"
#include "envs/vec/vec_env.h"
#include "storage/files.h"

namespace engram {
namespace {

struct PlayOptions {
  std::uint64_t seed = 1;
  std::int64_t episode = 0;
  bool full = false;
  std::string record;
  bool force = false;

  void list_options(OptionList& list) {
    list.add("seed", seed, "of the episodes, as run.seed of a run");
    list.add("episode", episode, {0, 1'000'000},
             "where in the sequence of evaluation episodes to begin, as --first_episode of engram render");
    list.add("full", full, "show the whole board, not only what an agent sees");
    list.add("record", record, "file for the episodes played, a line each, which engram replay and render take");
    list.add("force", force, "replace the file of --record if it is there");
  }
};

CommandSyntax play_syntax() {
  std::vector<std::string> keys = task_config_keys();
  std::erase_if(keys, [](const std::string& key) { return key == "task.name" || key == "task.preset"; });
  return {.command = "play",
          .positional = {"TASK"},
          .setting_keys = std::move(keys),
          .values = {{"TASK", task_and_preset_names()}, {"record", {"FILE"}}}};
}

TaskConfig chosen_task(const CommandLine& line) {
  const std::string& name = line.positional[0];
  const bool is_task = TaskConfig::named(name).name() == name;
  Settings settings = {{is_task ? "task.name" : "task.preset", name}};
  settings.insert(settings.end(), line.settings.begin(), line.settings.end());
  return Config::from_settings(settings).task;
}

void print_play_help(const OptionList& own, const CommandLine& line) {
  std::cout
      << help_head(
             {"engram play TASK [--full] [--record FILE] [--seed N] [--episode N] [--task.key value ...]"},
             {"You play a task, by its name or that of a preset, and see what an agent sees of it: an image as "
              "coloured cells, a vector as labelled numbers. The screen says which key does what and which colour "
              "means what; r begins the next episode, q quits. With the variable NO_COLOR set, letters stand for "
              "colours. The episodes are the ones that engram render films and that training never uses.",
              "Where the standard input is no terminal it is read as keys, a character each, h j k l for the arrow "
              "keys; blanks and line ends are skipped. Then every step is a line of text."})
      << "Options\n";
  print_options(std::cout, own);
  TaskConfig task = line.positional.empty() ? Config{}.task : chosen_task(line);
  std::cout << "\n" << wrapped("Of task " + task.name() + " (engram list tells more)", 2) << "\n";
  print_options(std::cout, task.options());
  std::cout << "\nExamples\n"
               "  engram play visual_match --task.distractor_steps 20 --record mine.jsonl\n"
               "  engram replay mine.jsonl\n"
               "  engram render mine.jsonl --output mine.gif\n"
               "  echo 0110 | engram play memory_len_4\n";
}

std::string number_text(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

// ---- Playing.

// The episodes that a person plays, one after the other, and how they went.
class Session {
 public:
  Session(const TaskConfig& task, std::uint64_t seed, std::int64_t first) : played_{task, seed}, number_(first) {
    begin();
  }

  const VecEnv& environment() const { return *environment_; }
  const TaskInfo& info() const { return environment_->info(); }
  const PlayedEpisode& episode() const { return played_; }  // as far as it has come
  std::int64_t number() const { return number_; }           // in the sequence of evaluation episodes
  std::size_t steps() const { return played_.actions.size(); }
  double total_reward() const { return total_reward_; }
  bool over() const { return played_.end != End::kNone; }
  int ended() const { return ended_; }  // episodes
  int solved() const { return solved_; }
  double returns() const { return returns_; }  // of ended episodes, summed

  const std::string& action_name(std::int32_t action) const {
    return info().action.names[static_cast<std::size_t>(action)];
  }

  void step(std::int32_t action) {
    environment_->step({&action, 1});
    played_.actions.push_back(action);
    played_.rewards.push_back(environment_->reward_N()[0]);
    total_reward_ += environment_->reward_N()[0];
    observe();
    if (!over()) return;
    ++ended_;
    solved_ += played_.success ? 1 : 0;
    returns_ += total_reward_;
  }

  void begin_next() {
    ++number_;
    begin();
  }

 private:
  void begin() {
    const auto index = static_cast<std::uint32_t>(number_);
    environment_ = unseen_episode(played_.task, played_.seed, index);
    const auto [environment, number] = evaluation_episode(index);
    played_.environment = static_cast<std::int32_t>(environment);
    played_.episode = kFirstUnseenEpisode + number;
    played_.actions.clear();
    played_.rewards.clear();
    played_.observations.clear();
    total_reward_ = 0;
    observe();
  }

  void observe() {
    const auto now = environment_->observation_N();
    played_.observations.insert(played_.observations.end(), now.begin(), now.end());
    played_.end = environment_->end_N()[0];
    played_.success = environment_->success_N()[0] != 0;
  }

  std::unique_ptr<VecEnv> environment_;
  PlayedEpisode played_;
  std::int64_t number_;
  double total_reward_ = 0, returns_ = 0;
  int ended_ = 0, solved_ = 0;
};

std::string outcome_text(const Session& session) {
  return std::string(session.episode().success ? "success" : "no success") + ", return " +
         number_text(session.total_reward()) + " after " + std::to_string(session.steps()) + " steps";
}

// Of all ended episodes, beside what chance gives.
std::vector<std::string> score_lines(const Session& session) {
  const TaskInfo& info = session.info();
  const auto percent = [](double share) { return number_text(std::round(1000 * share) / 10) + "%"; };
  const double count = session.ended();
  return {"Solved " + std::to_string(session.solved()) + " of " + std::to_string(session.ended()) + " (" +
              percent(session.solved() / count) + "), mean return " + number_text(session.returns() / count) + ".",
          "By chance: " + (info.chance_success ? percent(*info.chance_success) + " (" + info.chance_source + ")."
                                               : "no rate (" + info.chance_source + ").")};
}

// The file of --record, which is there from the first episode on.
class Recording {
 public:
  explicit Recording(const PlayOptions& options) : path_(options.record) {
    if (path_.empty()) return;
    check_not_there("record", path_, options.force);
    check_writable(path_);
  }

  // The episode as far as it has come, if it has had a step.
  void keep(const PlayedEpisode& episode) {
    if (path_.empty() || episode.actions.empty()) return;
    if (!file_) file_.emplace(path_);
    file_->append(played_episode_line(episode) + "\n");
    file_->sync();
    ++episodes_;
  }

  std::string summary() const {
    if (path_.empty()) return "";
    if (episodes_ == 0) return "Nothing was played: '" + path_ + "' is not written.";
    return counted(episodes_, "episode") + (episodes_ == 1 ? " is in '" : " are in '") + path_ +
           "'; engram replay and engram render take it.";
  }

 private:
  std::string path_;
  std::optional<AppendFile> file_;
  int episodes_ = 0;
};

// A key of the person's: what became of it.
enum class Taken { kNothing, kStep, kNext, kQuit };

Taken take_key(const Key& key, Session& session, ActionKeys& keys, Recording& recording) {
  const bool quits = key == Key(1, kQuitKey);
  if (quits || key == Key(1, kNextKey)) {
    keys.forget();
    if (!session.over()) recording.keep(session.episode());
    if (quits) return Taken::kQuit;
    session.begin_next();
    return Taken::kNext;
  }
  if (session.over()) return Taken::kNothing;
  const std::optional<int> action = keys.take(key);
  if (!action) return Taken::kNothing;
  session.step(*action);
  if (session.over()) recording.keep(session.episode());
  return Taken::kStep;
}

// ---- In a terminal.

PlayScreen screen_of(const Session& session, const ActionKeys& keys, bool full) {
  const VecEnv& environment = session.environment();
  const TaskInfo& info = session.info();
  PlayScreen screen;
  screen.title = info.name + ": " + info.description + "   (seed " + std::to_string(session.episode().seed) +
                 ", episode " + std::to_string(session.number()) + ")";
  if (full) environment.draw(0, screen.pictures.emplace_back("the board", Canvas{}).picture);
  ShownObservation seen = show_observation(session.episode().task, environment.observation_N());
  if (seen.picture) screen.pictures.push_back({"an agent sees", *seen.picture});
  screen.colours = session.episode().task.any().colours();
  screen.lines = seen.lines;

  std::string status = "phase " + environment.phase(0) + "   step " + std::to_string(session.steps()) + " of " +
                       std::to_string(info.max_episode_steps);
  if (session.steps() > 0)
    status += "   " + session.action_name(session.episode().actions.back()) + ": reward " +
              number_text(session.episode().rewards.back());
  screen.status = {status + "   return " + number_text(session.total_reward())};
  if (session.over()) {
    screen.status.push_back("The episode is over: " + outcome_text(session) + ".");
    for (const std::string& line : score_lines(session)) screen.status.push_back(line);
  } else if (!keys.pending().empty()) {
    screen.status.push_back("number " + keys.pending() + "_");
  } else if (!keys.problem().empty()) {
    screen.status.push_back(keys.problem());
  }
  if (!session.over()) screen.keys = keys.legend();
  screen.keys.push_back(std::string(1, kNextKey) + ": next episode");
  screen.keys.push_back(std::string(1, kQuitKey) + ": quit");
  return screen;
}

// Returns the signal that stopped it; 0 if it was a key.
int play_on_terminal(Session& session, ActionKeys& keys, Recording& recording, bool full) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const ColourDepth depth = colour_depth(variable("COLORTERM"), variable("NO_COLOR"));
  InputEvents input;
  RawTerminal terminal;
  KeyReader reader;
  for (;;) {
    const TerminalSize size = terminal_size();
    terminal.show(screen_of(session, keys, full).compose(size.columns, size.rows, depth));
    const InputEvents::Event event = input.next();
    if (event.kind == InputEvents::Kind::kByte) {
      const std::optional<Key> key = reader.take(event.byte);
      if (key && take_key(*key, session, keys, recording) == Taken::kQuit) return 0;
    } else if (event.kind == InputEvents::Kind::kSignal && event.signal == SIGTSTP) {
      terminal.suspend();
    } else if (event.kind == InputEvents::Kind::kEnd || event.signal != SIGWINCH) {
      if (!session.over()) recording.keep(session.episode());
      return event.signal;
    }
  }
}

// ---- Through a pipe.

void print_step(const Session& session) {
  const PlayedEpisode& episode = session.episode();
  std::cout << "step " << session.steps() << " of " << session.info().max_episode_steps << ": "
            << session.action_name(episode.actions.back()) << ", reward " << number_text(episode.rewards.back())
            << ", return " << number_text(session.total_reward()) << ", phase " << session.environment().phase(0)
            << "\n";
  if (session.over()) std::cout << "episode " << session.number() << ": " << outcome_text(session) << "\n";
  std::cout << std::flush;
}

int play_from_pipe(Session& session, ActionKeys& keys, Recording& recording) {
  InputEvents input;
  KeyReader reader;
  const auto stop = [&](const std::string& reason) {
    if (!session.over()) recording.keep(session.episode());
    throw UserError(reason);
  };
  for (std::int64_t position = 1;; ++position) {
    const InputEvents::Event event = input.next();
    if (event.kind != InputEvents::Kind::kByte) {
      if (event.signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
      if (event.signal == SIGTSTP || event.signal == SIGWINCH) continue;
      if (event.kind == InputEvents::Kind::kEnd && position == 1)
        stop("the standard input is empty; give it keys, as in: echo kkl | engram play " + session.info().name);
      if (event.kind == InputEvents::Kind::kEnd && !keys.pending().empty())
        stop("the standard input ends within a number, after '" + keys.pending() + "'");
      if (!session.over()) recording.keep(session.episode());
      return event.signal;
    }
    const std::optional<Key> key = reader.take(event.byte);
    if (!key || *key == " " || *key == "\n" || *key == "\r" || *key == "\t") continue;
    const std::string where = "character " + std::to_string(position) + " of the standard input, '" + *key + "'";
    const bool over = session.over();
    switch (take_key(*key, session, keys, recording)) {
      case Taken::kQuit:
        return 0;
      case Taken::kStep:
        print_step(session);
        break;
      case Taken::kNext:
        break;
      case Taken::kNothing:
        if (over) stop(where + ", comes after the episode's end; r begins the next one, q quits");
        if (keys.problem().empty()) break;
        std::string known;
        for (const std::string& line : keys.legend()) known += line + ", ";
        stop(where + ", is no key of task " + session.info().name + "; it takes " + known + "r: next episode, q: quit");
    }
  }
}

}  // namespace

void describe_play(const CommandVisitor& visit) { describe_options<PlayOptions>("play", play_syntax(), visit); }

int run_play(const std::vector<std::string>& arguments) {
  PlayOptions options;
  const auto line = command_line_of(arguments, options, play_syntax(), print_play_help);
  if (!line) return 0;
  const TaskConfig task = chosen_task(*line);
  if (task.info().action.continuous())
    throw UserError("the actions of " + line->positional[0] +
                    " are continuous, for which there are no keys to play by");
  Session session(task, options.seed, options.episode);
  ActionKeys keys(session.info().action.names);
  const bool on_terminal = ::isatty(STDIN_FILENO) != 0;
  if (on_terminal && !terminal_width(STDOUT_FILENO))
    throw UserError(
        "the standard output is no terminal that pictures can be shown on; give the keys through a pipe, "
        "as in: echo kkl | engram play " +
        line->positional[0]);
  Recording recording(options);

  const int stopped_by =
      on_terminal ? play_on_terminal(session, keys, recording, options.full) : play_from_pipe(session, keys, recording);
  if (session.ended() > 0)
    for (const std::string& text : score_lines(session)) std::cout << wrapped(text, 2) << "\n";
  if (const std::string text = recording.summary(); !text.empty()) std::cout << wrapped(text, 2) << "\n";
  std::cout << std::flush;
  return stopped_by == 0 ? 0 : kSignalStatus + stopped_by;
}

}  // namespace engram
