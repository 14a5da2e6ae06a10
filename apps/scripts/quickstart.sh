#!/usr/bin/env bash
# Installs what is missing, builds engram, trains an agent on a task that needs memory, evaluates it and films it.
# Exit status 1 where what was trained is not above chance: nothing is filmed, and the next call trains anew.
#
#   bash apps/scripts/quickstart.sh           a second call reuses all that is there, the trained agent included
#   bash apps/scripts/quickstart.sh ppo       another agent, beside it, by PPO; sac, the default, is SAC
#   bash apps/scripts/quickstart.sh --again   trains anew
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

config=configs/small/visual_match.ini
run=runs/quickstart
again=
for argument in "$@"; do
  case "$argument" in
    sac) ;;
    ppo)
      config=configs/tmaze_10_ppo.ini
      run=runs/quickstart_ppo
      ;;
    --again) again=yes ;;
    *)
      echo "quickstart: '$argument' is unknown; it takes sac or ppo, and --again trains anew" >&2
      exit 2
      ;;
  esac
done
trained=$run/trained_from.ini  # the config, copied when what it trained has been found to be above chance
video=$run/episodes.mp4
engram=build/release/engram

step() { printf '\nquickstart: %s\n' "$*"; }

# outcome JSON: of what `engram evaluate --json` found, "above" or "chance", then a line on it. An agent is above chance
# where even the lower end of the 95% interval of its greedy success is.
outcome() {
  python3 - "$1" <<'PYTHON'
import json
import sys

result = json.loads(sys.argv[1])
greedy, chance = result["greedy"], result["chance_success"]
success, (low, high) = greedy["success"], greedy["success_interval"]
print("above" if low > chance else "chance",
      f"{100 * success:.1f}% of {result['episodes']} unseen episodes solved (95% interval {100 * low:.1f} to "
      f"{100 * high:.1f}) where chance is {100 * chance:.1f}%")
PYTHON
}

if [[ -n $again ]]; then rm -f "$trained"; fi

step "1/5 set-up: what is missing is installed"
tools=$(bash apps/scripts/setup.sh)
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
  step "3/5 training: $config, at most ten minutes, into $run"
  rm -rf "$run"
  "$engram" train --config "$config" --seed 1 --run "$run"
fi

step "4/5 evaluation: 300 episodes that training never saw"
"$engram" evaluate "$run" --episodes 300
json=$("$engram" evaluate "$run" --episodes 300 --json)
found=$(outcome "$json")
if [[ $found != above* ]]; then
  echo "quickstart: failed, not above chance: ${found#* }; the next call trains anew" >&2
  exit 1
fi
cp "$config" "$trained"

step "5/5 video of six episodes"
rm -f "$video"
"$engram" render "$run" --output "$video" --episodes 6

cat <<END

quickstart: done in $((SECONDS / 60)) min $((SECONDS % 60)) s: ${found#* }
  the video            $video
  run directory        $run   (settings, metrics, weights)
  the program          $engram   ($engram --help)
  LibTorch and tools   $tools
END
