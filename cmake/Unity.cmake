# Compiles sources that include LibTorch in groups: of a source of its own, three quarters of the time are what LibTorch's
# headers alone cost, precompiled or not. A change then recompiles its whole group; ENGRAM_UNITY=OFF is for who changes
# much. Sources of a group share one translation unit: names in their anonymous namespaces must differ.
option(ENGRAM_UNITY "Compile sources in groups: faster from scratch, slower after a change" ON)

# engram_unity(target "a.cpp b.cpp" "c.cpp d.cpp" ...): a group an argument; a source that stands in none, or is not one of
# the target's, is left as it is. To be called in the folder of the target.
function(engram_unity target)
  if(NOT ENGRAM_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  set(number 0)
  foreach(group ${ARGN})
    math(EXPR number "${number} + 1")
    separate_arguments(sources UNIX_COMMAND "${group}")
    set_property(SOURCE ${sources} PROPERTY UNITY_GROUP ${target}_${number})
  endforeach()
endfunction()
