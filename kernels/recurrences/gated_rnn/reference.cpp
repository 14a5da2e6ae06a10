#include "kernels/recurrences/gated_rnn/reference.h"

#include <cmath>
#include <cstddef>

namespace engram {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What a row's step came to, for each channel.
struct Step {
  std::vector<double> gate[4];              // after their functions
  std::vector<double> recurrent_candidate;  // u_n + b_n of the GRU
  std::vector<double> c, h;
};

class Row {
 public:
  Row(const GatedRnnReferenceInput& input, int row) : in_(input), row_(row) {}

  std::size_t at(int t, int k) const { return (static_cast<std::size_t>(row_) * in_.time + t) * in_.width + k; }
  std::size_t gate_at(int t, int gate, int k) const {
    return ((static_cast<std::size_t>(row_) * in_.time + t) * in_.gates() + gate) * in_.width + k;
  }
  double recurrent(int gate, int k, int from) const {
    return in_.recurrent_XD[(static_cast<std::size_t>(gate) * in_.width + k) * in_.width + from];
  }

  bool is_linear(int k) const { return k >= in_.width - in_.linear; }

  std::vector<Step> steps() const {
    std::vector<Step> all;
    std::vector<double> c(in_.width), h(in_.width);
    for (int t = 0; t < in_.length_B[row_]; ++t) {
      Step step;
      for (int k = 0; k < in_.width; ++k) {
        double a[4] = {}, u[4] = {};
        for (int gate = 0; gate < in_.gates(); ++gate) {
          a[gate] = in_.gates_BTX[gate_at(t, gate, k)];
          for (int from = 0; from < in_.width; ++from) u[gate] += recurrent(gate, k, from) * h[from];
        }
        if (in_.cell == GatedCell::kGru) {
          u[2] += in_.candidate_bias_D[k];
          step.recurrent_candidate.push_back(u[2]);
          const double r = sigmoid(a[0] + u[0]);
          step.gate[0].push_back(r);
          step.gate[1].push_back(sigmoid(a[1] + u[1]));
          step.gate[2].push_back(std::tanh(a[2] + r * u[2]));
        } else if (in_.cell == GatedCell::kElman) {
          step.gate[0].push_back(is_linear(k) ? a[0] + u[0] : std::tanh(a[0] + u[0]));
        } else {
          for (int gate = 0; gate < 4; ++gate)
            step.gate[gate].push_back(gate == 2 ? std::tanh(a[2] + u[2]) : sigmoid(a[gate] + u[gate]));
        }
      }
      for (int k = 0; k < in_.width; ++k) {
        if (in_.cell == GatedCell::kGru) {
          h[k] = (1 - step.gate[1][k]) * step.gate[2][k] + step.gate[1][k] * h[k];
        } else if (in_.cell == GatedCell::kElman) {
          h[k] = step.gate[0][k];
        } else {
          c[k] = step.gate[1][k] * c[k] + step.gate[0][k] * step.gate[2][k];
          h[k] = step.gate[3][k] * std::tanh(c[k]);
        }
      }
      step.c = c;
      step.h = h;
      all.push_back(step);
    }
    return all;
  }

  void add_gradient(const std::vector<double>& h_gradient_BTD, GatedRnnGradient& gradient) const {
    const std::vector<Step> all = steps();
    std::vector<double> d_h(in_.width), d_c(in_.width);  // from later steps
    for (int t = static_cast<int>(all.size()) - 1; t >= 0; --t) {
      const Step& step = all[t];
      std::vector<double> d_u[4], past(in_.width);
      for (int k = 0; k < in_.width; ++k) {
        const double d = d_h[k] + h_gradient_BTD[at(t, k)];
        const double before = t > 0 ? all[t - 1].h[k] : 0, c_before = t > 0 ? all[t - 1].c[k] : 0;
        double g[4] = {};
        for (int gate = 0; gate < in_.gates(); ++gate) g[gate] = step.gate[gate][k];
        double d_a[4] = {};
        if (in_.cell == GatedCell::kGru) {
          d_a[2] = d * (1 - g[1]) * (1 - g[2] * g[2]);
          d_a[1] = d * (before - g[2]) * g[1] * (1 - g[1]);
          d_a[0] = d_a[2] * step.recurrent_candidate[k] * g[0] * (1 - g[0]);
          past[k] = d * g[1];
          gradient.candidate_BTD[at(t, k)] = d_a[2] * g[0];
        } else if (in_.cell == GatedCell::kElman) {
          d_a[0] = is_linear(k) ? d : d * (1 - g[0] * g[0]);
        } else {
          const double squashed = std::tanh(step.c[k]);
          d_c[k] += d * g[3] * (1 - squashed * squashed);
          d_a[3] = d * squashed * g[3] * (1 - g[3]);
          d_a[0] = d_c[k] * g[2] * g[0] * (1 - g[0]);
          d_a[1] = d_c[k] * c_before * g[1] * (1 - g[1]);
          d_a[2] = d_c[k] * g[0] * (1 - g[2] * g[2]);
          d_c[k] *= g[1];
        }
        for (int gate = 0; gate < in_.gates(); ++gate) {
          gradient.gates_BTX[gate_at(t, gate, k)] = d_a[gate];
          d_u[gate].push_back(in_.cell == GatedCell::kGru && gate == 2 ? d_a[2] * g[0] : d_a[gate]);
        }
      }
      d_h = past;
      for (int from = 0; from < in_.width; ++from)
        for (int gate = 0; gate < in_.gates(); ++gate)
          for (int k = 0; k < in_.width; ++k) d_h[from] += recurrent(gate, k, from) * d_u[gate][k];
    }
  }

 private:
  const GatedRnnReferenceInput& in_;
  int row_;
};

}  // namespace

std::vector<double> gated_rnn_reference(const GatedRnnReferenceInput& input) {
  std::vector<double> h_BTD(static_cast<std::size_t>(input.batch) * input.time * input.width);
  for (int b = 0; b < input.batch; ++b) {
    const Row row(input, b);
    const std::vector<Step> steps = row.steps();
    for (int t = 0; t < static_cast<int>(steps.size()); ++t)
      for (int k = 0; k < input.width; ++k) h_BTD[row.at(t, k)] = steps[t].h[k];
  }
  return h_BTD;
}

GatedRnnGradient gated_rnn_reference_backward(const GatedRnnReferenceInput& input,
                                              const std::vector<double>& h_gradient_BTD) {
  const std::size_t steps = static_cast<std::size_t>(input.batch) * input.time * input.width;
  GatedRnnGradient gradient{std::vector<double>(steps * input.gates()),
                            std::vector<double>(input.cell == GatedCell::kGru ? steps : 0)};
  for (int b = 0; b < input.batch; ++b) Row(input, b).add_gradient(h_gradient_BTD, gradient);
  return gradient;
}

}  // namespace engram
