// Networks as Python sees them: torch::nn::Modules whose parameters and buffers stand, as the same tensors, in a tree
// of modules of its own (python/engram/native_module.py).
#pragma once

#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/network.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "envs/vec/vec_env.h"
#include "memory/core/backbone_config.h"
#include "memory/core/sequence_model.h"
#include "nn/layers/dropout.h"
#include "storage/settings.h"

namespace engram::python {

// Calls may come from several threads, without Python's lock; one computes at a time.
class NativeNetwork {
 public:
  using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

  virtual ~NativeNetwork() = default;
  NativeNetwork(const NativeNetwork&) = delete;
  NativeNetwork& operator=(const NativeNetwork&) = delete;

  // By the names that weights are saved under.
  NamedTensors parameters() const;
  NamedTensors buffers() const;

  // The forward pass, which says in its class what goes in and comes out. dtype: the type of activations and products
  // on a GPU. In training mode what is drawn is drawn by torch's default generator of the parameters' device. Outside
  // of this type autocast changes nothing. Throws c10::ValueError or UserError for inputs that do not fit.
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs, torch::ScalarType dtype, bool training);

  // The same for a compiled graph, which records nothing by itself: outputs that are contiguous and share nothing with
  // the inputs, and at last a ticket, int64 [1] on the CPU, for backward(). What is recorded, if it is asked for, lives
  // as long as the ticket.
  std::vector<torch::Tensor> compiled_forward(const std::vector<torch::Tensor>& inputs, torch::ScalarType dtype,
                                              bool training, bool recorded);
  // From the outputs' gradients those of the floating inputs and behind them of the parameters that want some; zeros
  // for what has no share. Throws std::runtime_error where nothing is recorded under this ticket.
  static std::vector<torch::Tensor> backward(const torch::Tensor& ticket, const std::vector<torch::Tensor>& gradients);

 protected:
  explicit NativeNetwork(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {}

  // While it lives, the network is this thread's and in that mode, its device is the current one, and LibTorch casts
  // nothing by itself.
  class Pass {
   public:
    Pass(NativeNetwork& network, bool training);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    std::unique_lock<std::mutex> turn_;
    c10::OptionalDeviceGuard current_;
    torch::DeviceType device_;
    bool casts_before_;
  };

  torch::Device device() const { return first_parameter_.device(); }
  torch::ScalarType parameters_dtype() const { return first_parameter_.scalar_type(); }
  // Throws c10::ValueError unless it is a floating tensor on the parameters' device, or these are of another type than
  // float32 and float64.
  void check_input(const char* name, const torch::Tensor& input) const;

 private:
  virtual std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs, torch::ScalarType dtype) = 0;
  // Seed and tick of what is drawn from here on, drawn anew; they are kept by the caller for as long as they are read.
  virtual torch::Tensor draw_seed(torch::Device device) = 0;

  std::shared_ptr<torch::nn::Module> module_;
  torch::Tensor first_parameter_{module_->parameters().front()};
  std::mutex turn_;
};

// A memory backbone. forward(): x [B, T, D] and lengths [B] -> y [B, T, D], by forward_fresh(); with the tensors of a
// state behind them -> y and the final state, by forward().
class NativeBackbone final : public NativeNetwork {
 public:
  // `options`: without their section. Throws UserError.
  NativeBackbone(const std::string& name, std::int64_t max_steps, const Settings& options);

  const std::string& name() const { return config_.name(); }
  std::int64_t max_steps() const { return max_steps_; }
  Settings options() const;
  std::int64_t width() const { return model_->width(); }
  ModelCost cost() const { return model_->cost(); }
  std::vector<Road> roads(torch::ScalarType dtype, torch::Device device) const;

  // Of each tensor of the state the shape of a row and whether it is of the parameters' type; else it is int64.
  std::vector<std::pair<std::vector<std::int64_t>, bool>> state_layout() const;
  // [B, D] -> [B, D]; writes into the tensors of `state`, which must be contiguous and without gradients.
  torch::Tensor step(const torch::Tensor& input_BD, const std::vector<torch::Tensor>& state, torch::ScalarType dtype,
                     bool training);

 private:
  NativeBackbone(BackboneConfig config, std::int64_t max_steps);
  NativeBackbone(BackboneConfig config, std::int64_t max_steps, std::shared_ptr<SequenceModel> model);
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs, torch::ScalarType dtype) override;
  torch::Tensor draw_seed(torch::Device device) override;
  // In the type that the model computes products from: the parameters' own, or on a GPU `dtype` beside float32.
  torch::Tensor in_product_type(const torch::Tensor& input, torch::ScalarType dtype) const;

  BackboneConfig config_;
  std::int64_t max_steps_;
  std::shared_ptr<SequenceModel> model_;
  std::shared_ptr<DropoutClock> clock_;
};

// An agent's network. forward(): observation [B, T, ...] in the task's type, previous_action int64 [B, T] (the number
// of actions: none), previous_reward [B, T] and lengths int64 [B] -> features [B, T, D] and of each head [B, T,
// outputs].
class NativeAgentNetwork final : public NativeNetwork {
 public:
  // With weights from torch's default generator. Throws UserError.
  explicit NativeAgentNetwork(const Settings& settings);
  // With the weights of a trained agent, on its device; a copy, so that who trains it leaves the agent as it is.
  explicit NativeAgentNetwork(const TrainedAgent& agent);

  // All that chooses, and all options: from these an equal one is made.
  Settings settings() const;
  std::vector<HeadSpec> heads() const { return network_->head_specs(); }
  std::int64_t width() const { return network_->backbone().width(); }
  std::int64_t num_actions() const { return task_.num_actions(); }
  std::vector<Road> roads(torch::ScalarType dtype, torch::Device device);

 private:
  explicit NativeAgentNetwork(const Config& config);
  NativeAgentNetwork(Config config, std::shared_ptr<AgentNetwork> network);
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs, torch::ScalarType dtype) override;
  torch::Tensor draw_seed(torch::Device device) override;
  void check_inputs(const std::vector<torch::Tensor>& inputs) const;

  Config config_;
  TaskInfo task_;
  std::shared_ptr<AgentNetwork> network_;
};

}  // namespace engram::python
