// SequenceModel: what every memory backbone is. forward() runs whole sequences in parallel over time, for learning;
// step() runs one time step with constant memory, for acting. Both carry the same MemoryState, so that forward() over
// any split of a sequence equals step() repeated.
//
// Shapes: B batch rows, T time, D width.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/support.h"
#include "memory/core/memory_view.h"

namespace engram {

// The memory of B independent rows: a list of tensors, each with the batch first. All zero means a fresh
// episode, for every backbone. Floating tensors have the parameters' dtype; positions in time are int64.
struct MemoryState {
  std::vector<torch::Tensor> tensors;

  // 0 for a backbone that remembers nothing.
  std::int64_t batch() const { return tensors.empty() ? 0 : tensors.front().size(0); }
  // Forgets the rows where reset_B (bool [B]) is true, in place and without a trace of what they held (NaN included).
  void reset_rows(const torch::Tensor& reset_B);
  MemoryState clone() const;
  MemoryState detach() const;
};

// What a backbone costs, for matched comparisons. Reported for one row.
struct ModelCost {
  std::int64_t parameters = 0;
  std::int64_t state_bytes = 0;             // of one row's MemoryState, numbers as float32, positions as int64
  std::int64_t multiply_adds_per_step = 0;  // of step()'s matrix products; attention at a full window or cache
  // The MLPs' part of them, of layers that carry nothing from one step to the next; the rest is the memory's.
  std::int64_t mlp_parameters = 0;
  std::int64_t mlp_multiply_adds_per_step = 0;
};

class SequenceModel : public torch::nn::Module {
 public:
  struct Output {
    torch::Tensor output_BTD;
    MemoryState final_state;  // of row b after its lengths_B[b] steps
  };

  virtual std::int64_t width() const = 0;  // D, of input and output alike

  // Zeros, in the parameters' dtype and on their device.
  virtual MemoryState initial_state(std::int64_t batch) const = 0;
  // Throws c10::ValueError, with what would be right, unless `state` is like the initial_state() of such a batch.
  void check_state(const MemoryState& state, std::int64_t batch) const;

  // Row b takes the steps t < lengths_B[b] (int64 [B], 0 <= length <= T, on the input's device); what follows
  // them in the input is not read into any valid output, gradient or state, and the output there is unspecified but
  // finite. A row of length 0 keeps its state. Gradients reach the initial state. Rows may stand at different
  // positions; a backbone that counts them reads them on the host, which waits for a GPU.
  Output forward(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B);

  // All rows fresh: the same as with initial_state(B). LSTM and GRU wait for a GPU here.
  Output forward(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B);

  // The output alone of rows that are all fresh, for learning. What follows the lengths in the input must be finite. On
  // a GPU a bfloat16 input asks for products in bfloat16 from parameters that stay float32, and the output is bfloat16
  // too: by the backbone's kernels where it has some for it, outside of PlainOperations (nn/device/plain_operations.h),
  // or by LibTorch's operations. Nothing waits for the device.
  torch::Tensor forward_fresh(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B);

  // Whether forward_fresh() has kernels of the backbone's own for products in `dtype` on `device`, the current one; and
  // whether it has the fastest form of them.
  virtual Support supports_learning(torch::ScalarType dtype, torch::Device device) const;
  virtual Support supports_fastest_learning(torch::ScalarType dtype, torch::Device device) const;
  // Where it has not: whether all but its mixers runs through kernels, around mixers by LibTorch's operations.
  virtual Support supports_blocks(torch::ScalarType dtype, torch::Device device) const;

  // All rows fresh and of full length.
  torch::Tensor forward(const torch::Tensor& input_BTD);

  // One step of every row, which writes into the tensors of `state` (clone() keeps the old one). Records no gradients.
  // In training mode the memory is carried exactly as in evaluation mode; only what is drawn there differs: dropout,
  // and shm's rows. In a scope of nn/device/autocast.h products are in its type, and the state keeps its own.
  torch::Tensor step(const torch::Tensor& input_BD, MemoryState& state);

  // Whether step() has kernels of the backbone's own for all of it, with products in `dtype` on `device`, the current
  // one; it takes them outside of PlainOperations.
  virtual Support supports_step(torch::ScalarType dtype, torch::Device device) const;
  // Where it has not: whether all but its mixers runs through kernels, as supports_blocks() says of learning.
  virtual Support supports_step_blocks(torch::ScalarType dtype, torch::Device device) const;

  // Whether there is a memory to show: something is kept from one step to the next.
  bool shows_memory() const { return !initial_state(1).tensors.empty(); }
  // step() that also shows it, by LibTorch's operations. Attention is then computed from the weights that `view` gets:
  // the output equals step()'s up to rounding. Throws std::logic_error unless shows_memory().
  torch::Tensor step(const torch::Tensor& input_BD, MemoryState& state, MemoryView& view);

  ModelCost cost() const;

  // Of each layer the root mean square of what its mixer adds, with its present weights, to a stream x ~ N(0, 1) that
  // the seed draws (memory/core/first_scale.h); none where layers add to no stream.
  virtual std::vector<double> added_scales(std::uint64_t) { return {}; }

 protected:
  enum class Rows { kFresh, kCarried };

  // forward() with T >= 1 and an input that is zero after the lengths. With Rows::kFresh `initial` is all zero.
  virtual Output run(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B,
                     Rows rows) = 0;
  // forward_fresh() with T >= 1 and an input in the parameters' type, zero after the lengths; products are in the type
  // of the scope around it (nn/device/autocast.h). By default run()'s output.
  virtual torch::Tensor run_fresh(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B);
  // forward_fresh() with T >= 1, where supports_learning() or supports_blocks() allow it.
  virtual torch::Tensor run_on_kernels(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B);
  // step() without gradients, of an input in the parameters' type.
  virtual torch::Tensor run_step(const torch::Tensor& input_BD, MemoryState& state) = 0;
  // The same with products in `dtype`, of an input of any type, where supports_step() or supports_step_blocks() allow
  // it.
  virtual torch::Tensor run_step_on_kernels(const torch::Tensor& input_BD, MemoryState& state, torch::ScalarType dtype);
  // The same with a view; by default the state as that of one layer, but for positions.
  virtual torch::Tensor run_viewed_step(const torch::Tensor& input_BD, MemoryState& state, MemoryView& view);
  virtual std::int64_t multiply_adds_per_step() const = 0;
  // Those of the MLPs; none where there is no MLP.
  virtual std::vector<torch::Tensor> mlp_parameters() const { return {}; }
  // A step's, of linear maps with these parameters.
  static std::int64_t multiply_adds_of(const std::vector<torch::Tensor>& parameters);

 private:
  torch::Tensor in_own_type(const torch::Tensor& input) const;
  Output run_masked(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B,
                    Rows rows);
  void check_input(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) const;
  void check_step(const torch::Tensor& input_BD, const MemoryState& state) const;
};

}  // namespace engram
