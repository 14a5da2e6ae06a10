#include "memory/ops/cpu_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/cpu/kernels.h"
#include "nn/cpu/rows.h"

namespace engram::cpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kQueries = 60;  // of a block: whole tiles of the products

// Of all rows and heads; the pointers are into [B, T, H, channels] without gaps.
struct AttentionSizes {
  std::int64_t batch, steps, heads, key_width, value_width, window;
  DropoutKey dropout;

  // The keys that the queries of a block see begin with.
  std::int64_t first_key(std::int64_t query) const {
    return std::max<std::int64_t>(0, query - window + 1) / kDropoutGroup * kDropoutGroup;
  }
  std::int64_t most_keys() const { return std::min(steps, window + kQueries + kDropoutGroup); }
  std::int64_t scratch() const {
    return product_scratch(std::max({most_keys(), key_width, value_width})) + 2 * kQueries * most_keys() + kQueries;
  }
  AttentionRows rows(std::int64_t b, std::int64_t h, std::int64_t query) const {
    const std::int64_t count = std::min(kQueries, steps - query), first = first_key(query);
    return {.queries = count,
            .keys = query + count - first,
            .first_query = query,
            .first_key = first,
            .window = window,
            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(key_width))),
            .dropout = dropout,
            .dropout_row = (b * heads + h) * steps + query,
            .channels = steps};
  }
};

float* numbers_of(const Tensor& x) { return static_cast<float*>(x.data_ptr()); }

// work(rows, b, h, first row of the queries and of the keys in [B * T, H], scratch, weights, second) for each block;
// the blocks of one head follow each other on one thread.
template <class Work>
void each_block(const AttentionSizes& sizes, Work work) {
  at::parallel_for(0, sizes.batch * sizes.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* const scratch = scratch_of(sizes.scratch()).data();
    float* const weights = scratch + product_scratch(std::max({sizes.most_keys(), sizes.key_width, sizes.value_width}));
    float *const second = weights + kQueries * sizes.most_keys(), *const third = second + kQueries * sizes.most_keys();
    for (std::int64_t m = begin; m < end; ++m) {
      const std::int64_t b = m / sizes.heads, h = m % sizes.heads;
      for (std::int64_t query = 0; query < sizes.steps; query += kQueries) {
        const AttentionRows rows = sizes.rows(b, h, query);
        const auto at = [&](std::int64_t t) { return (b * sizes.steps + t) * sizes.heads + h; };
        work(rows, m, at(query), at(rows.first_key), scratch, weights, second, third);
      }
    }
  });
}

