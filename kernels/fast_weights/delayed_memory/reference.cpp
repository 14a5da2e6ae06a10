#include "kernels/fast_weights/delayed_memory/reference.h"

#include <cmath>
#include <cstddef>

namespace engram {
namespace {

class Head {
 public:
  Head(DelayedMemoryReference& step, int row, int head)
      : step_(step), row_(row), head_(head), fast_(&step.fast_NHWW[index() * step.width * step.width]) {}

  std::size_t index() const { return static_cast<std::size_t>(row_) * step_.heads + head_; }
  std::size_t in_ring(std::int64_t slot) const {
    return (static_cast<std::size_t>(row_) * step_.slots + slot) * step_.heads + head_;
  }

  // The key in the slot was turned by `turned` steps.
  void write(std::int64_t slot, std::int64_t turned, double beta) {
    const int width = step_.width, planes = step_.rotary_width / 2;
    const double* const ring_key = &step_.key_ring_NSHW[in_ring(slot) * width];
    std::vector<double> key(ring_key, ring_key + width);
    for (int i = 0; i < planes; ++i) {
      const double angle = static_cast<double>(turned) * std::pow(10000.0, -2.0 * i / step_.rotary_width);
      const double x = key[i], y = key[i + planes];
      key[i] = x * std::cos(angle) + y * std::sin(angle);
      key[i + planes] = y * std::cos(angle) - x * std::sin(angle);
    }
    double square = 1e-6;
    for (double& x : key) {
      x /= 1 + std::exp(-x);
      square += x * x;
    }
    for (double& x : key) x /= std::sqrt(square);
    for (int j = 0; j < width; ++j) {
      double update = step_.value_ring_NSHW[in_ring(slot) * width + j];
      for (int k = 0; k < width; ++k) update -= key[k] * fast_[k * width + j];
      for (int k = 0; k < width; ++k) fast_[k * width + j] += beta * key[k] * update;
    }
  }

  void read(std::vector<double>& output) const {
    const int width = step_.width;
    const double* const q = &step_.q_NHW[index() * width];
    for (int j = 0; j < width; ++j) {
      double sum = 0;
      for (int k = 0; k < width; ++k) sum += q[k] * fast_[k * width + j];
      output[index() * width + j] = step_.scale * sum;
    }
  }

 private:
  DelayedMemoryReference& step_;
  int row_, head_;
  double* fast_;
};

}  // namespace

std::vector<double> delayed_memory_reference(DelayedMemoryReference& step) {
  std::vector<double> output(step.q_NHW.size());
  for (int row = 0; row < step.rows; ++row)
    for (int head = 0; head < step.heads; ++head) {
      Head of(step, row, head);
      const double beta = step.beta_NH[of.index()];
      const std::int64_t position = step.position_N[row], slot = position % step.slots;
      if (step.delay == Delay::kStream) {
        if (position >= step.slots) of.write(slot, position - step.slots, beta);
        of.read(output);
        continue;
      }
      of.read(output);
      step.beta_ring_NSH[of.in_ring(slot)] = beta;
      if (slot == step.slots - 1)
        for (std::int64_t s = 0; s < step.slots; ++s) of.write(s, s, step.beta_ring_NSH[of.in_ring(s)]);
    }
  return output;
}

}  // namespace engram
