// The parts of the extension engram._native; module.cpp puts them together. Tensors pass as what they are: LibTorch
// here is the library inside the torch package. Errors of users are Python's ValueError, with the program's one line.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace engram::python {

void bind_agent_networks(pybind11::module_& module);  // after bind_backbones()
void bind_backbones(pybind11::module_& module);
void bind_agents(pybind11::module_& module);
void bind_environments(pybind11::module_& module);
void bind_films(pybind11::module_& module);
void bind_training(pybind11::module_& module);

}  // namespace engram::python
