// The list of all memory backbones.
// To add one: write it and its options in a header, include that here and add the options to AllBackbones
// (docs/develop/add_backbone.diff). Written in LibTorch alone it is complete: on a GPU it learns in a captured update,
// in bfloat16, and acts beside the environments.
#pragma once

#include "base/type_list.h"
#include "memory/backbones/attention/expansion_span.h"
#include "memory/backbones/attention/gtrxl.h"
#include "memory/backbones/controls/frame_stack.h"
#include "memory/backbones/fast_weights/fast_weights.h"
#include "memory/backbones/fast_weights/shm.h"
#include "memory/backbones/hybrids/stack.h"
#include "memory/backbones/recurrent/ffm.h"
#include "memory/backbones/recurrent/ind_rnn.h"
#include "memory/backbones/recurrent/linear_rnn.h"
#include "memory/backbones/recurrent/lmu.h"
#include "memory/backbones/recurrent/slstm.h"
#include "memory/core/backbone_options.h"

namespace engram {

using AllBackbones =
    TypeList<TransformerOptions, DeltaNetOptions, HqltOptions, HqltDelayedStreamOptions, HqltDelayedChunkOptions,
             LstmOptions, GruOptions, NoneOptions, StackOptions, TransformerPlusPlusOptions, FastWeightsOptions,
             LinearTransformerOptions, PerformerOptions, DpfpOptions, Delta2021Options, GatedDeltaNetOptions,
             DeltaProductOptions, KdaOptions, RetNetOptions, GlaOptions, Mamba2Options, MLstmOptions, RnnOptions,
             IndRnnOptions, LmuOptions, MinGruOptions, LruOptions, S5Options, RgLruOptions, SlstmOptions, GtrxlOptions,
             FfmOptions, ShmOptions, FrameStackOptions, ExpansionSpanOptions>;

}  // namespace engram
