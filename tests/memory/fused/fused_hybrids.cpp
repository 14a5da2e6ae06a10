// Fused blocks of hybrids of the two memories.
#include <doctest/doctest.h>

#include <vector>

#include "tests/gpu.h"
#include "tests/memory/fused/problems.h"
#include "tests/memory/support.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Hybrids of the two memories beyond HQLT over deltanet's fast weights: over others, behind a convolution, with a
// delay, and in layers. Windows smaller and larger than an episode, episodes that are whole chunks (of 5, 13 and 65)
// and that are not.
const std::vector<Variant> kHybrids = {
    {"hqlt", {{"window", "7"}, {"fast_weights", "delta_2021"}}},
    {"hqlt", {{"window", "7"}, {"fast_weights", "retnet"}, {"mixing", "scalar"}}},
    {"hqlt", {{"window", "200"}, {"fast_weights", "mlstm"}, {"mixing", "sum"}}},
    {"hqlt", {{"window", "7"}, {"fast_weights", "mlstm"}}},
    {"hqlt", {{"window", "7"}, {"fast_weights", "linear_transformer"}, {"branch_norm", "true"}}},
    {"hqlt", {{"window", "7"}, {"fast_weights", "gated_deltanet"}, {"positions", "none"}}},
    {"hqlt", {{"window", "7"}, {"fast_weights", "fast_weights:rule=gated_sum:beta_factor=1"}}},
    {"hqlt", {{"window", "7"}, {"output_gate", "true"}}},
    {"hqlt", {{"window", "7"}, {"output_gate", "true"}, {"fast_weights", "mlstm"}, {"branch_norm", "true"}}},
    {"hqlt", {{"window", "7"}, {"convolution", "true"}}},
    {"hqlt",
     {{"window", "200"},
      {"convolution", "true"},
      {"fast_weights", "delta_2021"},
      {"mixing", "scalar"},
      {"positions", "none"}}},
    {"hqlt_delayed_stream", {{"window", "7"}, {"convolution", "true"}}},
    {"hqlt_delayed_chunk", {{"window", "13"}, {"convolution", "true"}, {"output_gate", "true"}}},
    {"hqlt_delayed_stream", {{"window", "7"}}},
    {"hqlt_delayed_stream", {{"window", "200"}, {"mixing", "scalar"}, {"positions", "none"}}},
    {"hqlt_delayed_stream", {{"window", "1"}, {"mixing", "sum"}, {"branch_norm", "true"}}},
    {"hqlt_delayed_chunk", {{"window", "7"}}},
    {"hqlt_delayed_chunk", {{"window", "5"}, {"mixing", "scalar"}, {"positions", "none"}, {"output_gate", "true"}}},
    {"hqlt_delayed_chunk", {{"window", "13"}, {"mixing", "sum"}}},
    {"hqlt_delayed_chunk", {{"window", "200"}}},
    {"stack", {{"stack", "deltanet,window:window=7,retnet"}}},
    {"stack", {{"stack", "window:window=200:positions=none,hqlt_delayed_chunk:window=65"}}},
    {"transformer++", {}},
};

}  // namespace

TEST_CASE("of hybrids output and all gradients are the definition's, dropout included") {
  if (!skip_without_gpu()) check_all(kHybrids);
}

TEST_CASE("small shapes: fused blocks of hybrids") {
  if (!skip_without_gpu()) check_small(kHybrids);
}
