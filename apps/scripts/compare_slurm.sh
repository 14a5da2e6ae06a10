#!/bin/bash
# One shard of `engram compare` for each task of a Slurm array; docs/compare/cluster.md has more. From the root folder, here with
# eight shards (the options of sbatch, --, those of engram compare):
#
#   bash apps/scripts/compare_slurm.sh --array=1-8 --partition=P --account=A --time=12:00:00 -- \
#     --config configs/compare/tmaze_length.ini --run runs/tmaze
#
# It checks the array and the comparison, and submits itself, with a log for each shard in runs/tmaze.slurm. Straight to
# sbatch, without these:
#
#   sbatch --array=1-8 apps/scripts/compare_slurm.sh --config configs/compare/tmaze_length.ini --run runs/tmaze
#
# A job whose time ends saves its runs and puts itself back into the queue until its shard is finished; one that was
# preempted or lost its node is put back by Slurm. What failed is tried again, and what was cancelled goes on, by the same
# command. ENGRAM names the program where it is not build/release/engram.
#SBATCH --job-name=engram-compare
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -uo pipefail

program=${ENGRAM:-build/release/engram}

refuse() {
  echo "compare_slurm.sh: $*" >&2
  exit 2
}

check_program() {
  command -v "$program" >/dev/null || refuse "the program '$program' was not found in $PWD; ENGRAM=FILE names another"
}

submit() {
  local of_sbatch=() array="" shards=1 run="" log
  while (($# > 0)) && [[ $1 != -- ]]; do
    case $1 in
      --array=* | -a?*) array=${1#--array=} array=${array#-a} ;;
      --array | -a) array=${2:-} ;;
    esac
    of_sbatch+=("$1")
    shift
  done
  (($# > 0)) || refuse "a -- is missing between the options of sbatch and those of engram compare, as in" \
    "--array=1-8 -- --config FILE --run DIR"
  shift
  command -v sbatch >/dev/null || refuse "sbatch was not found: jobs are submitted where Slurm is"
  check_program
  if [[ -n $array ]]; then
    [[ $array =~ ^1-([1-9][0-9]*)(%[0-9]+)?$ ]] ||
      refuse "--array '$array' is not allowed; it takes 1-N, or 1-N%JOBS_AT_ONCE"
    shards=${BASH_REMATCH[1]}
  fi
  local arguments=("$@") i checked=()
  for ((i = 0; i < $#; ++i)); do
    case ${arguments[i]} in
      --run=*) run=${arguments[i]#--run=} ;;
      --run) run=${arguments[i + 1]:-} ;;
      --shard | --shard=*) refuse "--shard is chosen by the array: --array=1-N before the --" ;;
      --device=* | --run.device=*) continue ;;
      --device | --run.device) ((++i)) && continue ;;
    esac
    checked+=("${arguments[i]}")
  done

  # What is wrong with the comparison shows here, not in a log some hours later. The plan's first line is enough, and
  # this machine need not have the GPUs.
  local plan
  plan=$("$program" compare "${checked[@]}" --shard "$shards/$shards" --dry-run --device cpu | head -n 1)
  [[ -n $plan ]] || exit 2
  log=${run%/}.slurm
  mkdir -p "$log" || exit 1
  [[ -n $array ]] && log+=/%a.txt || log+=/1.txt
  sbatch --output="$log" "${of_sbatch[@]}" "${BASH_SOURCE[0]}" "$@" || exit
  echo "Logs: ${run%/}.slurm. How far it is: $(printf '%q ' "$program" inspect "$run")"
}

work() {
  check_program
  local shard=1/1 compare status time_ends=no
  if [[ -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
    [[ ${SLURM_ARRAY_TASK_MIN:-} == 1 && ${SLURM_ARRAY_TASK_MAX:-} == "$SLURM_ARRAY_TASK_COUNT" ]] ||
      refuse "--array has to be 1-N; shards that are finished end at once"
    shard=$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT
  fi
  # TERM comes to every process of the job: the program has it already. USR1 comes to this script alone. It is the only
  # trap, since of two signals that come together bash may lose one.
  trap '' TERM
  (trap - TERM && exec "$program" compare "$@" --shard "$shard") &
  compare=$!
  trap 'time_ends=yes; kill -TERM "$compare"' USR1
  # A signal ends the wait, not the program; one that comes just before a wait is seen only when that ends.
  while kill -0 "$compare" 2>/dev/null; do
    sleep 5 &
    wait -n
  done
  wait "$compare"
  status=$?
  [[ $time_ends == yes && $status == 143 ]] || exit "$status"
  echo "The job's time is ending: back into the queue."
  scontrol requeue "$SLURM_JOB_ID" && exit
  echo "compare_slurm.sh: the job could not be put back into the queue; the same command goes on" >&2
  exit "$status"
}

# In a job this is the batch script itself, not something that a shell inside of a job has called.
if [[ ${SLURM_TASK_PID:-} == "$$" ]]; then
  work "$@"
else
  submit "$@"
fi
