// Which GPUs this build has code for: asked before the first kernel, which would fail on any other with CUDA's words.
#pragma once

#include <string>

#include "base/support.h"

namespace engram {

// What the kernels were compiled for, as CMAKE_CUDA_ARCHITECTURES lists it: "80, 90a".
const char* built_architectures();

// Whether such a list has code for GPUs of compute capability major.minor (CUDA C++ Programming Guide, "Application
// Compatibility"): 86 runs on 8.6 and 8.9, and its PTX on all later ones; 86-real on 8.6 and 8.9; 86-virtual on 8.6 and
// all later ones; 90a on 9.0 alone; 100f on 10.0 and 10.3. Throws std::invalid_argument for another kind of list.
bool has_code_for(const std::string& architectures, int major, int minor);

// One line for who has a GPU without code: what it is, what the build is for, and how to build for it.
std::string no_code_message(const std::string& gpu_name, int major, int minor, const std::string& architectures);

// Throws std::runtime_error with that line unless this build has code for the GPU `device`, CUDA's index. Makes no
// context there.
void check_architecture(int device);

// Whether the current device is of compute capability 9.0, which kernels with wgmma are written for.
Support supports_hopper();

}  // namespace engram
