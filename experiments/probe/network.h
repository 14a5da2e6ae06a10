// ProbeNetwork: what is trained on a ProbeTask. Around a backbone: an embedding of the symbols and, behind it, what
// ProbeModel says; or the backbone's memory alone.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "experiments/probe/task.h"
#include "memory/core/registry.h"
#include "storage/tensors/state_archive.h"

namespace engram {

class ProbeNetwork : public torch::nn::Module {
 public:
  // Logits, or with ProbeLoss::kSquared the values themselves, [B, Q, classes].
  virtual torch::Tensor forward(const ProbeBatch& batch) = 0;
  // Of the backbone, or of the memory that stands for it.
  virtual ModelCost backbone_cost() const = 0;
  // What it draws next in training.
  virtual void visit_drawing(StateArchive&) {}
};

// What says the answers of ProbeModel::kPlaces and kLast: a linear map of its own, or the embeddings of their symbols
// (tied weights), a class's logit being the product with that of its symbol. The latter asks for a task that has a
// first_class_symbol().
enum class AnswersBy { kMap, kEmbeddings };

struct ProbeNetworkOptions {
  double embedding_std = 1;  // of the first embeddings, which are normal
  AnswersBy answers_by = AnswersBy::kMap;
  bool bfloat16 = false;  // activations and products of the backbone, on a GPU
};

// Weights are drawn from torch's default generator. seed: of what the backbone draws in training. Throws UserError for
// a backbone that the task's model does not take. ProbeModel::kMemory has none of the options.
std::shared_ptr<ProbeNetwork> make_probe_network(const ProbeTask& task, const BackboneConfig& backbone,
                                                 const ProbeNetworkOptions& options, std::uint64_t seed);

// The network of ProbeModel::kMemory (bare_memory.cpp): a memory as Schlag et al. 2021, section 6.1, train it, with
// nothing around it. S keys and values, e = 2.2 S rounded down:
//   k_t = W_K [e(key_t); v_t] + b_K,   q = W_Q e(key) + b_Q,   v_t the value as a one-hot vector, the answer what q
//   reads
// Weights begin as theirs do: e(.) as N(0, 1), W_K and W_Q as U(+-1 / sqrt(width)), of softmax as Xavier's. Taken are
// the family fast_weights with rule sum (write strength 1, no decay; attention_norm sum or none) and delta (write
// strength beta_factor sigmoid(w [e(key_t); v_t] + b), no attention norm), any feature map and key norm, and
// transformer, which reads by softmax(q . k_t / sqrt(width)); each with one head. Answers are not divided by sqrt(K).
std::shared_ptr<ProbeNetwork> make_bare_memory(const ProbeTask& task, const BackboneConfig& backbone);
// Throws UserError for any other backbone.
void check_bare_memory(const BackboneConfig& backbone);

}  // namespace engram
