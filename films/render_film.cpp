#include "films/render_film.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agents/act/shown_policy.h"
#include "agents/play/evaluator.h"
#include "agents/run/trained/played_weights.h"
#include "base/error.h"
#include "base/text/words.h"
#include "envs/recorded/episode_file.h"
#include "films/memory_strips.h"
#include "video/video_writer.h"

namespace engram {
namespace {

constexpr double kOutcomeSeconds = 1.5;  // how long the end of an episode stands

// An episode to film, with what its memory did where that is shown.
struct EpisodeToFilm {
  std::int64_t number;
  PlayedDecisions played;
  std::optional<MemoryStrips> memory = {};
};

// What all films share: the painter and the file, and that each moment is a frame.
class FilmWriter {
 public:
  // memory_rows: as FramePainter has them.
  FilmWriter(const FilmRequest& request, const VecEnv& environment, const std::string& subtitle,
             const std::vector<int>& memory_rows)
      : request_(request),
        painter_(make_painter(request, environment, subtitle, memory_rows)),
        outcome_frames_(std::max(1, static_cast<int>(std::ceil(kOutcomeSeconds * request.fps)))) {
    if (!request.take_frame) writer_.emplace(request.output, painter_.width(), painter_.height(), request.fps);
  }

  // Films an episode of the task. The environment must stand at its start. The last moment stands for a while.
  void add(const TaskConfig& task, VecEnv& environment, const EpisodeToFilm& kept, int episodes,
           const TakeEpisode& take) {
    const PlayedDecisions& played = kept.played;
    const auto last = static_cast<int>(played.decisions.size());
    const int first =
        request_.skip_to == SkipTo::kStart ? 0 : std::max(0, played.turning_point - FilmRequest::kLeadSteps);
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
      for (int i = 0; i < (contents.step == last ? outcome_frames_ : 1); ++i) write(frame);
    };
    const int place = ++film_.episodes;
    const FilmedEpisode filmed = film_episode(task, environment, decide, place, episodes, show, last);
    film_.successes += filmed.success ? 1 : 0;
    take({place, kept.number, played.ended, filmed, cut});
  }

  // searched: how many episodes were looked through.
  RenderedFilm finish(std::int64_t searched) {
    if (writer_) writer_->finish();
    film_.searched = searched;
    film_.width = painter_.width();
    film_.height = painter_.height();
    return film_;
  }

 private:
  static FramePainter make_painter(const FilmRequest& request, const VecEnv& environment, const std::string& subtitle,
                                   const std::vector<int>& memory_rows) {
    Canvas board;
    environment.draw(0, board);
    return {environment.info(), subtitle, board.rows(), board.columns(), request.scale, memory_rows};
  }

  void write(const RgbImage& frame) {
    if (writer_)
      writer_->write(frame);
    else
      request_.take_frame(frame);
    ++film_.frames;
  }
  // Of an episode in as long as it may last; the last one stands for several frames.
  int most_moments() const {
    return static_cast<int>(std::min(request_.seconds * request_.fps, 1e9)) - outcome_frames_ + 1;
  }

