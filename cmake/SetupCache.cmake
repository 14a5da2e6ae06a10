# What apps/scripts/setup.sh has installed in the cache folder, under names that carry the digest of its lists.
#   ENGRAM_CACHED_LIBTORCH  folder with LibTorch's include/ and lib/, or empty
#   ENGRAM_CACHED_CUDA_LIBRARIES  stamp of the libraries beside it that it needs on a GPU, or empty
#   ENGRAM_CACHED_CUDA      folder with bin/nvcc, or empty
#   ENGRAM_CACHED_PYTHON_PACKAGES  folder of the packages that tests of the Python package import, or empty
if(DEFINED ENV{ENGRAM_CACHE})
  set(_cache $ENV{ENGRAM_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache $ENV{XDG_CACHE_HOME}/engram)
else()
  set(_cache $ENV{HOME}/.cache/engram)
endif()

# Sets `result` to the newest folder that matches cache/name-DIGEST*/inner and whose installation is complete.
function(_engram_cached result name list inner)
  file(SHA256 ${PROJECT_SOURCE_DIR}/apps/scripts/${list} digest)
  string(SUBSTRING ${digest} 0 12 digest)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/scripts/${list})
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
set(ENGRAM_CACHED_CUDA_LIBRARIES "")
set(ENGRAM_CACHED_PYTHON_PACKAGES "")
if(ENGRAM_CACHED_LIBTORCH)
  file(REAL_PATH ${ENGRAM_CACHED_LIBTORCH} ENGRAM_CACHED_LIBTORCH)
  # Both stand in LibTorch's own installation.
  cmake_path(SET _cache NORMALIZE ${ENGRAM_CACHED_LIBTORCH}/../../../..)
  _engram_cached(ENGRAM_CACHED_CUDA_LIBRARIES cuda_libraries requirements-gpu.txt complete)
  _engram_cached(ENGRAM_CACHED_PYTHON_PACKAGES python_packages requirements-python.txt site)
endif()
