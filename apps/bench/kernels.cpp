// engram bench kernels: the kernels at the learner's sizes, against the GPU's own limits and LibTorch's operations.
#include <c10/util/Exception.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "agents/run/machine/device_timing.h"
#include "apps/bench/bench.h"
#include "base/text/formatted.h"
#include "memory/bench/kernel_row.h"

namespace engram {
namespace {

constexpr const char* kKernelsHelp =
    R"(Kernels of the learner and of acting in bfloat16 at the sizes of the published run (64 episodes of 781
rows, 2 heads of 50 elements), linear recurrences and Hadamard memory, each after its RMS error against
a double-precision reference was found within its bound: milliseconds, median of CUDA-graph replays; the
operation's least arithmetic and memory traffic in that time, also as shares of a large bfloat16 product
and of a device copy on this GPU; and the same work by LibTorch's operations.
)";

struct Limits {
  double flops_per_second, bytes_per_second;
};

struct Line {
  std::string pass;
  double error, bound, ms, torch_ms, flops, bytes;

  bool passed() const { return error <= bound; }
};

void print(const KernelRow& row, const Line& line, const Limits& limits, BenchReport& report) {
  const double seconds = 1e-3 * line.ms;
  const double flops = line.flops / seconds, bytes = line.bytes / seconds;
  report.add(
      row.operation + ", " + row.shape + ", " + line.pass,
      {{"operation", row.operation},
       {"shape", row.shape},
       {"pass", line.pass},
       {"error", line.error},
       {"bound", line.bound},
       {"passed", line.passed()},
       {"ms", line.ms},
       {"flops_per_second", flops},
       {"share_of_product", flops / limits.flops_per_second},
       {"bytes_per_second", bytes},
       {"share_of_copy", bytes / limits.bytes_per_second},
       {"libtorch_ms", line.torch_ms},
       {"ratio", line.torch_ms / line.ms}},
      formatted("%-40s %-24s %-12s %8.2g %9s %9s %7s %7s %6s %10s %8s%s\n", row.operation.c_str(), row.shape.c_str(),
                line.pass.c_str(), line.error, fixed(line.ms, 4).c_str(), fixed(1e-12 * flops, 1).c_str(),
                fixed(100 * flops / limits.flops_per_second, 1, "%").c_str(), fixed(1e-12 * bytes, 2).c_str(),
                fixed(100 * bytes / limits.bytes_per_second, 0, "%").c_str(), fixed(line.torch_ms, 3).c_str(),
                fixed(line.torch_ms / line.ms, 1, " x").c_str(), line.passed() ? "" : "  CHECK FAILED"));
}

// False where the row did not pass its check.
bool bench_row(const KernelRow& row, const Limits& limits, BenchReport& report) {
  constexpr int kLaunches = 50;
  const int torch_launches = row.backward ? 1 : 20;  // whole sequences are long enough to hide a graph's launch
  const ForwardBackward error = row.check();
  Line forward{"forward", error.forward, row.bound.forward, NAN, NAN, row.flops.forward, row.bytes.forward};
  if (forward.passed()) {
    forward.ms = median_graph_ms(kLaunches, row.forward);
    forward.torch_ms = torch_graph_ms(torch_launches, row.torch_forward);
  }
  print(row, forward, limits, report);
  if (!row.backward) return forward.passed();
  Line both{"and backward",
            error.backward,
            row.bound.backward,
            NAN,
            NAN,
            row.flops.forward + row.flops.backward,
            row.bytes.forward + row.bytes.backward};
  if (forward.passed() && both.passed()) {
    both.ms = median_graph_ms(kLaunches, [&](cudaStream_t stream) {
      row.forward(stream);
      row.backward(stream);
    });
    both.torch_ms = torch_graph_ms(torch_launches, row.torch_forward_and_backward);
  }
  print(row, both, limits, report);
  return forward.passed() && both.passed();
}

}  // namespace

int bench_kernels(const BenchCall& call) {
  BenchOutput output;
  OptionList options("");
  if (!parse_bench_options("kernels", kKernelsHelp, options, output, call)) return 0;
  const torch::Device device = bench_gpu("kernels");
  const torch::DeviceGuard guard(device);
  BenchReport report("kernels", output, device,
                     {{"ms", FigureKind::kTime},
                      {"product_flops_per_second", FigureKind::kRate},
                      {"copy_bytes_per_second", FigureKind::kRate}});
  torch::manual_seed(1);
  const Limits limits{large_product_flops_per_second(), device_copy_bytes_per_second()};
  report.add(
      "the GPU's limits",
      {{"product_flops_per_second", limits.flops_per_second}, {"copy_bytes_per_second", limits.bytes_per_second}},
      formatted("a large bfloat16 product: %s; a device copy reads and writes %s\n",
                fixed(1e-12 * limits.flops_per_second, 0, " TFLOP/s").c_str(),
                fixed(1e-12 * limits.bytes_per_second, 2, " TB/s").c_str()));
  if (!report.json())
    std::printf("%-40s %-24s %-12s %8s %9s %9s %7s %7s %6s %10s %8s\n", "operation", "shape", "pass", "error", "ms",
                "TFLOP/s", "share", "TB/s", "share", "LibTorch", "ratio");
  bool passed = true;
  for (const auto& make_row : kernel_rows()) passed = bench_row(make_row(), limits, report) && passed;
  return report.finish(passed);
}

}  // namespace engram
