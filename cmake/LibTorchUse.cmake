# How sources are compiled that include LibTorch, and those beside them that do not.

# engram_uses_libtorch(target): reuses the one precompiled header, that of engram_nn. What these sources do is done in
# LibTorch and in our own kernels and loops: -O1 compiles them in two thirds of the time of -O3, and they run as fast. One
# level for all of them, because from gcc 13 on a precompiled header serves one level alone.
function(engram_uses_libtorch target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  if(target STREQUAL engram_nn)
    target_precompile_headers(${target} PRIVATE <torch/torch.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM engram_nn)
  endif()
endfunction()

# engram_without_libtorch(source ...): of such a target, sources that include nothing of LibTorch: without the
# precompiled header, which takes longer to load than most of them take to compile, and at the level of the build type.
function(engram_without_libtorch)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
endfunction()
