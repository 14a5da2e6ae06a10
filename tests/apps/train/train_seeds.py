"""engram train --seeds: each run is what it would be alone.  usage: train_seeds.py ENGRAM [--device=cuda]

With --device=cuda exit status 77 (skipped) where there is no GPU.
"""

import functools
import sys

from program import (ENGRAM, call, count_gpus, engram, metrics, refused, results, scratch_folder, skip, start, stop,
                     tiny, wait_for, with_changes)

DEVICE = "cuda" if "--device=cuda" in sys.argv else "cpu"
BACKBONES = ("hqlt", "gated_deltanet", "lstm") if DEVICE == "cuda" else ("deltanet",)
SIZE = tiny("--task.corridor_length=7", "--memory.name=deltanet", "--memory.width=16", "--memory.layers=1",
            "--replay.batch_episodes=8", "--run.random_episodes=10", "--run.num_envs=4", "--run.updates_per_step=0.25",
            "--run.metrics_every_steps=200", "--evaluation.every_steps=400", "--evaluation.episodes=10",
            "--evaluation.final_episodes=10", f"--device={DEVICE}")
train = functools.partial(engram, "train", timeout=300)


def check_equal(folder, backbone):
    size = with_changes(SIZE, f"--memory.name={backbone}", "--run.steps=1200")
    together = train(backbone, "--seeds", "3,5-6", *size)
    assert sorted(path.name for path in (folder / backbone).iterdir()) == ["3", "5", "6"]
    lines = together.splitlines()
    assert all(line.startswith(("seed 3: ", "seed 5: ", "seed 6: ")) for line in lines), together
    for seed in ("3", "5", "6"):
        assert any(line.startswith(f"seed {seed}: Everything is in {backbone}/{seed}") for line in lines), together
        train(f"{backbone}_alone_{seed}", "--seed", seed, *size)
        assert results(folder / backbone / seed) == results(folder / f"{backbone}_alone_{seed}"), (backbone, seed)
    third, fifth = (results(folder / backbone / seed)["weights/last.safetensors"] for seed in ("3", "5"))
    assert third != fifth
    rows = metrics(folder / backbone / "3")
    assert rows[-1]["kind"] == "final" and max(row["updates"] for row in rows) > 200, rows[-1]


# A signal stops all; --resume auto goes on with all, to the same bytes.
def check_stopped(folder):
    size = with_changes(SIZE, "--run.steps=6000")
    process = start("train", "stopped", "--seeds", "1-2", *size)
    logs = [folder / "stopped" / seed / "metrics.jsonl" for seed in ("1", "2")]
    wait_for(lambda: all(file.exists() and b'"updates":' in file.read_bytes() for file in logs), process, seconds=120)
    out = stop(process).stdout
    assert out.count("Stopped by SIGTERM") == 2, out
    resumed = train("stopped", "--seeds", "1-2", "--resume", "auto", *size)
    for seed in ("1", "2"):
        assert f"seed {seed}: Going on with deltanet" in resumed, resumed
        train(f"alone_{seed}", "--seed", seed, *size)
        assert results(folder / "stopped" / seed) == results(folder / f"alone_{seed}"), seed


def check_refused(folder):
    (folder / "taken/5").mkdir(parents=True)
    (folder / "taken/5/file").write_text("mine")
    for arguments, words in (
            (["taken", "--seeds", "4-5"], "'taken/5' exists and is not empty"),
            (["alone_1", "--seeds", "4-5"], "'alone_1' is a run itself"),
            (["new", "--seeds", "4-"], "seeds '4-' are not allowed"),
            (["new", "--seeds", "1", "--seed", "2"], "--seeds '1' and run.seed '2' contradict each other"),
            (["new", "--seeds", "0-64"], "65 seeds; at most 64"),
            (["new", "--seeds", "1", "--resume", "old"], "--resume 'old' is one run"),
            (["--seeds", "1"], "DIR (or --run DIR) is missing")):
        refused("train", *arguments, *SIZE, saying=words)
    assert not (folder / "new").exists() and not (folder / "taken/4").exists()

    # One that fails leaves the other alone.
    train("damaged", "--seeds", "1-2", *with_changes(SIZE, "--run.steps=400"))
    (folder / "damaged/2/weights/last.safetensors").unlink()
    (folder / "damaged/2/weights/last.safetensors/in_the_way").mkdir(parents=True)
    failed = call(ENGRAM, "train", "damaged", "--seeds", "1-2", "--resume", "auto",
                  *with_changes(SIZE, "--run.steps=800"), status=1, saying="1 of 2 runs failed: seed 2: ", timeout=300)
    assert failed.stderr.count("\n") == 1 and "seed 2: failed (refused): " in failed.stdout, failed
    # One that diverges says so, alone by its exit status.
    wild = with_changes(SIZE, "--run.steps=400", "--learner.learning_rate=1", "--learner.weight_decay=10")
    failed = call(ENGRAM, "train", "wild", "--seeds", "1-2", *wild, status=1, saying="2 of 2 runs failed", timeout=300)
    assert "seed 1: failed (diverged): " in failed.stdout and "seed 2: failed (diverged): " in failed.stdout, failed
    call(ENGRAM, "train", "wild_1", "--seed", "1", *wild, status=3, saying="not finite", timeout=300)
    rows = metrics(folder / "damaged/1")
    assert rows[-1]["kind"] == "final" and any(row["environment_steps"] == 800 for row in rows), rows[-3:]


if DEVICE == "cuda" and not count_gpus():
    skip("no GPU was found")
folder = scratch_folder()
for backbone in BACKBONES:
    check_equal(folder, backbone)
check_stopped(folder)
if DEVICE == "cpu":
    check_refused(folder)
