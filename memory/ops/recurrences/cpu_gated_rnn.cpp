#include "memory/ops/recurrences/cpu_gated_rnn.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/recurrences/gated_rnn/cell.h"
#include "nn/cpu/kernels.h"
#include "nn/cpu/layers.h"
#include "nn/cpu/rows.h"

namespace engram::cpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kGroup = 32;  // rows that go through their steps together

// Where a problem's numbers stand; a layer's channels follow each other.
struct Shape {
  std::int64_t batch, steps, width;
  std::int64_t linear = 0;  // channels, of the Elman network

  std::int64_t row(std::int64_t b, std::int64_t t, std::int64_t columns) const { return (b * steps + t) * columns; }
};

struct Saved {
  float *h_BTD, *gates_BTYD, *cells_BTD;  // Y = Cell::kSaved
};

// work(first row, rows, steps of the longest)
template <class Work>
void in_groups(const Shape& shape, const std::int64_t* length_B, const Work& work) {
  at::parallel_for(0, (shape.batch + kGroup - 1) / kGroup, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * kGroup, rows = std::min(kGroup, shape.batch - first);
      work(first, rows, *std::max_element(length_B + first, length_B + first + rows));
    }
  });
}

template <class Cell>
void forward_group(const Shape& shape, const float* gates_BTX, const float* recurrent_XD, const float* candidate_bias_D,
                   const std::int64_t* length_B, const Saved& out, std::int64_t first, std::int64_t rows,
                   std::int64_t steps) {
  constexpr int kGates = Cell::kGates;
  const std::int64_t width = shape.width, columns = kGates * width;
  std::vector<float> hidden(static_cast<std::size_t>(rows * width)), cell(hidden),
      sums(static_cast<std::size_t>(rows * columns));
  float* const scratch = scratch_of(product_scratch(columns)).data();
  for (std::int64_t t = 0; t < steps; ++t) {
    if (t > 0)
      layer({rows, columns, width}, hidden.data(), recurrent_XD, /*bias=*/nullptr, sums.data(), /*relu=*/false,
            scratch);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (t >= length_B[first + r]) continue;
      const float* const input = gates_BTX + shape.row(first + r, t, columns);
      const float* const sum = sums.data() + r * columns;
      float* const h = out.h_BTD + shape.row(first + r, t, width);
      float* const kept = out.gates_BTYD + shape.row(first + r, t, Cell::kSaved * width);
      for (std::int64_t k = 0; k < width; ++k) {
        float a[kGates], u[kGates], saved[Cell::kSaved];
        for (int gate = 0; gate < kGates; ++gate) a[gate] = input[gate * width + k], u[gate] = sum[gate * width + k];
        if constexpr (Cell::kHasCandidateBias) u[2] += candidate_bias_D[k];
        float& own = hidden[static_cast<std::size_t>(r * width + k)];
        float& c = cell[static_cast<std::size_t>(r * width + k)];
        h[k] = own = Cell::next(a, u, own, c, saved, /*linear=*/k >= width - shape.linear);
        for (int i = 0; i < Cell::kSaved; ++i) kept[i * width + k] = saved[i];
        if (Cell::kHasCell) out.cells_BTD[shape.row(first + r, t, width) + k] = c;
      }
    }
  }
}

struct Gradients {
  float *gates_BTX, *recurrent_BTX;  // of a_t and of u_t; one memory but for the GRU: others have them alike
};

template <class Cell>
void backward_group(const Shape& shape, const float* recurrent_XD, const std::int64_t* length_B, const Saved& saved,
                    const float* d_h_BTD, const Gradients& out, std::int64_t first, std::int64_t rows,
                    std::int64_t steps) {
  constexpr int kGates = Cell::kGates;
  const std::int64_t width = shape.width, columns = kGates * width;
  std::vector<float> d_hidden(static_cast<std::size_t>(rows * width)), d_cell(d_hidden), d_sums;
  d_sums.resize(static_cast<std::size_t>(rows * columns));
  float* const scratch = scratch_of(product_scratch(width)).data();
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const d_sum = d_sums.data() + r * columns;
      float* const d = d_hidden.data() + r * width;
      if (t >= length_B[first + r]) continue;  // all of it is zero still
      const std::int64_t at = shape.row(first + r, t, width);
      const float* const kept = saved.gates_BTYD + shape.row(first + r, t, Cell::kSaved * width);
      float* const d_gates = out.gates_BTX + shape.row(first + r, t, columns);
      float* const d_recurrent = out.recurrent_BTX + shape.row(first + r, t, columns);
      for (std::int64_t k = 0; k < width; ++k) {
        float numbers[Cell::kSaved];
        for (int i = 0; i < Cell::kSaved; ++i) numbers[i] = kept[i * width + k];
        const float before = t > 0 ? saved.h_BTD[at - width + k] : 0;
        const float cell_before = Cell::kHasCell && t > 0 ? saved.cells_BTD[at - width + k] : 0;
        const float cell = Cell::kHasCell ? saved.cells_BTD[at + k] : 0;
        const auto gradient = Cell::back(numbers, before, cell_before, cell, d[k] + d_h_BTD[at + k],
                                         d_cell[static_cast<std::size_t>(r * width + k)]);
        for (int gate = 0; gate < kGates; ++gate) {
          d_gates[gate * width + k] = gradient.d_input[gate];
          d_recurrent[gate * width + k] = d_sum[gate * width + k] = gradient.d_recurrent[gate];
        }
        d[k] = gradient.d_hidden;
      }
    }
    if (t > 0)
      layer_input_gradient({rows, columns, width}, d_sums.data(), recurrent_XD, d_hidden.data(), /*adds=*/true,
                           /*positive=*/nullptr, scratch);
  }
}

