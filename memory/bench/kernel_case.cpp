#include "memory/bench/kernel_case.h"

namespace engram {

using torch::Tensor;

std::string KernelShape::text() const {
  return "B " + std::to_string(batch) + " T " + std::to_string(time) + " " + std::to_string(heads) + " x " +
         std::to_string(width) + (padded == width ? "" : " in " + std::to_string(padded));
}

Vectors zero_vectors(const KernelShape& shape, std::int64_t columns) {
  const std::vector<std::int64_t> sizes{shape.batch, shape.time, shape.heads, shape.padded};
  const auto options = on_gpu(torch::kBFloat16);
  if (columns == 0) return {torch::zeros(sizes, options), torch::zeros(sizes, options), torch::zeros(sizes, options)};
  const Tensor rows = torch::zeros({shape.batch, shape.time, columns}, options);
  const auto slice = [&](int i) { return rows.narrow(2, i * shape.part(), shape.part()).view(sizes); };
  return {slice(0), slice(1), slice(2)};
}

Tensor random_vectors(const KernelShape& shape) {
  return torch::randn({shape.batch, shape.time, shape.heads, shape.width}, on_gpu(torch::kFloat32));
}

Tensor random_padded(const KernelShape& shape) {
  const Tensor x = zero_vectors(shape, 0).q;
  x.narrow(3, 0, shape.width).copy_(random_vectors(shape));
  return x;
}

Tensor plain(const Tensor& x_BTHP, const KernelShape& shape) { return x_BTHP.narrow(3, 0, shape.width).contiguous(); }

std::vector<Tensor> leaves(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = tensor.detach().clone().requires_grad_();
  return tensors;
}

Tensor checked(const Tensor& x, const KernelShape& shape) {
  const Tensor some = x.detach()
                          .slice(0, 0, shape.batch, shape.checked_every_row())
                          .slice(2, 0, shape.heads, shape.checked_every_head());
  return (x.dim() == 4 ? some.narrow(3, 0, shape.width) : some).to(torch::kCPU, torch::kFloat64).contiguous();
}

Tensor all_heads_checked(const Tensor& x, const KernelShape& shape) {
  return x.slice(0, 0, shape.batch, shape.checked_every_row()).to(torch::kCPU, torch::kFloat64).contiguous();
}

std::vector<double> numbers(const Tensor& x) {
  return {x.const_data_ptr<double>(), x.const_data_ptr<double>() + x.numel()};
}

Tensor tensor_of(const std::vector<double>& x, torch::IntArrayRef shape) {
  return torch::from_blob(const_cast<double*>(x.data()), shape, torch::kFloat64).clone();
}

void WorstError::compare(const Tensor& actual, const std::vector<double>& expected) {
  const Tensor x = checked(actual, shape_);
  compare(x, tensor_of(expected, x.sizes()));
}

void WorstError::compare(const Tensor& actual, const Tensor& expected) {
  const double error = ((actual - expected).norm() / expected.norm()).item<double>();
  if (std::isnan(error) || error > worst_) worst_ = error;
}

}  // namespace engram
