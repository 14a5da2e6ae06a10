// Low-rank adaptation of a trained network to another task: LoRA (Hu et al. 2022, arXiv:2106.09685) of the maps of
// attention and, unless they are left out, the weights of short convolutions, as HyLoRA does it in hybrid models (Nunez
// et al. 2024, arXiv:2412.13328, section 3.4). All other weights stay as they are.
//
// The network keeps ordinary weights W = W0 + (alpha / rank) B A, so that whatever computes with them, kernels
// included, does so as ever. An update takes the gradients of A and B from those of W, which is exact, and writes W
// anew.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/run/config/options.h"
#include "storage/tensors/state_archive.h"

namespace engram {

class LowRankAdapters {
 public:
  // Of a network with the weights W0, which it has exactly until the first update: B is 0, and A is drawn from
  // U(+-1 / sqrt(inputs)) by torch's default generator. rank >= 1. Throws UserError if there is no map to adapt.
  LowRankAdapters(const AdapterOptions& options, AgentNetwork& network);

  // What is trained: A [rank, inputs] and B [outputs, rank] of each map, then the convolutions if they are trained;
  // and their names.
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<std::string>& names() const { return names_; }

  // Takes the gradients of all of the network's weights away.
  void zero_gradients();
  // Of all of the network's weights that the backward pass gave one.
  std::vector<torch::Tensor> network_gradients() const;
  // Gives each A and B its gradient from that of its W.
  void set_gradients();
  // Writes every W.
  void merge();

  // W0, A and B; W and convolutions are the network's.
  void visit_state(StateArchive& archive);

 private:
  struct Map {
    std::string name;
    torch::Tensor weight;  // W, the network's
    torch::Tensor base;    // W0
    torch::Tensor down;    // A
    torch::Tensor up;      // B
  };

  double scale_;
  std::vector<Map> maps_;
  std::vector<torch::Tensor> network_parameters_;  // all that get gradients
  std::vector<torch::Tensor> parameters_;
  std::vector<std::string> names_;
};

}  // namespace engram
