#include "apps/train/final_film.h"

#include <cstdint>
#include <sstream>

#include "agents/act/shown_policy.h"
#include "agents/run/trained_agent.h"
#include "apps/render/filmed_decision.h"
#include "video/film.h"
#include "video/gif_writer.h"

namespace engram {
namespace {

constexpr double kFramesPerSecond = 10;
constexpr int kOutcomeFrames = 15;  // how long the end stands
constexpr int kMostMoments = 240;

}  // namespace

std::optional<FinalFilm> film_final_evaluation(const std::filesystem::path& run) {
  const TrainedAgent agent = load_trained_agent(run, WhichWeights::kBest, torch::kCPU);
  const std::uint64_t seed = agent.config.run.seed;
  const auto environment = make_cpu_vec_env(agent.config.task, seed, Purpose::kEvaluation, 1, 1);
  environment->reset_all(kFirstUnseenEpisode);
  ShownPolicy policy(*environment, agent.network, torch::kFloat32, seed, kFirstUnseenEpisode);

  Canvas board;
  environment->draw(0, board);
  const std::string subtitle = agent.config.memory.name() + ", final evaluation, greedy actions, best weights";
  const FramePainter painter(environment->info(), subtitle, board.rows(), board.columns(), 1);
  std::ostringstream stream;
  GifWriter writer(stream, painter.width(), painter.height(), kFramesPerSecond);
  const FilmCut cut = film_cut(0, environment->info().max_episode_steps, kMostMoments);
  film_episode(
      agent.config.task, *environment,
      [&](const VecEnv&) { return filmed_decision(policy.act(ActionChoice::kGreedy)); }, 1, 1,
      [&](const FrameContents& contents) {
        if (!contents.outcome && !cut.shows(contents.step, environment->info().max_episode_steps)) return;
        const RgbImage frame = painter.paint(contents);
        for (int i = 0; i < (contents.outcome ? kOutcomeFrames : 1); ++i) writer.write(frame);
      });
  writer.finish();
  return FinalFilm{stream.str(), painter.width(), painter.height()};
}

}  // namespace engram
