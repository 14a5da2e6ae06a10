"""engram probe as its users see it: computed once, shared by processes, stopped and gone on from; bad input is refused.
usage: probe.py ENGRAM"""

import csv
import functools
import json
import pathlib
import time

import program
from program import commands_of_processes, kill, scratch_folder, start, wait_for

TINY = ["--preset", "small", "--tasks", "parity:train_length=6:test_length=12,copy:items=2:alphabet=3:delay=4",
        "--backbones", "deltanet,gru", "--seeds", "0,1", "--steps", "20", "--device", "cpu", "--threads", "1"]
refused = functools.partial(program.refused, "probe")


def tiny(*more):
    """The options of TINY, but for those that `more` gives anew."""
    pairs = zip(TINY[::2], TINY[1::2])
    return [word for pair in pairs if pair[0] not in more for word in pair] + list(more)


def probe(run, *arguments):
    """What it prints, and what it says of each cell that it computes."""
    result = program.call(program.ENGRAM, "probe", "--run", run, *arguments, saying=None, timeout=300)
    return result.stdout, result.stderr


def cells(run):
    return {path.name: path.read_bytes() for path in (run / "cells").iterdir() if path.suffix == ".json"}


def accuracies(run):
    return {name: json.loads(text)["accuracy"] for name, text in cells(run).items()}


def main(folder):
    # Once: a table with all scores, which a second call finds and does not compute again.
    first = folder / "first"
    table, said = probe(first, *TINY)
    assert len(said.splitlines()) == 8, said
    before = cells(first)
    assert len(before) == 8
    scores = json.loads((first / "scores.json").read_text())
    assert scores["methods"] == ["deltanet", "gru"] and scores["seeds"] == [0, 1], scores
    assert all(isinstance(score, float) for task in scores["scores"] for method in task for score in method)
    assert (first / "probe.md").read_text() == table and "| deltanet |" in table
    assert probe(first, *TINY) == (table, "")
    assert cells(first) == before

    # Shared by processes, and by shards: the same numbers.
    jobs, shards = folder / "jobs", folder / "shards"
    probe(jobs, *TINY, "--jobs", "3")
    assert accuracies(jobs) == accuracies(first)
    for shard in ("1/2", "2/2"):
        assert probe(shards, *TINY, "--shard", shard)[0] == ""
    assert accuracies(shards) == accuracies(first)

    # Two programs at once share a folder: each cell is computed once, and who ends first says that cells are missing.
    both = folder / "both"
    programs = [start("probe", "--run", both, *tiny("--seeds", "0-3")) for _ in range(2)]
    said = [one.communicate(timeout=300)[1].splitlines() for one in programs]
    assert len(cells(both)) == 16 and sum("seed" in line for lines in said for line in lines) == 16, said
    assert all(lines and "seed" in lines[0] for lines in said), said  # each had its part
    assert any(one.returncode == 0 for one in programs), said
    for one, lines in zip(programs, said):
        assert one.returncode == 0 or "still computed by another program" in lines[-1], said
    assert not list((both / "cells").glob("*.lock"))

    # Stopped in the middle: what was finished stays, and the same command goes on.
    stopped = folder / "stopped"
    process = start("probe", "--run", stopped, *tiny("--steps", "40"))
    process.stderr.readline()
    kill(process)
    found = cells(stopped)
    assert 1 <= len(found) < 8, found.keys()
    probe(stopped, *tiny("--steps", "40"))
    assert len(cells(stopped)) == 8 and found.items() <= cells(stopped).items()

    # A parent that is killed takes its processes along.
    parent = start("probe", "--run", folder / "killed", *tiny("--steps", "100000", "--jobs", "2"))
    children = pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    wait_for(lambda: len(children.read_text().split()) == 2, parent)
    numbers = [int(number) for number in children.read_text().split()]
    time.sleep(1)
    kill(parent)
    wait_for(lambda: not any("probe" in " ".join(commands_of_processes().get(number, [])) for number in numbers))

    # Chosen tasks keep the preset's sizes.
    sized = folder / "sized"
    table, _ = probe(sized, "--preset", "small", "--tasks", "parity,copy:items=2", "--backbones", "gru", "--seeds", "0",
                     "--steps", "1", "--device", "cpu", "--threads", "1")
    of_cells = [json.loads(text)["cell"] for text in cells(sized).values()]
    sizes = {cell["task"]: cell["task_options"] for cell in of_cells}
    assert sizes["parity"] == {"train_length": "20", "test_length": "64", "answers": "last"}, sizes
    assert sizes["copy"] == {"items": "2", "alphabet": "4", "delay": "16"}, sizes
    assert "## parity:train_length=20:test_length=64\n" in table, table

    # A stack among other backbones, and a task whose steps are pairs; the losses are those of the cells.
    stack = "stack:stack=[deltanet,window:window=3]"
    listed = folder / "listed"
    table, _ = probe(listed, *tiny("--tasks", "retrieval:keys=3", "--backbones", f"{stack},gru", "--seeds", "0",
                                   "--steps", "2"))
    assert f"| {stack} |" in table, table
    rows = list(csv.DictReader((listed / "losses.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == [stack, "gru"] and rows[0]["metric"] == "test loss", rows
    losses = {json.loads(text)["cell"]["backbone"]: json.loads(text)["test_loss"] for text in cells(listed).values()}
    assert {row["method"].split(":")[0]: float(row["score"]) for row in rows} == losses, (rows, losses)

    # A published figure's preset: its memory alone, until it is learnt; a training set, in passes over it.
    alone = folder / "alone"
    probe(alone, "--preset", "capacity", "--tasks", "retrieval:model=memory:keys=4", "--backbones", "dpfp,transformer",
          "--device", "cpu", "--threads", "1")
    found = [json.loads(text) for text in cells(alone).values()]
    assert len(found) == 2 and all(cell["validation_loss"] < 0.001 for cell in found), found
    assert all(len(cell["accuracy_by_question"]) == 4 for cell in found), found
    passes = folder / "passes"
    probe(passes, "--preset", "mad", "--tasks", "mad_recall:length=8:training_sequences=6", "--backbones", "gru:width=8",
          "--rates", "0.01", "--epochs", "3", "--batch", "2", "--device", "cpu", "--threads", "1")
    (cell,) = [json.loads(text) for text in cells(passes).values()]
    assert cell["cell"]["steps"] == 9 and cell["chance"] == 0 and cell["normalised_accuracy"] == cell["accuracy"], cell

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
            (["--epochs", "2"], "has none: every sequence is new"),
            (["--warmup", "1.5"], "warmup"),
            (["--tasks", "retrieval:model=memory"], "a memory alone has one head, not heads 2"),
            (["--preset", "huge"], "huge"),
            (["--stepz", "3"], "did you mean '--steps'?")]:
        refused("--run", new, *tiny(*arguments), saying=saying)
        assert not new.exists(), arguments
    damaged = next((first / "cells").iterdir())
    damaged.write_text(damaged.read_text()[:100])
    refused("--run", first, *TINY, saying=damaged.name)
    (folder / "file").write_text("")
    refused("--run", folder / "file", *TINY, saying="file")
    assert "Usage: engram probe" in program.engram("probe", "--help")


main(scratch_folder())
