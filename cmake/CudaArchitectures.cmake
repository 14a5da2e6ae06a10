# CMAKE_CUDA_ARCHITECTURES lists what the kernels are compiled for. Where neither it nor CUDAARCHS of the environment is
# set, or where it is "native", it becomes what the GPUs of this machine need; without any, 90a.
# For a binary to carry away: 80-real;86-real;89-real;90a;120.
#
# ENGRAM_CUDA_WANTED is whether to build for a GPU as far as ENGRAM_CUDA and the machine say: ON, or AUTO where there is a
# GPU or architectures are named. apps/scripts/setup.sh decides alike what to install.
set(ENGRAM_CUDA_WANTED OFF)
if(ENGRAM_CUDA STREQUAL "OFF")
  return()
endif()
set(_least 80)  # asynchronous copies and products of bfloat16 on tensor cores

# Of 9.0 it is 90a, because some kernels are written in instructions that it alone has.
execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  OUTPUT_VARIABLE _text ERROR_QUIET RESULT_VARIABLE _status)
set(_native "")
if(_status EQUAL 0)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" _capabilities "${_text}")
  foreach(_capability ${_capabilities})
    string(REPLACE "." "" _number ${_capability})
    if(_number LESS _least)
      message(STATUS "CUDA: a GPU of compute capability ${_capability} is left out, the kernels need 8.0")
    else()
      list(APPEND _native ${_number})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES _native)
  list(SORT _native COMPARE NATURAL)
  list(TRANSFORM _native REPLACE "^90$" "90a")
endif()

if(ENGRAM_CUDA STREQUAL "AUTO" AND NOT _native AND NOT CMAKE_CUDA_ARCHITECTURES AND "$ENV{CUDAARCHS}" STREQUAL "")
  return()
endif()
set(ENGRAM_CUDA_WANTED ON)

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(_default "$ENV{CUDAARCHS}")
  if(NOT _default)
    set(_default ${_native})
  endif()
  if(NOT _default)
    set(_default 90a)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${_default}" CACHE STRING "GPU architectures, such as 80;90a, or native")
elseif(CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
  if(NOT _native)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is native, but nvidia-smi finds no GPU here that the kernels can run "
      "on. Name the architectures, such as 90a or 80;90a.")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${_native})
endif()
foreach(_architecture ${CMAKE_CUDA_ARCHITECTURES})
  if(NOT _architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$" OR CMAKE_MATCH_1 LESS _least)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES has '${_architecture}'; it takes numbers from ${_least} on, such as "
      "86, 90a or 120-real, or native.")
  endif()
endforeach()
