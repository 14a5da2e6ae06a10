// What the environments of Python have in common, wherever they live: their task, and how they are made.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "envs/registry.h"
#include "python/binding/binding.h"

namespace engram::python {

// Options of a task without their section, as text.
using TaskValues = std::vector<std::pair<std::string, std::string>>;

// Of a task's or a preset's name. Throws UserError for an unknown name or option, and for values that are not allowed.
TaskConfig task_of(const std::string& name, const TaskValues& values);

// Episodes are those of training: environment i of Python is that of a run, and an agent's evaluation has seen none.
inline constexpr Purpose kPurpose = Purpose::kTraining;

// The class CudaEnvironments; in a build without GPU support a function of that name, which refuses.
void bind_cuda_environments(pybind11::module_& module);

}  // namespace engram::python
