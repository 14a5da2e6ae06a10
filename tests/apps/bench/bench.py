"""The helps of engram bench, and its figures of the CPU.  usage: bench.py ENGRAM"""

import configparser
import functools
import json
import pathlib

from program import engram, refused, scratch_folder

SUBJECTS = ("env", "kernels", "act", "update", "train", "run", "gradient")
bench = functools.partial(engram, "bench", timeout=60)


def rows(*arguments):
    return [json.loads(line) for line in bench(*arguments, "--json").splitlines()]


folder = scratch_folder()
help_text = bench("--help")
for subject in SUBJECTS:
    assert f"\n  {subject} " in help_text, subject

gpu_support = "GPU support: yes" in engram("--version")
for subject in SUBJECTS if gpu_support else ("env", "update", "train", "gradient"):
    text = bench(subject, "--help")
    assert text.startswith(f"Usage: engram bench {subject} [options]\n") and "--json" in text, text
    assert "--against" in text, text

environment = ("env", "--task=tmaze", "--seconds=0.05", "--threads=1", "--num_envs=8")
(figures,) = rows(*environment)
assert figures["task"] == "tmaze" and figures["device"] == "cpu", figures
assert figures["steps_per_second_one_core"] > 0, figures

sizes = ("--width=12", "--models=2", "--rows=3", "--delays=0,1,20")
lines = bench("gradient", "--memory=none,deltanet,hqlt:window=4:mixing=sum,lstm", *sizes, "--json").splitlines()
measured = [json.loads(line) for line in lines]
backbones = ("none", "deltanet", "hqlt:window=4:mixing=sum", "lstm")
assert [(row["backbone"], row["delay"]) for row in measured] == [
    (name, delay) for name in backbones for delay in (0, 1, 20)], measured
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
assert bench("gradient", "--memory=lstm", *sizes, "--json").splitlines() == lines[9:]
table = bench("gradient", "--memory=hqlt,none", *sizes, "--inputs=normal").splitlines()
assert len(table) == 7 and table[0].split()[0] == "backbone", table
assert table[6].split() == ["none", "20", "0.00e+00", "-", "-"], table
for words, message in ((("--memory", ""), "memory = '' is not allowed"),
                       (("--delays", ""), "delays = '' is not allowed"),
                       (("--memory=lstm,stack:stack=[deltanet",), "has a square bracket without its other one"),
                       (("--delays=3,x",), "--delays '3,x': 'x' is not an integer 0..100000"),
                       (("--delays=-1",), "--delays '-1': '-1' is not an integer 0..100000"),
                       (("--memory=lstm,gnu",), "--memory 'gnu': unknown backbone 'gnu'; did you mean 'gru'"),
                       (("--memory=hqlt:window=0",), "--memory 'hqlt:window=0': memory.window = '0' is not allowed")):
    refused("bench", "gradient", *words, saying=message)

# Whole training on the CPU: small iterations, of which some are over in time.
measured = rows("train", "--device=cpu", "--memory=gru,none", "--width=8", "--environments=8", "--iteration_steps=400",
                "--epochs=1", "--minibatches=2", "--seconds=2")
assert [row["backbone"] for row in measured] == ["gru", "none"], measured
for row in measured:
    assert row["passed"] and 0 <= row["divergence"] <= row["bound"], row
    assert row["iterations"] > 0 and row["steps_per_second"] > 0 and row["precision"] == "float32", row
    assert 0 < row["share_acting"] + row["share_learning"] <= 1.01, row

# An update on the CPU: of the quickstart's agent, checked against double precision before it is timed.
update = ("update", "--device=cpu", "--size=quickstart", "--seconds=0.05")
measured = rows(*update, "--memory=deltanet,lstm")
assert [(row["backbone"], row["update"]) for row in measured] == [
    (backbone, update) for backbone in ("deltanet", "lstm") for update in ("LibTorch, float32", "own loops, float32")]
quickstart = configparser.ConfigParser()
quickstart.read(pathlib.Path(__file__).parents[3] / "configs/small/visual_match.ini")
task = quickstart["task"]
for row in measured:
    assert row["passed"] and row["loss_difference"] < row["bound"] and row["ms"] > 0 and row["threads"] == 1, row
    assert abs(row["updates_per_second"] * row["ms"] - 1000) < 1e-6, row
    beside = next(other for other in measured if other["backbone"] == row["backbone"])  # by LibTorch
    assert abs(row["ratio"] * row["processor_ms"] / beside["processor_ms"] - 1) < 1e-6, row
    # What is measured is what configs/small/visual_match.ini says.
    assert row["batch"] == int(quickstart["replay"]["batch_episodes"]), row
    assert row["rows"] == 1 + sum(int(task[f"{part}_steps"]) for part in ("explore", "distractor", "reward")), row

