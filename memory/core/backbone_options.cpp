#include "memory/core/backbone_options.h"

#include "base/error.h"

namespace engram {

void list_width(OptionList& list, int& width) {
  list.add("width", width, {1, 1 << 14}, "channels of the backbone's input, output and hidden layers");
}

void list_layers(OptionList& list, int& layers) { list.add("layers", layers, {1, 256}, "layers, one above the other"); }

void list_heads(OptionList& list, int& heads) {
  list.add("heads", heads, {1, 1 << 10}, "heads, which share the width equally");
}

void list_mlp_width(OptionList& list, int& mlp_width, const char* published) {
  list.add("mlp_width", mlp_width, {0, 1 << 16},
           std::string("hidden units of each layer's MLP; 0: as published, ") + published +
               ". On a GPU multiples of 64 are fastest");
}

void list_dropout(OptionList& list, double& dropout) {
  list.add("dropout", dropout, {0, 0.9}, "probability that a channel is dropped in training");
}

void list_first_values(OptionList& list, FirstValues& first_values) {
  list.add("first_values", first_values, {{FirstValues::kPublished, "published"}, {FirstValues::kCommon, "common"}},
           "what the mixers begin with: each as it was published, or so that all add as much to the residual stream");
}

void list_beta_factor(OptionList& list, int& beta_factor) {
  list.add("beta_factor", beta_factor, {1, 2},
           "largest write strength of the delta rule; 2 admits negative eigenvalues");
}

void list_convolution(OptionList& list, bool& convolution) {
  list.add("convolution", convolution,
           "a causal convolution over 4 steps of queries, keys and values before their maps");
}

void BlockOptions::list_training(OptionList& list) {
  list_dropout(list, dropout);
  list.add("weight_std", weight_std, {1e-6, 1}, "standard deviation of the linear maps' first weights");
  list.add(
      "output_weights", output_weights, {{OutputWeights::kNormal, "normal"}, {OutputWeights::kKaiming, "kaiming"}},
      "first weights of the maps into the residual stream, divided by sqrt(2 layers): as the others', or Kaiming's "
      "uniform ones as in the HQLT authors' code");
  list_first_values(list, first_values);
}

void list_window(OptionList& list, int& window) {
  list.add("window", window, {1, 1 << 20}, "steps that attention sees at most, the current one included");
}

void list_positions(OptionList& list, PositionCode& positions) {
  list.add("positions", positions, {{PositionCode::kRope, "rope"}, {PositionCode::kNone, "none"}},
           "positions in the window's attention");
}

void check_heads(int width, int heads) {
  if (width % heads != 0)
    throw UserError("memory.width " + std::to_string(width) + " is not divisible by memory.heads " +
                    std::to_string(heads));
}

void check_positions(PositionCode positions, int width, int heads) {
  if (positions == PositionCode::kRope && width / heads % 2 != 0)
    throw UserError("memory.positions rope needs an even head width, but memory.width " + std::to_string(width) +
                    " / memory.heads " + std::to_string(heads) + " is " + std::to_string(width / heads) +
                    "; change them or take memory.positions none");
}

}  // namespace engram
