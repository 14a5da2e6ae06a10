#include "video/memory_panel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "video/drawing.h"

namespace engram {
namespace {

// Lengths at scale 1, in pixels.
constexpr int kLabelWidth = 176;
constexpr int kHeadingHeight = 22;
constexpr int kStripHeight = 16;
constexpr int kStripGap = 6;
constexpr int kSmallestRow = 2;
constexpr int kShades = 16;  // few, which keeps animated GIFs small

Rgb shade(double share) {
  const double step = std::round(std::clamp(share, 0.0, 1.0) * (kShades - 1)) / (kShades - 1);
  const auto mix = [step](int light, int dark) {
    return static_cast<std::uint8_t>(std::lround(light + step * (dark - light)));
  };
  const Rgb light = palette::kTrack, dark = palette::kAccent;
  return {mix(light.red, dark.red), mix(light.green, dark.green), mix(light.blue, dark.blue)};
}

// Of all rows at one step.
float mean_at(const std::vector<std::vector<float>>& rows, std::size_t step) {
  float sum = 0;
  for (const std::vector<float>& row : rows) sum += row.at(step);
  return sum / static_cast<float>(rows.size());
}

}  // namespace

int MemoryPanel::height() const { return scale_ * (kHeadingHeight + strips_ * (kStripHeight + kStripGap)); }

Box MemoryPanel::strip(int index) const {
  return {box_.x + scale_ * kLabelWidth, box_.y + scale_ * (kHeadingHeight + index * (kStripHeight + kStripGap)),
          box_.width - scale_ * kLabelWidth, scale_ * kStripHeight};
}

void MemoryPanel::paint(RgbImage& image, const std::vector<MemoryStrip>& strips) const {
  if (strips.size() > static_cast<std::size_t>(strips_))
    throw std::invalid_argument("MemoryPanel: " + std::to_string(strips.size()) + " strips instead of " +
                                std::to_string(strips_));
  draw_text(image, "memory, by step of the episode; a row a head, dark is much (attention: square root of the weight)",
            {box_.x, box_.y, box_.width, scale_ * (kHeadingHeight - 8)}, {scale_ * 9, palette::kMuted});
  for (int i = 0; i < strips_; ++i) {
    const Box area = strip(i);
    fill_box(image, area, palette::kTrack);
    if (static_cast<std::size_t>(i) >= strips.size()) continue;
    MemoryStrip content = strips[static_cast<std::size_t>(i)];
    draw_text(image, content.label, {box_.x, area.y, scale_ * (kLabelWidth - 8), area.height},
              {scale_ * 9, palette::kText});
    if (content.rows.empty()) continue;
    for (const std::vector<float>& row : content.rows)
      if (row.size() != content.rows[0].size() || row.size() > static_cast<std::size_t>(steps_))
        throw std::invalid_argument("MemoryPanel: " + std::to_string(row.size()) + " numbers in an episode of " +
                                    std::to_string(steps_) + " steps");
    // Many heads are shown by their mean.
    if (static_cast<int>(content.rows.size()) * kSmallestRow * scale_ > area.height) {
      std::vector<float> mean;
      for (std::size_t step = 0; step < content.rows[0].size(); ++step) mean.push_back(mean_at(content.rows, step));
      content.rows = {mean};
    }
    const int count = static_cast<int>(content.rows.size()), known = static_cast<int>(content.rows[0].size());
    for (int row = 0; row < count; ++row) {
      const int top = area.y + row * area.height / count, bottom = area.y + (row + 1) * area.height / count;
      const std::vector<float>& values = content.rows[static_cast<std::size_t>(row)];
      for (int x = 0; x < area.width; ++x) {
        // The steps that this column of pixels stands for: part of one, or several, of which the largest shows.
        const auto first = static_cast<int>(static_cast<std::int64_t>(x) * steps_ / area.width);
        const auto next = static_cast<int>((static_cast<std::int64_t>(x) + 1) * steps_ / area.width);
        if (first >= known) break;
        const int end = std::clamp(next, first + 1, known);
        const double share = *std::max_element(values.begin() + first, values.begin() + end) / content.darkest;
        fill_box(image, {area.x + x, top, 1, bottom - top}, shade(content.square_root ? std::sqrt(share) : share));
      }
    }
  }
}

}  // namespace engram
