// Times the step of N agents, without dropout and with it: medians of replays of a CUDA graph of 50 steps.
#include <cstdlib>

#include "kernels/median_ms.h"
#include "tests/kernels/agent_step_case.h"

using namespace engram;
using namespace engram::testing;

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const int only = argc > 1 ? std::atoi(argv[1]) : 0;  // a number of rows
  for (const int window : {64, 0})
    for (const Dtype operands : {Dtype::kBfloat16, Dtype::kFloat32}) {
      AgentStepShape shape;
      shape.channels = 3, shape.height = 5, shape.columns = 5;
      shape.width = 100, shape.inner_width = 512, shape.layers = 3, shape.heads = 2, shape.window = window;
      shape.hidden_width = 256, shape.actions = 4;
      Rng rng(1, Purpose::kTest, 0, 0);
      const AgentStepHostWeights weights = random_weights(shape, rng);
      for (const int rows : {1, 8, 64, 1024, 4096}) {
        if (only > 0 && (rows != only || operands != Dtype::kBfloat16)) continue;
        DeviceAgents agents(shape, operands, weights, rows);
        agents.observe(rng);
        for (int i = 0; i < 70; ++i) agents.step();  // fills the window
        DeviceBuffer<std::int64_t> seed_tick(std::vector<std::int64_t>{1, 0});
        for (const double dropout : {0.0, 0.1}) {
          set_dropout(agents.rows(), shape.layers, seed_tick.data(), dropout);
          agents.rows().dropout_tick = seed_tick.data() + 1;
          const double us = 1000 * median_graph_ms(50, [&](cudaStream_t stream) { agents.step(stream); });
          std::printf("%s, %s products, N %d, dropout %.1f: %.2f us a step, %.3g steps/s\n",
                      window > 0 ? "hqlt" : "deltanet", operands == Dtype::kFloat32 ? "float" : "bfloat16", rows,
                      dropout, us, rows / us * 1e6);
        }
      }
    }
}