  const FilmRequest& request_;
  FramePainter painter_;
  std::optional<VideoWriter> writer_;
  int outcome_frames_;
  RenderedFilm film_;
};

// Whether the request is for episodes that end so.
bool is_wanted(const FilmRequest& request, bool ended, bool success) {
  return request.only == FilmedOutcomes::kAll || (ended && success == (request.only == FilmedOutcomes::kSuccesses));
}

[[noreturn]] void refuse_none_found(const FilmRequest& request, const std::string& where) {
  throw UserError(std::string("--only ") + outcome_name(request.only) + ": there are none in " + where +
                  (request.take_frame ? "" : "; '" + request.output + "' is not written"));
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

// Films the episodes that play(number) plays, number by number, among the unseen ones of the config's seed.
RenderedFilm film_played(const FilmRequest& request, const Config& config, const std::string& subtitle,
                         const std::vector<int>& memory_rows, const std::function<EpisodeToFilm(std::int64_t)>& play,
                         const TakeEpisode& take) {
  std::optional<FilmWriter> film;
  const auto add = [&](const EpisodeToFilm& kept, int episodes) {
    const auto environment = unseen_episode(config.task, config.run.seed, static_cast<std::uint32_t>(kept.number));
    if (!film) film.emplace(request, *environment, subtitle, memory_rows);
    film->add(config.task, *environment, kept, episodes, take);
  };
  if (request.only == FilmedOutcomes::kAll) {
    for (int i = 0; i < request.episodes; ++i) add(play(request.first_episode + i), request.episodes);
    return film->finish(request.episodes);
  }
  std::vector<EpisodeToFilm> found;
  int searched = 0;
  for (; searched < FilmRequest::kMostSearched && std::ssize(found) < request.episodes; ++searched) {
    EpisodeToFilm kept = play(request.first_episode + searched);
    if (is_wanted(request, kept.played.ended, kept.played.success)) found.push_back(std::move(kept));
  }
  if (found.empty()) refuse_none_found(request, std::to_string(searched) + " episodes");
  for (const EpisodeToFilm& kept : found) add(kept, static_cast<int>(found.size()));
  return film->finish(searched);
}

// An agent at work in an environment, of which it shows what a film does.
class FilmedAgent {
 public:
  FilmedAgent(const TrainedAgent& agent, ActionChoice choice) : agent_(agent), choice_(choice) {}

  // An unseen episode at its start, in which decide() acts from now on.
  std::unique_ptr<VecEnv> begin(std::uint32_t index) {
    const std::uint64_t seed = agent_.config.run.seed;
    auto environment = unseen_episode(agent_.config.task, seed, index);
    environment_ = environment.get();
    policy_.emplace(*environment, agent_.network, torch::kFloat32, seed, evaluation_actions(kFirstUnseenEpisode),
                    evaluation_episode(index).environment);
    return environment;
  }
  // `memory`: gets what the agent's memory did; null: nobody asks.
  Decision decide(MemoryStrips* memory = nullptr) {
    MemoryView view;
    const ShownPolicy::Step step = memory == nullptr ? policy_->act(choice_) : policy_->act_and_view(choice_, view);
    if (memory != nullptr) memory->add(view);
    const auto row = [](const torch::Tensor& numbers_NK) {
      const torch::Tensor numbers_K = numbers_NK[0].contiguous();
      return std::vector<float>(numbers_K.data_ptr<float>(), numbers_K.data_ptr<float>() + numbers_K.numel());
    };
    const ActionSpec& spec = environment_->info().action;
    Decision decision = decision_of(spec, step.action_N);
    if (!spec.continuous()) decision.probabilities = row(step.probabilities_NA);
    if (policy_->values_are_of_actions())
      decision.q_values = row(step.value_NK);
    else
      decision.state_value = row(step.value_NK).front();
    return decision;
  }

 private:
  const TrainedAgent& agent_;
  ActionChoice choice_;
  const VecEnv* environment_ = nullptr;
  std::optional<ShownPolicy> policy_;
};

}  // namespace

void FilmRequest::list_options(OptionList& list) {
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
  list.add("first_episode", first_episode, {0, 1'000'000}, "where in the sequence of evaluation episodes to begin");
}

const char* outcome_name(FilmedOutcomes only) { return only == FilmedOutcomes::kFailures ? "failures" : "successes"; }

RenderedFilm film_agent(const TrainedAgent& agent, ActionChoice choice, bool show_memory, const FilmRequest& request,
                        const TakeEpisode& take) {
  const std::string name = agent.config.memory.name();
  std::optional<MemoryStrips> memory;
  if (show_memory) memory.emplace(agent.network->backbone(), name);
  FilmedAgent filmed(agent, choice);
  const auto play = [&](std::int64_t number) {
    const auto environment = filmed.begin(static_cast<std::uint32_t>(number));
    if (memory) memory->begin_episode();
    PlayedDecisions played =
        play_decisions(*environment, [&](const VecEnv&) { return filmed.decide(memory ? &*memory : nullptr); });
    return EpisodeToFilm{number, std::move(played), memory};
  };
  const std::string subtitle = name + ", " + (choice == ActionChoice::kGreedy ? "greedy" : "sampled") + " actions, " +
                               name_of(agent.weights) + " weights";
  return film_played(request, agent.config, subtitle, memory ? memory->rows() : std::vector<int>{}, play, take);
}

RenderedFilm film_random_play(const Config& config, const FilmRequest& request, const TakeEpisode& take) {
  const Decide decide = random_policy(config.run.seed);
  const auto play = [&](std::int64_t number) {
    const auto environment = unseen_episode(config.task, config.run.seed, static_cast<std::uint32_t>(number));
    return EpisodeToFilm{number, play_decisions(*environment, decide)};
  };
  return film_played(request, config, "random policy", {}, play, take);
}

RenderedFilm film_recording(const std::string& file, const FilmRequest& request, const TakeEpisode& take) {
  const std::vector<PlayedEpisode> all = read_played_episodes(file);
  const auto count = static_cast<std::int64_t>(all.size());
  if (request.first_episode >= count)
    throw UserError("--first_episode " + std::to_string(request.first_episode) + ": the recording '" + file + "' has " +
                    std::to_string(count) + " episodes, counted from 0");
  std::vector<std::int64_t> chosen;
  std::int64_t next = request.first_episode;
  for (; next < count && std::ssize(chosen) < request.episodes; ++next) {
    const PlayedEpisode& episode = all[static_cast<std::size_t>(next)];
    if (is_wanted(request, episode.end != End::kNone, episode.success)) chosen.push_back(next);
  }
  if (chosen.empty()) refuse_none_found(request, "'" + file + "'");
  const auto at = [&](std::int64_t number) -> const PlayedEpisode& { return all[static_cast<std::size_t>(number)]; };
  for (const std::int64_t number : chosen)
    check_recorded(at(number), at(chosen[0]), "episode " + std::to_string(number) + " of '" + file + "'", file);

  std::optional<FilmWriter> film;
  for (const std::int64_t number : chosen) {
    const PlayedEpisode& episode = at(number);
    const auto environment = make_cpu_vec_env(episode.task, episode.seed, episode.purpose, 1, 1,
                                              static_cast<std::uint32_t>(episode.environment));
    environment->reset_all(episode.episode);
    const Decide decide = [&episode, t = std::size_t{0}](const VecEnv& current) mutable {
      const ActionSpec& spec = current.info().action;
      const auto words = static_cast<std::size_t>(spec.words());
      return decision_of(spec, std::span(episode.actions).subspan(t++ * words, words));
    };
    const EpisodeToFilm kept{number, play_decisions(*environment, decide, static_cast<int>(episode.rewards.size()))};
    environment->reset_all(episode.episode);
    if (!film) film.emplace(request, *environment, "as recorded", std::vector<int>{});
    film->add(episode.task, *environment, kept, static_cast<int>(chosen.size()), take);
  }
  return film->finish(next - request.first_episode);
}

FilmedEpisode film_first_episode(const TrainedAgent& agent, const std::function<void(const FrameContents&)>& show) {
  FilmedAgent filmed(agent, ActionChoice::kGreedy);
  const auto environment = filmed.begin(0);
  return film_episode(
      agent.config.task, *environment, [&](const VecEnv&) { return filmed.decide(); }, 1, 1, show);
}

}  // namespace engram
