// LibTorch's C++ side has no default device to set, as torch.device("meta") is in Python. A dispatch key has: `Fake`
// was added for a library outside of LibTorch that made such tensors, and is free. Where a thread includes it, every
// operation comes here first, and those that take a device and are given none get the meta device.
#include "nn/without_storage.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstddef>

namespace engram {
namespace {

void on_meta(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(c10::DispatchKey::Fake);
  const auto& arguments = operation.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (c10::IValue& value = (*stack)[first + i]; arguments[i].name() == "device" && value.isNone())
      value = c10::Device(c10::kMeta);
  operation.callBoxed(stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_meta>()); }

struct WithoutStorage::Mode {
  c10::impl::IncludeDispatchKeyGuard included{c10::DispatchKey::Fake};
};

WithoutStorage::WithoutStorage() : mode_(std::make_unique<Mode>()) {}
WithoutStorage::~WithoutStorage() = default;

}  // namespace engram
