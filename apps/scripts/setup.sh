#!/usr/bin/env bash
# Installs what engram is built with, unless it is there: system packages, and in a cache folder that every clone
# shares LibTorch and CMake; where the machine has a GPU also CUDA's libraries and, where there is no CUDA toolkit 13,
# nvcc. Its one line on standard output is the folder of the tools:
#
#   export PATH="$(bash apps/scripts/setup.sh):$PATH"
#   cmake --preset release && cmake --build --preset release
#
# ENGRAM_CACHE names the cache folder (default ~/.cache/engram). ENGRAM_CUDA, as in CMake: ON installs for a GPU where
# there is none, OFF nothing of CUDA. ENGRAM_PYTHON=ON, as in CMake: also what the Python package is built and tested
# with. ENGRAM_BROWSER=ON: also the Chromium in which a test looks at the page of a report. pip's own settings (index,
# proxy, certificates) apply.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${ENGRAM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/engram}
packages=(g++ ninja-build ccache libboost-program-options-dev nlohmann-json3-dev libxxhash-dev doctest-dev libopencv-dev
          libgif-dev gnuplot-nox)

say() { echo "setup: $*" >&2; }
fail() { say "$@"; exit 1; }

# logged LOG COMMAND...: runs the command with its output in the log and tells now and then how far it has come.
logged() {
  local log=$1 started=$SECONDS said=0 status=0
  shift
  "$@" >"$log" 2>&1 </dev/null &
  local job=$!
  trap 'kill '"$job"' 2>/dev/null' EXIT
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.5
    if ((SECONDS - started >= said + 20)); then
      said=$((SECONDS - started))
      say "  $said s: $(tail -n 1 "$log" | cut -c 1-90)"
    fi
  done
  wait "$job" || status=$?
  trap - EXIT
  return "$status"
}

# fail_with_log LOG WHAT
fail_with_log() {
  tail -n 15 "$1" >&2
  fail "$2 failed; the whole log is $1"
}

# The first Python that the pinned wheels are made for and that can make virtual environments.
find_python() {
  local python
  for python in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
}

# nvcc of a CUDA toolkit 13, where the machine has one; cmake/Cuda.cmake looks in the same places.
find_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" nvcc "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    if [[ -n $nvcc ]] && "$nvcc" --version 2>/dev/null | grep -q 'release 13\.'; then
      command -v "$nvcc"
      return
    fi
  done
}

# Whether to install for a GPU; cmake/CudaArchitectures.cmake decides alike whether to build for one.
wants_cuda() {
  case "${ENGRAM_CUDA:-AUTO}" in
    ON) return 0 ;;
    OFF) return 1 ;;
    AUTO) [[ -n ${CUDAARCHS:-} ]] || nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -q . ;;
    *) fail "ENGRAM_CUDA is '$ENGRAM_CUDA'; it takes AUTO, ON or OFF" ;;
  esac
}

# Whether to install what the Python package is built and tested with.
wants_python() {
  case "${ENGRAM_PYTHON:-OFF}" in
    ON) return 0 ;;
    OFF) return 1 ;;
    *) fail "ENGRAM_PYTHON is '$ENGRAM_PYTHON'; it takes ON or OFF" ;;
  esac
}

# Whether to install the browser for the test of a report's page. Ubuntu's package of that name is no browser.
wants_browser() {
  case "${ENGRAM_BROWSER:-OFF}" in
    ON) ! command -v chromium >/dev/null && ! grep -qi ubuntu /etc/os-release ;;
    OFF) return 1 ;;
    *) fail "ENGRAM_BROWSER is '$ENGRAM_BROWSER'; it takes ON or OFF" ;;
  esac
}

has_headers() { "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; }

install_system_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    say "this is neither Debian nor Ubuntu: install what these Debian packages hold yourself: ${packages[*]}"
    return
  fi
  local python
  python=$(find_python)
  [[ -n $python ]] || packages+=(python3-venv)
  if wants_python && ! { [[ -n $python ]] && has_headers "$python"; }; then packages+=(python3-dev); fi
  if wants_browser; then packages+=(chromium); fi
  if wants_cuda; then packages+=(libboost-context-dev); fi
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local install=(apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}")
  local root=()
  if [[ $(id -u) != 0 ]]; then
    root=(sudo)
    # sudo asks for a password on a terminal only.
    [[ -t 2 ]] || root+=(-n)
    if ! command -v sudo >/dev/null || ! "${root[@]}" true; then
      fail "system packages are missing. As root, run: apt-get update && apt-get install --yes ${missing[*]}"
    fi
  fi
  root+=(env DEBIAN_FRONTEND=noninteractive)
  say "installing system packages: ${missing[*]}"
  # A package list that is absent or old makes the first try fail.
  local log=$cache/apt.log
  logged "$log" "${root[@]}" "${install[@]}" && return
  logged "$log" "${root[@]}" apt-get update || fail_with_log "$log" "apt-get update"
  logged "$log" "${root[@]}" "${install[@]}" || fail_with_log "$log" "apt-get install ${missing[*]}"
}

