#include "apps/memory_strips.h"

#include "base/error.h"
#include "memory/registry.h"

namespace engram {
namespace {

std::string names_that_show() {
  std::string names;
  for (const std::string& name : backbone_names())
    if (make_backbone(BackboneConfig(name), 1)->shows_memory()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// A row a head.
void append(MemoryStrip& strip, const torch::Tensor& value_BH) {
  const torch::Tensor value_H = value_BH[0].to(torch::kFloat32).contiguous();
  strip.rows.resize(static_cast<std::size_t>(value_H.numel()));
  for (std::size_t head = 0; head < strip.rows.size(); ++head)
    strip.rows[head].push_back(value_H.data_ptr<float>()[head]);
}

// From ages to steps of the episode, of which `step` is the current one.
void set_attention(MemoryStrip& strip, const torch::Tensor& weight_BHA, std::int64_t step) {
  const torch::Tensor weight_HA = weight_BHA[0].to(torch::kFloat32).contiguous();
  const std::int64_t ages = weight_HA.size(1);
  strip.rows.assign(static_cast<std::size_t>(weight_HA.size(0)),
                    std::vector<float>(static_cast<std::size_t>(step + 1)));
  for (std::size_t head = 0; head < strip.rows.size(); ++head)
    for (std::int64_t age = 0; age < std::min(ages, step + 1); ++age)
      strip.rows[head][static_cast<std::size_t>(step - age)] =
          weight_HA.data_ptr<float>()[static_cast<std::int64_t>(head) * ages + age];
}

}  // namespace

MemoryStrips::MemoryStrips(SequenceModel& model, const std::string& name) {
  if (!model.shows_memory())
    throw UserError("--show-memory: the backbone '" + name +
                    "' does not show its memory; these do: " + names_that_show());
  // What there is to show, from a step of no consequence.
  MemoryState state = model.initial_state(1);
  const auto input_BD = torch::zeros({1, model.width()}, model.parameters().front().options());
  MemoryView view;
  model.step(input_BD, state, view);
  count_ = static_cast<int>(add(view).size());
  begin_episode();
}

const std::vector<MemoryStrip>& MemoryStrips::add(const MemoryView& view) {
  std::size_t index = 0;
  const auto next = [&](std::size_t layer, const char* what, float darkest) -> MemoryStrip& {
    if (strips_.size() == index)
      strips_.push_back({.label = "layer " + std::to_string(layer + 1) + " " + what, .darkest = darkest, .rows = {}});
    return strips_[index++];
  };
  for (std::size_t layer = 0; layer < view.layers.size(); ++layer) {
    const LayerView& own = view.layers[layer];
    if (own.attention_BHA.defined()) {
      MemoryStrip& strip = next(layer, "attention", 1);
      strip.square_root = true;
      set_attention(strip, own.attention_BHA, step_);
    }
    if (own.write_strength_BH.defined()) append(next(layer, "write strength", 2), own.write_strength_BH);
    if (own.fast_gate_BH.defined()) append(next(layer, "fast gate", 1), own.fast_gate_BH);
    if (own.window_gate_BH.defined()) append(next(layer, "window gate", 1), own.window_gate_BH);
  }
  ++step_;
  return strips_;
}

}  // namespace engram
