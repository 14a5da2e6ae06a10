// The cells of Elman network, GRU and LSTM without a GPU: the kernels' own text of a step and of its gradient, channel
// by channel; and the reference itself, against differences of it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/recurrences/gated_rnn/cell.h"
#include "tests/kernels/recurrences/gated_rnn_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::gated_rnn;

namespace {

template <class Cell>
class Walk {
 public:
  explicit Walk(const GatedRnnProblem& problem) : problem_(problem), in_(problem.input) {
    const std::size_t steps = problem.h_gradient_BTD.size();
    result_ = {Numbers(steps), Numbers(steps), Numbers(steps * Cell::kGates),
               Numbers(Cell::kHasCandidateBias ? steps : 0)};
  }

  GatedRnnResult result() {
    for (int row = 0; row < in_.batch; ++row) walk(row);
    return result_;
  }

 private:
  static constexpr int kGates = Cell::kGates;
  struct Kept {
    float saved[Cell::kSaved], hidden_before, cell_before, cell;
  };
  struct Gates {
    float x[kGates] = {};
  };

  void walk(int row) {
    const int length = in_.length_B[row], width = in_.width;
    const auto at = [&](int t, int k) { return (static_cast<std::size_t>(row) * in_.time + t) * width + k; };
    const auto gate_at = [&](int t, int gate, int k) {
      return ((static_cast<std::size_t>(row) * in_.time + t) * kGates + gate) * width + k;
    };
    const auto weight = [&](int gate, int k, int from) {
      return static_cast<float>(in_.recurrent_XD[(static_cast<std::size_t>(gate) * width + k) * width + from]);
    };
    std::vector<std::vector<Kept>> kept(length, std::vector<Kept>(width));
    std::vector<float> h(width), c(width);
    for (int t = 0; t < length; ++t) {
      const std::vector<float> before = h;
      for (int k = 0; k < width; ++k) {
        Gates input, recurrent;
        for (int gate = 0; gate < kGates; ++gate) {
          input.x[gate] = static_cast<float>(in_.gates_BTX[gate_at(t, gate, k)]);
          for (int from = 0; from < width; ++from) recurrent.x[gate] += weight(gate, k, from) * before[from];
        }
        if constexpr (Cell::kHasCandidateBias) recurrent.x[2] += static_cast<float>(in_.candidate_bias_D[k]);
        Kept& own = kept[t][k];
        own.hidden_before = before[k], own.cell_before = c[k];
        h[k] = Cell::next(input.x, recurrent.x, before[k], c[k], own.saved, k >= width - in_.linear);
        own.cell = c[k];
        result_.h_BTD[at(t, k)] = h[k];
        if (t + 1 < length) result_.h_before_BTD[at(t + 1, k)] = h[k];
      }
    }
    std::vector<float> d_h(width), d_c(width);
    for (int t = length - 1; t >= 0; --t) {
      std::vector<Gates> d_u(width);
      for (int k = 0; k < width; ++k) {
        const Kept& own = kept[t][k];
        const auto gradient = Cell::back(own.saved, own.hidden_before, own.cell_before, own.cell,
                                         d_h[k] + static_cast<float>(problem_.h_gradient_BTD[at(t, k)]), d_c[k]);
        for (int gate = 0; gate < kGates; ++gate) {
          result_.gates_gradient_BTX[gate_at(t, gate, k)] = gradient.d_input[gate];
          d_u[k].x[gate] = gradient.d_recurrent[gate];
        }
        if constexpr (Cell::kHasCandidateBias) result_.candidate_gradient_BTD[at(t, k)] = gradient.d_recurrent[2];
        d_h[k] = gradient.d_hidden;
      }
      for (int from = 0; from < width; ++from)
        for (int gate = 0; gate < kGates; ++gate)
          for (int k = 0; k < width; ++k) d_h[from] += weight(gate, k, from) * d_u[k].x[gate];
    }
  }

  const GatedRnnProblem& problem_;
  const GatedRnnReferenceInput& in_;
  GatedRnnResult result_;
};

double loss(const GatedRnnReferenceInput& input, const Numbers& weight) {
  const Numbers h = gated_rnn_reference(input);
  double sum = 0;
  for (std::size_t i = 0; i < h.size(); ++i)
    if (!std::isnan(weight[i])) sum += weight[i] * h[i];
  return sum;
}

}  // namespace

TEST_CASE("the cells of Elman network, GRU and LSTM and their gradients are those of the plain equations") {
  for (const GatedCell cell : kGatedCells)
    for (const GatedRnnCase& c :
         {GatedRnnCase{cell, 3, 1, 2}, {cell, 3, 30, 5}, {cell, 2, 100, 16}, {cell, 4, 12, 8, 6}})
      check_gated_rnn(c, 2e-6, [&](const GatedRnnProblem& problem) {
        return cell == GatedCell::kElman ? Walk<Elman>(problem).result()
               : cell == GatedCell::kGru ? Walk<Gru>(problem).result()
                                         : Walk<Lstm>(problem).result();
      });
  for (const int linear : {1, 4, 8})
    check_gated_rnn({GatedCell::kElman, 4, 12, 8, 1.5, 0.7, linear}, 2e-6,
                    [](const GatedRnnProblem& problem) { return Walk<Elman>(problem).result(); });
}

TEST_CASE("the reference's gradient of each cell is that of differences") {
  for (const auto& [cell, linear] :
       {std::pair(GatedCell::kElman, 0), {GatedCell::kElman, 3}, {GatedCell::kGru, 0}, {GatedCell::kLstm, 0}}) {
    GatedRnnProblem problem({cell, 3, 6, 4, 1.5, 1, linear});
    const GatedRnnGradient gradient = gated_rnn_reference_backward(problem.input, problem.h_gradient_BTD);
    constexpr double kStep = 1e-6;
    const auto slope = [&](double& x) {
      const double before = x;
      x = before + kStep;
      const double above = loss(problem.input, problem.h_gradient_BTD);
      x = before - kStep;
      const double below = loss(problem.input, problem.h_gradient_BTD);
      x = before;
      return (above - below) / (2 * kStep);
    };
    for (std::size_t i = 0; i < gradient.gates_BTX.size(); ++i) {
      if (std::isnan(problem.input.gates_BTX[i])) continue;
      CHECK(slope(problem.input.gates_BTX[i]) == doctest::Approx(gradient.gates_BTX[i]).epsilon(1e-6));
    }
    // The candidate's bias is added at every step.
    for (std::size_t k = 0; k < problem.input.candidate_bias_D.size(); ++k) {
      double sum = 0;
      for (std::size_t i = k; i < gradient.candidate_BTD.size(); i += problem.input.width)
        sum += gradient.candidate_BTD[i];
      CHECK(slope(problem.input.candidate_bias_D[k]) == doctest::Approx(sum).epsilon(1e-6));
    }
  }
}
