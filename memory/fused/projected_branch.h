// The mixer of a block on a GPU as a residual branch (nn/fused/residual_blocks.h): one product for all maps of its
// input, a core that can be exchanged, and the map of its output, with a backward pass of its own:
//   Wo core(W n + b) + bo
// Rows [M, P], types and the clock of a dropout: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/block/pack.h"
#include "nn/fused/gelu_mlp.h"
#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

// D channels in heads, each stored as a multiple of 8 elements of which those behind its channels are zero.
struct HeadShape {
  HeadShape(std::int64_t width, std::int64_t heads);

  int width;     // D
  int heads;     // H
  int channels;  // of a head, D / H
  int padded;    // elements of a head
  int part;      // H * padded
};

// What stands in the columns of a product W n + b.
class Projection {
 public:
  struct Map {
    AffineWeights weights;  // float32 [O, D], [O]; the bias undefined: none
    int column;             // of the first output
    PackGroups outputs;
  };

  explicit Projection(const HeadShape& shape) : shape_(shape) {}

  // Both return the first column. A map [D, D] (or [O, D] with O a multiple of the heads' channels), by head:
  int add_by_head(const AffineWeights& map);
  // The outputs of a map [O, D] one beside the other:
  int add(const torch::Tensor& weight_OD);
  // Columns of zeros up to a multiple of 8, which every run of columns that a kernel reads begins with.
  void pad();

  const HeadShape& shape() const { return shape_; }
  const std::vector<Map>& maps() const { return maps_; }
  int columns() const { return columns_; }

 private:
  HeadShape shape_;
  std::vector<Map> maps_;
  int columns_ = 0;
};

// What comes between the products, for one forward pass.
class ForwardCore {
 public:
  virtual ~ForwardCore() = default;

  const Projection& projection() const { return projection_; }
  // [M, columns] -> [M, part]. It may write into the projection.
  virtual torch::Tensor forward(const torch::Tensor& projected_MC) = 0;

 protected:
  explicit ForwardCore(const HeadShape& shape) : projection_(shape) {}

  Projection projection_;
};

// And for its backward pass.
class Core : public ForwardCore {
 public:
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

  struct Gradients {
    torch::Tensor projected_MC;
    std::vector<torch::Tensor> parameters;  // written by the side
  };
  virtual Gradients backward(const torch::Tensor& d_output_MP, SideWork& side) = 0;

 protected:
  using ForwardCore::ForwardCore;

  std::vector<torch::Tensor> parameters_;  // float32; of their own, beside the projection's
};

// output: [D, D], by head in its columns. Either all maps and the output have a bias, with maps by head alone, or none.
std::unique_ptr<Branch> projected_branch(std::unique_ptr<Core> core, const AffineWeights& output);
std::unique_ptr<ForwardBranch> projected_forward_branch(std::unique_ptr<ForwardCore> core, const AffineWeights& output);

}  // namespace engram::cuda
