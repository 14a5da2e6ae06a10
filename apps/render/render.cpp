// engram render: a video of an agent at work.
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "agents/run/trained/played_weights.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/threads.h"
#include "base/error.h"
#include "base/text/words.h"
#include "films/render_film.h"
#include "storage/settings.h"
#include "video/video_writer.h"

namespace engram {
namespace {

enum class FilmedPolicy { kGreedy, kSample, kRandom };
struct RenderOptions {
  FilmRequest film;
  bool force = false;
  WhichWeights weights = WhichWeights::kBest;
  FilmedPolicy policy = FilmedPolicy::kGreedy;
  bool show_memory = false;

  void list_options(OptionList& list) {
    list.add("output", film.output,
             "film to write: .mp4 (H.264, plays in a browser), .webm (VP8), .avi (MJPG) or .gif (animated)");
    list.add("force", force, "replace the file of --output if it is there");
    film.list_options(list);
    list_weights(list, weights);
    list.add("policy", policy,
             {{FilmedPolicy::kGreedy, "greedy"}, {FilmedPolicy::kSample, "sample"}, {FilmedPolicy::kRandom, "random"}},
             "the most probable action, one drawn from the agent's policy, or any action with equal chances");
    list.add("show-memory", show_memory,
             "also show, layer by layer, what the memory does: attention weights, write strengths and gates, or the "
             "state");
  }
};

void print_render_help(const OptionList& own, const CommandLine& line) {
  Config config = Config::from_settings(line.settings);
  std::cout << help_head({"engram render DIR --output FILE [--episodes N] [--policy greedy|sample|random] ...",
                          "engram render --policy random --task.name NAME [--task.key value ...] --output FILE ...",
                          "engram render RECORDING --output FILE [--episodes N] [--first_episode N] ..."},
                         {"Films the agent of the run directory DIR: the board with what the agent sees of it framed, "
                          "the observation itself, the step and its reward, the probabilities of the next action with "
                          "their Q values, or the value V of the moment where the learner's critic is one of states, "
                          "what the agent has to remember once it no longer sees it, and at last "
                          "whether the episode was a success. The episodes are the ones that engram evaluate --trace "
                          "plays, which training never used. Random actions need no agent: instead of DIR a task can "
                          "be given. RECORDING is a file of engram play --record: its episodes are filmed."})
            << "Options\n";
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

void print_episode(const EpisodeOfFilm& episode, const RenderOptions& options) {
  const auto& [steps, total_reward, success] = episode.filmed;
  std::cout << "episode " << episode.place << ": "
            << (!episode.ended ? "left"
                : success      ? "success"
                               : "failure")
            << ", return " << total_reward << ", " << counted(steps, "step");
  if (episode.cut.first > 0) std::cout << ", from step " << episode.cut.first;
  if (episode.cut.stride > 1) std::cout << ", a frame every " << episode.cut.stride << " steps";
  // Drawn actions depend on the episodes before.
  if (options.film.only != FilmedOutcomes::kAll && options.policy == FilmedPolicy::kGreedy)
    std::cout << "; --first_episode " << episode.number;
  std::cout << std::endl;
}

void print_film(const RenderedFilm& film, const FilmRequest& request) {
  if (request.only == FilmedOutcomes::kAll)
    std::cout << film.successes << " of " << film.episodes << " solved; ";
  else
    std::cout << film.episodes << " of " << request.episodes << " " << outcome_name(request.only) << " found in "
              << counted(film.searched, "episode") << "; ";
  std::cout << counted(film.frames, "frame") << " of " << film.width << " x " << film.height << " in " << request.output
            << std::endl;
}

// What the command line asks for: of `directory`, which may be a recording, or of random actions in a task.
RenderedFilm film_what_is_asked(const std::optional<std::string>& directory, const Settings& settings,
                                const RenderOptions& options) {
  const auto take = [&options](const EpisodeOfFilm& episode) { print_episode(episode, options); };
  if (directory && std::filesystem::is_regular_file(*directory)) {
    if (options.policy != FilmedPolicy::kGreedy || options.weights != WhichWeights::kBest || options.show_memory)
      throw UserError("--policy, --weights and --show-memory are about an agent; the recording '" + *directory +
                      "' has none");
    return film_recording(*directory, options.film, take);
  }
  if (options.policy == FilmedPolicy::kRandom)
    return film_random_play(
        directory ? read_config(RunDirectory::open(*directory).config_file()) : Config::from_settings(settings),
        options.film, take);
  return film_agent(load_trained_agent(*directory, options.weights, torch::kCPU),
                    options.policy == FilmedPolicy::kGreedy ? ActionChoice::kGreedy : ActionChoice::kSample,
                    options.show_memory, options.film, take);
}

}  // namespace

void describe_render(const CommandVisitor& visit) { describe_options<RenderOptions>("render", render_syntax(), visit); }

int run_render(const std::vector<std::string>& arguments) {
  RenderOptions options;
  const auto line = command_line_of(arguments, options, render_syntax(), print_render_help);
  if (!line) return 0;
  const std::optional<std::string> directory = run_directory(*line, options);
  if (options.film.output.empty())
    throw UserError("--output FILE is missing: the video to write, such as episodes.mp4");
  check_video_file(options.film.output);
  check_not_there("output", options.film.output, options.force);
  if (options.show_memory && options.policy == FilmedPolicy::kRandom)
    throw UserError("--show-memory needs an agent: random actions read no memory");
  use_threads(1);  // a single environment
  print_film(film_what_is_asked(directory, line->settings, options), options.film);
  return 0;
}

}  // namespace engram
