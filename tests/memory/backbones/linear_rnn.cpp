// minGRU, LRU, S5 and RG-LRU against their equations, in plain loops over time.
#include "memory/backbones/recurrent/linear_rnn.h"

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kRecurrentSteps = 30, kRecurrentWidth = 6;

Tensor map(const Parameters& p, const std::string& name, const Tensor& x) { return p.at(name + ".weight").mv(x); }

// A stack of two blocks around mixer(p, prefix, x_TD), which is compared with the model's.
void check_definition(const Variant& variant,
                      const std::function<Tensor(const Parameters&, const std::string&, const Tensor&)>& mixer) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  auto model = make_model(variant, kRecurrentSteps, torch::kFloat64);
  enlarge_weights(*model);
  const Parameters p = parameters_by_name(*model);
  Tensor x_TD = torch::randn({kRecurrentSteps, kRecurrentWidth}, torch::kFloat64);
  const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    x_TD = x_TD + mixer(p, block + "mixer.", plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight")));
    x_TD = x_TD + swiglu(plain_rms_norm(x_TD, p.at(block + "mlp_norm.weight")), p, block + "mlp.");
  }
  CHECK(relative_error(output_TD, plain_rms_norm(x_TD, p.at("norm.weight"))) < 1e-10);
}

Variant small(const std::string& name, const std::string& channels) {
  return {name,
          {{"width", std::to_string(kRecurrentWidth)}, {"layers", "2"}, {"mlp_width", "7"}, {"state_width", channels}}};
}

// y_t = factor Re(C h_t) + D x_t with h_t = a h_{t-1} + s (B x_t), number by number.
Tensor complex_recurrence(const Parameters& p, const std::string& name, const Tensor& x_TD,
                          const std::vector<std::complex<double>>& a, const std::vector<std::complex<double>>& s) {
  const auto channels = static_cast<std::int64_t>(a.size());
  const Tensor input = p.at(name + "input.weight"), output = p.at(name + "output.weight"), skip = p.at(name + "skip");
  std::vector<std::complex<double>> h(a.size());
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x_TD.size(0); ++t) {
    Tensor y = skip * x_TD[t];
    for (std::int64_t n = 0; n < channels; ++n) {
      const std::complex<double> written{input[2 * n].dot(x_TD[t]).item<double>(),
                                         input[2 * n + 1].dot(x_TD[t]).item<double>()};
      auto& own = h[static_cast<std::size_t>(n)];
      own = a[static_cast<std::size_t>(n)] * own + s[static_cast<std::size_t>(n)] * written;
      // Real and imaginary part have a column each.
      y = y + output.select(1, 2 * n) * own.real() + output.select(1, 2 * n + 1) * own.imag();
    }
    outputs.push_back(y);
  }
  return torch::stack(outputs);
}

double number(const Parameters& p, const std::string& name, std::int64_t i) { return p.at(name)[i].item<double>(); }

}  // namespace

TEST_CASE("minGRU equals its equations") {
  check_definition(small("min_gru", "4"), [](const Parameters& p, const std::string& name, const Tensor& x_TD) {
    Tensor h = torch::zeros({4}, torch::kFloat64);
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < kRecurrentSteps; ++t) {
      const Tensor z = plain_sigmoid(map(p, name + "gate", x_TD[t]) + p.at(name + "gate_bias"));
      h = (1 - z) * h + z * map(p, name + "candidate", x_TD[t]);
      outputs.push_back(map(p, name + "output", h));
    }
    return torch::stack(outputs);
  });
}

TEST_CASE("the linear recurrent unit equals its equations") {
  check_definition(small("lru", "4"), [](const Parameters& p, const std::string& name, const Tensor& x_TD) {
    std::vector<std::complex<double>> a, s;
    for (std::int64_t n = 0; n < 4; ++n) {
      a.push_back(std::exp(std::complex(-std::exp(number(p, name + "nu", n)), std::exp(number(p, name + "theta", n)))));
      CHECK(std::abs(a.back()) < 1);
      s.push_back(std::exp(number(p, name + "log_gamma", n)));
    }
    return complex_recurrence(p, name, x_TD, a, s);
  });
}

TEST_CASE("S5 equals its equations, by zero-order hold") {
  check_definition(small("s5", "4"), [](const Parameters& p, const std::string& name, const Tensor& x_TD) {
    std::vector<std::complex<double>> a, s;
    for (std::int64_t n = 0; n < 4; ++n) {
      const std::complex<double> rate{-std::exp(number(p, name + "log_rate", n)), number(p, name + "frequency", n)};
      const double step = std::exp(number(p, name + "log_step", n));
      a.push_back(std::exp(rate * step));
      CHECK(std::abs(a.back()) < 1);
      s.push_back((a.back() - 1.0) / rate);
    }
    return complex_recurrence(p, name, x_TD, a, s);
  });
}

