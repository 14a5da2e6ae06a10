// What built this program: for --version, a run's about.json and the metadata of weights.
#pragma once

#include <string>

namespace engram {

struct BuildInfo {
  std::string version;        // of engram
  std::string commit;         // short hash, with "+changes" where the sources differed from it; "unknown" without git
  std::string build_type;     // Release, Debug ...
  std::string compiler;       // name and version
  std::string torch_version;  // of LibTorch
  bool cuda = false;          // built with GPU support
  std::string cuda_architectures;  // that its kernels were compiled for, "80, 90a"; empty without GPU support
};

const BuildInfo& build_info();

}  // namespace engram
