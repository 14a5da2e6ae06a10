#include "nn/fused/weights/prepared_weights.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include "nn/fused/weights/packed_weights.h"

namespace engram::cuda {

using torch::Tensor;

struct PreparedWeights::Kept {
  std::unordered_set<const void*> storages;  // of the parameters
  struct Matrix {
    PackedMatrix packed;
    Tensor tensor;
  };
  struct SwiGlu {
    SwiGluPacking packing;
    Tensor tensor;
  };
  struct Made {
    std::vector<const void*> of;
    std::function<std::vector<Tensor>()> make;
    std::vector<Tensor> tensors;
  };
  std::vector<Made> made;
  std::vector<Matrix> matrices;
  std::vector<SwiGlu> swiglus;

  // In use by this thread, or null.
  static Kept*& current() {
    thread_local Kept* current = nullptr;
    return current;
  }
  // The same where it may serve a pass over these tensors.
  static Kept* of(const std::vector<Tensor>& tensors) {
    Kept* const kept = current();
    if (kept == nullptr) return nullptr;
    const bool own = std::ranges::all_of(
        tensors, [&](const Tensor& tensor) { return kept->storages.contains(tensor.storage().data()); });
    return own ? kept : nullptr;
  }
};

namespace {

bool capturing() { return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None; }

bool same(const PackGroups& a, const PackGroups& b) {
  return a.count == b.count && a.group == b.group && a.padded == b.padded;
}
bool same(const PackSegment& a, const PackSegment& b) {
  return a.matrix == b.matrix && a.first_row == b.first_row && same(a.rows, b.rows) && same(a.columns, b.columns);
}
// But for where they go.
bool same(const PackedMatrix& a, const PackedMatrix& b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.columns == b.columns &&
         std::ranges::equal(a.segments, b.segments, [](const auto& x, const auto& y) { return same(x, y); });
}
bool same(const SwiGluPacking& a, const SwiGluPacking& b) {
  return a.width == b.width && a.stride == b.stride && a.inner == b.inner && a.gate_ID == b.gate_ID &&
         a.up_ID == b.up_ID && a.down_DI == b.down_DI;
}

}  // namespace

PreparedWeights::PreparedWeights(const std::vector<Tensor>& parameters) : kept_(std::make_unique<Kept>()) {
  for (const Tensor& parameter : parameters) kept_->storages.insert(parameter.storage().data());
}
PreparedWeights::~PreparedWeights() = default;

void PreparedWeights::refresh() const {
  const torch::NoGradGuard no_grad;
  for (const Kept::Made& own : kept_->made) {
    const std::vector<Tensor> now = own.make();
    for (std::size_t i = 0; i < now.size(); ++i) Tensor(own.tensors[i]).copy_(now[i]);
  }
  WeightPacking again(torch::kFloat32);
  for (const Kept::Matrix& own : kept_->matrices) again.matrices_.push_back(own.packed);
  for (const Kept::SwiGlu& own : kept_->swiglus) again.swiglus_.push_back(own.packing);
  again.run();
}

std::vector<Tensor> PreparedWeights::made(const std::vector<Tensor>& of,
                                          const std::function<std::vector<Tensor>()>& make) {
  Kept* const kept = Kept::of(of);
  if (kept == nullptr) return make();
  std::vector<const void*> key;
  for (const Tensor& tensor : of) key.push_back(tensor.data_ptr());
  for (const Kept::Made& own : kept->made)
    if (own.of == key) return own.tensors;
  std::vector<Tensor> tensors = make();
  if (capturing()) return tensors;
  for (const Tensor& tensor : tensors) kept->storages.insert(tensor.storage().data());
  kept->made.push_back({std::move(key), make, tensors});
  return tensors;
}

PreparedWeights::InUse::InUse(const PreparedWeights* prepared)
    : before_(std::exchange(Kept::current(), prepared == nullptr ? nullptr : prepared->kept_.get())) {}
PreparedWeights::InUse::~InUse() { Kept::current() = before_; }

Tensor WeightPacking::add(const PackedWeights& weights, torch::ScalarType dtype) {
  PreparedWeights::Kept* const kept = PreparedWeights::Kept::of(weights.parameters_);
  PackedMatrix packed{dtype == torch::kFloat32 ? Dtype::kFloat32 : Dtype::kBfloat16, weights.rows_, weights.columns_,
                      nullptr, weights.segments_};
  if (kept != nullptr)
    for (const auto& own : kept->matrices)
      if (same(own.packed, packed)) return own.tensor;
  const Tensor tensor =
      torch::empty({weights.rows_, weights.columns_}, weights.parameters_.at(0).options().dtype(dtype));
  TORCH_CHECK(kernel_dtype(tensor) == packed.dtype);
  packed.data = tensor.data_ptr();
  matrices_.push_back(packed);
  if (kept != nullptr && !capturing()) kept->matrices.push_back({std::move(packed), tensor});
  return tensor;
}

Tensor WeightPacking::add(SwiGluPacking packing, const std::vector<Tensor>& weights) {
  PreparedWeights::Kept* const kept = PreparedWeights::Kept::of(weights);
  if (kept != nullptr)
    for (const auto& own : kept->swiglus)
      if (same(own.packing, packing)) return own.tensor;
  const Tensor tensor = scratch_bytes(fused_swiglu_weight_bytes(packing.stride, packing.inner), weights.at(0));
  packing.weights = tensor.data_ptr();
  swiglus_.push_back(packing);
  if (kept != nullptr && !capturing()) kept->swiglus.push_back({packing, tensor});
  return tensor;
}

void WeightPacking::run() const {
  pack(matrices_, current_stream());
  fused_swiglu_pack(swiglus_, current_stream());
}

}  // namespace engram::cuda
