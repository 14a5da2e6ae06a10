// Fused blocks of the family of fast weights.
#include <doctest/doctest.h>

#include <vector>

#include "tests/gpu.h"
#include "tests/memory/fused/problems.h"
#include "tests/memory/support.h"

using namespace engram;
using namespace engram::testing;

namespace {

// The family of fast weights: the published members that have kernels, and settings that together have every value of
// every option that the kernels take.
const std::vector<Variant> kFamily = {
    {"linear_transformer", {}},
    {"performer", {}},
    {"dpfp", {}},
    {"delta_2021", {}},
    {"gated_deltanet", {}},
    {"retnet", {}},
    {"mamba2", {}},
    {"mlstm", {}},
    {"mlstm", {{"decay", "none"}, {"feature_map", "silu"}, {"key_norm", "l2"}, {"convolution", "true"}}},
    {"fast_weights", {{"rule", "gated_sum"}, {"beta_factor", "1"}, {"feature_map", "elu"}, {"key_norm", "sum"}}},
    {"fast_weights", {{"rule", "gated_sum"}, {"beta_factor", "1"}, {"convolution", "true"}, {"value_silu", "false"}}},
    {"fast_weights", {{"rule", "sum"}, {"attention_norm", "at_least_one"}, {"output_gate", "sigmoid"}}},
    {"fast_weights",
     {{"decay", "fixed"}, {"feature_map", "relu"}, {"convolution", "true"}, {"output_gate", "sigmoid"}}},
    {"fast_weights",
     {{"rule", "sum"},
      {"decay", "scalar"},
      {"feature_map", "elu"},
      {"attention_norm", "sum"},
      {"convolution", "true"}}},
    {"fast_weights", {{"feature_map", "dpfp"}, {"convolution", "true"}, {"output_gate", "silu"}}},
    {"fast_weights", {{"feature_map", "favor"}, {"favor_features", "13"}, {"convolution", "true"}}},
};

}  // namespace

TEST_CASE("of the fast weights' family output and all gradients are the definition's, dropout included") {
  if (!skip_without_gpu()) check_all(kFamily);
}

TEST_CASE("small shapes: fused blocks of the family") {
  if (!skip_without_gpu()) check_small(kFamily);
}
