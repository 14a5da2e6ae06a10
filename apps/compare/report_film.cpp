// The film strip of a report.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "apps/compare/report.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "films/render_film.h"
#include "video/film_strip.h"
#include "video/png.h"

namespace engram {
namespace {

constexpr std::size_t kMoments = 5;

// Where each phase begins and how it ends, and between them the middles of the longest stretches.
std::vector<FrameContents> chosen_moments(const std::vector<FrameContents>& frames) {
  std::set<std::size_t> chosen = {0, frames.size() - 1};
  for (std::size_t i = 1; i < frames.size() && chosen.size() < kMoments; ++i)
    if (frames[i].phase != frames[i - 1].phase) chosen.insert(i);
  while (chosen.size() < std::min(kMoments, frames.size())) {
    std::size_t longest = 0, middle = 0;
    for (auto from = chosen.begin(), to = std::next(from); to != chosen.end(); ++from, ++to) {
      if (*to - *from <= longest) continue;
      longest = *to - *from;
      middle = *from + longest / 2;
    }
    chosen.insert(middle);
  }
  std::vector<FrameContents> moments;
  for (const std::size_t i : chosen) moments.push_back(frames[i]);
  return moments;
}

FilmStripRow film(const RunResult& run) {
  const TrainedAgent agent = load_trained_agent(run.plan.folder, WhichWeights::kBest, torch::kCPU);
  std::vector<FrameContents> frames;
  const FilmedEpisode filmed =
      film_first_episode(agent, [&](const FrameContents& contents) { frames.push_back(contents); });
  const std::string text =
      formatted(", seed %llu: %s, return %.4g, %s", static_cast<unsigned long long>(agent.config.run.seed),
                filmed.success ? "success" : "failure", filmed.total_reward, counted(filmed.steps, "step").c_str());
  return {run.plan.backbone + text, agent.config.task.info().observation, chosen_moments(frames)};
}

}  // namespace

FilmStrip film_runs(const std::vector<const RunResult*>& runs) {
  std::vector<FilmStripRow> rows;
  std::string damaged, missing;
  for (const RunResult* run : runs) {
    if (!has_best_weights(*run)) {
      missing += (missing.empty() ? " Not filmed, whose best weights are not there: " : ", ") + run->plan.backbone;
      continue;
    }
    try {
      rows.push_back(film(*run));
    } catch (const UserError& error) {  // weights that are damaged
      damaged += std::string(" Not filmed: ") + error.what() + ".";
    }
  }
  const std::string left_out = missing + (missing.empty() ? "" : ".") + damaged;
  if (rows.empty()) return {"", "There is no episode to show." + left_out};
  return {
      encode_png(film_strip(rows)),
      "An episode of " + runs.front()->plan.task +
          " that training has not seen, played greedily by the best weights of each backbone's middle run (by final "
          "success), or of the nearest to it whose weights are there. Each moment shows the board and, beside it, what "
          "the agent sees." +
          left_out};
}

}  // namespace engram
