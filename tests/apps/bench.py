"""The helps of engram bench, and its figures of the CPU.  usage: bench.py ENGRAM"""

import json
import subprocess
import sys

ENGRAM = sys.argv[1]
SUBJECTS = ("env", "kernels", "act", "update", "run", "gradient")


def output_of(*arguments):
    result = subprocess.run([ENGRAM, "bench", *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", (arguments, result)
    return result.stdout


help_text = output_of("--help")
for subject in SUBJECTS:
    assert f"\n  {subject} " in help_text, subject

gpu_support = "GPU support: yes" in subprocess.run([ENGRAM, "--version"], capture_output=True, text=True).stdout
for subject in SUBJECTS if gpu_support else ("env", "gradient"):
    text = output_of(subject, "--help")
    assert text.startswith(f"Usage: engram bench {subject} [options]\n") and "--json" in text, text

lines = output_of("env", "--task=tmaze", "--seconds=0.05", "--threads=1", "--num_envs=8", "--json").splitlines()
assert len(lines) == 1, lines
figures = json.loads(lines[0])
assert figures["task"] == "tmaze" and figures["device"] == "cpu", figures
assert figures["steps_per_second_one_core"] > 0, figures

sizes = ("--width=12", "--models=2", "--rows=3", "--delays=0,1,20")
lines = output_of("gradient", "--memory=none,deltanet,hqlt:window=4:mixing=sum,lstm", *sizes, "--json").splitlines()
measured = [json.loads(line) for line in lines]
assert [(row["backbone"], row["delay"]) for row in measured] == [
    (name, delay) for name in ("none", "deltanet", "hqlt:window=4:mixing=sum", "lstm") for delay in (0, 1, 20)], measured
for row in measured:
    if row["delay"] == 0:
        assert abs(row["share"] - 1) < 1e-6, row
    elif row["backbone"] == "none":
        assert row["share"] == 0, row
    else:
        assert 0 < row["share"] < 1, row
    both = row["backbone"].startswith("hqlt")
    assert (row["fast_rms"] is not None) == both and (row["window_rms"] is not None) == both, row
# Weights and inputs are those of the seeds, whatever is measured beside.
assert output_of("gradient", "--memory=lstm", *sizes, "--json").splitlines() == lines[9:]
table = output_of("gradient", "--memory=hqlt,none", *sizes, "--inputs=normal").splitlines()
assert len(table) == 7 and table[0].split()[0] == "backbone", table
assert table[6].split() == ["none", "20", "0.00e+00", "-", "-"], table
for words, message in ((("--memory", ""), "--memory is empty"), (("--delays", ""), "--delays is empty"),
                       (("--memory=lstm,stack:stack=[deltanet",), "has a square bracket without its other one"),
                       (("--delays=3,x",), "--delays '3,x': 'x' is not an integer 0..100000"),
                       (("--delays=-1",), "--delays '-1': '-1' is not an integer 0..100000"),
                       (("--memory=lstm,gnu",), "--memory 'gnu': unknown backbone 'gnu'; did you mean 'gru'?"),
                       (("--memory=hqlt:window=0",), "--memory 'hqlt:window=0': memory.window = '0' is not allowed")):
    result = subprocess.run([ENGRAM, "bench", "gradient", *words], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == "" and message in result.stderr, result
