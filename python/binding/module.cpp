#include <c10/util/Exception.h>

#include <exception>

#include "base/error.h"
#include "python/binding/binding.h"

PYBIND11_MODULE(_native, module) {
  namespace py = pybind11;
  module.doc() = "engram's library, as the package engram uses it";
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const engram::UserError& bad_input) {
      py::set_error(PyExc_ValueError, bad_input.what());
    } catch (const c10::ValueError& bad_input) {
      py::set_error(PyExc_ValueError, bad_input.what_without_backtrace());
    } catch (const engram::FileError& failure) {
      py::set_error(PyExc_OSError, failure.what());
    }
  });
  engram::python::bind_backbones(module);
  engram::python::bind_agent_networks(module);
  engram::python::bind_agents(module);
  engram::python::bind_environments(module);
  engram::python::bind_films(module);
  engram::python::bind_training(module);
}
