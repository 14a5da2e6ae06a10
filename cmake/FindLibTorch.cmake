# Finds LibTorch and defines
#   LibTorch::LibTorch   headers and libraries; with the component CUDA also its CUDA operations
#   LibTorch_ROOT_DIR    the folder that holds its include/ and lib/
#   LibTorch_VERSION
#   LibTorch_CUDA_FOUND, LibTorch_CUDA_VERSION (major)   whether it was built with CUDA, and with which
#
# It is taken from the first of these that names one:
#   LibTorch_ROOT, Torch_ROOT (variable or environment): the folder with include/ and lib/
#   Torch_DIR: the folder of TorchConfig.cmake
#   CMAKE_PREFIX_PATH (variable or environment): such a folder, one above it, or torch.utils.cmake_prefix_path
#   LibTorch_HINTS: where the including project expects it
#   the torch package of python3
# A LibTorch that does not fit is refused, never skipped for a later one.
#
# TorchConfig.cmake is not used: that of a CUDA build needs a CUDA toolkit even for the CPU and adds its own nvcc flags
# to every CUDA target.

set(_header include/torch/csrc/api/include/torch/torch.h)
set(_remedy "Run apps/scripts/setup.sh, which installs the right one, or set LibTorch_ROOT to its folder (that of include/ and lib/).")
set(_problem "")

# Sets `result` to the LibTorch that `path` means (itself, or a folder in it or around it), or to nothing.
function(_libtorch_at result path)
  foreach(inner "" /torch /libtorch /../.. /../../.. /lib/python3.*/site-packages/torch)
    cmake_path(SET header NORMALIZE ${path}${inner}/${_header})
    file(GLOB headers ${header})
    if(headers)
      list(GET headers 0 header)
      string(REPLACE /${_header} "" root ${header})
      file(REAL_PATH ${root} root)
      set(${result} ${root} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

set(LibTorch_ROOT_DIR "")
foreach(_named LibTorch_ROOT Torch_ROOT Torch_DIR)
  foreach(_path "${${_named}}" "$ENV{${_named}}")
    if(_path AND NOT LibTorch_ROOT_DIR AND NOT _problem)
      _libtorch_at(LibTorch_ROOT_DIR ${_path})
      if(NOT LibTorch_ROOT_DIR)
        set(_problem "${_named} is ${_path}, and ${_header} is not there.")
      endif()
    endif()
  endforeach()
endforeach()
string(REPLACE ":" ";" _environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(_path ${CMAKE_PREFIX_PATH} ${_environment_prefixes} ${LibTorch_HINTS})
  if(NOT LibTorch_ROOT_DIR AND NOT _problem)
    _libtorch_at(LibTorch_ROOT_DIR ${_path})
  endif()
endforeach()
if(NOT LibTorch_ROOT_DIR AND NOT _problem)
  execute_process(
    COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _path OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(_path)
    _libtorch_at(LibTorch_ROOT_DIR ${_path})
  endif()
  if(NOT LibTorch_ROOT_DIR)
    set(_problem "No LibTorch was found.")
  endif()
endif()

if(LibTorch_ROOT_DIR)
  # Releases before 2.10 keep the version in the second place.
  set(_numbers "")
  foreach(_file headeronly/version.h csrc/api/include/torch/version.h)
    if(NOT _numbers AND EXISTS ${LibTorch_ROOT_DIR}/include/torch/${_file})
      file(STRINGS ${LibTorch_ROOT_DIR}/include/torch/${_file} _numbers
        REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    endif()
  endforeach()
  string(REGEX REPLACE "#define TORCH_VERSION_[A-Z]+ " "" _numbers "${_numbers}")
  string(REPLACE ";" "." LibTorch_VERSION "${_numbers}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" _release "${LibTorch_VERSION}")

  set(_old_abi "")
  if(EXISTS ${LibTorch_ROOT_DIR}/lib/libc10.so)
    # A constructor that takes a std::string, as the ABI of before GCC 5 names it.
    file(STRINGS ${LibTorch_ROOT_DIR}/lib/libc10.so _old_abi REGEX "N3c105ErrorC[12]E[A-Za-z0-9_]*Ss$" LIMIT_COUNT 1)
  endif()
  set(LibTorch_CUDA_FOUND FALSE)
  set(LibTorch_CUDA_VERSION "")
  if(EXISTS ${LibTorch_ROOT_DIR}/lib/libtorch_cuda.so AND EXISTS ${LibTorch_ROOT_DIR}/lib/libc10_cuda.so)
    set(LibTorch_CUDA_FOUND TRUE)
    file(STRINGS ${LibTorch_ROOT_DIR}/lib/libc10_cuda.so _runtime REGEX "^libcudart[^ ]*\\.so\\.[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE ".*\\.so\\.([0-9]+).*" "\\1" LibTorch_CUDA_VERSION "${_runtime}")
  endif()

  if(NOT _release VERSION_EQUAL "${LibTorch_FIND_VERSION}")
    set(_problem "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} has the wrong version: ${LibTorch_FIND_VERSION} is needed.")
  elseif(NOT EXISTS ${LibTorch_ROOT_DIR}/lib/libc10.so OR NOT EXISTS ${LibTorch_ROOT_DIR}/lib/libtorch_cpu.so)
    set(_problem "LibTorch in ${LibTorch_ROOT_DIR} has no lib/libc10.so or no lib/libtorch_cpu.so.")
  elseif(_old_abi)
    set(_problem "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} was built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0): one with the new ABI is needed.")
  elseif(LibTorch_FIND_REQUIRED_CUDA AND NOT LibTorch_CUDA_FOUND)
    set(_problem "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} was built without CUDA (it has no lib/libtorch_cuda.so), and CUDA was asked for.")
  endif()
endif()

include(FindPackageHandleStandardArgs)
if(_problem)
  if(LibTorch_FIND_REQUIRED)
    message(FATAL_ERROR "${_problem} ${_remedy}")
  endif()
  set(LibTorch_FOUND FALSE)
  set(LibTorch_NOT_FOUND_MESSAGE "${_problem} ${_remedy}")
else()
  find_package_handle_standard_args(LibTorch
    REQUIRED_VARS LibTorch_ROOT_DIR VERSION_VAR LibTorch_VERSION HANDLE_COMPONENTS)
endif()

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  set(_include ${LibTorch_ROOT_DIR}/include ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include)
  foreach(_name c10 torch_cpu)
    add_library(LibTorch::${_name} SHARED IMPORTED)
    set_target_properties(LibTorch::${_name} PROPERTIES
      IMPORTED_LOCATION ${LibTorch_ROOT_DIR}/lib/lib${_name}.so INTERFACE_INCLUDE_DIRECTORIES "${_include}")
  endforeach()
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::torch_cpu LibTorch::c10)
  if("CUDA" IN_LIST LibTorch_FIND_COMPONENTS AND LibTorch_CUDA_FOUND)
    # Nothing refers to torch_cuda by name: its operations register themselves when it is loaded.
    set(_lib ${LibTorch_ROOT_DIR}/lib)
    target_link_libraries(LibTorch::LibTorch INTERFACE
      "-Wl,--push-state,--no-as-needed,${_lib}/libtorch_cuda.so,${_lib}/libc10_cuda.so,--pop-state")
  endif()
endif()