digest() { sha256sum "$1" | cut -c1-12; }

# An installation counts once its stamp is there; what a killed one left is removed and made again.
complete() { [[ -e $1/complete ]]; }

begin() {
  rm -rf "$1"
  mkdir -p "$1/tmp"
  local free_mb
  free_mb=$(df -Pm "$1" | awk 'NR == 2 {print $4}')
  ((free_mb >= $2)) || fail "$cache has $free_mb MB free, $2 are needed; ENGRAM_CACHE can name another folder"
}

finish() {
  rm -rf "$1/tmp"
  touch "$1/complete"
}

pip_install() {
  local folder=$1
  shift
  # The folder's own tmp: /tmp is often too small for these wheels.
  TMPDIR=$folder/tmp logged "$folder.log" "$venv/bin/python3" -m pip --disable-pip-version-check install \
    --require-hashes --no-deps --only-binary=:all: --no-compile "$@" || fail_with_log "$folder.log" "pip install"
}

install_libtorch() {
  complete "$venv" && return
  say "installing LibTorch and CMake in $venv (about 0.7 GB to fetch, 1.5 GB on disk)"
  begin "$venv" 3000
  logged "$venv.log" "$python" -m venv "$venv" || fail_with_log "$venv.log" "python -m venv"
  pip_install "$venv" -r "$here/requirements.txt"
  finish "$venv"
}

install_cuda_libraries() {
  local folder=$venv/cuda_libraries-$(digest "$here/requirements-gpu.txt")
  complete "$folder" && return
  say "installing CUDA's libraries in $venv (about 1.8 GB to fetch, 2.7 GB on disk)"
  begin "$folder" 6000
  pip_install "$folder" -r "$here/requirements-gpu.txt"
  finish "$folder"
}

install_python_packages() {
  local folder=$venv/python_packages-$(digest "$here/requirements-python.txt")
  complete "$folder" && return
  say "installing what tests of the Python package import in $venv (about 150 MB to fetch)"
  begin "$folder" 1000
  pip_install "$folder" --target "$folder/site" -r "$here/requirements-python.txt"
  finish "$folder"
}

install_nvcc() {
  complete "$cuda" && return
  say "no CUDA toolkit 13 here: installing nvcc in $cuda (about 100 MB to fetch)"
  begin "$cuda" 1000
  pip_install "$cuda" --target "$cuda/site" -r "$here/requirements-cuda.txt"
  # The wheels hold lib/libcudart.so.13 only; nvcc asks for lib64/, the linker for libcudart.so.
  local library
  ln -s lib "$cuda/site/nvidia/cu13/lib64"
  for library in "$cuda"/site/nvidia/cu13/lib/*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
  finish "$cuda"
}

[[ $(uname -sm) == "Linux x86_64" ]] || fail "the pinned LibTorch is built for Linux on x86_64, this is $(uname -sm)"
mkdir -p "$cache" 2>/dev/null || fail "cannot write the cache folder $cache; ENGRAM_CACHE can name another one"
cache=$(cd "$cache" && pwd)
exec 9>"$cache/lock"
if ! flock --nonblock 9; then
  say "another set-up is at work in $cache, waiting for it"
  flock 9
fi

install_system_packages
python=$(find_python)
[[ -n $python ]] || fail "no Python 3.11, 3.12 or 3.13 with venv and ensurepip was found"
# cmake/SetupCache.cmake knows these two names.
venv=$cache/libtorch-$(digest "$here/requirements.txt")-$("$python" -c 'import sys; print("py%d.%d" % sys.version_info[:2])')
cuda=$cache/cuda-$(digest "$here/requirements-cuda.txt")
install_libtorch
if wants_cuda; then
  install_cuda_libraries
  [[ -n $(find_nvcc) ]] || install_nvcc
fi
if wants_python; then install_python_packages; fi
say "ready: $venv"
echo "$venv/bin"