// [queries, keys] of x y^T over `width` channels of a head.
void products_of(const AttentionRows& rows, const float* x, const float* y, std::int64_t width, std::int64_t stride,
                 float* to, float* scratch) {
  kernels().product({.rows = rows.queries,
                     .columns = rows.keys,
                     .inner = width,
                     .a = x,
                     .a_row = stride,
                     .a_inner = 1,
                     .b = y,
                     .b_inner = 1,
                     .b_column = stride,
                     .c = to,
                     .c_row = rows.keys},
                    scratch);
}
// [queries, width] = weights x
void weighted_sum(const AttentionRows& rows, const float* weights, const float* x, std::int64_t width,
                  std::int64_t stride, float* to, float* scratch) {
  kernels().product({.rows = rows.queries,
                     .columns = width,
                     .inner = rows.keys,
                     .a = weights,
                     .a_row = rows.keys,
                     .a_inner = 1,
                     .b = x,
                     .b_inner = stride,
                     .b_column = 1,
                     .c = to,
                     .c_row = stride},
                    scratch);
}
// [keys, width] += weights^T x
void add_spread(const AttentionRows& rows, const float* weights, const float* x, std::int64_t width,
                std::int64_t stride, float* to, float* scratch) {
  kernels().product({.rows = rows.keys,
                     .columns = width,
                     .inner = rows.queries,
                     .a = weights,
                     .a_row = 1,
                     .a_inner = rows.keys,
                     .b = x,
                     .b_inner = stride,
                     .b_column = 1,
                     .c = to,
                     .c_row = stride,
                     .accumulate = true},
                    scratch);
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        std::int64_t window, const DropoutKey& dropout) {
    const Tensor q = query.contiguous(), k = key.contiguous(), v = value.contiguous();
    const AttentionSizes sizes = sizes_of(q, v, window, dropout);
    const Tensor output = torch::empty(v.sizes(), torch::kFloat32);
    const Tensor log_sum = torch::empty({sizes.batch * sizes.heads, sizes.steps}, torch::kFloat32);
    const std::int64_t K = sizes.key_width, V = sizes.value_width, H = sizes.heads;
    each_block(sizes, [&](const AttentionRows& rows, std::int64_t m, std::int64_t at, std::int64_t key_at,
                          float* scratch, float* weights, float*, float*) {
      products_of(rows, numbers_of(q) + at * K, numbers_of(k) + key_at * K, K, H * K, weights, scratch);
      kernels().attention_weights(rows, weights, numbers_of(log_sum) + m * sizes.steps + rows.first_query);
      weighted_sum(rows, weights, numbers_of(v) + key_at * V, V, H * V, numbers_of(output) + at * V, scratch);
    });
    // Seed and tick as they are now: the clock goes on.
    const Tensor seed_tick =
        dropout.drops() ? torch::tensor({dropout.seed_tick[0], dropout.seed_tick[1]}, torch::kInt64) : Tensor();
    context->save_for_backward({q, k, v, output, log_sum, seed_tick});
    context->saved_data["window"] = window;
    context->saved_data["site"] = static_cast<std::int64_t>(dropout.site);
    context->saved_data["threshold"] = static_cast<std::int64_t>(dropout.threshold);
    context->saved_data["scale"] = static_cast<double>(dropout.scale);
    return output;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &output = saved[3], &log_sum = saved[4];
    DropoutKey dropout;
    if (saved[5].defined()) dropout.seed_tick = saved[5].const_data_ptr<std::int64_t>();
    dropout.site = static_cast<std::uint32_t>(context->saved_data["site"].toInt());
    dropout.threshold = static_cast<std::uint32_t>(context->saved_data["threshold"].toInt());
    dropout.scale = static_cast<float>(context->saved_data["scale"].toDouble());
    const AttentionSizes sizes = sizes_of(q, v, context->saved_data["window"].toInt(), dropout);
    const Tensor d_output = gradient[0].contiguous();
    const Tensor d_q = torch::empty_like(q), d_k = torch::zeros_like(k), d_v = torch::zeros_like(v);
    const std::int64_t K = sizes.key_width, V = sizes.value_width, H = sizes.heads;
    each_block(sizes, [&](const AttentionRows& rows, std::int64_t m, std::int64_t at, std::int64_t key_at,
                          float* scratch, float* weights, float* d_weights, float* dot) {
      const float *const d = numbers_of(d_output) + at * V, *const o = numbers_of(output) + at * V;
      for (std::int64_t r = 0; r < rows.queries; ++r) {
        dot[r] = 0;
        for (std::int64_t c = 0; c < V; ++c) dot[r] += d[r * H * V + c] * o[r * H * V + c];
      }
      products_of(rows, numbers_of(q) + at * K, numbers_of(k) + key_at * K, K, H * K, weights, scratch);
      products_of(rows, d, numbers_of(v) + key_at * V, V, H * V, d_weights, scratch);
      kernels().attention_weights_backward(rows, numbers_of(log_sum) + m * sizes.steps + rows.first_query, dot, weights,
                                           d_weights);
      add_spread(rows, weights, d, V, H * V, numbers_of(d_v) + key_at * V, scratch);
      weighted_sum(rows, d_weights, numbers_of(k) + key_at * K, K, H * K, numbers_of(d_q) + at * K, scratch);
      add_spread(rows, d_weights, numbers_of(q) + at * K, K, H * K, numbers_of(d_k) + key_at * K, scratch);
    });
    return {d_q, d_k, d_v, Tensor(), Tensor()};
  }

 private:
  static AttentionSizes sizes_of(const Tensor& q, const Tensor& v, std::int64_t window, const DropoutKey& dropout) {
    return {q.size(0), q.size(1), q.size(2), q.size(3), v.size(3), std::min(window, q.size(1)), dropout};
  }
};

}  // namespace

Tensor attention(const Tensor& query_BTHK, const Tensor& key_BTHK, const Tensor& value_BTHV, std::int64_t window,
                 const Dropout* weight_dropout) {
  if (value_BTHV.numel() == 0) return torch::empty_like(value_BTHV);
  const DropoutKey dropout = weight_dropout == nullptr ? DropoutKey{} : weight_dropout->key(torch::kCPU);
  return AttentionFunction::apply(query_BTHK, key_BTHK, value_BTHV, window, dropout);
}

}  // namespace engram::cpu
