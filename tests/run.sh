#!/usr/bin/env bash
# Sets up, builds and runs every test; arguments go to ctest (`bash tests/run.sh -R envs` runs those of envs alone).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

started=$SECONDS
tools=$(bash apps/scripts/setup.sh)
export PATH=$tools:$PATH
set_up=$SECONDS
cmake --preset release
cmake --build --preset release --parallel "$(nproc)"
built=$SECONDS

status=0
log=build/release/tests.log
ctest --preset release --parallel "$(nproc)" "$@" 2>&1 | tee "$log" || status=$?

echo "set-up $((set_up - started)) s, build $((built - set_up)) s, tests $((SECONDS - built)) s"
sed -nE 's/.* ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log" | tail -n 1 | {
  read -r failed total && echo "$((total - failed)) passed, $failed failed"
} || true
exit "$status"
