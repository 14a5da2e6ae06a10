"""The helps of engram bench, and its figures of the CPU.  usage: bench.py ENGRAM"""

import json
import subprocess
import sys

ENGRAM = sys.argv[1]
SUBJECTS = ("env", "kernels", "act", "update", "run")


def output_of(*arguments):
    result = subprocess.run([ENGRAM, "bench", *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", (arguments, result)
    return result.stdout


help_text = output_of("--help")
for subject in SUBJECTS:
    assert f"\n  {subject} " in help_text, subject

gpu_support = "GPU support: yes" in subprocess.run([ENGRAM, "--version"], capture_output=True, text=True).stdout
for subject in SUBJECTS if gpu_support else ("env",):
    text = output_of(subject, "--help")
    assert text.startswith(f"Usage: engram bench {subject} [options]\n") and "--json" in text, text

lines = output_of("env", "--task=tmaze", "--seconds=0.05", "--threads=1", "--num_envs=8", "--json").splitlines()
assert len(lines) == 1, lines
figures = json.loads(lines[0])
assert figures["task"] == "tmaze" and figures["device"] == "cpu", figures
assert figures["steps_per_second_one_core"] > 0, figures
