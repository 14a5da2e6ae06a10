#include "films/memory_strips.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace engram {
namespace {

// Of the first batch row: [H, ...] as rows of numbers, at most `most` of each.
std::vector<std::vector<float>> rows_of(const torch::Tensor& value_BHX, std::int64_t most) {
  const torch::Tensor value_HX = value_BHX[0].to(torch::kFloat32).flatten(1).contiguous();
  const std::int64_t width = value_HX.size(1), kept = std::min(width, most);
  std::vector<std::vector<float>> rows;
  for (std::int64_t head = 0; head < value_HX.size(0); ++head) {
    const float* const first = value_HX.data_ptr<float>() + head * width;
    rows.emplace_back(first, first + kept);
  }
  return rows;
}

// Shades from the least to the greatest of the strip's numbers, or to the greatest magnitude.
void set_range(MemoryStrip& strip) {
  strip.low = strip.shades == Shades::kRange ? INFINITY : 0;
  strip.high = strip.shades == Shades::kRange ? -INFINITY : 0;
  for (const std::vector<float>& row : strip.rows)
    for (const float value : row) {
      if (strip.shades == Shades::kRange) strip.low = std::min(strip.low, value);
      strip.high = std::max(strip.high, strip.shades == Shades::kSigned ? std::abs(value) : value);
    }
}

}  // namespace

MemoryStrips::MemoryStrips(SequenceModel& model, const std::string& name) {
  if (!model.shows_memory())
    throw UserError("--show-memory: the backbone '" + name + "' has no memory: nothing is kept from step to step");
  // What there is to show, from a step of no consequence.
  MemoryState state = model.initial_state(1);
  const auto input_BD = torch::zeros({1, model.width()}, model.parameters().front().options());
  MemoryView view;
  model.step(input_BD, state, view);
  add(view);
  for (const MemoryStrip& strip : at(0)) rows_.push_back(static_cast<int>(strip.rows.size()));
  begin_episode();
}

void MemoryStrips::begin_episode() {
  tracks_.clear();
  steps_ = 0;
}

void MemoryStrips::add(const MemoryView& view) {
  std::size_t index = 0;
  for (std::size_t layer = 0; layer < view.layers.size(); ++layer) {
    const auto track = [&](const std::string& what, Shades shades) -> Track& {
      if (tracks_.size() == index)
        tracks_.push_back(
            {.strip = {.label = "layer " + std::to_string(layer + 1) + " " + what, .shades = shades, .rows = {}}});
      return tracks_[index++];
    };
    const auto append = [&](const std::string& what, Shades shades, const torch::Tensor& value_BH) {
      if (!value_BH.defined()) return;
      MemoryStrip& strip = track(what, shades).strip;
      const std::vector<std::vector<float>> value_H1 = rows_of(value_BH.unsqueeze(2), 1);
      strip.rows.resize(value_H1.size());
      for (std::size_t head = 0; head < value_H1.size(); ++head) strip.rows[head].push_back(value_H1[head][0]);
    };
    const LayerView& own = view.layers[layer];
    if (own.attention_BHA.defined())
      track("attention", Shades::kRoot).attention_THA.push_back(rows_of(own.attention_BHA, steps_ + 1));
    append("write strength", Shades::kRange, own.write_strength_BH);
    append("fast gate", Shades::kRange, own.fast_gate_BH);
    append("window gate", Shades::kRange, own.window_gate_BH);
    for (const StateView& state : own.states) append(state.name, Shades::kSigned, state.value_BC);
  }
  ++steps_;
}

std::vector<MemoryStrip> MemoryStrips::at(int step) const {
  std::vector<MemoryStrip> strips;
  for (const Track& track : tracks_) {
    MemoryStrip strip = track.strip;
    // From ages to steps.
    if (!track.attention_THA.empty())
      for (const std::vector<float>& weight_A : track.attention_THA.at(static_cast<std::size_t>(step))) {
        std::vector<float>& row = strip.rows.emplace_back(static_cast<std::size_t>(steps_));
        std::ranges::copy(weight_A, std::make_reverse_iterator(row.begin() + step + 1));
      }
    set_range(strip);
    strips.push_back(std::move(strip));
  }
  return strips;
}

}  // namespace engram
