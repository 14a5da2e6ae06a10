#include "video/frame_painter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "video/drawing.h"

namespace engram {
namespace {

// Lengths at scale 1, in pixels.
constexpr int kMargin = 24;
constexpr int kGap = 28;  // between blocks
constexpr int kHeaderHeight = 36;
constexpr int kLabelHeight = 24;  // the line above a block that says what it is
constexpr int kObservationSize = 140;
constexpr int kStatusWidth = 236;
constexpr int kHiddenWidth = 92;
constexpr int kActionRowHeight = 26;
constexpr int kActionNameWidth = 112;
constexpr int kTrackWidth = 148;
constexpr int kPanelWidth = kObservationSize + kGap + kStatusWidth;
constexpr int kFooterHeight = 52;

int even(int length) { return length + length % 2; }

void require_count(const char* what, std::size_t count, int expected) {
  if (count != static_cast<std::size_t>(expected)) {
    throw std::invalid_argument("FramePainter: " + std::to_string(count) + " " + what + " instead of " +
                                std::to_string(expected));
  }
}

void require_action(int action, int num_actions) {
  if (action < 0 || action >= num_actions) {
    throw std::invalid_argument("FramePainter: action " + std::to_string(action) + " of " +
                                std::to_string(num_actions));
  }
}

// All of them in their order; of more than `most` the likeliest ones, the chosen one included, or, where no odds are
// known, the chosen one alone.
std::vector<int> listed_actions(const std::optional<Decision>& decision, int num_actions, int most) {
  std::vector<int> actions(static_cast<std::size_t>(num_actions));
  std::iota(actions.begin(), actions.end(), 0);
  if (num_actions <= most) return actions;
  if (!decision) return {};
  if (decision->probabilities.empty()) return {decision->action};
  std::ranges::stable_sort(actions, std::greater{},
                           [&](int action) { return decision->probabilities[static_cast<std::size_t>(action)]; });
  const auto end = actions.begin() + most, chosen = std::ranges::find(actions, decision->action);
  if (chosen >= end) std::iter_swap(chosen, end - 1);
  actions.erase(end, actions.end());
  return actions;
}

}  // namespace

FramePainter::FramePainter(TaskInfo task, std::string subtitle, int board_rows, int board_columns, int scale,
                           const std::vector<int>& memory_rows)
    : task_(std::move(task)),
      subtitle_(std::move(subtitle)),
      scale_(scale),
      board_(BoardLayout::of_film(board_rows, board_columns, scale)),
      has_memory_(!memory_rows.empty()),
      memory_(memory_rows, scale) {
  const int margin = scale * kMargin;
  const int gap = scale * kGap;
  const int top = margin + scale * kHeaderHeight + scale * 16;
  const int size = scale * kObservationSize;
  const int label = scale * kLabelHeight;
  const int actions_height =
      label +
      scale * kActionRowHeight *
          std::min(kMostActionRows, std::max(task_.num_actions(), static_cast<int>(task_.action.numbers.size())));
  board_.place(margin, top);
  int right = 0;
  int bottom = 0;
  if (BoardLayout::stands_beside_panels(board_rows, board_columns)) {
    const int x = board_.box().right() + gap;
    observation_ = {x, top + label, size, size};
    actions_ = {x, observation_.bottom() + scale * 18, scale * kPanelWidth, actions_height};
    right = x + scale * kPanelWidth;
    bottom = std::max(board_.box().bottom(), actions_.bottom());
  } else {
    observation_ = {margin, board_.box().bottom() + gap + label, size, size};
    actions_ = {margin + scale * (kPanelWidth + 2 * kGap), observation_.y - label, scale * kPanelWidth, actions_height};
    right = std::max(board_.box().right(), actions_.right());
    bottom = std::max(observation_.bottom(), actions_.bottom());
    // A board narrower than the panels stands in the middle.
    board_.place(margin + (right - margin - board_.box().width) / 2, top);
  }
  status_ = {observation_.right() + gap, observation_.y, scale * kStatusWidth, size};
  header_ = {margin, margin, right - margin, scale * kHeaderHeight};
  if (has_memory_) {
    memory_.place({margin, bottom + scale * 20, right - margin, memory_.height()});
    bottom += scale * 20 + memory_.height();
  }
  footer_ = {margin, bottom + scale * 20, right - margin, scale * kFooterHeight};
  width_ = even(right + margin);
  height_ = even(footer_.bottom() + margin);
}

RgbImage FramePainter::paint(const FrameContents& contents) const {
  RgbImage image(width_, height_, palette::kBackground);
  paint_header(image, contents);
  draw_board(image, board_, contents.board);
  mark_view(image, board_, contents.board, task_.observation, contents.observation);
  const Box label{observation_.x, observation_.y - scale_ * kLabelHeight, observation_.width,
                  scale_ * (kLabelHeight - 8)};
  draw_text(image, "agent sees", label, {scale_ * 9, palette::kMuted});
  draw_seen(image, contents.seen, observation_, scale_);
  if (contents.cue) paint_cue(image, *contents.cue);
  paint_status(image, contents);
  paint_actions(image, contents);
  if (has_memory_) memory_.paint(image, contents.memory, contents.step + (contents.decision ? 1 : 0));
  paint_footer(image, contents);
  return image;
}

Box FramePainter::observation(const ShownObservation& seen) const { return seen_box(seen, observation_, scale_); }

Box FramePainter::cue_square() const {
  const int side = scale_ * (kLabelHeight - 10);
  return {status_.x + scale_ * kHiddenWidth, observation_.y - scale_ * (kLabelHeight - 1), side, side};
}

Box FramePainter::probability_track(int row) const {
  const int row_height = scale_ * kActionRowHeight;
  return {actions_.x + scale_ * kActionNameWidth, actions_.y + scale_ * kLabelHeight + row * row_height + scale_ * 6,
          scale_ * kTrackWidth, row_height - scale_ * 12};
}

Box FramePainter::state_value() const {
  const int x = probability_track(0).right() + scale_ * 8;
  return {x, actions_.y, actions_.right() - x, scale_ * (kLabelHeight - 8)};
}

void FramePainter::paint_header(RgbImage& image, const FrameContents& contents) const {
  const TextStyle title{scale_ * 15, palette::kText, true};
  const std::string episode =
      "episode " + std::to_string(contents.episode) + " of " + std::to_string(contents.episodes);
  const TextStyle small{scale_ * 10, palette::kMuted};
  const int episode_width = text_width(episode, small);
  Box line{header_.x, header_.y, header_.width, scale_ * 24};
  draw_text(image, episode, line, small, Align::kRight);
  line.width -= episode_width + scale_ * kGap;
  draw_text(image, task_.name, line, title);
  const int title_width = std::min(line.width, text_width(task_.name, title) + scale_ * 16);
  draw_text(image, subtitle_, {line.x + title_width, line.y + 2 * scale_, line.width - title_width, line.height},
            small);
  fill_box(image, {header_.x, header_.bottom() - scale_, header_.width, scale_}, palette::kTrack);
}

// Beside "agent sees".
void FramePainter::paint_cue(RgbImage& image, const Cue& cue) const {
  const Box square = cue_square();
  const Box line{status_.x, observation_.y - scale_ * kLabelHeight, status_.width, scale_ * (kLabelHeight - 8)};
  draw_text(image, "out of sight:", line, {scale_ * 9, palette::kMuted});
  int x = square.x;
  if (cue.colour) {
    fill_box(image, square, *cue.colour);
    outline_box(image, square, palette::kMuted, scale_);
    x = square.right() + scale_ * 8;
  }
  draw_text(image, cue.text, {x, line.y, line.right() - x, line.height}, {scale_ * 9, palette::kText});
}

void FramePainter::paint_status(RgbImage& image, const FrameContents& contents) const {
  if (contents.last_action) require_action(*contents.last_action, task_.num_actions());
  if (!contents.last_numbers.empty())
    require_count("numbers", contents.last_numbers.size(), static_cast<int>(task_.action.numbers.size()));
  const bool acted = contents.last_action || !contents.last_numbers.empty();
  std::vector<std::int32_t> last{contents.last_action.value_or(0)};
  if (!contents.last_numbers.empty()) {
    last.clear();
    for (const float number : contents.last_numbers) last.push_back(word_of(number));
  }
  const std::pair<const char*, std::string> lines[] = {
      {"phase", contents.phase},
      {"step", std::to_string(contents.step) + " / " + std::to_string(task_.max_episode_steps)},
      {"last action", acted ? action_text(task_.action, last) : std::string("-")},
      {"last reward", acted ? signed_number_text(contents.last_reward) : std::string("-")},
      {"return", rounded_number_text(contents.total_reward)},
  };
  const int line_height = status_.height / static_cast<int>(std::size(lines));
  const int label_width = scale_ * 96;
  Box line{status_.x, status_.y, status_.width, line_height};
  for (const auto& [label, value] : lines) {
    const bool paid = std::string(label) == "last reward" && contents.last_reward != 0;
    const Rgb colour = !paid ? palette::kText : contents.last_reward > 0 ? palette::kSuccess : palette::kFailure;
    draw_text(image, label, {line.x, line.y, label_width, line_height}, {scale_ * 10, palette::kMuted});
    draw_text(image, value, {line.x + label_width, line.y, line.width - label_width, line_height},
              {scale_ * 11, colour, paid});
    line.y += line_height;
  }
}

// A bar from the middle of each number's range to the number.
void FramePainter::paint_numbers(RgbImage& image, const std::vector<float>& numbers) const {
  if (!numbers.empty()) require_count("numbers", numbers.size(), static_cast<int>(task_.action.numbers.size()));
  for (std::size_t i = 0; i < std::min<std::size_t>(task_.action.numbers.size(), kMostActionRows); ++i) {
    const auto& [name, least, most] = task_.action.numbers[i];
    const Box track = probability_track(static_cast<int>(i));
    const int row_y = track.y - scale_ * 6, row_height = scale_ * kActionRowHeight;
    const TextStyle text{scale_ * 10, numbers.empty() ? palette::kMuted : palette::kText};
    draw_text(image, name, {actions_.x, row_y, scale_ * (kActionNameWidth - 8), row_height}, text);
    fill_box(image, track, palette::kTrack);
    if (numbers.empty()) continue;
    const double place = std::clamp<double>((numbers[i] - least) / (most - least), 0, 1);
    const int middle = track.width / 2, at = static_cast<int>(std::lround(place * track.width));
    fill_box(image, {track.x + std::min(middle, at), track.y, std::abs(at - middle), track.height}, palette::kAccent);
    draw_text(image, fixed_number_text(numbers[i], 2), {track.right() + scale_ * 8, row_y, scale_ * 48, row_height},
              text, Align::kRight);
  }
}

void FramePainter::paint_actions(RgbImage& image, const FrameContents& contents) const {
  const Decision decision = contents.decision.value_or(Decision{});
  const bool has_probabilities = !decision.probabilities.empty();
  const bool has_q_values = !decision.q_values.empty();
  if (has_probabilities) require_count("probabilities", decision.probabilities.size(), task_.num_actions());
  if (has_q_values) require_count("Q values", decision.q_values.size(), task_.num_actions());
  if (contents.decision && !task_.action.continuous()) require_action(decision.action, task_.num_actions());

  const TextStyle muted{scale_ * 9, palette::kMuted};
  const Box first = probability_track(0);
  const Box label_line{actions_.x, actions_.y, first.right() - actions_.x, scale_ * (kLabelHeight - 8)};
  const std::vector<int> shown = listed_actions(contents.decision, task_.num_actions(), kMostActionRows);
  std::string label = contents.has_policy ? "next action, probability" : "next action";
  if (shown.size() > 1 && static_cast<int>(shown.size()) < task_.num_actions())
    label += ": " + std::to_string(shown.size()) + " of " + std::to_string(task_.num_actions());
  draw_text(image, label, label_line, muted);
  const Box number_column{first.right() + scale_ * 8, 0, scale_ * 48, scale_ * kActionRowHeight};
  const Box q_column{number_column.right() + scale_ * 8, 0, actions_.right() - number_column.right() - scale_ * 8,
                     scale_ * kActionRowHeight};
  if (has_q_values) {
    draw_text(image, "Q", {q_column.x, label_line.y, q_column.width, label_line.height}, muted, Align::kRight);
  }
  if (decision.state_value)
    draw_text(image, "V " + fixed_number_text(*decision.state_value, 2), state_value(), {scale_ * 10, palette::kText},
              Align::kRight);
  paint_numbers(image, decision.numbers);
  for (int row = 0; const int action : shown) {
    const auto index = static_cast<std::size_t>(action);
    const Box track = probability_track(row++);
    const int row_y = track.y - scale_ * 6;
    const bool chosen = contents.decision && decision.action == action;
    const Rgb colour = chosen ? palette::kAccent : contents.decision ? palette::kText : palette::kMuted;
    const TextStyle text{scale_ * 10, colour, chosen};
    draw_text(image, (chosen ? "> " : "") + task_.action.names[index],
              {actions_.x, row_y, scale_ * (kActionNameWidth - 8), scale_ * kActionRowHeight}, text);
    if (contents.has_policy) fill_box(image, track, palette::kTrack);
    if (has_probabilities) {
      const double probability = decision.probabilities[index];
      const int length = static_cast<int>(std::lround(std::clamp(probability, 0.0, 1.0) * track.width));
      fill_box(image, {track.x, track.y, length, track.height}, chosen ? palette::kAccent : palette::kBar);
      draw_text(image, fixed_number_text(probability, 2),
                {number_column.x, row_y, number_column.width, number_column.height}, text, Align::kRight);
    }
    if (has_q_values) {
      draw_text(image, fixed_number_text(decision.q_values[index], 2),
                {q_column.x, row_y, q_column.width, q_column.height}, text, Align::kRight);
    }
  }
}

void FramePainter::paint_footer(RgbImage& image, const FrameContents& contents) const {
  if (!contents.outcome) {
    const Box track{footer_.x, footer_.y + (footer_.height - scale_ * 8) / 2, footer_.width, scale_ * 8};
    const double done = static_cast<double>(contents.step) / std::max(1, task_.max_episode_steps);
    fill_box(image, track, palette::kTrack);
    fill_box(image, {track.x, track.y, static_cast<int>(std::min(1.0, done) * track.width), track.height},
             palette::kMuted);
    return;
  }
  fill_box(image, footer_, contents.outcome->success ? palette::kSuccess : palette::kFailure);
  draw_text(image,
            std::string(contents.outcome->success ? "SUCCESS" : "FAILURE") + "     return " +
                rounded_number_text(contents.outcome->total_reward),
            footer_, {scale_ * 18, palette::kOnColour, true}, Align::kCentre);
}

}  // namespace engram
