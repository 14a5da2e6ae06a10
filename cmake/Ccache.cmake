# Compiles through ccache where it is found, so that every clone and build folder reuses what another one has compiled:
# paths below the source folder are hashed relative to it, and precompiled headers (which ccache refuses to handle
# without these settings) are reused like object files.
find_program(CCACHE ccache)
if(CCACHE)
  foreach(_language CXX CUDA)
    set(CMAKE_${_language}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
