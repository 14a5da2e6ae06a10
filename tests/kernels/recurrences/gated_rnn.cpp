#include "kernels/recurrences/gated_rnn/gated_rnn.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/kernels/recurrences/gated_rnn_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

__nv_bfloat16* halves(DeviceBytes& buffer) { return reinterpret_cast<__nv_bfloat16*>(buffer.data()); }

// What is written, and what is saved between the passes, begins as NaN.
GatedRnnResult run_on_gpu(const GatedRnnProblem& given) {
  const std::lock_guard<std::mutex> lock(gpu_in_use);
  const GatedRnnReferenceInput& in = given.input;
  const bool gru = in.cell == GatedCell::kGru, lstm = in.cell == GatedCell::kLstm;
  const std::size_t size = given.h_gradient_BTD.size();
  constexpr Dtype kHalf = Dtype::kBfloat16;
  DeviceBytes gates = upload(in.gates_BTX, kHalf), recurrent = upload(in.recurrent_XD, kHalf),
              bias = upload(in.candidate_bias_D, Dtype::kFloat32), d_h = upload(given.h_gradient_BTD, kHalf);
  DeviceBytes h = poisoned(size, kHalf), h_before = poisoned(size, kHalf),
              saved_gates = poisoned(saved_numbers_of(in.cell) * size, kHalf),
              cells = poisoned(lstm ? size : 0, Dtype::kFloat32), d_gates = poisoned(in.gates() * size, kHalf),
              d_candidate = poisoned(gru ? size : 0, kHalf);
  const DeviceBytes length_B(bytes_of(in.length_B));
  const GatedRnn problem{in.cell,
                         in.batch,
                         in.time,
                         in.width,
                         halves(recurrent),
                         gru ? floats(bias) : nullptr,
                         reinterpret_cast<const int*>(length_B.data()),
                         in.linear};
  const GatedRnnSaved saved{halves(h_before), reinterpret_cast<__half*>(saved_gates.data()),
                            lstm ? floats(cells) : nullptr};
  gated_rnn_forward(problem, halves(gates), halves(h), saved, nullptr);
  gated_rnn_backward(problem, saved, halves(d_h), halves(d_gates), gru ? halves(d_candidate) : nullptr, nullptr);
  check_cuda(cudaDeviceSynchronize(), "gated cells");
  return {download(h, kHalf), download(h_before, kHalf), download(d_gates, kHalf), download(d_candidate, kHalf)};
}

// h is rounded to bfloat16 as an operand of every step and where it is written, and so is each gradient.
constexpr double kBound = 0.006;

}  // namespace

TEST_CASE(
    "the kernels of Elman network, GRU and LSTM equal the plain equations, forward and backward, for every width and "
    "length") {
  if (skip_without_gpu()) return;
  std::vector<GatedRnnCase> cases;
  for (const GatedCell cell : kGatedCells) {
    for (const int width : {2, 14, 16, 30, 32, 34, 48, 64, 66, 100, 128, 130, 192, 250, 256, 258, 304, 450, 512}) {
      if (!supports_gated_rnn(cell, width)) continue;
      for (const int time : {1, 2, 3, 9}) cases.push_back({cell, 18, time, width});
    }
    // Groups of one row, of some, of as many as their room is made for.
    for (const int batch : {1, 15, 17, 33, 200, 400, 1000, 1100, 2200}) cases.push_back({cell, batch, 6, 64});
    cases.push_back({cell, 3, 400, 50, 1.5, 0.5});
    cases.push_back({cell, 1500, 4, 24});
    for (const int width : {100, 256, 512})
      if (supports_gated_rnn(cell, width)) cases.push_back({cell, 700, 4, width});
  }
  // Some channels of an Elman network without tanh: one, all, as many as of an LMU.
  for (const auto& [width, linear] : {std::pair(2, 1), {30, 30}, {64, 32}, {100, 37}, {256, 128}, {304, 152}})
    if (supports_gated_rnn(GatedCell::kElman, width))
      cases.push_back({GatedCell::kElman, 18, 9, width, 1.5, 0.7, linear});
  check_each(cases, [](const GatedRnnCase& c) { check_gated_rnn(c, kBound, run_on_gpu); });
}

TEST_CASE("small shapes: gated cells equal the plain equations, with the same bits each time") {
  if (skip_without_gpu()) return;
  for (const GatedCell cell : kGatedCells) {
    for (const int width : {24, 64, 128, 256, 512}) {
      if (!supports_gated_rnn(cell, width)) continue;
      const GatedRnnCase c{cell, 19, 7, width};
      check_gated_rnn(c, kBound, run_on_gpu);
      const GatedRnnProblem problem(c);
      CHECK(different_runs([&] { return run_on_gpu(problem).bits(); }, 2) == 0);
    }
    // Groups of some rows, of more than 8.
    for (const int batch : {300, 1200}) check_gated_rnn({cell, batch, 3, 24}, kBound, run_on_gpu);
  }
}

TEST_CASE("the kernels of gated cells refuse sizes outside of their contract") {
  if (skip_without_gpu()) return;
  const float bias = 0;
  for (const GatedRnn& problem : {GatedRnn{GatedCell::kGru, 1, 1, 258, nullptr, &bias, nullptr},
                                  GatedRnn{GatedCell::kElman, 1, 1, 514, nullptr, nullptr, nullptr},
                                  GatedRnn{GatedCell::kGru, 1, 1, 7, nullptr, &bias, nullptr},
                                  GatedRnn{GatedCell::kGru, 0, 1, 8, nullptr, &bias, nullptr},
                                  GatedRnn{GatedCell::kLstm, 1, 0, 8, nullptr, nullptr, nullptr},
                                  GatedRnn{GatedCell::kGru, 1, 1, 8, nullptr, nullptr, nullptr},
                                  GatedRnn{GatedCell::kLstm, 1, 1, 8, nullptr, &bias, nullptr},
                                  GatedRnn{GatedCell::kElman, 1, 1, 8, nullptr, &bias, nullptr},
                                  GatedRnn{GatedCell::kElman, 1, 1, 8, nullptr, nullptr, nullptr, 9},
                                  GatedRnn{GatedCell::kLstm, 1, 1, 8, nullptr, nullptr, nullptr, 1}})
    CHECK_THROWS_AS(gated_rnn_forward(problem, nullptr, nullptr, {}, nullptr), std::runtime_error);
}
