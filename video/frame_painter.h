// FramePainter: composes the frames of a filmed episode. Pure drawing: the same contents give the same pixels.
//
// A frame shows one moment t of an episode: the board, the observation o_t that the agent sees, what it has to remember
// but no longer sees, the last action a_{t-1} and its reward, and, if the episode goes on, what the policy makes of
// o_t: pi(. | o_t) and the action a_t it takes; where asked for, also what its memory did.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "envs/vec/vec_env.h"
#include "video/board_view.h"
#include "video/memory_panel.h"
#include "video/rgb_image.h"

namespace engram {

// What the agent does at one step.
struct Decision {
  int action = 0;
  std::vector<float> probabilities;       // one for each action; empty: not known
  std::vector<float> q_values;            // one for each action; empty: not known
  std::optional<float> state_value = {};  // of o_t and what it remembers, whatever the action; none: not known
  std::vector<MemoryStrip> memory = {};   // over the whole episode, of which the steps up to this one are shown
  std::vector<float> numbers = {};        // of a continuous action, instead of all above but the state's value
};

struct EpisodeOutcome {
  bool success;
  double total_reward;
};

struct FrameContents {
  int episode = 1;   // the number of the episode in the film, from 1 ...
  int episodes = 1;  // ... to this
  int step = 0;      // t: steps done so far
  std::string phase;
  std::optional<Cue> cue;  // none while the agent sees it
  Canvas board;
  std::vector<std::byte> observation;     // o_t ...
  ShownObservation seen;                  // ... as people read it
  std::optional<int> last_action;         // a_{t-1}; none at t = 0
  std::vector<float> last_numbers;        // or of a continuous action
  double last_reward = 0;                 // r_{t-1}
  double total_reward = 0;                // r_0 + ... + r_{t-1}
  std::optional<Decision> decision;       // about o_t; none once the episode has ended
  bool has_policy = true;                 // whether the decisions come from probabilities, which then have their place
  std::vector<MemoryStrip> memory;        // of the last decision
  std::optional<EpisodeOutcome> outcome;  // of an episode that has ended
};

class FramePainter {
 public:
  // `subtitle` says who acts ("greedy policy, best weights"); `scale` >= 1 multiplies every length. Board size in
  // cells. `memory_rows`: of each strip of the panel that shows the memory; empty: there is none.
  FramePainter(TaskInfo task, std::string subtitle, int board_rows, int board_columns, int scale,
               const std::vector<int>& memory_rows = {});

  // Even, as video codecs want.
  int width() const { return width_; }
  int height() const { return height_; }

  // Of a task with more actions only the likeliest have a row.
  static constexpr int kMostActionRows = 10;

  // Throws std::invalid_argument for contents of another size (board, observation, actions) than the painter's.
  RgbImage paint(const FrameContents& contents) const;

  // Where things lie in a frame.
  Box board_cell(int row, int column) const { return board_.cell(row, column); }
  Box observation(const ShownObservation& seen) const;
  Box cue_square() const;  // of the cue's colour
  const MemoryPanel& memory() const { return memory_; }
  // Of the full width at probability 1; row i is action i where all have one. Of a continuous action row i is number i,
  // from its least to its most.
  Box probability_track(int row) const;
  Box state_value() const;                // above the rows of the actions, in none: it is no action's
  Box footer() const { return footer_; }  // the banner at the end, the progress bar before

 private:
  void paint_header(RgbImage& image, const FrameContents& contents) const;
  void paint_cue(RgbImage& image, const Cue& cue) const;
  void paint_status(RgbImage& image, const FrameContents& contents) const;
  void paint_actions(RgbImage& image, const FrameContents& contents) const;
  void paint_numbers(RgbImage& image, const std::vector<float>& numbers) const;
  void paint_footer(RgbImage& image, const FrameContents& contents) const;

  TaskInfo task_;
  std::string subtitle_;
  int scale_;
  BoardLayout board_;
  Box header_, observation_, status_, actions_, footer_;
  bool has_memory_;
  MemoryPanel memory_;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace engram
