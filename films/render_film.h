// Films of episodes: engram render as functions, and the moments of one episode for who has another use for them.
// They compose agents with video/, which is optional and knows no agents; so they have a room of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agents/act/policy.h"
#include "agents/run/trained/trained_agent.h"
#include "base/options.h"
#include "video/film.h"
#include "video/frame_painter.h"
#include "video/rgb_image.h"

namespace engram {

enum class FilmedOutcomes { kAll, kFailures, kSuccesses };
enum class SkipTo { kStart, kReward };

struct FilmRequest {
  static constexpr int kLeadSteps = 10;       // shown before what kReward skips to
  static constexpr int kMostSearched = 1000;  // episodes that are looked through for wanted outcomes

  std::string output;                               // .mp4, .webm, .avi or .gif
  std::function<void(const RgbImage&)> take_frame;  // where it is set, gets the frames in place of the file
  int episodes = 3;
  FilmedOutcomes only = FilmedOutcomes::kAll;
  double fps = 10;
  double seconds = 20;              // the longest that an episode lasts in the film
  SkipTo skip_to = SkipTo::kStart;  // kReward: to PlayedDecisions::turning_point
  int scale = 1;                    // of the picture
  std::int64_t first_episode = 0;   // of the unseen ones, or of the recording

  void list_options(OptionList& list);  // of all but the file
};

// "failures" or "successes".
const char* outcome_name(FilmedOutcomes only);

struct EpisodeOfFilm {
  int place;            // in the film, from 1
  std::int64_t number;  // as FilmRequest::first_episode counts
  bool ended;           // or it was left
  FilmedEpisode filmed;
  FilmCut cut;
};

struct RenderedFilm {
  int episodes = 0, successes = 0;
  std::int64_t searched = 0;  // episodes that were looked through
  int width = 0, height = 0;  // pixels
  std::int64_t frames = 0;
};

// Each writes a film, passes its episodes to `take` as they are filmed, and throws UserError, without a file, where no
// episode has the wanted outcome. `show_memory`: also what the agent's memory does; UserError if it has none.
using TakeEpisode = std::function<void(const EpisodeOfFilm&)>;
RenderedFilm film_agent(const TrainedAgent& agent, ActionChoice choice, bool show_memory, const FilmRequest& request,
                        const TakeEpisode& take);
// Of random actions in the config's task, by its seed.
RenderedFilm film_random_play(const Config& config, const FilmRequest& request, const TakeEpisode& take);
// Of a file of engram play --record. Throws UserError also for a damaged one, and for episodes of several tasks.
RenderedFilm film_recording(const std::string& file, const FilmRequest& request, const TakeEpisode& take);

// Plays the first unseen episode with the most probable actions, on the network's device, and shows its moments.
FilmedEpisode film_first_episode(const TrainedAgent& agent, const std::function<void(const FrameContents&)>& show);

}  // namespace engram
