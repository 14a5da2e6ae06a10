#include <string>

#include "base/error.h"
#include "python/binding/environments.h"

namespace engram::python {

namespace py = pybind11;

void bind_cuda_environments(py::module_& module) {
  module.def("CudaEnvironments", [](const std::string& device, const py::args&, const py::kwargs&) {
    throw UserError("device '" + device + "': this build has no GPU support; environments live on the CPU");
  });
}

}  // namespace engram::python
