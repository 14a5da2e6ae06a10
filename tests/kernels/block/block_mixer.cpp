#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/block/block_mixer_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void check_features(const MixerCase& c) {
  const std::string name = c.name();
  INFO(name);
  const FeaturesProblem p = make_features(c);
  const FeaturesResult expected = features_reference(c, p);
  FeaturesDevice device(c, p);
  device.run();
  const FeaturesResult actual = device.result();
  CHECK(relative_error(actual.projected, expected.projected) <= rounded_once(c.dtype));
  CHECK(relative_error(actual.features, expected.features) <= rounded_once(c.dtype));
  CHECK(relative_error(actual.beta, expected.beta) <= rounded_once(c.dtype));
  CHECK(actual.behind_beta == Numbers(actual.behind_beta.size()));
  // The length of a head of one element cancels: the gradient is what the 1e-6 beside its square leaves.
  if (c.width > 1) {
    CHECK(relative_error(actual.d_q, expected.d_q) <= gradient_tolerance(c));
    CHECK(relative_error(actual.d_k, expected.d_k) <= gradient_tolerance(c));
  }
  CHECK(relative_error(actual.d_v, expected.d_v) <= gradient_tolerance(c));
  CHECK(relative_error(actual.d_beta, expected.d_beta) <= gradient_tolerance(c));
}

void check_mix(const MixerCase& c) {
  const std::string name = c.name();
  INFO(name);
  const MixProblem p = make_mix(c);
  const MixResult expected = mix_reference(c, p);
  MixDevice device(c, p);
  device.run();
  const MixResult actual = device.result();
  CHECK(relative_error(actual.out, expected.out) <= rounded_once(c.dtype));
  CHECK(relative_error(actual.d_fast, expected.d_fast) <= gradient_tolerance(c));
  CHECK(relative_error(actual.d_window, expected.d_window) <= gradient_tolerance(c));
  CHECK(relative_error(actual.d_gate, expected.d_gate) <= gradient_tolerance(c));
  CHECK(relative_error(actual.d_weight, expected.d_weight) <= 1e-5);  // a float sum over all rows, whatever their type
}

std::vector<MixerCase> cases(std::initializer_list<int> widths, std::initializer_list<int> rows) {
  std::vector<MixerCase> all;
  unsigned seed = 1;
  for (const Dtype dtype : kDtypes)
    for (const int width : widths)
      for (const int n : rows)
        for (const MixKind kind : {MixKind::kFast, MixKind::kSum, MixKind::kScalar, MixKind::kVector}) {
          MixerCase c{n, 1 + static_cast<int>(seed % 3), width, kind, dtype};
          c.dropout = seed % 3 == 0 ? 0 : 0.2;
          c.seed = seed++;
          if (static_cast<std::int64_t>(n) * width * width < 200'000) all.push_back(c);
        }
  return all;
}

// The same beside each of those with a window, whose branches are normalised.
std::vector<MixerCase> with_branch_norms(const std::vector<MixerCase>& some) {
  std::vector<MixerCase> all = some;
  for (MixerCase c : some)
    if (c.window()) {
      c.branch_norm = true;
      all.push_back(c);
    }
  return all;
}

}  // namespace

TEST_CASE("a mixer's features and their gradients equal the formula's, for every width and number of rows") {
  if (skip_without_gpu()) return;
  for (const MixerCase& c : cases({1, 5, 8, 16, 50, 59, 64, 65, 111, 128}, {1, 7, 33, 129, 5003})) check_features(c);
}

TEST_CASE("a mix and its gradients equal the formula's, for every kind, width and number of rows") {
  if (skip_without_gpu()) return;
  for (const MixerCase& c : with_branch_norms(cases({5, 8, 16, 50, 59, 64, 65, 111, 128}, {1, 7, 33, 129, 5003})))
    check_mix(c);
}

TEST_CASE("NaN in one row of a mixer reaches no other row") {
  if (skip_without_gpu()) return;
  for (const MixerCase& c : with_branch_norms(cases({50}, {37}))) {
    const std::string name = c.name();
    INFO(name);
    const std::int64_t head_row = c.heads * c.padded();
    {
      FeaturesProblem p = make_features(c);
      FeaturesDevice clean(c, p);
      clean.run();
      std::fill_n(p.projected.begin() + 5 * c.stride(), c.stride(), std::nan(""));
      std::fill_n(p.d_features.begin() + 6 * 3 * head_row, 3 * head_row, std::nan(""));
      FeaturesDevice dirty(c, p);
      dirty.run();
      CHECK(equal_but_for(download(clean.features, c.dtype), download(dirty.features, c.dtype), 3 * head_row, 5, 6));
      CHECK(equal_but_for(download(clean.beta, c.dtype), download(dirty.beta, c.dtype), c.heads, 5, 6));
      CHECK(equal_but_for(columns(download(clean.d_projected, c.dtype), c.stride(), 0, c.gate()),
                          columns(download(dirty.d_projected, c.dtype), c.stride(), 0, c.gate()), c.gate(), 5, 7));
      CHECK(std::isnan(download(dirty.features, c.dtype)[5 * 3 * head_row]));
    }
    MixProblem p = make_mix(c);
    MixDevice clean(c, p);
    clean.run();
    std::fill_n(p.fast.begin() + 5 * head_row, head_row, std::nan(""));
    std::fill_n(p.d_out.begin() + 6 * head_row, head_row, std::nan(""));
    MixDevice dirty(c, p);
    dirty.run();
    CHECK(equal_but_for(download(clean.out, c.dtype), download(dirty.out, c.dtype), head_row, 5, 6));
    CHECK(equal_but_for(download(clean.d_fast, c.dtype), download(dirty.d_fast, c.dtype), head_row, 5, 7));
    CHECK(std::isnan(download(dirty.out, c.dtype)[5 * head_row]));
    if (c.kind == MixKind::kFast) continue;
    CHECK(equal_but_for(download(clean.d_window, c.dtype), download(dirty.d_window, c.dtype), head_row, 5, 7));
    if (c.gate_columns() > 0)
      CHECK(equal_but_for(columns(download(clean.d_projected, c.dtype), c.stride(), c.gate(), c.gate_columns()),
                          columns(download(dirty.d_projected, c.dtype), c.stride(), c.gate(), c.gate_columns()),
                          c.gate_columns(), 5, 7));
  }
}

TEST_CASE("the same mixer gives the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes) {
    MixerCase c{1111, 2, 50, MixKind::kVector, dtype};
    c.dropout = 0.1;
    const FeaturesProblem features = make_features(c);
    const MixProblem mix = make_mix(c);
    FeaturesDevice features_device(c, features);
    MixDevice mix_device(c, mix);
    CHECK(different_runs([&] {
            features_device.run();
            return std::vector{features_device.features.to_host(), features_device.beta.to_host(),
                               features_device.d_projected.to_host()};
          }) == 0);
    CHECK(different_runs([&] {
            mix_device.run();
            return std::vector{mix_device.out.to_host(), mix_device.d_fast.to_host(), mix_device.d_window.to_host(),
                               mix_device.d_projected.to_host(), mix_device.d_weight.to_host()};
          }) == 0);
  }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: mixers") {
  if (skip_without_gpu()) return;
  for (const MixerCase& c : cases({5, 50, 111}, {7})) check_features(c);
  for (const MixerCase& c : with_branch_norms(cases({5, 50, 111}, {7}))) check_mix(c);
}
