#include "agents/run/machine/device_failure.h"

#include <c10/util/Exception.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"

using namespace engram;

namespace {

const c10::SourceLocation kHere{"function", "file.cpp", 1};

Config some_config() {
  return Config::from_settings({{"task.name", "tmaze"},
                                {"task.corridor_length", "9"},
                                {"replay.capacity_steps", "123456789"},
                                {"replay.minimum_episodes", "77"},
                                {"replay.batch_episodes", "33"},
                                {"run.num_envs", "44"}});
}

// What the program says where `error` is thrown; "" for an error that is none of the device.
template <class Error>
std::string explained(const Error& error) {
  try {
    throw error;
  } catch (const std::exception& caught) {
    return device_failure(caught, some_config()).value_or("");
  }
}

bool names_sizes(const std::string& message) {
  for (const char* part : {"out of memory", "replay.capacity_steps (now 123456789)", "replay.minimum_episodes (now 77)",
                           "replay.batch_episodes (now 33)", "run.num_envs (now 44)", "rows take "})
    if (message.find(part) == std::string::npos) return false;
  return message.find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("a GPU out of memory is one line that names the sizes to lower and their values") {
  const std::string message = explained(c10::OutOfMemoryError(
      kHere,
      "CUDA out of memory. Tried to allocate 93.13 GiB. GPU 0 has a total capacity of 79.11 GiB of which 2 are "
      "free.\nSee documentation"));
  CHECK(names_sizes(message));
  CHECK(message.find("(93.13 GiB more were wanted)") != std::string::npos);
  CHECK(names_sizes(explained(c10::AcceleratorError(kHere, 2, "CUDA error: out of memory\nSearch for ..."))));
  CHECK(names_sizes(explained(c10::Error(kHere, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))));
  CHECK(names_sizes(explained(std::runtime_error("cudaMalloc: cudaErrorMemoryAllocation: out of memory"))));
}

TEST_CASE("of a learner on policy it names the minibatches and the iteration") {
  const Config config = Config::from_settings({{"learner.name", "ppo"},
                                               {"learner.iteration_steps", "9664"},
                                               {"learner.minibatches", "7"},
                                               {"run.num_envs", "44"}});
  const std::string message =
      device_failure(std::runtime_error("cudaMalloc: cudaErrorMemoryAllocation: out of memory"), config).value_or("");
  CHECK(message.starts_with(
      "the GPU is out of memory: raise learner.minibatches (now 7), which are computed one at a time, "
      "or lower learner.iteration_steps (now 9664), whose "));
  CHECK(message.ends_with(", or run.num_envs (now 44)"));
}

TEST_CASE("a machine out of memory is one line, with a run's sizes and without") {
  const std::string words =
      "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
      "4503599627370496 bytes. Error code 12 (Cannot allocate memory)";
  for (const std::string& message : {explained(c10::Error(kHere, words)), explained(std::bad_alloc())})
    CHECK(names_sizes(message));
  CHECK(explained(c10::Error(kHere, words))
            .starts_with("the machine is out of memory (4504 TB more were wanted): lower replay.capacity_steps"));
  CHECK(
      lack_of_room(c10::Error(kHere, words)) ==
      RunFailure{FailureKind::kOutOfMemory,
                 "the machine is out of memory (4504 TB more were wanted): lower the sizes, or the number of episodes "
                 "or environments, that were asked for"});
  CHECK(lack_of_room(std::bad_alloc())->reason.starts_with("the machine is out of memory: lower"));
  CHECK_FALSE(lack_of_room(std::runtime_error("training has diverged")));
  // What LibTorch does say where no machine has as much.
  std::string thrown;
  try {
    torch::empty({std::int64_t{1} << 50});
  } catch (const std::exception& error) {
    thrown = lack_of_room(error).value_or(RunFailure{}).reason;
  }
  CHECK(thrown.starts_with("the machine is out of memory (4504 TB more were wanted)"));
}

TEST_CASE("a lost GPU is one line with the device's own words") {
  const std::string message = explained(
      c10::AcceleratorError(kHere, 700, "CUDA error: an illegal memory access was encountered\nSearch for ..."));
  CHECK(
      message ==
      "the GPU has failed and can do nothing more for this run: CUDA error: an illegal memory access was encountered");
  CHECK(explained(c10::Error(kHere, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasSgemm")) != "");
  CHECK(explained(std::runtime_error("step: cudaErrorLaunchFailure: unspecified launch failure")) != "");
}

TEST_CASE("a GPU that lets no further program in has not failed") {
  const auto check = [](const auto& error) {
    CHECK(explained(error).starts_with("the GPU lets no further program in: "));
    CHECK(failure_of(error, some_config()) == RunFailure{FailureKind::kNoRoom, explained(error)});
    CHECK(lack_of_room(error) == failure_of(error, some_config()));
  };
  check(c10::AcceleratorError(kHere, 46, "CUDA error: CUDA-capable device(s) is/are busy or unavailable"));
  check(std::runtime_error("cudaSetDevice: cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy"));
}

TEST_CASE("other errors are not the device's") {
  CHECK(explained(std::runtime_error("training has diverged")) == "");
  CHECK(explained(c10::Error(kHere, "The size of tensor a (3) must match the size of tensor b (4)")) == "");
  CHECK(explained(c10::IndexError(kHere, "index 3 is out of bounds")) == "");
}

TEST_CASE("the kind of a failure is that of its error, not of its words") {
  const auto kind = [](const std::exception& error) { return failure_of(error, some_config()).kind; };
  CHECK(kind(DivergedError("update 3: the loss is gone")) == FailureKind::kDiverged);
  CHECK(kind(UserError("the loss is not finite")) == FailureKind::kRefused);
  CHECK(kind(std::runtime_error("the loss is not finite")) == FailureKind::kError);
  CHECK(kind(std::bad_alloc()) == FailureKind::kOutOfMemory);
  const RunFailure memory = failure_of(c10::OutOfMemoryError(kHere, "CUDA out of memory. Tried to ..."), some_config());
  CHECK(memory.kind == FailureKind::kOutOfMemory);
  CHECK(names_sizes(memory.reason));
  // LibTorch's further lines say where in LibTorch.
  CHECK(failure_of(c10::Error(kHere, "a shape is wrong\nat here"), some_config()) ==
        RunFailure{FailureKind::kError, "a shape is wrong"});
}
