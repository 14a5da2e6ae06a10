"""Adapts an agent to another size of its task: what changes and what does not, that it is an agent like any other, that
a stopped run goes on exactly, and what is refused.  usage: adapt.py ENGRAM"""

import functools

import numpy

import program
from program import (checkpoints, config_text, refused, same_outcome, scratch_folder, start, stop, tiny, wait_for,
                     weights)

CONFIG = config_text(*tiny(
    "--task.corridor_length=4", "--memory.name=stack", "--memory.stack=gated_deltanet,window:window=4",
    "--memory.width=16", "--run.steps=400", "--run.random_episodes=4", "--run.num_envs=2",
    "--run.metrics_every_steps=50", "--evaluation.every_steps=100", "--evaluation.episodes=4",
    "--evaluation.final_episodes=10", "--replay.batch_episodes=8", "--checkpoint.every_steps=10",
    "--device=auto"))
engram = functools.partial(program.engram, timeout=300)


def changed(before, after):
    assert before.keys() == after.keys()
    return {name for name in before if not numpy.array_equal(before[name], after[name])}


folder = scratch_folder()
(folder / "c.ini").write_text(CONFIG)
base, run, stopped = folder / "base", folder / "adapted", folder / "stopped"
engram("train", base, "--config", folder / "c.ini")
longer = ["--adapt", base, "--task.corridor_length", "9", "--adapters.rank", "2"]

out = engram("train", run, *longer)
assert str(base / "weights/best.safetensors") in out, out
config = (run / "config.ini").read_text()
assert "corridor_length = 9" in config and "rank = 2" in config and "window:window=4" in config, config
maps = {f"backbone.blocks.1.mixer.{part}.weight" for part in ("query", "key", "value", "output")}
before, after = weights(base, "best"), weights(run)
targets = {name for name in before if name.startswith("target_critic")}
assert changed(before, after) - targets == maps | {"backbone.blocks.0.mixer.convolution.weight"}
for part in maps:
    assert numpy.linalg.matrix_rank(after[part] - before[part], tol=1e-5) <= 2, part
# It is the agent itself until the first update.
engram("train", folder / "still", *longer, "--run.updates_per_step", "0", "--run.steps", "60")
assert changed(before, weights(folder / "still")) == set()

# An agent like any other.
assert "success" in engram("evaluate", run, "--episodes", "4", "--device", "cpu")
# All weights, and the default rank.
engram("train", folder / "all", "--adapt", base, "--adapters.rank", "0", "--task.corridor_length", "9")
assert len(changed(before, weights(folder / "all"))) > 20
engram("train", folder / "default", "--adapt", run, "--run.steps", "60")
assert "rank = 8" in (folder / "default/config.ini").read_text()
# Other layers that the weights fit.
engram("train", folder / "other", *longer, "--run.steps", "60", "--memory.stack",
       "gated_deltanet,expansion_span:chunk=4:block=2:retrieved=1")

# A run that is stopped goes on from its checkpoints alone.
process = start("train", stopped, *longer)
wait_for(lambda: any(int(file.stem.split("_")[1]) >= 15 for file in checkpoints(stopped)), process)
stop(process)
base.rename(folder / "gone")
engram("train", "--resume", stopped)
(folder / "gone").rename(base)
same_outcome(run, stopped)

refused("train", folder / "new", "--adapt", folder / "none", saying=["none", "does not exist"])
(folder / "empty").mkdir()
refused("train", folder / "new", "--adapt", folder / "empty", saying=[str(folder / "empty")])
refused("train", folder / "new", "--config", folder / "c.ini", "--adapters.rank", "4",
        saying=["adapters.rank 4", "--adapt"])
refused("train", "--resume", run, "--adapt", base, saying=["--adapt", "--resume", "give one"])
refused("train", "--resume", run, "--adapters.rank", "3", saying=["adapters.rank", "2", "3"])
refused("train", base, "--adapt", base, saying=["the folder of the run itself"])
refused("train", folder / "new", "--adapt", base, "--memory.name", "lstm", saying=["memory.name", "lstm", "stack"])
refused("train", folder / "new", "--adapt", base, "--memory.width", "32", saying=["best.safetensors", "[", "needs"])
refused("train", folder / "new", "--adapt", base, "--task.name", "key_to_door", saying=["key_to_door", "tmaze"])
(folder / "l.ini").write_text(CONFIG.replace("name = stack\nstack = gated_deltanet,window:window=4", "name = lstm"))
engram("train", folder / "lstm", "--config", folder / "l.ini", "--run.steps", "110")
refused("train", folder / "new", "--adapt", folder / "lstm", saying=["no linear maps of attention", "adapters.rank 0"])
assert not (folder / "new").exists()