TEST_CASE("Griffin's recurrent block equals its equations, with its first step scaled or not") {
  for (const bool scaled : {false, true}) {
    Variant variant = small("rg_lru", "4");
    variant.settings.emplace_back("scale_first_step", scaled ? "true" : "false");
    check_definition(variant, [scaled](const Parameters& p, const std::string& name, const Tensor& x_TD) {
      Tensor h = torch::zeros({4}, torch::kFloat64);
      std::vector<Tensor> inputs, outputs;
      for (std::int64_t t = 0; t < kRecurrentSteps; ++t) {
        inputs.push_back(map(p, name + "input", x_TD[t]));
        Tensor u = p.at(name + "convolution_bias").clone();
        for (std::int64_t age = 0; age < 4 && age <= t; ++age)
          u += p.at(name + "convolution.weight").select(1, 3 - age) * inputs[static_cast<std::size_t>(t - age)];
        const auto gate = [&](const std::string& gate_name) {
          return plain_sigmoid(map(p, name + gate_name, u) + p.at(name + gate_name + ".bias"));
        };
        const Tensor a = torch::pow(plain_sigmoid(p.at(name + "decay")), 8 * gate("recurrence_gate"));
        const Tensor scale = t == 0 && !scaled ? torch::ones_like(a) : (1 - a * a).sqrt();
        h = a * h + scale * (gate("input_gate") * u);
        const Tensor g = map(p, name + "gate", x_TD[t]);
        const Tensor gelu = 0.5 * g * (1 + torch::erf(g / std::sqrt(2.0)));
        outputs.push_back(map(p, name + "output", gelu * h));
      }
      return torch::stack(outputs);
    });
  }
}

TEST_CASE("linear recurrent networks begin with the published factors") {
  torch::manual_seed(2);
  const Parameters lru = parameters_by_name(
      *make_model({"lru", {{"r_min", "0.5"}, {"r_max", "0.8"}, {"max_phase", "0.3"}}}, 10, torch::kFloat32));
  const Tensor radius = torch::exp(-torch::exp(lru.at("blocks.0.mixer.nu")));
  const Tensor angle = torch::exp(lru.at("blocks.0.mixer.theta"));
  CHECK(radius.min().item<double>() > 0.5 - 1e-6);
  CHECK(radius.max().item<double>() < 0.8 + 1e-6);
  // Evenly over the ring: the squares have the mean and the spread of U(0.25, 0.64).
  CHECK(std::abs(radius.square().mean().item<double>() - 0.445) < 0.06);
  CHECK(std::abs(radius.square().std().item<double>() - 0.39 / std::sqrt(12.0)) < 0.03);
  CHECK(angle.max().item<double>() <= 0.3 + 1e-6);
  CHECK(std::abs(angle.mean().item<double>() - 0.15) < 0.05);
  // What goes in has the variance of what a channel keeps: gamma^2 = 1 - |lambda|^2.
  CHECK(relative_error(torch::exp(lru.at("blocks.0.mixer.log_gamma")).square(), 1 - radius.square()) < 1e-5);
  check_normal(lru.at("blocks.0.mixer.input.weight"), std::sqrt(0.5) / 10);
  check_normal(lru.at("blocks.0.mixer.output.weight"), 0.1);
  check_normal(lru.at("blocks.0.mlp.gate.weight"), 0.02);

  // HiPPO-N of four channels has eigenvalues -1/2 +- i w: those of its skew-symmetric part, squared, are the roots of
  // w^4 - S2 w^2 + Pf^2, with S2 the sum of the squares above the diagonal and Pf the Pfaffian.
  const Parameters s5 = parameters_by_name(*make_model({"s5", {{"state_width", "2"}}}, 10, torch::kFloat64));
  double entry[4][4], sum = 0;
  for (int i = 0; i < 4; ++i)
    for (int j = i + 1; j < 4; ++j) {
      entry[i][j] = std::sqrt((i + 0.5) * (j + 0.5));
      sum += entry[i][j] * entry[i][j];
    }
  const double pfaffian = entry[0][1] * entry[2][3] - entry[0][2] * entry[1][3] + entry[0][3] * entry[1][2];
  const double root = std::sqrt(sum * sum / 4 - pfaffian * pfaffian);
  CHECK(std::abs(number(s5, "blocks.0.mixer.frequency", 0) - std::sqrt(sum / 2 - root)) < 1e-5);
  CHECK(std::abs(number(s5, "blocks.0.mixer.frequency", 1) - std::sqrt(sum / 2 + root)) < 1e-5);
  CHECK(std::abs(std::exp(number(s5, "blocks.0.mixer.log_rate", 0)) - 0.5) < 1e-6);
  const Parameters wide = parameters_by_name(*make_model({"s5", {}}, 10, torch::kFloat32));
  const Tensor step = wide.at("blocks.0.mixer.log_step").exp();
  CHECK(step.min().item<double>() >= 0.001 * (1 - 1e-5));
  CHECK(step.max().item<double>() <= 0.1 * (1 + 1e-5));
  // Unitary eigenvectors keep the variance: of real and imaginary part together 1 / D, twice that of 1 / P as D x P.
  CHECK(std::abs(wide.at("blocks.0.mixer.input.weight").square().mean().item<double>() * 200 - 1) < 0.1);
  CHECK(std::abs(wide.at("blocks.0.mixer.output.weight").square().mean().item<double>() * 100 - 1) < 0.1);

  const auto factors = [](const char* first_factors) {
    const Variant variant{"rg_lru", {{"state_width", "1000"}, {"first_factors", first_factors}}};
    return plain_sigmoid(parameters_by_name(*make_model(variant, 10, torch::kFloat64)).at("blocks.0.mixer.decay"));
  };
  // Evenly from `low` to `high`: between them, reaching both ends, with the mean and the spread of such numbers.
  const auto check_even = [](const Tensor& x, double low, double high) {
    CHECK(x.min().item<double>() > low - 1e-6);
    CHECK(x.max().item<double>() < high + 1e-6);
    CHECK(std::abs(x.mean().item<double>() - (low + high) / 2) < 0.05 * (high - low));
    CHECK(std::abs(x.std().item<double>() * std::sqrt(12.0) / (high - low) - 1) < 0.1);
  };
  check_even(factors("base").square(), 0.81, 0.999 * 0.999);
  check_even(torch::pow(factors("power"), 8), 0.9, 0.999);
  CHECK(RgLruOptions{}.first_factors == RgLruFactors::kBase);
  CHECK(!RgLruOptions{}.scale_first_step);
  BackboneConfig before = of_format_1("rg_lru");
  CHECK(before.as<RgLruOptions>()->first_factors == RgLruFactors::kPower);
  CHECK(before.as<RgLruOptions>()->scale_first_step);
}

