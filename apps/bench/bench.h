// engram bench: the subjects, one source file each, and what they share.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agents/learn/learner.h"
#include "agents/run/config/config.h"
#include "apps/bench/report.h"
#include "apps/cli/commands.h"
#include "base/options.h"
#include "envs/registry.h"

namespace engram {

// What a subject is called with.
struct BenchCall {
  std::vector<std::string> words;  // behind its name on the command line
  CommandVisitor visit = {};       // if there is one, it is shown the subject's options, and nothing is measured
};

// Each returns the exit status.
int bench_env(const BenchCall& call);
int bench_gradient(const BenchCall& call);
int bench_update(const BenchCall& call);
int bench_train(const BenchCall& call);
// These measure a GPU, and throw UserError in a program that was built without GPU support.
int bench_kernels(const BenchCall& call);
int bench_act(const BenchCall& call);
int bench_run(const BenchCall& call);

// Sets a subject's options, to which --help and those of the output are added. False where only the help (a paragraph;
// it is printed) or the options were asked for. Throws UserError.
bool parse_bench_options(const std::string& subject, std::string help, OptionList& options, BenchOutput& output,
                         const BenchCall& call);
// 0.1234 to so many digits after the point; "-" for what is not a number.
std::string fixed(double value, int digits, const std::string& unit = "");

// The published visual-match run with this backbone. Throws UserError for an unknown backbone.
Config published_run(const std::string& backbone, const std::string& device);
// Sets the option where the config has it: a stack has its list of layers, some memories have no layers, width or
// heads.
void set_where_there(Config& config, const std::string& key, const std::string& value);

// Actions for `steps` steps, uniformly random, drawn before the clock starts: [steps, num_envs].
std::vector<std::int32_t> draw_actions(int steps, int num_envs, const ActionSpec& action);

// ---- On the current GPU; in a program that was built without GPU support they throw UserError. ----

// Of a device-to-device copy too large for any cache: bytes read and bytes written.
double device_copy_bytes_per_second();

// The GPU must give the CPU's bytes, over more than an episode. Throws std::runtime_error where it does not.
void check_cuda_env(const TaskConfig& task);

struct CudaEnvFigures {
  double steps_per_second;  // the median of the replays of a graph of 64 steps, each with a reset of what has ended
  double step_bytes;        // that a step of one environment reads and writes
};
CudaEnvFigures time_cuda_env(const TaskConfig& task, int num_envs, double seconds);

// The first GPU. Throws UserError where there is none.
torch::Device bench_gpu(const std::string& subject);

// Median of milliseconds that an update takes on the GPU: of up to 50, as many as a second holds, at least 5.
double gpu_update_ms(Learner& learner, const EpisodeBatch& batch);

// ---- In programs that are built with GPU support alone. ----

// Of a product of two bfloat16 matrices of 8192 x 8192, which LibTorch leaves to cuBLAS.
double large_product_flops_per_second();

}  // namespace engram
