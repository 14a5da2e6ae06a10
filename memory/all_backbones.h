// The list of all memory backbones.
// To add one: write it and its options in a header, include that here and add the options to AllBackbones
// (docs/add_backbone.diff). Written in LibTorch alone it is complete: on a GPU it learns in a captured update, in
// bfloat16, and acts beside the environments.
#pragma once

#include "memory/backbone_options.h"
#include "memory/expansion_span.h"
#include "memory/fast_weights.h"
#include "memory/ffm.h"
#include "memory/frame_stack.h"
#include "memory/gtrxl.h"
#include "memory/linear_rnn.h"
#include "memory/shm.h"
#include "memory/slstm.h"
#include "memory/stack.h"

namespace engram {

template <class... Options>
struct BackboneList {
  // Calls function.operator()<Options>() for each.
  template <class Function>
  static void for_each(Function function) {
    (function.template operator()<Options>(), ...);
  }
};
using AllBackbones =
    BackboneList<TransformerOptions, DeltaNetOptions, HqltOptions, HqltDelayedStreamOptions, HqltDelayedChunkOptions,
                 LstmOptions, GruOptions, NoneOptions, StackOptions, TransformerPlusPlusOptions, FastWeightsOptions,
                 LinearTransformerOptions, PerformerOptions, DpfpOptions, Delta2021Options, GatedDeltaNetOptions,
                 RetNetOptions, GlaOptions, Mamba2Options, MLstmOptions, RnnOptions, MinGruOptions, LruOptions,
                 S5Options, RgLruOptions, SlstmOptions, GtrxlOptions, FfmOptions, ShmOptions, FrameStackOptions,
                 ExpansionSpanOptions>;

}  // namespace engram
