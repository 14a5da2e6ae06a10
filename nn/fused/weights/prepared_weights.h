// PreparedWeights: what acting makes of weights alone, made once for all steps until the weights change.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

namespace engram::cuda {

// Packed weights (packed_weights.h) of one network on a GPU, which stay where they are, so that a captured graph may
// read them. They are made when they are first asked for; not while a graph is captured, which then packs for itself.
class PreparedWeights {
 public:
  // The network's parameters, which must stay where they are; of other tensors nothing is kept.
  explicit PreparedWeights(const std::vector<torch::Tensor>& parameters);
  ~PreparedWeights();
  PreparedWeights(const PreparedWeights&) = delete;
  PreparedWeights& operator=(const PreparedWeights&) = delete;

  // The parameters have changed: packs anew what is kept, on the current stream, in few launches. Nothing waits.
  void refresh() const;

  // What `make` makes of the parameters `of` by work on the current stream: as it is kept, where this thread uses
  // prepared weights and all of `of` are theirs; what is packed of it is kept, too. One thing alone of the same `of`.
  static std::vector<torch::Tensor> made(const std::vector<torch::Tensor>& of,
                                         const std::function<std::vector<torch::Tensor>()>& make);

  struct Kept;
  // While it lives, what this thread computes, without gradients, takes what `prepared` keeps, and adds to it. Null:
  // every pass packs for itself, as learning does.
  class InUse {
   public:
    explicit InUse(const PreparedWeights* prepared);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    Kept* before_;
  };

 private:
  std::unique_ptr<Kept> kept_;
};

}  // namespace engram::cuda