TEST_CASE("linear recurrent networks have the state and the products of their definitions") {
  const auto memory_cost = [](const char* name) {
    const ModelCost cost = make_model({name, {{"layers", "2"}, {"state_width", "30"}}}, 10, torch::kFloat32)->cost();
    CHECK(cost.mlp_multiply_adds_per_step == 2 * 3 * 100 * 512);
    return ModelCost{cost.parameters - cost.mlp_parameters, cost.state_bytes,
                     cost.multiply_adds_per_step - cost.mlp_multiply_adds_per_step, 0, 0};
  };
  const std::int64_t norms = 5 * 100;
  const ModelCost min_gru = memory_cost("min_gru"), lru = memory_cost("lru"), s5 = memory_cost("s5"),
                  rg_lru = memory_cost("rg_lru");
  CHECK(min_gru.parameters == 2 * (3 * 100 * 30 + 30) + norms);
  CHECK(min_gru.state_bytes == 2 * 30 * 4);
  CHECK(min_gru.multiply_adds_per_step == 2 * (3 * 100 * 30 + 2 * 30));
  CHECK(lru.parameters == 2 * (4 * 100 * 30 + 100 + 3 * 30) + norms);
  CHECK(lru.state_bytes == 2 * 30 * 8);
  CHECK(lru.multiply_adds_per_step == 2 * (4 * 100 * 30 + 8 * 30 + 100));
  CHECK(s5.parameters == lru.parameters);
  CHECK(s5.state_bytes == lru.state_bytes);
  CHECK(s5.multiply_adds_per_step == lru.multiply_adds_per_step);
  CHECK(rg_lru.parameters == 2 * (3 * 100 * 30 + 2 * (30 * 30 + 30) + 5 * 30 + 30) + norms);
  CHECK(rg_lru.state_bytes == 2 * (30 + 3 * 30) * 4 + 8);
  CHECK(rg_lru.multiply_adds_per_step == 2 * (3 * 100 * 30 + 2 * 30 * 30 + 4 * 30 + 2 * 30));
}

TEST_CASE("options of linear recurrent networks that contradict each other are refused") {
  CHECK_THROWS_WITH_AS((LruOptions{{}, 0.9, 0.5}.check()), "memory.r_min 0.900000 is not below memory.r_max 0.500000",
                       UserError);
  CHECK_THROWS_WITH_AS((S5Options{{}, 0.5, 0.1}.check()), "memory.step_min 0.500000 is above memory.step_max 0.100000",
                       UserError);
  CHECK_THROWS_AS((MinGruOptions{{.state_width = -1}}.check()), UserError);
  CHECK_THROWS_AS((RgLruOptions{{{.width = 0}}}.check()), UserError);
}
