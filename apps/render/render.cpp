// engram render: a video of an agent at work.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/shown_policy.h"
#include "agents/play/evaluator.h"
#include "agents/run/trained_agent.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/threads.h"
#include "apps/look/played_weights.h"
#include "apps/render/filmed_decision.h"
#include "apps/render/memory_strips.h"
#include "base/error.h"
#include "base/words.h"
#include "envs/recorded/episode_file.h"
#include "storage/settings.h"
#include "video/film.h"
#include "video/frame_painter.h"
#include "video/video_writer.h"

namespace engram {
namespace {

constexpr double kOutcomeSeconds = 1.5;  // how long the end of an episode stands

constexpr int kLeadSteps = 10;       // shown before what --skip-to skips to
constexpr int kMostSearched = 1000;  // episodes that --only looks through

enum class FilmedPolicy { kGreedy, kSample, kRandom };
enum class FilmedOutcomes { kAll, kFailures, kSuccesses };
enum class SkipTo { kStart, kReward };

struct RenderOptions {
  std::string output;
  bool force = false;
  int episodes = 3;
  FilmedOutcomes only = FilmedOutcomes::kAll;
  double fps = 10;
  double seconds = 20;
  SkipTo skip_to = SkipTo::kStart;
  int scale = 1;
  WhichWeights weights = WhichWeights::kBest;
  FilmedPolicy policy = FilmedPolicy::kGreedy;
  std::int64_t first_episode = 0;
  bool show_memory = false;

