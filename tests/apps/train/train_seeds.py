"""engram train --seeds: each run is what it would be alone.  usage: train_seeds.py ENGRAM [--device=cuda]

With --device=cuda exit status 77 (skipped) where there is no GPU.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ENGRAM = sys.argv[1]
DEVICE = "cuda" if "--device=cuda" in sys.argv else "cpu"
BACKBONES = ("hqlt", "gated_deltanet", "lstm") if DEVICE == "cuda" else ("deltanet",)
SIZE = ["--device", DEVICE, "--task.name", "tmaze", "--task.corridor_length", "7", "--memory.width", "16", "--memory.layers",
        "1", "--network.hidden_width", "16", "--replay.batch_episodes", "8", "--run.num_envs", "4",
        "--run.updates_per_step", "0.25", "--evaluation.every_steps", "400", "--evaluation.episodes", "10",
        "--evaluation.final_episodes", "10", "--run.metrics_every_steps", "200", "--run.threads", "1"]


def call(folder, *arguments):
    return subprocess.run([ENGRAM, "train", *arguments], cwd=folder, capture_output=True, text=True, timeout=300)


# All that is a function of config and seed alone.
def result(run):
    names = ["metrics.jsonl", "config.ini", "weights/best.safetensors", "weights/last.safetensors"]
    return {name: (run / name).read_bytes() for name in names}


def check_equal(folder, backbone):
    size = [*SIZE, "--memory.name", backbone, "--run.steps", "1200"]
    together = call(folder, f"{backbone}", "--seeds", "3,5-6", *size)
    assert together.returncode == 0 and together.stderr == "", together
    assert sorted(path.name for path in (folder / backbone).iterdir()) == ["3", "5", "6"]
    lines = together.stdout.splitlines()
    assert all(line.startswith(("seed 3: ", "seed 5: ", "seed 6: ")) for line in lines), together.stdout
    for seed in ("3", "5", "6"):
        assert any(line.startswith(f"seed {seed}: Everything is in {backbone}/{seed}") for line in lines), together.stdout
        alone = call(folder, f"{backbone}_alone_{seed}", "--seed", seed, *size)
        assert alone.returncode == 0, alone
        expected, found = result(folder / f"{backbone}_alone_{seed}"), result(folder / backbone / seed)
        for name, content in expected.items():
            assert found[name] == content, (backbone, seed, name)
    assert result(folder / backbone / "3")["weights/last.safetensors"] != \
        result(folder / backbone / "5")["weights/last.safetensors"]
    rows = [json.loads(line) for line in result(folder / backbone / "3")["metrics.jsonl"].splitlines()]
    assert rows[-1]["kind"] == "final" and max(row["updates"] for row in rows) > 200, rows[-1]


# A signal stops all; --resume auto goes on with all, to the same bytes.
def check_stopped(folder):
    size = [*SIZE, "--memory.name", "deltanet", "--run.steps", "6000"]
    program = subprocess.Popen([ENGRAM, "train", "stopped", "--seeds", "1-2", *size], cwd=folder,
                               stdout=subprocess.PIPE, text=True)
    metrics = [folder / "stopped" / seed / "metrics.jsonl" for seed in ("1", "2")]
    deadline = time.monotonic() + 120
    while not all(file.exists() and b'"updates":' in file.read_bytes() for file in metrics):
        assert program.poll() is None and time.monotonic() < deadline, program.communicate()
        time.sleep(0.05)
    os.kill(program.pid, signal.SIGTERM)
    output = program.communicate(timeout=60)[0]
    assert program.returncode == 143 and output.count("Stopped by SIGTERM") == 2, output
    resumed = call(folder, "stopped", "--seeds", "1-2", "--resume", "auto", *size)
    assert resumed.returncode == 0 and resumed.stderr == "", resumed
    for seed in ("1", "2"):
        assert f"seed {seed}: Going on with deltanet" in resumed.stdout, resumed.stdout
        alone = call(folder, f"alone_{seed}", "--seed", seed, *size)
        assert alone.returncode == 0, alone
        expected, found = result(folder / f"alone_{seed}"), result(folder / "stopped" / seed)
        assert all(found[name] == expected[name] for name in ("metrics.jsonl", "weights/last.safetensors")), seed


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
        refused = call(folder, *arguments, *SIZE)
        assert refused.returncode == 2 and words in refused.stderr and refused.stderr.count("\n") == 1, refused
    assert not (folder / "new").exists() and not (folder / "taken/4").exists()

    # One that fails leaves the other alone.
    size = [*SIZE, "--memory.name", "deltanet", "--run.steps", "400"]
    begun = call(folder, "damaged", "--seeds", "1-2", *size)
    assert begun.returncode == 0, begun
    (folder / "damaged/2/weights/last.safetensors").unlink()
    (folder / "damaged/2/weights/last.safetensors/in_the_way").mkdir(parents=True)
    failed = call(folder, "damaged", "--seeds", "1-2", "--resume", "auto", *size[:-1], "800")
    assert failed.returncode == 1 and "1 of 2 runs failed: seed 2: " in failed.stderr, failed
    assert failed.stderr.count("\n") == 1 and "seed 2: failed: " in failed.stdout, failed
    rows = (folder / "damaged/1/metrics.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["kind"] == "final" and any('"environment_steps":800' in row for row in rows), rows[-3:]


if DEVICE == "cuda" and (not shutil.which("nvidia-smi") or
                         subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL).returncode != 0):
    print("skipped: no GPU was found")
    sys.exit(77)
with tempfile.TemporaryDirectory() as name:
    temporary = pathlib.Path(name)
    for each in BACKBONES:
        check_equal(temporary, each)
    check_stopped(temporary)
    if DEVICE == "cpu":
        check_refused(temporary)
