// Ctrl-C while native work runs without the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>

namespace engram::python {

// Called often, asks Python now and then whether a signal has come, and throws what its handler raised.
class SignalCheck {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const pybind11::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace engram::python
