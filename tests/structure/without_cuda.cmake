# Configures and builds the program without GPU support, which a build with it never links: what stands for the GPU's
# parts (without_cuda.cpp) is complete.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status)
    message(FATAL_ERROR "this failed (${status}): ${ARGN}\n${output}")
  endif()
  set(said "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH} -G ${GENERATOR} -DENGRAM_CUDA=OFF -DENGRAM_PYTHON=OFF -DENGRAM_TESTS=OFF
  -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CXX} -DLibTorch_ROOT=${LIBTORCH})
run(${CMAKE_COMMAND} --build ${SCRATCH} --target engram)
run(${SCRATCH}/engram --version)
if(NOT said MATCHES "GPU support: no")
  message(FATAL_ERROR "the program says of itself: ${said}")
endif()
