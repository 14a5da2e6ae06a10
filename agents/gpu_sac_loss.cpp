#include "agents/gpu_sac_loss.h"

#include "kernels/sac_loss/sac_loss.h"
#include "memory/cuda_support.h"

namespace engram {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SacLossFunction : public torch::autograd::Function<SacLossFunction> {
 public:
  // Losses in the order of SacLossIndex, and the targets [B, T].
  static variable_list forward(AutogradContext* context, const Tensor& logits, const Tensor& q1, const Tensor& q2,
                               const AgentNetwork::QValues& target_q, const EpisodeBatch& batch, const Tensor& alpha,
                               double gamma, std::int64_t num_actions) {
    const Tensor losses = torch::empty({kSacLosses}, logits.options().requires_grad(false));
    const Tensor target_BT = torch::empty_like(batch.reward_BT);
    const Tensor d_logits = torch::empty_like(logits), d_q1 = torch::empty_like(q1), d_q2 = torch::empty_like(q2);
    const SacLossInput input{.batch = static_cast<int>(logits.size(0)),
                             .time = static_cast<int>(logits.size(1)) - 1,
                             .actions = static_cast<int>(num_actions),
                             .stride = static_cast<int>(logits.size(2)),
                             .gamma = static_cast<float>(gamma),
                             .alpha = alpha.data_ptr<float>(),
                             .logits_BTA = logits.data_ptr<float>(),
                             .q1_BTA = q1.data_ptr<float>(),
                             .q2_BTA = q2.data_ptr<float>(),
                             .target_q1_BTA = target_q.first.data_ptr<float>(),
                             .target_q2_BTA = target_q.second.data_ptr<float>(),
                             .action_BT = batch.action_BT.data_ptr<std::int64_t>(),
                             .reward_BT = batch.reward_BT.data_ptr<float>(),
                             .terminated_BT = batch.terminated_BT.data_ptr<float>(),
                             .steps_B = batch.steps_B.data_ptr<std::int64_t>()};
    const Tensor scratch = scratch_bytes(sac_loss_scratch_bytes(input), logits);
    sac_loss(input,
             {.losses = losses.data_ptr<float>(),
              .target_BT = target_BT.data_ptr<float>(),
              .dtype = Dtype::kFloat32,
              .logits_BTA = d_logits.data_ptr(),
              .q1_BTA = d_q1.data_ptr(),
              .q2_BTA = d_q2.data_ptr()},
             scratch.data_ptr(), current_stream());
    context->save_for_backward({d_logits, d_q1, d_q2});
    context->mark_non_differentiable({target_BT});
    return {losses, target_BT};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const Tensor d_total = gradient[0].select(0, kSacTotal);
    variable_list gradients;
    for (const Tensor& own : context->get_saved_variables()) gradients.push_back(own * d_total);
    gradients.resize(gradients.size() + 5);  // of what is no logit and no Q value
    return gradients;
  }
};

}  // namespace

SacLoss gpu_sac_loss(const AgentNetwork::HeadOutputs& heads, const EpisodeBatch& batch, const Tensor& alpha,
                     double gamma, std::int64_t num_actions) {
  TORCH_CHECK(num_actions <= kMaxSacActions, "the GPU's losses take at most ", kMaxSacActions, " actions, not ",
              num_actions);
  const variable_list out = SacLossFunction::apply(heads.logits, heads.q.first, heads.q.second, heads.target_q, batch,
                                                   alpha, gamma, num_actions);
  const Tensor values = out[0].detach();
  return {.total = out[0].select(0, kSacTotal),
          .critic1 = values.select(0, kSacCritic1),
          .critic2 = values.select(0, kSacCritic2),
          .actor = values.select(0, kSacActor),
          .entropy = values.select(0, kSacEntropy),
          .mean_q = values.select(0, kSacMeanQ),
          .target_BT = out[1]};
}

}  // namespace engram
