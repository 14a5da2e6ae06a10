#include "apps/train/final_film.h"

#include <sstream>

#include "agents/run/trained/trained_agent.h"
#include "films/render_film.h"
#include "video/gif_writer.h"

namespace engram {
namespace {

constexpr double kFramesPerSecond = 10;
constexpr int kOutcomeFrames = 15;  // how long the end stands
constexpr int kMostMoments = 240;

}  // namespace

std::optional<FinalFilm> film_final_evaluation(const std::filesystem::path& run) {
  const TrainedAgent agent = load_trained_agent(run, WhichWeights::kBest, torch::kCPU);
  const TaskInfo task = agent.config.task.info();
  const FilmCut cut = film_cut(0, task.max_episode_steps, kMostMoments);
  const std::string subtitle = agent.config.memory.name() + ", final evaluation, greedy actions, best weights";
  std::ostringstream stream;
  std::optional<FramePainter> painter;
  std::optional<GifWriter> writer;
  film_first_episode(agent, [&](const FrameContents& contents) {
    if (!painter) {
      painter.emplace(task, subtitle, contents.board.rows(), contents.board.columns(), 1);
      writer.emplace(stream, painter->width(), painter->height(), kFramesPerSecond);
    }
    if (!contents.outcome && !cut.shows(contents.step, task.max_episode_steps)) return;
    const RgbImage frame = painter->paint(contents);
    for (int i = 0; i < (contents.outcome ? kOutcomeFrames : 1); ++i) writer->write(frame);
  });
  writer->finish();
  return FinalFilm{stream.str(), painter->width(), painter->height()};
}

}  // namespace engram
