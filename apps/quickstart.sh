#!/usr/bin/env bash
# Installs what is missing, builds engram, trains an agent on a task that needs memory, evaluates it and films it.
#
#   bash apps/quickstart.sh           a second call reuses all that is there, the trained agent included
#   bash apps/quickstart.sh --again   trains anew
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

config=configs/quickstart.ini
run=runs/quickstart
trained=$run/trained_from.ini  # the config, copied when the training has come to its end
video=$run/episodes.mp4
engram=build/release/engram

step() { printf '\nquickstart: %s\n' "$*"; }

case "${1-}" in
  "") ;;
  --again) rm -f "$trained" ;;
  *)
    echo "quickstart: '$1' is unknown; --again trains anew, nothing else is taken" >&2
    exit 2
    ;;
esac

step "1/5 set-up: what is missing is installed"
tools=$(bash apps/setup.sh)
export PATH=$tools:$PATH

step "2/5 build: $engram"
mkdir -p build
if ! cmake --preset release >build/configure.log; then
  cat build/configure.log
  exit 1
fi
cmake --build --preset release --target engram --parallel "$(nproc)"

if cmp -s "$config" "$trained"; then
  step "3/5 training: reused from $run (--again trains anew)"
else
  step "3/5 training: $config, at most five minutes, into $run"
  rm -rf "$run"
  "$engram" train --config "$config" --seed 1 --run "$run"
  cp "$config" "$trained"
fi

step "4/5 evaluation: 300 episodes that training never saw, where chance is one in three"
"$engram" evaluate "$run" --episodes 300

step "5/5 video of six episodes"
rm -f "$video"
"$engram" render "$run" --output "$video" --episodes 6

cat <<END

quickstart: done in $((SECONDS / 60)) min $((SECONDS % 60)) s
  the video            $video
  run directory        $run   (settings, metrics, weights)
  the program          $engram   ($engram --help)
  LibTorch and tools   $tools
END
