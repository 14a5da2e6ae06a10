#include "kernels/recurrences/slstm/reference.h"

#include <cmath>
#include <cstddef>

namespace engram {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What a head's step came to, per channel.
struct Step {
  std::vector<double> input, forget, candidate, output, c, n, h;
};

class Head {
 public:
  Head(const SlstmReferenceInput& input, int row, int head) : in_(input), row_(row), head_(head) {}

  std::vector<Step> steps() const {
    std::vector<Step> all;
    std::vector<double> c(in_.width), n(in_.width), h(in_.width);
    for (int t = 0; t < in_.length_B[row_]; ++t) {
      Step step;
      for (int k = 0; k < in_.width; ++k) {
        step.input.push_back(std::exp(gate(t, 0, k, h)));
        step.forget.push_back(sigmoid(gate(t, 1, k, h)));
        step.candidate.push_back(std::tanh(gate(t, 2, k, h)));
        step.output.push_back(sigmoid(gate(t, 3, k, h)));
        c[k] = step.forget[k] * c[k] + step.input[k] * step.candidate[k];
        n[k] = step.forget[k] * n[k] + step.input[k];
      }
      for (int k = 0; k < in_.width; ++k) h[k] = step.output[k] * c[k] / n[k];
      step.c = c;
      step.n = n;
      step.h = h;
      all.push_back(step);
    }
    return all;
  }

  std::size_t hidden_at(int t, int k) const {
    return ((static_cast<std::size_t>(row_) * in_.time + t) * in_.heads + head_) * in_.width + k;
  }
  std::size_t gate_at(int t, int gate, int k) const {
    return (((static_cast<std::size_t>(row_) * in_.time + t) * in_.heads + head_) * 4 + gate) * in_.width + k;
  }
  double recurrent(int from, int gate, int k) const {
    return in_.recurrent_HKX[((static_cast<std::size_t>(head_) * in_.width + from) * 4 + gate) * in_.width + k];
  }

 private:
  double gate(int t, int gate, int k, const std::vector<double>& h) const {
    double a = in_.gates_BTHX[gate_at(t, gate, k)];
    for (int from = 0; from < in_.width; ++from) a += recurrent(from, gate, k) * h[from];
    return a;
  }

  const SlstmReferenceInput& in_;
  int row_, head_;
};

template <class Function>
void each_head(const SlstmReferenceInput& input, Function function) {
  for (int row = 0; row < input.batch; ++row)
    for (int head = 0; head < input.heads; ++head) function(Head(input, row, head), input.length_B[row]);
}

}  // namespace

std::vector<double> slstm_reference(const SlstmReferenceInput& input) {
  std::vector<double> h_BTHK(input.gates_BTHX.size() / 4);
  each_head(input, [&](const Head& head, int length) {
    const std::vector<Step> steps = head.steps();
    for (int t = 0; t < length; ++t)
      for (int k = 0; k < input.width; ++k) h_BTHK[head.hidden_at(t, k)] = steps[t].h[k];
  });
  return h_BTHK;
}

std::vector<double> slstm_reference_backward(const SlstmReferenceInput& input,
                                             const std::vector<double>& h_gradient_BTHK) {
  std::vector<double> d_gates_BTHX(input.gates_BTHX.size());
  each_head(input, [&](const Head& head, int length) {
    const std::vector<Step> steps = head.steps();
    std::vector<double> d_h(input.width), d_c(input.width), d_n(input.width);  // of later steps
    for (int t = length - 1; t >= 0; --t) {
      const Step& step = steps[t];
      for (int k = 0; k < input.width; ++k) {
        const double of_h = h_gradient_BTHK[head.hidden_at(t, k)] + d_h[k];
        const double c_before = t > 0 ? steps[t - 1].c[k] : 0, n_before = t > 0 ? steps[t - 1].n[k] : 0;
        d_c[k] += of_h * step.output[k] / step.n[k];
        d_n[k] -= of_h * step.h[k] / step.n[k];
        const double d_forget = d_c[k] * c_before + d_n[k] * n_before;
        d_gates_BTHX[head.gate_at(t, 0, k)] = (d_c[k] * step.candidate[k] + d_n[k]) * step.input[k];
        d_gates_BTHX[head.gate_at(t, 1, k)] = d_forget * step.forget[k] * (1 - step.forget[k]);
        d_gates_BTHX[head.gate_at(t, 2, k)] = d_c[k] * step.input[k] * (1 - step.candidate[k] * step.candidate[k]);
        d_gates_BTHX[head.gate_at(t, 3, k)] = of_h * step.c[k] / step.n[k] * step.output[k] * (1 - step.output[k]);
        d_c[k] *= step.forget[k];
        d_n[k] *= step.forget[k];
      }
      for (int from = 0; from < input.width; ++from) {
        d_h[from] = 0;
        for (int gate = 0; gate < 4; ++gate)
          for (int k = 0; k < input.width; ++k)
            d_h[from] += head.recurrent(from, gate, k) * d_gates_BTHX[head.gate_at(t, gate, k)];
      }
    }
  });
  return d_gates_BTHX;
}

}  // namespace engram
