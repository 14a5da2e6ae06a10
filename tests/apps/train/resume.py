"""Stops, kills and resumes runs: what comes out is what an uninterrupted run leaves behind, byte for byte.
usage: resume.py ENGRAM FAULTY_IO"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import safetensors.numpy

ENGRAM, FAULTY_IO = sys.argv[1:3]
CONFIG = ("[task]\nname = tmaze\ncorridor_length = 6\n[memory]\nname = hqlt\nwidth = 16\nlayers = 1\nheads = 2\n"
          "[network]\nhidden_width = 16\n[run]\nsteps = 1200\nrandom_episodes = 4\nthreads = 1\nnum_envs = 2\n"
          "report_seconds = 0.05\nmetrics_every_steps = 50\n[evaluation]\nevery_steps = 200\nepisodes = 4\n"
          "final_episodes = 20\n[replay]\nbatch_episodes = 8\n[checkpoint]\nevery_steps = 10\n")


def start(*arguments, **options):
    return subprocess.Popen([ENGRAM, "train", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **options)


def finish(process, status=0):
    out, err = process.communicate(timeout=300)
    assert process.returncode == status, (process.returncode, out[-500:], err)
    if status == 0:
        assert err == "", err
    return out, err


def train(*arguments, status=0, **options):
    return finish(start(*arguments, **options), status)


def refused(*arguments, saying):
    _, err = train(*arguments, status=2)
    assert err.count("\n") == 1 and all(words in err for words in saying), (err, saying)


def wait_for(path, process=None, seconds=60):
    end = time.time() + seconds
    while not path.exists():
        assert time.time() < end and (process is None or process.poll() is None), f"{path} did not come"
        time.sleep(0.01)


def checkpoints(run):
    return sorted((run / "checkpoints").glob("checkpoint_*.safetensors"))


def newest(run):
    return max((int(file.stem.split("_")[1]) for file in checkpoints(run)), default=0)


def wait_for_newer(run, number, process, seconds=60):
    end = time.time() + seconds
    while newest(run) < number + 3:
        assert time.time() < end and process.poll() is None, f"no checkpoint behind {number} came"
        time.sleep(0.005)


def same_as(whole, run):
    assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes(), run
    for which in ("best", "last"):
        a, b = (safetensors.numpy.load_file(folder / f"weights/{which}.safetensors") for folder in (whole, run))
        assert a.keys() == b.keys() and all(numpy.array_equal(a[name], b[name]) for name in a), (run, which)
    assert not list(run.rglob("*.partial*"))


def check_killed(folder, whole):
    """SIGKILL at random moments while checkpoints are written as often as there are steps."""
    run, generator = folder / "killed", random.Random(1)
    for kill in range(8):
        begun = newest(run)
        process = start("--resume", "auto", "--run", run, "--config", folder / "c.ini")
        wait_for_newer(run, begun + generator.randrange(10), process)
        time.sleep(generator.uniform(0, 0.01))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, process.returncode
    train("--resume", "auto", "--run", run, "--config", folder / "c.ini")
    same_as(whole, run)
    assert len(checkpoints(run)) == 2, checkpoints(run)


def check_stopped(folder, whole):
    run = folder / "stopped"
    for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")):
        begun = newest(run)
        process = start("--resume", "auto", "--run", run, "--config", folder / "c.ini")
        wait_for_newer(run, begun, process)
        process.send_signal(number)
        begun = time.time()
        out, _ = finish(process, 128 + number)
        assert time.time() - begun < 30 and name in out and f"engram train --resume {run}" in out, out
    train("--resume", run)
    same_as(whole, run)

    # Finished: resuming changes nothing; more steps equal a long run.
    before = (run / "metrics.jsonl").read_bytes()
    train("--resume", run)
    assert (run / "metrics.jsonl").read_bytes() == before
    train("--resume", run, "--run.steps", "1500")
    train("--config", folder / "c.ini", "--run", folder / "long", "--run.steps", "1500")
    same_as(folder / "long", run)
    rows = [json.loads(line) for line in (run / "resumes.jsonl").read_text().splitlines()]
    assert len(rows) == 4 and rows[-1]["command_line"][-1] == "1500" and rows[0]["checkpoint"].startswith("checkpoint_")


def check_signals(folder):
    run = folder / "signalled"
    process = start("--config", folder / "c.ini", "--run", run, "--checkpoint.every_steps", "0", "--run.steps", "100000000")
    first = run / "checkpoints/checkpoint_000001.safetensors"
    wait_for(first, process)
    process.send_signal(signal.SIGUSR1)
    wait_for(run / "checkpoints/checkpoint_000002.safetensors", process)
    assert process.poll() is None

    # One program a run; reading it is for all.
    refused("--resume", run, saying=["in use", str(process.pid)])
    refused("--run", run, saying=[str(run)])
    subprocess.run([ENGRAM, "evaluate", run, "--weights", "last", "--episodes", "2"], capture_output=True, timeout=60)

    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    finish_status = process.wait(30)
    assert finish_status in (-signal.SIGTERM, 128 + signal.SIGTERM), finish_status
    process.communicate()


def check_refusals(folder, whole):
    run = folder / "copy"
    shutil.copytree(whole, run)
    refused("--resume", run, "--learner.gamma", "0.5", saying=["learner.gamma", "0.99", "0.5"])
    refused("--resume", run, "--memory.name", "lstm", saying=["memory.name", "hqlt", "lstm"])
    refused("--resume", run, "--seed", "9", saying=["run.seed", "9"])
    refused("--resume", folder / "none", saying=["none", "does not exist"])
    refused("--resume", "auto", saying=["--run"])
    refused("--resume", run, "--run", folder / "other", saying=["two folders"])

    # A damaged newest checkpoint is passed over, and said so.
    older, newest = checkpoints(run)
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 4
    newest.write_bytes(data)
    process = start("--resume", run)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and newest.name in err and older.name in out, (out, err)
    same_as(whole, run)
    for file in checkpoints(run):
        file.write_bytes(b"nothing")
    refused("--resume", run, saying=["checkpoint_"])
    for file in checkpoints(run):
        file.unlink()
    refused("--resume", run, saying=["no checkpoint"])


def standing(run):
    result = subprocess.run([ENGRAM, "inspect", run, "--json"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def check_lost_files(folder, whole):
    """What can be made again, or done without, never keeps a run from going on; what it needs is named."""
    run = folder / "lost"
    for lost in (["timings.jsonl"], ["events.out.tfevents.engram"], ["timings.jsonl", "events.out.tfevents.engram", "about.json",
                 "resumes.jsonl", "lock", "weights/best.safetensors", "weights/last.safetensors", "weights"]):
        shutil.copytree(whole, run)
        for name in lost:
            path = run / name
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        facts = standing(run)
        assert facts["resume"] == f"engram train --resume {run}", facts
        out, _ = train("--resume", run)
        for name in ("timings.jsonl", "events.out.tfevents.engram"):
            assert (f"{name}' had lost" in out) == (name in lost), (lost, out)
        same_as(whole, run)
        for name in ("timings.jsonl", "events.out.tfevents.engram"):
            assert (run / name).stat().st_size > 0, name
        shutil.rmtree(run)
    shutil.copytree(whole, run)
    kept = (run / "metrics.jsonl").read_bytes()
    for left in (kept[:100], None):
        (run / "metrics.jsonl").unlink()
        if left is not None:
            (run / "metrics.jsonl").write_bytes(left)
        said = "metrics.jsonl' does not exist" if left is None else "metrics.jsonl' has 100 bytes"
        refused("--resume", run, saying=[said, "put the file back"])
        facts = standing(run)
        assert facts["resume"] is None and (left is None) != (run / "metrics.jsonl").exists(), facts
        text = subprocess.run([ENGRAM, "inspect", run], capture_output=True, text=True, timeout=120).stdout
        assert "cannot go on: " in text and said in " ".join(text.split()), text
    (run / "metrics.jsonl").write_bytes(kept)
    train("--resume", run)
    same_as(whole, run)


def contents(run):
    """All but the lock, which says who held it last."""
    return {file: file.read_bytes() for file in run.rglob("*") if file.is_file() and file.name != "lock"}


def check_fewer_steps(folder):
    """A total below what is done already is refused and nothing changes; below what was planned is all right."""
    run = folder / "fewer"
    train("--config", folder / "c.ini", "--run", run, "--run.steps", "301", "--device", "cpu")  # of two environments: 302
    before = contents(run)
    for steps in ("1", "300"):
        for how in (["--resume", run], ["--resume", "auto", "--run", run]):
            refused(*how, "--run.steps", steps, saying=[f"'{run}'", "302 steps already", f"run.steps {steps};"])
    assert contents(run) == before
    train("--resume", run)
    train("--resume", run, "--run.steps", "301")

    train("--resume", run, "--run.steps", "1200", "--run.max_seconds", "0.000001")  # planned, and stopped at once
    assert "steps = 1200" in (run / "config.ini").read_text().splitlines()
    out, _ = train("--resume", run, "--run.steps", "400", "--run.max_seconds", "0")
    assert "400 steps" in out and "steps = 400" in (run / "config.ini").read_text().splitlines(), out


def check_full_disk(folder):
    """The disk is full from some write on: one line, status 1, and what was saved before goes on."""
    run = folder / "full"
    train("--config", folder / "c.ini", "--run", run, "--run.steps", "300")
    # AddressSanitizer wants to be the first library; here another one has to be.
    environment = dict(os.environ, LD_PRELOAD=FAULTY_IO, FAULTY_IO_PREFIX=str(run), FAULTY_IO_NTH="60",
                       FAULTY_IO_ERROR="28", FAULTY_IO_STAYS="1", ASAN_OPTIONS="verify_asan_link_order=0")
    process = start("--resume", run, "--run.steps", "1200", env=environment)
    _, err = finish(process, 1)
    assert err.count("\n") == 1 and "No space left on device" in err and str(run) in err and "--resume" in err, err
    train("--resume", run, "--run.steps", "1200")
    same_as(folder / "whole", run)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "c.ini").write_text(CONFIG)
    whole = folder / "whole"
    train("--config", folder / "c.ini", "--run", whole)
    check_killed(folder, whole)
    check_stopped(folder, whole)
    check_signals(folder)
    check_refusals(folder, whole)
    check_lost_files(folder, whole)
    check_fewer_steps(folder)
    check_full_disk(folder)
print("ok")