class GatedRnnFunction : public torch::autograd::Function<GatedRnnFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gates_given, const Tensor& recurrent_given,
                        const Tensor& candidate_bias_given, const Tensor& lengths_B, std::int64_t linear) {
    const Tensor gates_BTX = gates_given.contiguous(), recurrent_XD = recurrent_given.contiguous(),
                 candidate_bias_D = candidate_bias_given.contiguous(), length_B = lengths_B.contiguous();
    const Shape shape{gates_BTX.size(0), gates_BTX.size(1), recurrent_XD.size(1), linear};
    const Tensor h_BTD = torch::zeros({shape.batch, shape.steps, shape.width}, torch::kFloat32);
    Tensor saved_BTYD, cells_BTD;
    const std::int64_t* const lengths = length_B.const_data_ptr<std::int64_t>();
    gated_rnn::of_cell(gated_cell_of(recurrent_XD), [&](auto cell) {
      using Cell = decltype(cell);
      saved_BTYD = torch::empty({shape.batch, shape.steps, Cell::kSaved, shape.width}, torch::kFloat32);
      cells_BTD = Cell::kHasCell ? torch::empty_like(h_BTD) : torch::empty({0}, torch::kFloat32);
      const Saved out{h_BTD.data_ptr<float>(), saved_BTYD.data_ptr<float>(), cells_BTD.data_ptr<float>()};
      in_groups(shape, lengths, [&](std::int64_t first, std::int64_t rows, std::int64_t steps) {
        forward_group<Cell>(shape, gates_BTX.const_data_ptr<float>(), recurrent_XD.const_data_ptr<float>(),
                            candidate_bias_D.const_data_ptr<float>(), lengths, out, first, rows, steps);
      });
    });
    context->save_for_backward({recurrent_XD, length_B, h_BTD, saved_BTYD, cells_BTD});
    return h_BTD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "gated cells on a CPU have no second derivative");
    const variable_list kept = context->get_saved_variables();
    const Tensor &recurrent_XD = kept[0], &length_B = kept[1], &h_BTD = kept[2], d_h_BTD = gradient[0].contiguous();
    const Shape shape{h_BTD.size(0), h_BTD.size(1), h_BTD.size(2)};
    const bool gru = gated_cell_of(recurrent_XD) == GatedCell::kGru;
    const std::int64_t columns = recurrent_XD.size(0);
    // Zero behind the lengths.
    const Tensor d_gates_BTX = torch::zeros({shape.batch, shape.steps, columns}, torch::kFloat32);
    const Tensor d_recurrent_BTX = gru ? torch::zeros_like(d_gates_BTX) : d_gates_BTX;
    const Saved saved{h_BTD.data_ptr<float>(), kept[3].data_ptr<float>(), kept[4].data_ptr<float>()};
    const Gradients out{d_gates_BTX.data_ptr<float>(), d_recurrent_BTX.data_ptr<float>()};
    const std::int64_t* const lengths = length_B.const_data_ptr<std::int64_t>();
    gated_rnn::of_cell(gated_cell_of(recurrent_XD), [&](auto cell) {
      in_groups(shape, lengths, [&](std::int64_t first, std::int64_t rows, std::int64_t steps) {
        backward_group<decltype(cell)>(shape, recurrent_XD.const_data_ptr<float>(), lengths, saved,
                                       d_h_BTD.const_data_ptr<float>(), out, first, rows, steps);
      });
    });
    // U's gradient: the sum over all rows and steps of d_u_t times h_{t-1}.
    const Tensor h_before_SD = torch::constant_pad_nd(h_BTD.narrow(1, 0, shape.steps - 1), {0, 0, 1, 0}).flatten(0, 1);
    Sums sums({recurrent_XD.sizes()});
    in_parts(shape.batch * shape.steps, sums, std::max(product_scratch(shape.width), product_scratch(columns)),
             [&](std::int64_t first, std::int64_t rows, float* const* sum, float* scratch) {
               add_weight_gradient({rows, columns, shape.width}, out.recurrent_BTX + first * columns,
                                   h_before_SD.data_ptr<float>() + first * shape.width, sum[0], scratch);
             });
    const Tensor d_bias_D =
        gru ? d_recurrent_BTX.flatten(0, 1).narrow(1, 2 * shape.width, shape.width).sum(0) : Tensor();
    return {d_gates_BTX, sums.total()[0], d_bias_D, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor gated_rnn(const GatedRnnWeights& weights, const Tensor& input_BTD, const Tensor& lengths_B) {
  const auto [bias_X, candidate_bias_D] = weights.biases();
  const Tensor gates_BTX = linear(input_BTD, weights.input_XI, bias_X);
  return GatedRnnFunction::apply(gates_BTX, weights.recurrent_XD, candidate_bias_D, lengths_B, weights.linear);
}

}  // namespace engram::cpu
