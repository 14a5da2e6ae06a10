# FindLibTorch.cmake refuses each LibTorch that does not fit, with the right words, and finds one that does wherever the
# user may have named it. Made-up trees stand for the misfits.

file(REMOVE_RECURSE ${SCRATCH})
file(WRITE ${SCRATCH}/project/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.28)
project(find_libtorch LANGUAGES NONE)
set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS TRUE)
list(APPEND CMAKE_MODULE_PATH ${FIND_LIBTORCH_FOLDER})
find_package(LibTorch 2.11 REQUIRED COMPONENTS ${COMPONENTS})
message(STATUS "chose ${LibTorch_ROOT_DIR} ${LibTorch_VERSION} CUDA ${LibTorch_CUDA_FOUND}")
]])

# make_libtorch(FOLDER VERSION LIBRARIES... ): a tree with the header, that version and these libraries.
function(make_libtorch folder version)
  string(REPLACE "." ";" numbers ${version})
  list(GET numbers 0 major)
  list(GET numbers 1 minor)
  list(GET numbers 2 patch)
  file(WRITE ${folder}/include/torch/csrc/api/include/torch/torch.h "")
  file(WRITE ${folder}/include/torch/headeronly/version.h "#define TORCH_VERSION_MAJOR ${major}\n"
    "#define TORCH_VERSION_MINOR ${minor}\n#define TORCH_VERSION_PATCH ${patch}\n#define TORCH_VERSION \"${version}\"\n")
  foreach(library ${ARGN})
    file(WRITE ${folder}/lib/${library} "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE\n")
  endforeach()
endfunction()

# expect(RESULT PATTERN ARGUMENTS...): configuring the project with the arguments ends so and says so.
function(expect result pattern)
  file(REMOVE_RECURSE ${SCRATCH}/build)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=LibTorch_ROOT --unset=Torch_ROOT --unset=Torch_DIR --unset=CMAKE_PREFIX_PATH
      PATH=${path} ${CMAKE_COMMAND} -S ${SCRATCH}/project -B ${SCRATCH}/build -G "Unix Makefiles" -DCMAKE_MAKE_PROGRAM=true
      -DFIND_LIBTORCH_FOLDER=${FIND_LIBTORCH_FOLDER} ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " text "${output}${errors}")
  if(status EQUAL 0)
    set(outcome found)
  else()
    set(outcome refused)
  endif()
  if(NOT outcome STREQUAL result OR NOT text MATCHES "${pattern}")
    message(SEND_ERROR "${ARGN}: expected '${result}' and '${pattern}', got '${outcome}' and\n${output}${errors}")
  endif()
endfunction()

set(path /nonexistent)
set(cpu libc10.so libtorch_cpu.so)
make_libtorch(${SCRATCH}/good/torch 2.11.3 ${cpu})
make_libtorch(${SCRATCH}/cuda/torch 2.11.0 ${cpu} libtorch_cuda.so libc10_cuda.so)
make_libtorch(${SCRATCH}/new/torch 2.12.0 ${cpu})
make_libtorch(${SCRATCH}/old/torch 1.13.1 ${cpu})
file(MAKE_DIRECTORY ${SCRATCH}/old/torch/include/torch/csrc/api/include/torch)
file(RENAME ${SCRATCH}/old/torch/include/torch/headeronly/version.h
  ${SCRATCH}/old/torch/include/torch/csrc/api/include/torch/version.h)
make_libtorch(${SCRATCH}/torn/torch 2.11.0 libc10.so)
make_libtorch(${SCRATCH}/abi/torch 2.11.0 ${cpu})
file(WRITE ${SCRATCH}/abi/torch/lib/libc10.so "_ZN3c105ErrorC1ENS_14SourceLocationESs\n")
make_libtorch(${SCRATCH}/venv/lib/python3.12/site-packages/torch 2.11.0 ${cpu})

set(remedy "Run apps/scripts/setup.sh.*or set LibTorch_ROOT")
expect(refused "No LibTorch was found. ${remedy}")
expect(refused "LibTorch_ROOT is ${SCRATCH}/nothing, and include/[a-z/]*/torch.h is not there. ${remedy}"
  -DLibTorch_ROOT=${SCRATCH}/nothing -DCMAKE_PREFIX_PATH=${SCRATCH}/good)
expect(refused "LibTorch 2.12.0 in ${SCRATCH}/new/torch has the wrong version: 2.11 is needed. ${remedy}"
  -DLibTorch_ROOT=${SCRATCH}/new/torch)
expect(refused "LibTorch 1.13.1 in .*wrong version.*${remedy}" -DCMAKE_PREFIX_PATH=${SCRATCH}/old)
expect(refused "has no lib/libc10.so or no lib/libtorch_cpu.so. ${remedy}" -DLibTorch_ROOT=${SCRATCH}/torn)
expect(refused "LibTorch 2.11.0 in ${SCRATCH}/abi/torch was built with the old C\\+\\+ ABI.*${remedy}"
  -DLibTorch_ROOT=${SCRATCH}/abi/torch)
expect(refused "built without CUDA .it has no lib/libtorch_cuda.so., and CUDA was asked for. ${remedy}"
  -DLibTorch_ROOT=${SCRATCH}/good/torch -DCOMPONENTS=CUDA)

expect(found "chose ${SCRATCH}/good/torch 2.11.3 CUDA FALSE" -DLibTorch_ROOT=${SCRATCH}/good/torch)
expect(found "chose ${SCRATCH}/good/torch" -DTorch_DIR=${SCRATCH}/good/torch/share/cmake/Torch)
expect(found "chose ${SCRATCH}/good/torch" -DCMAKE_PREFIX_PATH=${SCRATCH}/good/torch/share/cmake)
expect(found "chose ${SCRATCH}/venv/lib/python3.12/site-packages/torch" -DCMAKE_PREFIX_PATH=${SCRATCH}/venv)
expect(found "chose ${SCRATCH}/good/torch" -DLibTorch_HINTS=${SCRATCH}/good)
expect(found "chose ${SCRATCH}/good/torch" -DLibTorch_ROOT=${SCRATCH}/good/torch -DLibTorch_HINTS=${SCRATCH}/new)
expect(found "chose ${SCRATCH}/cuda/torch 2.11.0 CUDA TRUE" -DLibTorch_ROOT=${SCRATCH}/cuda/torch -DCOMPONENTS=CUDA)

# The one that this build uses, found again as the package of its Python.
file(WRITE ${SCRATCH}/bin/python3 "#!/bin/sh\necho ${LIBTORCH}\n")
file(CHMOD ${SCRATCH}/bin/python3 PERMISSIONS OWNER_READ OWNER_EXECUTE)
set(path ${SCRATCH}/bin:/usr/bin:/bin)
expect(found "chose ${LIBTORCH} 2.11")
