"""What engram evaluate plays, which weights it takes, and what it prints of names that hold any bytes.
usage: evaluate.py ENGRAM"""

import functools
import json
import os
import pathlib
import shutil

import numpy
import safetensors.numpy

import program
from program import comparison, engram_json, refused, scratch_folder, tiny, with_changes

MAZE = tiny("--task.penalty=-0.1", "--task.active=true")
engram = functools.partial(program.engram, timeout=300)
evaluated = functools.partial(program.engram_json, "evaluate", "--device=cpu", timeout=300)


def check_trace(folder, run):
    """A trace is of the episodes that are evaluated, and changes nothing of them."""
    for episodes, dropout in (5, "false"), (70, "false"), (70, "true"):
        how = [f"--episodes={episodes}", f"--evaluation.dropout={dropout}"]
        plain = evaluated(run, *how)
        traced = evaluated(run, *how, "--trace", folder / "trace", "--force")
        assert traced == plain, (traced, plain)
        trace = safetensors.numpy.load_file(folder / "trace")
        assert len(trace["episode_starts"]) == episodes
        assert trace["successes"].mean() == traced["greedy"]["success"], (trace["successes"], traced)
        returns = [part.sum(dtype=numpy.float64) for part in numpy.split(trace["rewards"], trace["episode_starts"][1:])]
        assert abs(numpy.mean(returns) - traced["greedy"]["return"]) < 1e-9, (returns, traced)
    # Fewer episodes are the first of more.
    few, many = folder / "few", folder / "many"
    evaluated(run, "--episodes=5", "--trace", few)
    evaluated(run, "--episodes=70", "--trace", many)
    few, many = safetensors.numpy.load_file(few), safetensors.numpy.load_file(many)
    rows = len(few["actions"])
    assert numpy.array_equal(few["observations"], many["observations"][:rows])


def check_names(folder, run):
    """JSON is written of folders whose names are no UTF-8, by every command."""
    strange = os.path.join(os.fsencode(folder), b"caf\xe9 \xff")
    shutil.copytree(os.fsencode(run), strange)
    name = str(folder) + "/caf\ufffd \ufffd"
    for command in (["evaluate", strange, "--episodes=2", "--device=cpu"], ["inspect", strange],
                    ["evaluate", strange, "--range=task.corridor_length: 5", "--episodes=2", "--device=cpu"],
                    ["diagnose", strange, "--episodes=2", "--device=cpu"]):
        assert engram_json(*command, timeout=300)["run"] == name, command
    weights = strange + b"/weights/best.safetensors"
    assert engram_json("inspect", weights)["file"] == name + "/weights/best.safetensors"
    engram("evaluate", strange, "--episodes=2", "--device=cpu", "--trace", strange + b"/\xfe")
    engram("train", "--resume", strange)
    started = json.loads((pathlib.Path(os.fsdecode(strange)) / "resumes.jsonl").read_text())
    assert started["command_line"] == ["engram", "train", "--resume", name], started
    engram("train", strange + b"2", *MAZE)
    config = folder / "c.ini"
    config.write_text(comparison("--run.steps=40", "--network.hidden_width=8", tasks={"tmaze": 5}))
    engram("compare", "--run", strange + b"3", "--config", config, "--device=cpu")
    json.loads(pathlib.Path(os.fsdecode(strange + b"3/plan.json")).read_text())
    refused("train", folder / "no", *[word for word in MAZE if word != "--device=cpu"], b"--run.device=\xff",
            saying=["run.device = ", "is not UTF-8"])


def check_weights(folder, run):
    """Weights of another run are refused by both names; those of other programs are taken, in any of their types."""
    other = folder / "other"
    engram("train", other, *tiny("--task.name=memory_chain", "--task.bits=1"))
    best = run / "weights/best.safetensors"
    kept = best.read_bytes()
    tensors = safetensors.numpy.load_file(best)
    before = evaluated(run, "--episodes=20")

    shorter = folder / "shorter"
    engram("train", shorter, *with_changes(MAZE, "--task.corridor_length=6", "--run.steps=40"))
    shutil.copy(shorter / "weights/best.safetensors", best)
    refused("evaluate", run, saying=["task.corridor_length = 6", f"'{run}/config.ini' has 5", "own weights"])
    refused("train", folder / "adapted", "--adapt", run, saying=["task.corridor_length = 6"])
    assert not (folder / "adapted").exists()
    shutil.copy(other / "weights/best.safetensors", best)
    refused("diagnose", run, saying=["task.name = memory_chain", "has tmaze"])

    safetensors.numpy.save_file(tensors, best)
    assert evaluated(run, "--episodes=20") == before
    safetensors.numpy.save_file({name: tensor.astype(numpy.float16) for name, tensor in tensors.items()}, best)
    halves = evaluated(run, "--episodes=20")
    rounded = {name: tensor.astype(numpy.float16).astype(numpy.float32) for name, tensor in tensors.items()}
    safetensors.numpy.save_file(rounded, best)
    assert evaluated(run, "--episodes=20") == halves
    safetensors.numpy.save_file({name: tensor.astype(numpy.int16) for name, tensor in tensors.items()}, best)
    refused("evaluate", run,
            saying=[f"weights file '{best}': tensor 'actor", "has the type I16", "loads F64, F32", "BF16"])
    assert "I16" in engram("inspect", best)
    best.write_bytes(kept)
    assert evaluated(run, "--episodes=20") == before


folder = scratch_folder()
run = folder / "run"
engram("train", run, *MAZE)
check_trace(folder, run)
check_weights(folder, run)
check_names(folder, run)
