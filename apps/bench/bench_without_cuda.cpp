// What engram bench measures on a GPU, of a program that was built without GPU support.
#include <string>

#include "apps/bench/bench.h"
#include "base/error.h"

namespace engram {
namespace {

int refuse(const std::string& subject, const BenchCall& call) {
  if (call.visit) return 0;  // it has no options
  bench_gpu(subject);
  return 2;
}

[[noreturn]] void refuse_gpu() { throw UserError("this program was built without GPU support; use --device cpu"); }

}  // namespace

int bench_kernels(const BenchCall& call) { return refuse("kernels", call); }
int bench_act(const BenchCall& call) { return refuse("act", call); }
int bench_run(const BenchCall& call) { return refuse("run", call); }

torch::Device bench_gpu(const std::string& subject) {
  throw UserError("bench " + subject + " measures a GPU, and this program was built without GPU support");
}
double gpu_update_ms(Learner&, const EpisodeBatch&) { refuse_gpu(); }

double device_copy_bytes_per_second() { refuse_gpu(); }
void check_cuda_env(const TaskConfig&) { refuse_gpu(); }
CudaEnvFigures time_cuda_env(const TaskConfig&, int, double) { refuse_gpu(); }

}  // namespace engram
