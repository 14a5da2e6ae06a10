#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "agents/act/observation_tensor.h"
#include "agents/run/trained/trained_agent.h"
#include "envs/vec/cuda_vec_env.h"
#include "python/binding/environments.h"

namespace engram::python {

namespace py = pybind11;

namespace {

// Environments on a GPU (CudaVecEnv), on LibTorch's current stream; nothing but check() waits. What it gives as views
// is rewritten by steps and resets, and lives as long as they.
class CudaEnvironments {
 public:
  CudaEnvironments(const std::string& device, const std::string& name, const TaskValues& options,
                   std::uint64_t run_seed, int num_envs)
      : device_(parse_device(device)) {
    const c10::cuda::CUDAGuard guard(device_);
    environments_ = make_cuda_vec_env(task_of(name, options), run_seed, kPurpose, num_envs);
    const ObservationSpec& spec = info().observation;
    observations_ = view(environments_->observation_N(), {num_envs, spec.elements()}, observation_dtype(spec));
    rewards_ = view(environments_->reward_N(), {num_envs}, torch::kFloat32);
    ends_ = view(environments_->end_N(), {num_envs}, torch::kUInt8);
    successes_ = view(environments_->success_N(), {num_envs}, torch::kBool);
  }

  const TaskInfo& info() const { return environments_->info(); }
  const torch::Tensor& observations() const { return observations_; }
  const torch::Tensor& successes() const { return successes_; }

  void move_streams(std::uint32_t first_environment) {
    const c10::cuda::CUDAGuard guard(device_);
    environments_->move_streams(first_environment, stream());
  }
  void reset_finished() {
    const c10::cuda::CUDAGuard guard(device_);
    environments_->reset_finished(stream());
  }
  void reset_chosen(const torch::Tensor& chosen_N) {
    if (chosen_N.dim() != 1 || chosen_N.size(0) != environments_->size())
      throw std::invalid_argument(std::to_string(chosen_N.numel()) + " choices for " +
                                  std::to_string(environments_->size()) + " environments");
    const c10::cuda::CUDAGuard guard(device_);
    const torch::Tensor chosen = chosen_N.to(device_, torch::kUInt8).contiguous();
    environments_->reset_chosen(chosen.const_data_ptr<std::uint8_t>(), stream());
  }

  // Rewards, and whether the step terminated or truncated an episode.
  py::tuple step(const torch::Tensor& action_N) {
    const c10::cuda::CUDAGuard guard(device_);
    const torch::Tensor actions = int32_actions(action_N);
    environments_->step(actions.const_data_ptr<std::int32_t>(), stream());
    return outcome();
  }
  // A step leaves ended episodes as they are, so that those that had ended before it can begin anew after it.
  py::tuple step_or_reset(const torch::Tensor& action_N) {
    const c10::cuda::CUDAGuard guard(device_);
    const torch::Tensor actions = int32_actions(action_N), ended = ends_.clone();
    environments_->step(actions.const_data_ptr<std::int32_t>(), stream());
    environments_->reset_chosen(ended.const_data_ptr<std::uint8_t>(), stream());
    return outcome();
  }

  void check() {
    const c10::cuda::CUDAGuard guard(device_);
    const py::gil_scoped_release release;
    environments_->check(stream());
  }

 private:
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()); }

  torch::Tensor view(const void* data, torch::IntArrayRef shape, torch::ScalarType type) const {
    return torch::from_blob(
        const_cast<void*>(data), shape, [owner = environments_](void*) {}, torch::dtype(type).device(device_));
  }

  // The rows of actions (envs/action.h).
  torch::Tensor int32_actions(const torch::Tensor& action_N) const {
    if (info().action.continuous()) return number_rows(action_N);
    if (action_N.dim() != 1 || action_N.size(0) != environments_->size())
      throw std::invalid_argument("actions have the shape " + shape_text(action_N) + "; it has to be (" +
                                  std::to_string(environments_->size()) + ",), one for each environment");
    if (!torch::isIntegralType(action_N.scalar_type(), /*includeBool=*/false))
      throw std::invalid_argument("actions are " + std::string(torch::toString(action_N.scalar_type())) +
                                  "; they have to be integers");
    return action_N.to(device_, torch::kInt32).contiguous();
  }
  torch::Tensor number_rows(const torch::Tensor& action_N) const {
    const std::int64_t size = environments_->size(), numbers = info().action.words();
    if (action_N.sizes() != torch::IntArrayRef({size, numbers}))
      throw std::invalid_argument("actions have the shape " + shape_text(action_N) + "; it has to be (" +
                                  std::to_string(size) + ", " + std::to_string(numbers) +
                                  "), the numbers of an action for each environment");
    if (action_N.is_complex() || action_N.scalar_type() == torch::kBool)
      throw std::invalid_argument("actions are " + std::string(torch::toString(action_N.scalar_type())) +
                                  "; they have to be real numbers");
    return action_N.to(device_, torch::kFloat32).contiguous().view(torch::kInt32);
  }
  static std::string shape_text(const torch::Tensor& tensor) {
    return py::str(py::tuple(py::cast(tensor.sizes().vec()))).cast<std::string>();
  }

  py::tuple outcome() const {
    return py::make_tuple(rewards_.clone(), ends_.eq(static_cast<int>(End::kTerminated)),
                          ends_.eq(static_cast<int>(End::kTruncated)));
  }

  torch::Device device_;
  std::shared_ptr<CudaVecEnv> environments_;
  torch::Tensor observations_, rewards_, ends_, successes_;
};

}  // namespace

void bind_cuda_environments(py::module_& module) {
  py::class_<CudaEnvironments>(module, "CudaEnvironments")
      .def(py::init<const std::string&, const std::string&, const TaskValues&, std::uint64_t, int>(), py::arg("device"),
           py::arg("name"), py::arg("options"), py::arg("run_seed"), py::arg("num_envs"))
      .def_property_readonly("info", &CudaEnvironments::info)
      .def_property_readonly("observations", &CudaEnvironments::observations)
      .def_property_readonly("successes", &CudaEnvironments::successes)
      .def("move_streams", &CudaEnvironments::move_streams, py::arg("first_environment"))
      .def("reset_finished", &CudaEnvironments::reset_finished)
      .def("reset_chosen", &CudaEnvironments::reset_chosen, py::arg("chosen"))
      .def("step", &CudaEnvironments::step, py::arg("actions"))
      .def("step_or_reset", &CudaEnvironments::step_or_reset, py::arg("actions"))
      .def("check", &CudaEnvironments::check);
}

}  // namespace engram::python
