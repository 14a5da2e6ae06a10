#include <string>
#include <vector>

#include "envs/registry.h"
#include "python/binding/binding.h"

namespace engram::python {

namespace py = pybind11;

void bind_environments(py::module_& module) { module.def("task_names", &task_names, "Names of all tasks."); }

}  // namespace engram::python
