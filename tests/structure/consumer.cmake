# Installs the build, then configures, builds and runs the project in consumer/ against what was installed.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status)
    message(FATAL_ERROR "this failed (${status}): ${ARGN}\n${output}")
  endif()
  message("${output}")
endfunction()

if(CCACHE)
  set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} ${CCACHE})
  set(ENV{CCACHE_BASEDIR} ${SCRATCH})
  set(ENV{CCACHE_NOHASHDIR} 1)
endif()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/installed)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${SCRATCH}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${SCRATCH}/installed -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS}
  -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/environments)
run(${SCRATCH}/build/backbone)
run(${SCRATCH}/installed/bin/engram --help)
