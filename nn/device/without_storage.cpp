// LibTorch's C++ side has no default device to set, as torch.device("meta") is in Python. A dispatch key has: `Fake`
// was added for a library outside of LibTorch that made such tensors, and is free. Where a thread includes it, every
// operation comes here first, and those that take a device and are given none get the meta device.
#include "nn/device/without_storage.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace engram {
namespace {

// Zeros of the same shape and type, which take the memory of one.
c10::IValue zeros_for(const c10::IValue& value) {
  const auto zeros = [](const torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_meta()) return tensor;
    return torch::zeros({}, torch::dtype(tensor.scalar_type()).device(torch::kCPU)).expand(tensor.sizes());
  };
  if (value.isTensor()) return zeros(value.toTensor());
  if (!value.isTensorList()) return value;
  std::vector<torch::Tensor> list = value.toTensorVector();
  std::ranges::transform(list, list.begin(), zeros);
  return list;
}

bool gives_tensors(const c10::FunctionSchema& schema) {
  return std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
    return result.type()->isSubtypeOf(*c10::TensorType::get());
  });
}

void on_meta(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(c10::DispatchKey::Fake);
  const auto& arguments = operation.schema().arguments();
  const auto first = static_cast<std::ptrdiff_t>(stack->size() - arguments.size());
  const std::vector<c10::IValue> given(stack->begin() + first, stack->end());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (c10::IValue& value = (*stack)[static_cast<std::size_t>(first) + i];
        arguments[i].name() == "device" && value.isNone())
      value = c10::Device(c10::kMeta);
  try {
    return operation.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    // Some operations know no meta device. Those that write into nothing and give tensors alone are done once with
    // zeros, for the result's shape.
    if (operation.schema().is_mutable() || !gives_tensors(operation.schema())) throw;
  }
  stack->resize(static_cast<std::size_t>(first));
  std::ranges::transform(given, std::back_inserter(*stack), zeros_for);
  operation.callBoxed(stack);
  for (auto result = stack->begin() + first; result != stack->end(); ++result)
    if (result->isTensor()) *result = result->toTensor().to(torch::kMeta);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_meta>()); }

struct WithoutStorage::Mode {
  c10::impl::IncludeDispatchKeyGuard included{c10::DispatchKey::Fake};
};

WithoutStorage::WithoutStorage() : mode_(std::make_unique<Mode>()) {}
WithoutStorage::~WithoutStorage() = default;

}  // namespace engram
