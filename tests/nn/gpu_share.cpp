#include "nn/device/gpu_share.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/storage/temporary_folder.h"

using namespace engram;

TEST_CASE("the service is known by its control pipe, a share by its variable") {
  const TemporaryFolder folder;
  setenv("CUDA_MPS_PIPE_DIRECTORY", folder.path().c_str(), 1);
  CHECK(!has_multi_process_service());
  write_text(folder / "control", "");
  CHECK(has_multi_process_service());
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  unsetenv(kShareVariable);
  CHECK(!gpu_share());
  setenv(kShareVariable, "25", 1);
  CHECK(gpu_share() == "25");
  unsetenv(kShareVariable);
}

TEST_CASE("who finds no GPU is told what decides which ones are seen") {
  const TemporaryFolder folder;
  write_text(folder / "version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed Jan 1 2026\nGCC 13.3\n");
  unsetenv("CUDA_VISIBLE_DEVICES");
  setenv("CUDA_MPS_PIPE_DIRECTORY", folder.path().c_str(), 1);
  const std::string pipes = folder.path().string();
  CHECK(no_gpu_text("", folder / "absent") == "no usable GPU was found (CUDA_MPS_PIPE_DIRECTORY is '" + pipes +
                                                  "', where no service's daemon is; no driver is loaded)");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  write_text(folder / "control", "");
  CHECK(no_gpu_text("no device", folder / "version") ==
        "no usable GPU was found (CUDA_VISIBLE_DEVICES is ''; a multi-process service answers in " + pipes +
            "; driver 580.159.04 is loaded; CUDA says: no device)");
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}
