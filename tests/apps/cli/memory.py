"""What cannot fit into memory is refused before anything is allocated, and runs take what is estimated.
usage: memory.py ENGRAM"""

import json
import pathlib
import subprocess
import sys
import tempfile

from command_words import once

ENGRAM = sys.argv[1]
FACTOR = 2  # kMemoryFactor, agents/run/memory_estimate.h
TINY = ["--task.name=tmaze", "--memory.name=lstm", "--memory.width=8", "--network.hidden_width=16", "--device=cpu"]
# Episodes long enough that an update takes most; three updates.
AGENTS = {
    "lstm": ["--memory.width=64", "--replay.batch_episodes=256"],
    "transformer": ["--memory.width=64", "--memory.layers=2", "--replay.batch_episodes=128"],
    "deltanet": ["--memory.width=64", "--memory.layers=2", "--replay.batch_episodes=128"],
    "none": ["--memory.width=512", "--memory.layers=4", "--network.hidden_width=1024", "--replay.batch_episodes=32"],
}


def refused(folder, *arguments, saying):
    before = sorted(folder.rglob("*"))
    result = subprocess.run([ENGRAM, *once(arguments)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 2 and result.stdout == "" and result.stderr.count("\n") == 1, result
    assert all(words in result.stderr for words in saying), (result.stderr, saying)
    assert sorted(folder.rglob("*")) == before, arguments
    return result.stderr


def check_refusals(folder):
    for key, value in (("replay.batch_episodes", "1000000"), ("memory.width", "16384")):
        layers = ["--memory.name=transformer", "--memory.layers=64"] if key == "memory.width" else []
        long = ["--task.corridor_length=10000"]  # terabytes
        line = refused(folder, "train", folder / "run", *TINY, *layers, *long, f"--{key}={value}",
                       saying=[f"{key} {value} is too much for this machine", "TB", f"; {key} ", " fits"])
        fits = line.rsplit(" ", 2)[1]
        assert 0 < int(fits) < int(value), line
    refused(folder, "train", folder / "runs", *TINY, "--seeds=1-2", "--task.corridor_length=10000",
            "--replay.batch_episodes=1M",
            saying=["replay.batch_episodes 1000000 is too much"])
    config = folder / "c.ini"
    config.write_text("[compare]\nseeds = 1\n[tasks.tmaze]\ntask.name = tmaze\ntask.corridor_length = 10000\n[replay]\nbatch_episodes = 1M\n"
                      "[backbones.gru]\nmemory.name = gru\n")
    for more in ([], ["--dry-run"]):
        refused(folder, "compare", "--config", config, "--run", folder / "runs", "--device=cpu", *more,
                saying=["tmaze/gru, with ", "replay.batch_episodes 1000000 is too much"])


def check_peaks(folder):
    for name, options in AGENTS.items():
        run = folder / name
        result = subprocess.run(
            [ENGRAM, "train", run, *once([*TINY, f"--memory.name={name}", *options]), "--task.corridor_length=150",
             "--run.steps=453", "--run.random_episodes=2", "--run.updates_per_step=0.005", "--evaluation.episodes=1",
             "--evaluation.final_episodes=0", "--run.threads=1"], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result
        rows = [json.loads(line) for line in (run / "timings.jsonl").read_text().splitlines()]
        peak = 1e6 * max(row.get("peak_memory_mb", 0) for row in rows)
        inspected = subprocess.run([ENGRAM, "inspect", run, "--json"], capture_output=True, text=True, timeout=120)
        memory = json.loads(inspected.stdout)["memory_on_cpu"]
        parts = memory["parts"]
        assert sum(parts.values()) == memory["bytes"] or abs(sum(parts.values()) - memory["bytes"]) < 10, memory
        assert peak / FACTOR < memory["bytes"] < peak * FACTOR, (name, peak, memory)
        # The program alone does not make it so: without the update the estimate would be far off.
        assert parts["update"] > parts["program"], (name, memory)
        text = subprocess.run([ENGRAM, "inspect", run], capture_output=True, text=True, timeout=120).stdout
        assert "  memory       on a CPU about " in text and ": update " in text, text


with tempfile.TemporaryDirectory() as name:
    check_refusals(pathlib.Path(name))
    check_peaks(pathlib.Path(name))
print("ok")
