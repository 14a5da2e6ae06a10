// engram render: a video of an agent at work.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>

#include "agents/shown_policy.h"
#include "agents/trained_agent.h"
#include "apps/command_line.h"
#include "apps/commands.h"
#include "apps/filmed_decision.h"
#include "apps/memory_strips.h"
#include "apps/played_weights.h"
#include "base/error.h"
#include "base/words.h"
#include "envs/episode_file.h"
#include "storage/settings.h"
#include "video/film.h"
#include "video/frame_painter.h"
#include "video/video_writer.h"

namespace engram {
namespace {

constexpr double kOutcomeSeconds = 1.5;  // how long the end of an episode stands

enum class FilmedPolicy { kGreedy, kSample, kRandom };

struct RenderOptions {
  std::string output;
  bool force = false;
  int episodes = 3;
  double fps = 10;
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
    list.add("fps", fps, {0.1, 120}, "frames, and so environment steps, per second");
    list.add("scale", scale, {1, 4}, "size of the picture; 1 is some 960 pixels wide");
    list_weights(list, weights);
    list.add("policy", policy,
             {{FilmedPolicy::kGreedy, "greedy"}, {FilmedPolicy::kSample, "sample"}, {FilmedPolicy::kRandom, "random"}},
             "the most probable action, one drawn from the agent's policy, or any action with equal chances");
    list.add("first_episode", first_episode, {0, 1'000'000}, "where in the sequence of evaluation episodes to begin");
    list.add("show-memory", show_memory,
             "also show, layer by layer, what the memory does: attention weights, write strengths, gates");
  }
};

void print_help(const OptionList& own, const Settings& settings) {
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

// What all films share: the painter and the file, and that each moment is a frame.
class Film {
 public:
  Film(const RenderOptions& options, const VecEnv& environment, const std::string& subtitle, int memory_strips)
      : painter_(make_painter(options, environment, subtitle, memory_strips)),
        writer_(options.output, painter_.width(), painter_.height(), options.fps),
        outcome_frames_(std::max(1, static_cast<int>(std::ceil(kOutcomeSeconds * options.fps)))) {}

  // Films an episode of the task, which it reports, up to its end or `most_steps`. The last moment stands for a while.
  void add(const TaskConfig& task, VecEnv& environment, const Decide& decide, int episode, int episodes,
           int most_steps = std::numeric_limits<int>::max()) {
    const auto show = [&](const FrameContents& contents) {
      const RgbImage frame = painter_.paint(contents);
      const bool last = contents.outcome || contents.step == most_steps;
      for (int i = 0; i < (last ? outcome_frames_ : 1); ++i) writer_.write(frame);
    };
    const FilmedEpisode filmed = film_episode(task, environment, decide, episode, episodes, show, most_steps);
    const bool ended = environment.end_N()[0] != End::kNone;
    successes_ += filmed.success ? 1 : 0;
    std::cout << "episode " << episode << ": "
              << (!ended           ? "left"
                  : filmed.success ? "success"
                                   : "failure")
              << ", return " << filmed.total_reward << ", " << counted(filmed.steps, "step") << std::endl;
  }

  void finish(int episodes, const std::string& output) {
    writer_.finish();
    std::cout << successes_ << " of " << episodes << " solved; " << counted(writer_.frames(), "frame") << " of "
              << painter_.width() << " x " << painter_.height() << " in " << output << std::endl;
  }

 private:
  static FramePainter make_painter(const RenderOptions& options, const VecEnv& environment, const std::string& subtitle,
                                   int memory_strips) {
    Canvas board;
    environment.draw(0, board);
    return {environment.info(), subtitle, board.rows(), board.columns(), options.scale, memory_strips};
  }

  FramePainter painter_;
  VideoWriter writer_;
  int outcome_frames_;
  int successes_ = 0;
};

// "tmaze: active false, corridor_length 50 ..."
std::string task_text(TaskConfig task) {
  std::string text = task.name();
  const OptionList options = task.options();
  for (const Option& option : options.options()) text += ", " + option.name + " " + option.get();
  return text;
}

// Those of the file's episodes that the options ask for. Throws UserError unless one film can show them.
std::vector<PlayedEpisode> episodes_to_film(const std::string& file, const RenderOptions& options) {
  if (options.policy != FilmedPolicy::kGreedy || options.weights != WhichWeights::kBest || options.show_memory)
    throw UserError("--policy, --weights and --show-memory are about an agent; the recording '" + file + "' has none");
  std::vector<PlayedEpisode> all = read_played_episodes(file);
  const auto first = static_cast<std::size_t>(options.first_episode);
  if (first >= all.size())
    throw UserError("--first_episode " + std::to_string(first) + ": the recording '" + file + "' has " +
                    counted(all.size(), "episode") + ", counted from 0");
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first));
  if (all.size() > static_cast<std::size_t>(options.episodes)) all.erase(all.begin() + options.episodes, all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string which = "episode " + std::to_string(first + i) + " of '" + file + "'";
    if (task_text(all[i].task) != task_text(all[0].task))
      throw UserError(which +
                      " is of another task, or other options, than the one before; film them apart by "
                      "--first_episode and --episodes");
    if (all[i].environment != 0)
      throw UserError(which + " was played in environment " + std::to_string(all[i].environment) +
                      "; films show those of environment 0");
    if (first_difference(all[i]))
      throw UserError(which + " is not what the rules give; " + shell_command({"engram", "replay", file}) +
                      " says where it differs");
  }
  return all;
}

