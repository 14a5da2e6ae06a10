// The list of all memory backbones, and BackboneConfig: a backbone chosen by name, with its options.
// To add a backbone: write it and its options in a header, include that here and add the options to BackboneOptions
// (docs/add_backbone.diff). Written in LibTorch alone it is complete: on a GPU it learns in a captured update, in
// bfloat16, and acts beside the environments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/options.h"
#include "memory/backbone_options.h"
#include "memory/expansion_span.h"
#include "memory/fast_weights.h"
#include "memory/ffm.h"
#include "memory/frame_stack.h"
#include "memory/gtrxl.h"
#include "memory/linear_rnn.h"
#include "memory/sequence_model.h"
#include "memory/shm.h"
#include "memory/slstm.h"
#include "memory/stack.h"

namespace engram {

// The options of one of all backbones.
using BackboneOptions =
    std::variant<TransformerOptions, DeltaNetOptions, HqltOptions, HqltDelayedStreamOptions, HqltDelayedChunkOptions,
                 LstmOptions, GruOptions, NoneOptions, StackOptions, TransformerPlusPlusOptions, FastWeightsOptions,
                 LinearTransformerOptions, PerformerOptions, DpfpOptions, Delta2021Options, GatedDeltaNetOptions,
                 RetNetOptions, GlaOptions, Mamba2Options, MLstmOptions, RnnOptions, MinGruOptions, LruOptions,
                 S5Options, RgLruOptions, SlstmOptions, GtrxlOptions, FfmOptions, ShmOptions, FrameStackOptions,
                 ExpansionSpanOptions>;

std::vector<std::string> backbone_names();

class BackboneConfig {
 public:
  // The backbone with its defaults (those of the RL experiments). Throws UserError for an unknown name.
  explicit BackboneConfig(const std::string& name);

  const std::string& name() const { return name_; }
  // What it is in a few words, and where it was published.
  std::string summary() const;
  std::string source() const;
  // Options under the section "memory", bound to this object.
  OptionList options();
  // Throws UserError if values contradict each other ("memory.width 30 is not divisible by memory.heads 4").
  void check() const;
  // D, of input and output alike.
  std::int64_t width() const;
  // Hidden units of each layer's MLP; 0 for a backbone without the option memory.mlp_width.
  std::int64_t inner_width() const;

  const BackboneOptions& variant() const { return options_; }

 private:
  std::string name_;
  BackboneOptions options_;
};

// Builds the backbone; its weights are drawn from torch's default generator. max_steps >= 1: the longest sequence that
// one row will ever see (episode length + 1), the bound of the Transformer's cache. Calls check() first.
std::shared_ptr<SequenceModel> make_backbone(const BackboneConfig& config, std::int64_t max_steps);

}  // namespace engram
