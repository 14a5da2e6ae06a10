# Finds the Python that the package's extension is built for, with its headers: Python_EXECUTABLE where it is set, as
# pip's builds set it, or the one of the cache of apps/scripts/setup.sh, or python3.
#
# The extension and that Python's torch package share LibTorch, so it is taken from there (LibTorch_ROOT), unless it is
# named.
if(NOT Python_EXECUTABLE AND ENGRAM_CACHED_LIBTORCH)
  cmake_path(SET Python_EXECUTABLE NORMALIZE ${ENGRAM_CACHED_LIBTORCH}/../../../../bin/python3)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

if(NOT LibTorch_ROOT)
  # -I: without PYTHONPATH, where pip's isolated builds put packages of their own before those of the environment.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -I -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT _torch)
    message(FATAL_ERROR "The Python package is built against the torch package, and ${Python_EXECUTABLE} has none: "
      "install it first (pip install torch==2.11.0).")
  endif()
  set(LibTorch_ROOT ${_torch})
endif()
