# What apps/setup.sh has installed in the cache folder, under names that carry the digest of its lists.
#   ENGRAM_CACHED_LIBTORCH  folder with LibTorch's include/ and lib/, or empty
#   ENGRAM_CACHED_CUDA      folder with bin/nvcc, or empty
if(DEFINED ENV{ENGRAM_CACHE})
  set(_cache $ENV{ENGRAM_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache $ENV{XDG_CACHE_HOME}/engram)
else()
  set(_cache $ENV{HOME}/.cache/engram)
endif()

# Sets `result` to the newest folder that matches cache/name-DIGEST*/inner and whose installation is complete.
function(_engram_cached result name list inner)
  file(SHA256 ${PROJECT_SOURCE_DIR}/apps/${list} digest)
  string(SUBSTRING ${digest} 0 12 digest)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/${list})
  set(found "")
  file(GLOB stamps ${_cache}/${name}-${digest}*/complete)
  foreach(stamp ${stamps})
    cmake_path(GET stamp PARENT_PATH folder)
    file(GLOB candidates ${folder}/${inner})
    list(APPEND found ${candidates})
  endforeach()
  if(found)
    list(POP_BACK found newest)
  endif()
  set(${result} "${newest}" PARENT_SCOPE)
endfunction()

_engram_cached(ENGRAM_CACHED_LIBTORCH libtorch requirements.txt lib/python3*/site-packages/torch)
_engram_cached(ENGRAM_CACHED_CUDA cuda requirements-cuda.txt site/nvidia/cu13)
