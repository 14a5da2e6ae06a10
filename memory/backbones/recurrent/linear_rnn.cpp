#include "memory/backbones/recurrent/linear_rnn.h"

namespace engram {

void LinearRnnOptions::list_options(OptionList& list) {
  list_width(list, width);
  list_layers(list, layers);
  list.add("state_width", state_width, {0, 1 << 16}, "channels of each layer's recurrence; 0: as many as the width");
  list_mlp_width(list, mlp_width, kSwiGluWidth);
  list_training(list);
}

}  // namespace engram