  void list_options(OptionList& list) {
    list.add("output", output,
             "film to write: .mp4 (H.264, plays in a browser), .webm (VP8), .avi (MJPG) or .gif (animated)");
    list.add("force", force, "replace the file of --output if it is there");
    list.add("episodes", episodes, {1, 10'000}, "episodes to film, one after the other");
    list.add("only", only,
             {{FilmedOutcomes::kAll, "all"},
              {FilmedOutcomes::kFailures, "failures"},
              {FilmedOutcomes::kSuccesses, "successes"}},
             "which outcomes to film: --episodes of them, from as many episodes as it takes, up to " +
                 std::to_string(kMostSearched));
    list.add("fps", fps, {0.1, 120}, "frames per second");
    list.add("seconds", seconds, {2, 86'400},
             "the longest that an episode lasts in the film: of one with more steps than that has frames, every "
             "second, third ... step is shown");
    list.add("skip-to", skip_to, {{SkipTo::kStart, "start"}, {SkipTo::kReward, "reward"}},
             "where the film of an episode begins: at its start, or " + std::to_string(kLeadSteps) +
                 " steps before its decision; in a task without one before its first reward above 0, where there is "
                 "none before its end");
    list.add("scale", scale, {1, 4}, "size of the picture; 1 is some 960 pixels wide");
    list_weights(list, weights);
    list.add("policy", policy,
             {{FilmedPolicy::kGreedy, "greedy"}, {FilmedPolicy::kSample, "sample"}, {FilmedPolicy::kRandom, "random"}},
             "the most probable action, one drawn from the agent's policy, or any action with equal chances");
    list.add("first_episode", first_episode, {0, 1'000'000}, "where in the sequence of evaluation episodes to begin");
    list.add("show-memory", show_memory,
             "also show, layer by layer, what the memory does: attention weights, write strengths and gates, or the "
             "state");
  }
};

void print_render_help(const OptionList& own, const Settings& settings) {
  Config config = Config::from_settings(settings);
  std::cout
      << wrapped("engram render DIR --output FILE [--episodes N] [--policy greedy|sample|random] ...", 2) << "\n"
      << wrapped("engram render --policy random --task.name NAME [--task.key value ...] --output FILE ...", 2) << "\n"
      << wrapped("engram render RECORDING --output FILE [--episodes N] [--first_episode N] ...", 2) << "\n\n"
      << wrapped(
             "Films the agent of the run directory DIR: the board with what the agent sees of it framed, the "
             "observation itself, the step and its reward, the probabilities of the next action with their Q "
             "values, what the agent has to remember once it no longer sees it, and at last whether the "
             "episode was a success. The episodes are the ones that engram evaluate --trace plays, which "
             "training never used. Random actions need no agent: instead of DIR a task can be given. RECORDING is "
             "a file of engram play --record: its episodes are filmed.",
             0)
      << "\n\nOptions\n";
  print_options(std::cout, own);
  std::cout << "\nWithout DIR (engram list tells more)\n";
  print_option(std::cout, "task.name", "of the task to film [default visual_match]");
  print_option(std::cout, "task.preset", "a published size of a task, by name");
  print_options(std::cout, config.options(), "task");
  std::cout << "\nExamples\n"
               "  engram render runs/first --output first.mp4\n"
               "  engram render --policy random --task.name key_to_door --output random.mp4\n"
               "  engram render mine.jsonl --output mine.gif\n";
}

CommandSyntax render_syntax() {
  return {.command = "render",
          .positional = {"DIR|FILE"},
          .optional = 1,
          .setting_keys = task_config_keys(),
          .values = {{"output", {"FILE"}}}};
}

// The run directory, if one is given. Throws UserError unless it is clear what is to be filmed.
std::optional<std::string> run_directory(const CommandLine& line, const RenderOptions& options) {
  if (line.positional.empty()) {
    if (options.policy == FilmedPolicy::kRandom) return {};
    if (!line.settings.empty())
      throw UserError("--" + line.settings[0].first +
                      " says what to film, but not who acts: give --policy random, or " +
                      "instead of the task DIR, the run directory of an agent");
    throw UserError("the argument DIR is missing: the run directory of the agent; without one, --policy random");
  }
  if (!line.settings.empty()) {
    throw UserError("--" + line.settings[0].first + " cannot be given with a run directory: '" + line.positional[0] +
                    "' says what its task is");
  }
  return line.positional[0];
}

// An episode to film, with what its memory did where that is shown, and its place among the evaluation episodes.
struct EpisodeToFilm {
  std::int64_t number;
  PlayedDecisions played;
  std::optional<MemoryStrips> memory;
};

// What all films share: the painter and the file, and that each moment is a frame.
class Film {
 public:
  // memory_rows: as FramePainter has them.
  Film(const RenderOptions& options, const VecEnv& environment, const std::string& subtitle,
       const std::vector<int>& memory_rows)
      : options_(options),
        painter_(make_painter(options, environment, subtitle, memory_rows)),
        writer_(options.output, painter_.width(), painter_.height(), options.fps),
        outcome_frames_(std::max(1, static_cast<int>(std::ceil(kOutcomeSeconds * options.fps)))) {}

  // Films an episode of the task, which it reports. The environment must stand at its start. The last moment stands for
  // a while.
  void add(const TaskConfig& task, VecEnv& environment, const EpisodeToFilm& kept, int episode, int episodes) {
    const PlayedDecisions& played = kept.played;
    const auto last = static_cast<int>(played.decisions.size());
    const int first = options_.skip_to == SkipTo::kStart ? 0 : std::max(0, played.turning_point - kLeadSteps);
    const FilmCut cut = film_cut(first, last, most_moments());
    const Decide decide = [&, step = 0](const VecEnv&) mutable {
      Decision decision = played.decisions[static_cast<std::size_t>(step)];
      // The last one stands at the episode's end, too.
      if (kept.memory && (cut.shows(step, last) || step + 1 == last)) decision.memory = kept.memory->at(step);
      ++step;
      return decision;
    };
    const auto show = [&](const FrameContents& contents) {
      if (!cut.shows(contents.step, last)) return;
      const RgbImage frame = painter_.paint(contents);
      for (int i = 0; i < (contents.step == last ? outcome_frames_ : 1); ++i) writer_.write(frame);
    };
    const FilmedEpisode filmed = film_episode(task, environment, decide, episode, episodes, show, last);
    ++episodes_;
    successes_ += filmed.success ? 1 : 0;
    std::cout << "episode " << episode << ": "
              << (!played.ended    ? "left"
                  : filmed.success ? "success"
                                   : "failure")
              << ", return " << filmed.total_reward << ", " << counted(filmed.steps, "step");
    if (cut.first > 0) std::cout << ", from step " << cut.first;
    if (cut.stride > 1) std::cout << ", a frame every " << cut.stride << " steps";
    // Drawn actions depend on the episodes before.
    if (options_.only != FilmedOutcomes::kAll && options_.policy == FilmedPolicy::kGreedy)
      std::cout << "; --first_episode " << kept.number;
    std::cout << std::endl;
  }

  // searched: how many episodes were looked through.
  void finish(std::int64_t searched) {
    writer_.finish();
    if (options_.only == FilmedOutcomes::kAll)
      std::cout << successes_ << " of " << episodes_ << " solved; ";
    else
      std::cout << episodes_ << " of " << options_.episodes << " " << outcome_name(options_) << " found in "
                << counted(searched, "episode") << "; ";
    std::cout << counted(writer_.frames(), "frame") << " of " << painter_.width() << " x " << painter_.height()
              << " in " << options_.output << std::endl;
  }

  static std::string outcome_name(const RenderOptions& options) {
    return options.only == FilmedOutcomes::kFailures ? "failures" : "successes";
  }

 private:
  static FramePainter make_painter(const RenderOptions& options, const VecEnv& environment, const std::string& subtitle,
                                   const std::vector<int>& memory_rows) {
    Canvas board;
    environment.draw(0, board);
    return {environment.info(), subtitle, board.rows(), board.columns(), options.scale, memory_rows};
  }

  // Of an episode in as long as it may last; the last one stands for several frames.
  int most_moments() const {
    return static_cast<int>(std::min(options_.seconds * options_.fps, 1e9)) - outcome_frames_ + 1;
  }

  const RenderOptions& options_;
  FramePainter painter_;
  VideoWriter writer_;
  int outcome_frames_;
  int episodes_ = 0, successes_ = 0;
};

// Whether the options ask for episodes that end so.
bool is_wanted(const RenderOptions& options, bool ended, bool success) {
  return options.only == FilmedOutcomes::kAll || (ended && success == (options.only == FilmedOutcomes::kSuccesses));
}

[[noreturn]] void refuse_none_found(const RenderOptions& options, const std::string& where) {
  throw UserError("--only " + Film::outcome_name(options) + ": there are none in " + where + "; '" + options.output +
                  "' is not written");
}

// "tmaze: active false, corridor_length 50 ..."
std::string task_text(const TaskConfig& task) {
  std::string text = task.name();
  for (const OptionValue& option : task.values()) text += ", " + option.name + " " + option.text;
  return text;
}

// Throws UserError unless the recorded episode, called `which`, can be in one film with `first`.
void check_recorded(const PlayedEpisode& episode, const PlayedEpisode& first, const std::string& which,
                    const std::string& file) {
  if (task_text(episode.task) != task_text(first.task))
    throw UserError(which +
                    " is of another task, or other options, than the one before; film them apart by --first_episode "
                    "and --episodes");
  if (first_difference(episode))
    throw UserError(which + " is not what the rules give; " + shell_command({"engram", "replay", file}) +
                    " says where it differs");
}

void film_recording(const std::string& file, const RenderOptions& options) {
  if (options.policy != FilmedPolicy::kGreedy || options.weights != WhichWeights::kBest || options.show_memory)
    throw UserError("--policy, --weights and --show-memory are about an agent; the recording '" + file + "' has none");
  const std::vector<PlayedEpisode> all = read_played_episodes(file);
  const auto count = static_cast<std::int64_t>(all.size());
  if (options.first_episode >= count)
    throw UserError("--first_episode " + std::to_string(options.first_episode) + ": the recording '" + file + "' has " +
                    std::to_string(count) + " episodes, counted from 0");
  std::vector<std::int64_t> chosen;
  std::int64_t next = options.first_episode;
  for (; next < count && std::ssize(chosen) < options.episodes; ++next) {
    const PlayedEpisode& episode = all[static_cast<std::size_t>(next)];
    if (is_wanted(options, episode.end != End::kNone, episode.success)) chosen.push_back(next);
  }
  if (chosen.empty()) refuse_none_found(options, "'" + file + "'");
  const auto at = [&](std::int64_t number) -> const PlayedEpisode& { return all[static_cast<std::size_t>(number)]; };
  for (const std::int64_t number : chosen)
    check_recorded(at(number), at(chosen[0]), "episode " + std::to_string(number) + " of '" + file + "'", file);

  std::optional<Film> film;
  for (int i = 1; const std::int64_t number : chosen) {
    const PlayedEpisode& episode = at(number);
    const auto environment = make_cpu_vec_env(episode.task, episode.seed, episode.purpose, 1, 1,
                                              static_cast<std::uint32_t>(episode.environment));
    environment->reset_all(episode.episode);
    const Decide decide = [&episode, t = std::size_t{0}](const VecEnv&) mutable {
      Decision decision;
      decision.action = episode.actions[t++];
      return decision;
    };
    const EpisodeToFilm kept{
        number, play_decisions(*environment, decide, static_cast<int>(episode.actions.size())), {}};
    environment->reset_all(episode.episode);
    if (!film) film.emplace(options, *environment, "as recorded", std::vector<int>{});
    film->add(episode.task, *environment, kept, i++, static_cast<int>(chosen.size()));
  }
  film->finish(next - options.first_episode);
}

// Films the episodes that play(number) plays in the environment, number by number.
void film_agent(const RenderOptions& options, const TaskConfig& task, std::uint64_t seed, const std::string& subtitle,
                const std::vector<int>& memory_rows, const std::function<EpisodeToFilm(std::int64_t)>& play) {
  std::optional<Film> film;
  const auto add = [&](const EpisodeToFilm& kept, int episode, int episodes) {
    const auto environment = unseen_episode(task, seed, static_cast<std::uint32_t>(kept.number));
    if (!film) film.emplace(options, *environment, subtitle, memory_rows);
    film->add(task, *environment, kept, episode, episodes);
  };
  if (options.only == FilmedOutcomes::kAll) {
    for (int i = 0; i < options.episodes; ++i) add(play(options.first_episode + i), i + 1, options.episodes);
    film->finish(options.episodes);
    return;
  }
  std::vector<EpisodeToFilm> found;
  int searched = 0;
  for (; searched < kMostSearched && std::ssize(found) < options.episodes; ++searched) {
    EpisodeToFilm kept = play(options.first_episode + searched);
    if (is_wanted(options, kept.played.ended, kept.played.success)) found.push_back(std::move(kept));
  }
  if (found.empty()) refuse_none_found(options, std::to_string(searched) + " episodes");
  for (int i = 1; const EpisodeToFilm& kept : found) add(kept, i++, static_cast<int>(found.size()));
  film->finish(searched);
}

}  // namespace

void describe_render(const CommandVisitor& visit) { describe_options<RenderOptions>("render", render_syntax(), visit); }

int run_render(const std::vector<std::string>& arguments) {
  RenderOptions options;
  OptionList own("");
  options.list_options(own);
  const CommandLine line = parse_command_line(arguments, own, render_syntax());
  if (line.help) {
    print_render_help(own, line.settings);
    return 0;
  }
  const std::optional<std::string> directory = run_directory(line, options);
  if (options.output.empty()) throw UserError("--output FILE is missing: the video to write, such as episodes.mp4");
  check_video_file(options.output);
  check_not_there("output", options.output, options.force);
  if (options.show_memory && options.policy == FilmedPolicy::kRandom)
    throw UserError("--show-memory needs an agent: random actions read no memory");
  use_threads(1);  // a single environment
  if (directory && std::filesystem::is_regular_file(*directory)) {
    film_recording(*directory, options);
    return 0;
  }

  Config config;
  std::string subtitle = "random policy";
  std::shared_ptr<AgentNetwork> network;
  if (options.policy != FilmedPolicy::kRandom) {
    TrainedAgent agent = load_trained_agent(*directory, options.weights, torch::kCPU);
    config = agent.config;
    network = agent.network;
    subtitle = config.memory.name() + ", " + (options.policy == FilmedPolicy::kGreedy ? "greedy" : "sampled") +
               " actions, " + name_of(options.weights) + " weights";
  } else {
    config =
        directory ? read_config(RunDirectory::open(*directory).config_file()) : Config::from_settings(line.settings);
  }

  const std::uint64_t seed = config.run.seed;
  std::optional<MemoryStrips> memory;
  if (options.show_memory) memory.emplace(network->backbone(), config.memory.name());
  std::optional<ShownPolicy> policy;
  Decide decide = random_policy(seed);
  if (network) {
    decide = [&](const VecEnv&) {
      const ActionChoice choice =
          options.policy == FilmedPolicy::kGreedy ? ActionChoice::kGreedy : ActionChoice::kSample;
      if (!memory) return filmed_decision(policy->act(choice));
      MemoryView view;
      Decision decision = filmed_decision(policy->act_and_view(choice, view));
      memory->add(view);
      return decision;
    };
  }
  film_agent(options, config.task, seed, subtitle, memory ? memory->rows() : std::vector<int>{},
             [&](std::int64_t number) {
               const auto index = static_cast<std::uint32_t>(number);
               const auto environment = unseen_episode(config.task, seed, index);
               if (network)
                 policy.emplace(*environment, network, torch::kFloat32, seed, evaluation_actions(kFirstUnseenEpisode),
                                evaluation_episode(index).environment);
               if (memory) memory->begin_episode();
               PlayedDecisions played = play_decisions(*environment, decide);
               return EpisodeToFilm{number, std::move(played), memory};
             });
  return 0;
}

}  // namespace engram
