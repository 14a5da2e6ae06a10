#include "video/memory_panel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "video/drawing.h"

namespace engram {
namespace {

// Lengths at scale 1, in pixels.
constexpr int kLabelWidth = 176;
constexpr int kRangeWidth = 128;
constexpr int kHeadingHeight = 26;
constexpr int kStripGap = 8;
constexpr int kRowHeight = 12;
constexpr int kSmallestStrip = 24;
constexpr int kLargestStrip = 60;
constexpr int kShadeSteps = 16;  // few, which keeps animated GIFs small

// Where 1 is the darkest shade and, of signed numbers, -1 the other one's.
double share_of(const MemoryStrip& strip, float value) {
  switch (strip.shades) {
    case Shades::kRoot:
      return strip.high > 0 ? std::sqrt(std::max(0.0f, value / strip.high)) : 0;
    case Shades::kSigned:
      return strip.high > 0 ? value / strip.high : 0;
    case Shades::kRange:
      break;
  }
  // What never changes is in the middle.
  return strip.high > strip.low ? (value - strip.low) / (strip.high - strip.low) : 0.5;
}

std::string range_text(const MemoryStrip& strip) {
  const float low = strip.shades == Shades::kSigned ? -strip.high : strip.low;
  return rounded_number_text(low) + " .. " + rounded_number_text(strip.high);
}

void check(const MemoryStrip& strip, int rows, std::size_t known) {
  const std::size_t steps = strip.rows.empty() ? 0 : strip.rows[0].size();
  bool fits = strip.rows.size() == static_cast<std::size_t>(rows) && steps >= known;
  for (const std::vector<float>& row : strip.rows) fits = fits && row.size() == steps;
  if (!fits)
    throw std::invalid_argument("MemoryPanel: '" + strip.label + "' is not of " + std::to_string(rows) +
                                " rows of equally many numbers, " + std::to_string(known) + " or more");
}

}  // namespace

Rgb memory_shade(Shades shades, double share) {
  constexpr Rgb kLightest{255, 255, 255}, kDarkest{10, 62, 140}, kDarkestNegative{176, 40, 24};
  const double step = std::round(std::clamp(std::abs(share), 0.0, 1.0) * (kShadeSteps - 1)) / (kShadeSteps - 1);
  const Rgb dark = shades == Shades::kSigned && share < 0 ? kDarkestNegative : kDarkest;
  const auto mix = [step](int from, int to) {
    return static_cast<std::uint8_t>(std::lround(from + step * (to - from)));
  };
  return {mix(kLightest.red, dark.red), mix(kLightest.green, dark.green), mix(kLightest.blue, dark.blue)};
}

MemoryPanel::MemoryPanel(const std::vector<int>& rows, int scale) : rows_(rows), scale_(scale) {
  int top = kHeadingHeight;
  for (const int count : rows) {
    top_.push_back(scale * top);
    top += std::clamp(kRowHeight * count, kSmallestStrip, kLargestStrip) + kStripGap;
  }
  height_ = scale * top;
}

Box MemoryPanel::strip(int index) const {
  const auto at = static_cast<std::size_t>(index);
  const int next = at + 1 < top_.size() ? top_[at + 1] : height_;
  return {box_.x + scale_ * kLabelWidth, box_.y + top_[at], box_.width - scale_ * (kLabelWidth + kRangeWidth),
          next - top_[at] - scale_ * kStripGap};
}

void MemoryPanel::paint(RgbImage& image, const std::vector<MemoryStrip>& strips, int known) const {
  if (!strips.empty() && strips.size() != rows_.size())
    throw std::invalid_argument("MemoryPanel: " + std::to_string(strips.size()) + " strips instead of " +
                                std::to_string(rows_.size()));
  draw_text(image, "memory, by step of the episode; a row a head or channel; white to dark is what stands to the right",
            {box_.x, box_.y, box_.width, scale_ * (kHeadingHeight - 8)}, {scale_ * 9, palette::kMuted});
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Box area = strip(static_cast<int>(i));
    fill_box(image, area, palette::kTrack);
    if (strips.empty()) continue;
    check(strips[i], rows_[i], static_cast<std::size_t>(known));
    draw_text(image, strips[i].label, {box_.x, area.y, scale_ * (kLabelWidth - 8), area.height},
              {scale_ * 9, palette::kText});
    draw_text(image, range_text(strips[i]),
              {area.right() + 8 * scale_, area.y, scale_ * (kRangeWidth - 8), area.height},
              {scale_ * 9, palette::kMuted});
    paint_strip(image, area, strips[i], static_cast<std::size_t>(known));
  }
}

void MemoryPanel::paint_strip(RgbImage& image, const Box& area, const MemoryStrip& strip, std::size_t known) const {
  const std::size_t rows = strip.rows.size(), steps = strip.rows[0].size();
  const auto width = static_cast<std::size_t>(area.width), height = static_cast<std::size_t>(area.height);
  // Pixels that stand for the same numbers are painted as one box: a pixel, or as far as the next number begins.
  const std::size_t down = std::min(rows, height), across = std::min(steps, width);
  for (std::size_t y = 0; y < down; ++y)
    for (std::size_t x = 0; x < across; ++x) {
      const std::size_t first_row = y * rows / down, end_row = (y + 1) * rows / down;
      const std::size_t first = x * steps / across, end = std::min((x + 1) * steps / across, known);
      if (first >= end) break;
      double share = 0;
      for (std::size_t row = first_row; row < end_row; ++row)
        for (std::size_t step = first; step < end; ++step)
          if (const double own = share_of(strip, strip.rows[row][step]); std::abs(own) > std::abs(share)) share = own;
      const auto left = static_cast<int>(x * width / across), right = static_cast<int>((x + 1) * width / across);
      const auto top = static_cast<int>(y * height / down), bottom = static_cast<int>((y + 1) * height / down);
      fill_box(image, {area.x + left, area.y + top, right - left, bottom - top}, memory_shade(strip.shades, share));
    }
}

}  // namespace engram
