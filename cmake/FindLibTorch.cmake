# Finds LibTorch (2.11, new C++ ABI) and defines LibTorch::LibTorch and, where the build has it, LibTorch::CUDA.
#
# TorchConfig.cmake of a CUDA build needs a CUDA toolkit even for CPU use and adds its own nvcc flags to every CUDA
# target, so the few files that are needed are found here instead. LibTorch is looked for in LibTorch_ROOT or
# CMAKE_PREFIX_PATH (the folder that holds include/ and lib/).
find_path(LibTorch_ROOT_DIR include/torch/csrc/api/include/torch/torch.h
  HINTS ${LibTorch_ROOT} $ENV{LibTorch_ROOT} ${CMAKE_PREFIX_PATH} PATH_SUFFIXES torch NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_ROOT_DIR)
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  set(_include ${LibTorch_ROOT_DIR}/include ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include)
  foreach(_name c10 torch_cpu torch)
    add_library(LibTorch::${_name} SHARED IMPORTED)
    set_target_properties(LibTorch::${_name} PROPERTIES
      IMPORTED_LOCATION ${LibTorch_ROOT_DIR}/lib/lib${_name}.so INTERFACE_INCLUDE_DIRECTORIES "${_include}")
  endforeach()
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::torch_cpu LibTorch::c10)
endif()
