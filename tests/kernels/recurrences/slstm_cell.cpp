// sLSTM's cell without a GPU: the kernels' own text of a step and of its gradient, channel by channel.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/recurrences/slstm/cell.h"
#include "tests/kernels/recurrences/slstm_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::slstm;

namespace {

class Walk {
 public:
  explicit Walk(const SlstmProblem& problem)
      : problem_(problem),
        in_(problem.input),
        result_{std::vector<float>(problem.h_gradient_BTHK.size()), std::vector<float>(in_.gates_BTHX.size())} {}

  SlstmResult result() {
    for (int row = 0; row < in_.batch; ++row)
      for (int head = 0; head < in_.heads; ++head) walk_head(row, head);
    return result_;
  }

 private:
  float recurrent(int head, int from, int gate, int k) const {
    return static_cast<float>(
        in_.recurrent_HKX[((static_cast<std::size_t>(head) * in_.width + from) * 4 + gate) * in_.width + k]);
  }

  void walk_head(int row, int head) {
    const int length = in_.length_B[row], width = in_.width;
    const auto first = [&](int t) { return (static_cast<std::size_t>(row) * in_.time + t) * in_.heads + head; };
    struct Gates {
      float a[kGates];
    };
    std::vector<std::vector<Gates>> gates(length, std::vector<Gates>(width));
    std::vector<std::vector<Cell>> cells(length + 1, std::vector<Cell>(width));  // cells[t]: before step t
    std::vector<float> h(width);
    for (int t = 0; t < length; ++t) {
      for (int k = 0; k < width; ++k)
        for (int gate = 0; gate < kGates; ++gate) {
          float& a = gates[t][k].a[gate] = static_cast<float>(in_.gates_BTHX[(first(t) * 4 + gate) * width + k]);
          for (int from = 0; from < width; ++from) a += recurrent(head, from, gate, k) * h[from];
        }
      for (int k = 0; k < width; ++k) {
        cells[t + 1][k] = next(cells[t][k], gates[t][k].a);
        h[k] = result_.h_BTHK[first(t) * width + k] = hidden(cells[t + 1][k], gates[t][k].a[kOutput]);
      }
    }
    std::vector<float> d_h(width);
    std::vector<CellGradient> carried(width);
    for (int t = length - 1; t >= 0; --t) {
      std::vector<Gates> d_gates(width);
      for (int k = 0; k < width; ++k) {
        const auto given = static_cast<float>(problem_.h_gradient_BTHK[first(t) * width + k]);
        back(cells[t][k], cells[t + 1][k], gates[t][k].a, d_h[k] + given, carried[k], d_gates[k].a);
        for (int gate = 0; gate < kGates; ++gate)
          result_.gates_gradient_BTHX[(first(t) * 4 + gate) * width + k] = d_gates[k].a[gate];
      }
      for (int from = 0; from < width; ++from) {
        d_h[from] = 0;
        for (int gate = 0; gate < kGates; ++gate)
          for (int k = 0; k < width; ++k) d_h[from] += recurrent(head, from, gate, k) * d_gates[k].a[gate];
      }
    }
  }

  const SlstmProblem& problem_;
  const SlstmReferenceInput& in_;
  SlstmResult result_;
};

}  // namespace

TEST_CASE("sLSTM's cell and its gradient are those of the plain equations") {
  check_each(
      std::vector<SlstmCase>{{3, 1, 1, 1}, {3, 30, 2, 5}, {2, 100, 1, 16}, {4, 12, 3, 8, 6}, {2, 40, 2, 9, 0.3}},
      [](const SlstmCase& c) { check_slstm(c, [](const SlstmProblem& problem) { return Walk(problem).result(); }); });
}

TEST_CASE("sLSTM's cell is finite, with its gradient, whatever its gates are") {
  for (const float size : {1e3f, 1e30f})
    for (int signs = 0; signs < 1 << kGates; ++signs) {
      float a[kGates], d_a[kGates];
      for (int gate = 0; gate < kGates; ++gate) a[gate] = (signs >> gate & 1) != 0 ? size : -size;
      Cell before{}, cell{};
      for (int t = 0; t < 3; ++t) {
        before = cell;
        cell = next(before, a);
      }
      CellGradient carried;
      back(before, cell, a, 1, carried, d_a);
      CAPTURE(size);
      CAPTURE(signs);
      CHECK(std::isfinite(hidden(cell, a[kOutput])));
      for (const float x : d_a) CHECK(std::isfinite(x));
      CHECK(std::isfinite(carried.c));
      CHECK(std::isfinite(carried.n));
    }
}
