# engram_sources(target [LIBTORCH a.cpp ...] [PLAIN b.cpp ...]): the one list of a target's sources. Those of LIBTORCH
# include LibTorch, those of PLAIN do not. To be called in the folder of the target, behind its target_link_libraries.
#
# Sources are compiled in groups, because most of the time of one by itself are the headers that it shares with others:
# names in anonymous namespaces of a list must differ (tests/structure/anonymous_names.py sees to it). A change then
# recompiles its group; ENGRAM_UNITY=OFF is for who changes much.
#
# What calls LibTorch spends its time in LibTorch and in our own kernels and loops: -O1 compiles it in two thirds of the
# time of -O3, and it runs as fast. One level for all of it, because from gcc 13 on a precompiled header serves one level
# alone. Plain sources go without that header, which takes longer to load than most of them take to compile, and are
# compiled at the level of the build type.
option(ENGRAM_UNITY "Compile sources in groups: faster from scratch, slower after a change" ON)

function(engram_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBTORCH;PLAIN")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "engram_sources(${target}): neither LIBTORCH nor PLAIN is said of ${arg_UNPARSED_ARGUMENTS}.")
  endif()
  set(plain ${target})
  if(arg_LIBTORCH)
    target_sources(${target} PRIVATE ${arg_LIBTORCH})
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
    if(target STREQUAL engram_nn)
      target_precompile_headers(${target} PRIVATE <torch/torch.h>)
    else()
      target_precompile_headers(${target} REUSE_FROM engram_nn)
    endif()
    if(arg_PLAIN)
      set(plain ${target}_plain)
      add_library(${plain} OBJECT)
      get_target_property(libraries ${target} LINK_LIBRARIES)
      target_link_libraries(${plain} PRIVATE ${libraries})
      foreach(property COMPILE_DEFINITIONS INCLUDE_DIRECTORIES)
        set_property(TARGET ${plain} PROPERTY ${property} $<TARGET_PROPERTY:${target},${property}>)
      endforeach()
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${plain}>)
    endif()
  endif()
  if(arg_PLAIN)
    target_sources(${plain} PRIVATE ${arg_PLAIN})
  endif()
  set_target_properties(${target} ${plain} PROPERTIES UNITY_BUILD ${ENGRAM_UNITY} UNITY_BUILD_BATCH_SIZE 7
    UNITY_BUILD_RELOCATABLE ON)
endfunction()
