"""Adapts an agent to another size of its task: what changes and what does not, that it is an agent like any other, that
a stopped run goes on exactly, and what is refused.  usage: adapt.py ENGRAM"""

import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import safetensors.numpy

ENGRAM = sys.argv[1]
CONFIG = ("[task]\nname = tmaze\ncorridor_length = 4\n[memory]\nname = stack\nstack = gated_deltanet,window:window=4\n"
          "width = 16\n[network]\nhidden_width = 16\n[run]\nsteps = 400\nrandom_episodes = 4\nthreads = 1\nnum_envs = 2\n"
          "metrics_every_steps = 50\n[evaluation]\nevery_steps = 100\nepisodes = 4\nfinal_episodes = 10\n"
          "[replay]\nbatch_episodes = 8\n[checkpoint]\nevery_steps = 10\n")


def engram(*arguments, status=0):
    run = subprocess.run([ENGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert run.returncode == status, (arguments, run.returncode, run.stdout[-500:], run.stderr)
    return run.stderr if status else run.stdout


def refused(*arguments, saying):
    err = engram("train", *arguments, status=2)
    assert err.count("\n") == 1 and all(words in err for words in saying), (err, saying)


def weights(run, which="last"):
    return safetensors.numpy.load_file(run / f"weights/{which}.safetensors")


def changed(before, after):
    assert before.keys() == after.keys()
    return {name for name in before if not numpy.array_equal(before[name], after[name])}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
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
        process = subprocess.Popen([ENGRAM, "train", stopped, *map(str, longer)], stdout=subprocess.PIPE)
        end = time.time() + 60
        while not any(int(file.stem.split("_")[1]) >= 15 for file in stopped.glob("checkpoints/*.safetensors")):
            assert time.time() < end and process.poll() is None, "the run ended before it could be stopped"
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, process.returncode
        base.rename(folder / "gone")
        engram("train", "--resume", stopped)
        (folder / "gone").rename(base)
        for which in ("best", "last"):
            assert changed(weights(run, which), weights(stopped, which)) == set(), which
        assert (run / "metrics.jsonl").read_bytes() == (stopped / "metrics.jsonl").read_bytes()

        refused(folder / "new", "--adapt", folder / "none", saying=["none", "does not exist"])
        (folder / "empty").mkdir()
        refused(folder / "new", "--adapt", folder / "empty", saying=[str(folder / "empty")])
        refused(folder / "new", "--config", folder / "c.ini", "--adapters.rank", "4", saying=["adapters.rank 4", "--adapt"])
        refused("--resume", run, "--adapt", base, saying=["--adapt", "--resume", "give one"])
        refused("--resume", run, "--adapters.rank", "3", saying=["adapters.rank", "2", "3"])
        refused(base, "--adapt", base, saying=["the folder of the run itself"])
        refused(folder / "new", "--adapt", base, "--memory.name", "lstm", saying=["memory.name", "lstm", "stack"])
        refused(folder / "new", "--adapt", base, "--memory.width", "32", saying=["best.safetensors", "[", "needs"])
        refused(folder / "new", "--adapt", base, "--task.name", "key_to_door", saying=["key_to_door", "tmaze"])
        (folder / "l.ini").write_text(CONFIG.replace("name = stack\nstack = gated_deltanet,window:window=4", "name = lstm"))
        engram("train", folder / "lstm", "--config", folder / "l.ini", "--run.steps", "110")
        refused(folder / "new", "--adapt", folder / "lstm", saying=["no linear maps of attention", "adapters.rank 0"])
        assert not (folder / "new").exists()
    print("an agent is adapted by what adapters may change, stops and goes on exactly, and says what it cannot do")


main()
