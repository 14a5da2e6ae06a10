"""engram probe as its users see it: computed once, shared by processes, stopped and gone on from; bad input is refused.
usage: probe.py ENGRAM"""

import csv
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ENGRAM = sys.argv[1]
TINY = ["--preset", "small", "--tasks", "parity:train_length=6:test_length=12,copy:items=2:alphabet=3:delay=4",
        "--backbones", "deltanet,gru", "--seeds", "0,1", "--steps", "20", "--device", "cpu", "--threads", "1"]


def tiny(*more):
    """The options of TINY, but for those that `more` gives anew."""
    pairs = zip(TINY[::2], TINY[1::2])
    return [word for pair in pairs if pair[0] not in more for word in pair] + list(more)


def probe(*arguments):
    return subprocess.run([ENGRAM, "probe", *arguments], capture_output=True, text=True, timeout=300)


def cells(run):
    return {path.name: path.read_bytes() for path in (run / "cells").iterdir() if path.suffix == ".json"}


def refused(*arguments, saying):
    result = probe(*arguments)
    assert result.returncode == 2, (arguments, result)
    assert result.stderr.startswith("engram: ") and len(result.stderr.splitlines()) == 1, result.stderr
    assert saying in result.stderr, (saying, result.stderr)


def accuracies(run):
    return {name: json.loads(text)["accuracy"] for name, text in cells(run).items()}


def main(folder):
    # Once: a table with all scores, which a second call finds and does not compute again.
    first = folder / "first"
    result = probe("--run", str(first), *TINY)
    assert result.returncode == 0, result.stderr
    assert len(result.stderr.splitlines()) == 8, result.stderr
    before = cells(first)
    assert len(before) == 8
    scores = json.loads((first / "scores.json").read_text())
    assert scores["methods"] == ["deltanet", "gru"] and scores["seeds"] == [0, 1], scores
    assert all(isinstance(score, float) for task in scores["scores"] for method in task for score in method)
    assert (first / "probe.md").read_text() == result.stdout and "| deltanet |" in result.stdout
    again = probe("--run", str(first), *TINY)
    assert again.returncode == 0 and again.stderr == "" and again.stdout == result.stdout
    assert cells(first) == before

    # Shared by processes, and by shards: the same numbers.
    jobs, shards = folder / "jobs", folder / "shards"
    assert probe("--run", str(jobs), *TINY, "--jobs", "3").returncode == 0
    assert accuracies(jobs) == accuracies(first)
    for shard in ("1/2", "2/2"):
        result = probe("--run", str(shards), *TINY, "--shard", shard)
        assert result.returncode == 0 and result.stdout == "", result
    assert accuracies(shards) == accuracies(first)

    # Stopped in the middle: what was finished stays, and the same command goes on.
    stopped = folder / "stopped"
    arguments = [ENGRAM, "probe", "--run", str(stopped), *tiny("--steps", "40")]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = cells(stopped)
    assert 1 <= len(found) < 8, found.keys()
    assert subprocess.run(arguments, capture_output=True, timeout=300).returncode == 0
    assert len(cells(stopped)) == 8 and found.items() <= cells(stopped).items()

    # A parent that is killed takes its processes along.
    parent = subprocess.Popen([ENGRAM, "probe", "--run", str(folder / "killed"), *tiny("--steps", "100000", "--jobs", "2")],
                              stderr=subprocess.DEVNULL)
    children = []
    for _ in range(600):
        children = pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        if len(children) == 2:
            break
        time.sleep(0.1)
    assert len(children) == 2
    time.sleep(1)
    parent.kill()
    parent.wait()
    for _ in range(600):
        if not any(pathlib.Path(f"/proc/{child}/cmdline").exists()
                   and "probe" in pathlib.Path(f"/proc/{child}/cmdline").read_text() for child in children):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("orphans")

    # Chosen tasks keep the preset's sizes.
    sized = folder / "sized"
    result = probe("--run", str(sized), "--preset", "small", "--tasks", "parity,copy:items=2", "--backbones", "gru",
                   "--seeds", "0", "--steps", "1", "--device", "cpu", "--threads", "1")
    assert result.returncode == 0, result.stderr
    sizes = {cell["task"]: cell["task_options"] for cell in (json.loads(text)["cell"] for text in cells(sized).values())}
    assert sizes["parity"] == {"train_length": "20", "test_length": "64", "answers": "last"}, sizes
    assert sizes["copy"] == {"items": "2", "alphabet": "4", "delay": "16"}, sizes
    assert "## parity:train_length=20:test_length=64\n" in result.stdout, result.stdout

    # A stack among other backbones, and a task whose steps are pairs; the losses are those of the cells.
    stack = "stack:stack=[deltanet,window:window=3]"
    listed = folder / "listed"
    result = probe("--run", str(listed), *tiny("--tasks", "retrieval:keys=3", "--backbones", f"{stack},gru",
                                               "--seeds", "0", "--steps", "2"))
    assert result.returncode == 0 and f"| {stack} |" in result.stdout, result
    rows = list(csv.DictReader((listed / "losses.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == [stack, "gru"] and rows[0]["metric"] == "test loss", rows
    losses = {json.loads(text)["cell"]["backbone"]: json.loads(text)["test_loss"] for text in cells(listed).values()}
    assert {row["method"].split(":")[0]: float(row["score"]) for row in rows} == losses, (rows, losses)

    refused(*TINY, saying="--run DIR is missing")
    new = folder / "new"
    for arguments, saying in [
            (["--tasks", "party"], "did you mean 'parity'?"),
            (["--tasks", "parity,parity"], "'parity:train_length=20:test_length=64' is there twice"),
            (["--tasks", "recall:pairs=100:alphabet=8"], "pairs 100 are more than the keys of alphabet 8"),
            (["--backbones", "hqlt:windw=4"], "windw"),
            (["--backbones", "lstm:window=4"], "window"),
            (["--width", "30", "--heads", "4"], "memory.width 30"),
            (["--seeds", "2-1"], "2-1"),
            (["--rates", "0"], "--rates has '0'"),
            (["--layers", "two"], "--layers has 'two'"),
            (["--backbones", "gru,stack:stack=[deltanet,window"], "has a square bracket without its other one"),
            (["--backbones", "stack:stack=deltanet,window"], "unknown backbone 'window'"),
            (["--shard", "0/2"], "--shard '0/2' is not allowed; it takes I/N with I from 1 to N"),
            (["--shard", "3/2"], "--shard '3/2'"),
            (["--shard", "1/2", "--jobs", "2"], "--jobs"),
            (["--bfloat16"], "--bfloat16 needs a GPU"),
            (["--preset", "huge"], "huge"),
            (["--stepz", "3"], "did you mean '--steps'?")]:
        refused("--run", str(new), *tiny(*arguments), saying=saying)
        assert not new.exists(), arguments
    damaged = next((first / "cells").iterdir())
    damaged.write_text(damaged.read_text()[:100])
    refused("--run", str(first), *TINY, saying=damaged.name)
    (folder / "file").write_text("")
    refused("--run", str(folder / "file"), *TINY, saying="file")
    assert "Usage: engram probe" in probe("--help").stdout


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
print("ok")
