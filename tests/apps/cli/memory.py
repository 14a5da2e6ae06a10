"""What cannot fit into memory is refused before anything is allocated, and runs take what is estimated.
usage: memory.py ENGRAM"""

from program import comparison, engram, engram_json, json_lines, refused, scratch_folder, with_changes

FACTOR = 2  # kMemoryFactor, agents/run/machine/memory_estimate.h
TINY = ["--task.name=tmaze", "--memory.name=lstm", "--memory.width=8", "--network.hidden_width=16", "--device=cpu"]
# Episodes long enough that an update takes most; three updates.
AGENTS = {
    "lstm": ["--memory.width=64", "--replay.batch_episodes=256"],
    "transformer": ["--memory.width=64", "--memory.layers=2", "--replay.batch_episodes=128"],
    "deltanet": ["--memory.width=64", "--memory.layers=2", "--replay.batch_episodes=128"],
    "none": ["--memory.width=512", "--memory.layers=4", "--network.hidden_width=1024", "--replay.batch_episodes=32"],
}


def check_refusals(folder):
    for key, value in (("replay.batch_episodes", "1000000"), ("memory.width", "16384")):
        layers = ["--memory.name=transformer", "--memory.layers=64"] if key == "memory.width" else []
        long = ["--task.corridor_length=10000"]  # terabytes
        line = refused("train", folder / "run", *with_changes(TINY, *layers, *long, f"--{key}={value}"),
                       saying=[f"{key} {value} is too much for this machine", "TB", f"; {key} ", " fits"])
        fits = line.rsplit(" ", 2)[1]
        assert 0 < int(fits) < int(value), line
    refused("train", folder / "runs", *TINY, "--seeds=1-2", "--task.corridor_length=10000",
            "--replay.batch_episodes=1M", saying=["replay.batch_episodes 1000000 is too much"])
    config = folder / "c.ini"
    config.write_text(comparison("--replay.batch_episodes=1M", tasks={"tmaze": 10000}))
    for more in ([], ["--dry-run"]):
        refused("compare", "--config", config, "--run", folder / "runs", "--device=cpu", *more,
                saying=["tmaze/gru, with ", "replay.batch_episodes 1000000 is too much"])


def check_peaks(folder):
    for name, options in AGENTS.items():
        run = folder / name
        engram("train", run, *with_changes(TINY, f"--memory.name={name}", *options), "--task.corridor_length=150",
               "--run.steps=453", "--run.random_episodes=2", "--run.updates_per_step=0.005", "--evaluation.episodes=1",
               "--evaluation.final_episodes=0", "--run.threads=1", timeout=300)
        peak = 1e6 * max(row.get("peak_memory_mb", 0) for row in json_lines(run / "timings.jsonl"))
        memory = engram_json("inspect", run)["memory_on_cpu"]
        parts = memory["parts"]
        assert sum(parts.values()) == memory["bytes"] or abs(sum(parts.values()) - memory["bytes"]) < 10, memory
        assert peak / FACTOR < memory["bytes"] < peak * FACTOR, (name, peak, memory)
        # The program alone does not make it so: without the update the estimate would be far off.
        assert parts["update"] > parts["program"], (name, memory)
        text = engram("inspect", run)
        assert "  memory       on a CPU about " in text and ": update " in text, text


folder = scratch_folder()
check_refusals(folder)
check_peaks(folder)
