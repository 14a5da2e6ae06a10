# Installs the build, then configures, builds and runs against what was installed the project in consumer/ and the program
# of examples/own_program, whose task and backbone take part in everything.
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

set(own ${CMAKE_CURRENT_LIST_DIR}/../../examples/own_program)
run(${CMAKE_COMMAND} -S ${own} -B ${SCRATCH}/own -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${SCRATCH}/installed
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${CMAKE_COMMAND} --build ${SCRATCH}/own)
set(my_engram ${SCRATCH}/own/my_engram)
run(${my_engram} train ${SCRATCH}/run --task.name flash_parity --task.length 6 --memory.name leaky_integrator
  --memory.width 16 --run.device cpu --run.steps 600 --run.random_episodes 4 --replay.batch_episodes 4
  --evaluation.episodes 10)
run(${my_engram} evaluate ${SCRATCH}/run --episodes 20 --device cpu)
run(${my_engram} bench env --task flash_parity)
execute_process(COMMAND ${my_engram} list OUTPUT_VARIABLE listed)
if(NOT listed MATCHES "flash_parity" OR NOT listed MATCHES "leaky_integrator")
  message(FATAL_ERROR "my_engram does not list its own task and backbone:\n${listed}")
endif()
execute_process(COMMAND ${SCRATCH}/installed/bin/engram evaluate ${SCRATCH}/run
  RESULT_VARIABLE status ERROR_VARIABLE error)
if(NOT status EQUAL 2 OR NOT error MATCHES "flash_parity")
  message(FATAL_ERROR "engram itself took a run of a task that it has not: ${status} ${error}")
endif()

# What is wrong with a program of one's own is said when it is configured.
function(refused arguments expected)
  file(WRITE ${SCRATCH}/wrong/CMakeLists.txt
    "cmake_minimum_required(VERSION 3.28)\nproject(wrong LANGUAGES CXX)\nfind_package(engram 0.2 REQUIRED)\n"
    "engram_add_program(${arguments})\n")
  file(WRITE ${SCRATCH}/wrong/nothing.h "struct Nothing {};\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SCRATCH}/wrong -B ${SCRATCH}/wrong/build -G ${GENERATOR}
      -DCMAKE_PREFIX_PATH=${SCRATCH}/installed -DCMAKE_CXX_COMPILER=${CXX}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE error)
  string(REGEX REPLACE "[ \n]+" " " error "${error}")
  if(status EQUAL 0 OR NOT error MATCHES "${expected}")
    message(FATAL_ERROR "engram_add_program(${arguments}) gave: ${status} ${error}")
  endif()
endfunction()
refused("x TASKS nothing.h" "a line static_assert.engram::GridTask<NAME>.; is missing")
refused("x TASKS nowhere.h" "there is no file .*nowhere.h")
refused("x" "with a task or a backbone")
