// What stands for films in a build without video.
#include "base/error.h"
#include "films/without_video.h"
#include "python/binding/binding.h"

namespace engram::python {

namespace py = pybind11;

void bind_films(py::module_& module) {
  module.def("render", [](const py::args&, const py::kwargs&) { throw UserError(kWithoutVideo); });
}

}  // namespace engram::python