# Figures beside those of a file.
own, of_another = measured[1], measured[3]
file = folder / "before.jsonl"


def compared(text, *more):
    file.write_text(text)
    return bench(*update, f"--against={file}", *more)


def compared_row(text):
    file.write_text(text)
    return next(row for row in rows(*update, f"--against={file}") if row["row"] == own["row"])


def earlier(base, **changes):
    return json.dumps({**base, **changes}) + "\n"


def without(field):
    return json.dumps({name: value for name, value in own.items() if name != field}) + "\n"


halved = earlier(own, ms=1e9)
row = compared_row(halved)
assert row["against"]["machine"] == row["machine"] == own["machine"], row
assert abs(row["against"]["ratios"]["ms"] * row["ms"] - 1e9) < 1, row  # a time: then over now
table = compared(halved, "--memory=deltanet,lstm")
assert "not the same machine" not in table, table
slower, same = [line for line in table.splitlines()[-6:] if line.startswith(own["row"])]
missing = table.splitlines()[-1]
assert slower.startswith(own["row"]) and slower.split()[-5:-3] == ["ms", "1e+09"], table
assert same.startswith(own["row"]) and same.split()[-5] == "processor_ms" and same.endswith(" x"), table
assert missing.startswith(of_another["row"]) and missing.endswith(f"not in {file}"), table
assert compared_row(earlier(of_another))["against"] is None
# Another machine is named; a figure that was not measured has no ratio.
table = compared(earlier(own, machine="an abacus", ms=None))
assert "not the same machine: then on an abacus\n" in table and own["machine"] in table, table
(slower, _) = [line for line in table.splitlines()[-3:] if line.startswith(own["row"])]
assert slower.split()[-4:-2] == ["ms", "-"] and slower.endswith("-"), table
# Rows of other subjects may stand beside.
assert compared_row(earlier(own, subject="env", ms="many") + halved)["against"]

# A rate: now over then.
file.write_text(earlier(figures, steps_per_second_one_core=1))
(row,) = rows(*environment, f"--against={file}")
assert abs(row["against"]["ratios"]["steps_per_second_one_core"] / row["steps_per_second_one_core"] - 1) < 1e-6, row

for text, message in (("", "has no row of bench update"), (earlier(own, subject="env"), "of bench env"),
                      ("{\n", "line 1 is not a JSON object"), (halved + "\n", "line 2 is not a JSON object"),
                      (halved + "[1]\n", "line 2 is not a JSON object"), ("[" * 100000, "is not a JSON object"),
                      (without("subject"), 'line 1 has no "subject"'), (without("row"), 'line 1 has no "row"'),
                      (without("machine"), 'line 1 has no "machine"'), (earlier(own, row=3), '"row"'),
                      (earlier(own, ms="fast"), '"ms" is "fast", not a number from 0 on'),
                      (earlier(own, ms=-1), '"ms" is -1, not a number from 0 on'),
                      (halved + halved, "line 2 has the row"), ("\0\xff", "is not a JSON object")):
    file.write_bytes(text.encode("latin-1"))
    refused("bench", *update, f"--against={file}", saying=message)
for path, message in ((folder, "is not a regular file"), (file.with_name("none"), "there is no such file")):
    refused("bench", *update, f"--against={path}", saying=message)

for words, message in ((("--device=cpu", "--size=huge"), "--size 'huge' is none of published, 3x100, 1x64, quickstart"),
                       (("--device=tpu",), "--device 'tpu' is neither cpu nor cuda"),
                       (("--device=cpu", "--memory=gnu"), "unknown backbone 'gnu'"),
                       (("--device=cpu", "--seconds=0"), "seconds")):
    refused("bench", "update", *words, saying=message)
for words, message in ((("--device=tpu",), "--device 'tpu' is neither cpu nor cuda"),
                       (("--device=cpu", "--memory=gnu"), "unknown backbone 'gnu'"),
                       (("--device=cpu", "--width=0"), "'0'"),
                       (("--device=cpu", "--precision=half"), "run.precision = 'half'")):
    refused("bench", "train", *words, saying=message)
