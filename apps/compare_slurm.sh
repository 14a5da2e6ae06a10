#!/bin/bash
# One shard of `engram compare` for each task of a Slurm array. From the root folder, here with eight shards:
#
#   sbatch --array=1-8 apps/compare_slurm.sh --config configs/compare/tmaze_length.ini --run runs/tmaze
#
# Any of them may be stopped or die: the same command submitted again goes on where each was. ENGRAM names the program
# where it is not build/release/engram.
#SBATCH --job-name=engram-compare
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120

# exec: the signal reaches the program, which lets its runs save.
exec "${ENGRAM:-build/release/engram}" compare "$@" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