void film_recording(const std::string& file, const RenderOptions& options) {
  const std::vector<PlayedEpisode> played = episodes_to_film(file, options);
  std::optional<Film> film;
  const auto count = static_cast<int>(played.size());
  for (int i = 0; i < count; ++i) {
    const PlayedEpisode& episode = played[static_cast<std::size_t>(i)];
    const auto environment = make_cpu_vec_env(episode.task, episode.seed, episode.purpose, 1, 1);
    environment->reset_all(episode.episode);
    if (!film) film.emplace(options, *environment, "as recorded", 0);
    const Decide decide = [&episode, t = std::size_t{0}](const VecEnv&) mutable {
      Decision decision;
      decision.action = episode.actions[t++];
      return decision;
    };
    film->add(episode.task, *environment, decide, i + 1, count, static_cast<int>(episode.actions.size()));
  }
  film->finish(count, options.output);
}

}  // namespace

void describe_render(const CommandVisitor& visit) { describe_options<RenderOptions>("render", render_syntax(), visit); }

int run_render(const std::vector<std::string>& arguments) {
  RenderOptions options;
  OptionList own("");
  options.list_options(own);
  const CommandLine line = parse_command_line(arguments, own, render_syntax());
  if (line.help) {
    print_help(own, line.settings);
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
  const std::uint32_t first = kFirstUnseenEpisode + static_cast<std::uint32_t>(options.first_episode);
  const auto environment = make_cpu_vec_env(config.task, seed, Purpose::kEvaluation, 1, 1);
  environment->reset_all(first);
  std::optional<MemoryStrips> memory;
  if (options.show_memory) memory.emplace(network->backbone(), config.memory.name());
  std::optional<ShownPolicy> policy;
  Decide decide = random_policy(seed);
  if (network) {
    policy.emplace(*environment, network, torch::kFloat32, seed, first);
    decide = [&](const VecEnv&) {
      const ActionChoice choice =
          options.policy == FilmedPolicy::kGreedy ? ActionChoice::kGreedy : ActionChoice::kSample;
      if (!memory) return filmed_decision(policy->act(choice));
      MemoryView view;
      Decision decision = filmed_decision(policy->act_and_view(choice, view));
      decision.memory = memory->add(view);
      return decision;
    };
  }

  Film film(options, *environment, subtitle, memory ? memory->count() : 0);
  for (int episode = 1; episode <= options.episodes; ++episode) {
    if (policy) policy->begin_episodes();
    if (memory) memory->begin_episode();
    film.add(config.task, *environment, decide, episode, options.episodes);
    environment->reset_finished();
  }
  film.finish(options.episodes, options.output);
  return 0;
}

}  // namespace engram
