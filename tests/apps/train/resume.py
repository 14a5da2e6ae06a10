"""Stops, kills and resumes runs: what comes out is what an uninterrupted run leaves behind, byte for byte.
usage: resume.py ENGRAM FAULTY_IO"""

import functools
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import program
from program import (ENGRAM, call, checkpoints, config_text, engram, engram_json, json_lines, kill, same_outcome,
                     scratch_folder, start, stop, tiny, wait_for)

FAULTY_IO = pathlib.Path(sys.argv[2]).resolve()
CONFIG = config_text(*tiny(
    "--task.corridor_length=6", "--memory.name=hqlt", "--memory.width=16", "--memory.layers=1", "--memory.heads=2",
    "--run.steps=1200", "--run.random_episodes=4", "--run.num_envs=2", "--run.report_seconds=0.05",
    "--run.metrics_every_steps=50", "--evaluation.every_steps=200", "--evaluation.episodes=4",
    "--evaluation.final_episodes=20", "--replay.batch_episodes=8", "--checkpoint.every_steps=10", "--device=auto"))
train = functools.partial(engram, "train", timeout=300)
refused = functools.partial(program.refused, "train")


def newest(run):
    return max((int(file.stem.split("_")[1]) for file in checkpoints(run)), default=0)


def wait_for_newer(run, number, process):
    wait_for(lambda: newest(run) >= number + 3, process)


def check_killed(folder, whole):
    """SIGKILL at random moments while checkpoints are written as often as there are steps."""
    run, generator = folder / "killed", random.Random(1)
    for _ in range(8):
        begun = newest(run)
        process = start("train", "--resume", "auto", "--run", run, "--config", folder / "c.ini")
        wait_for_newer(run, begun + generator.randrange(10), process)
        time.sleep(generator.uniform(0, 0.01))
        kill(process)
        assert process.returncode == -signal.SIGKILL, process.returncode
    train("--resume", "auto", "--run", run, "--config", folder / "c.ini")
    same_outcome(whole, run)
    assert len(checkpoints(run)) == 2, checkpoints(run)


def check_stopped(folder, whole):
    run = folder / "stopped"
    for number in (signal.SIGTERM, signal.SIGINT):
        begun = newest(run)
        process = start("train", "--resume", "auto", "--run", run, "--config", folder / "c.ini")
        wait_for_newer(run, begun, process)
        begun = time.time()
        out = stop(process, number).stdout
        assert time.time() - begun < 30 and number.name in out and f"engram train --resume {run}" in out, out
    train("--resume", run)
    same_outcome(whole, run)

    # Finished: resuming changes nothing; more steps equal a long run.
    before = (run / "metrics.jsonl").read_bytes()
    train("--resume", run)
    assert (run / "metrics.jsonl").read_bytes() == before
    train("--resume", run, "--run.steps", "1500")
    train("--config", folder / "c.ini", "--run", folder / "long", "--run.steps", "1500")
    same_outcome(folder / "long", run)
    rows = json_lines(run / "resumes.jsonl")
    assert len(rows) == 4 and rows[-1]["command_line"][-1] == "1500" and rows[0]["checkpoint"].startswith("checkpoint_")


def check_signals(folder):
    run = folder / "signalled"
    process = start("train", "--config", folder / "c.ini", "--run", run, "--checkpoint.every_steps", "0",
                    "--run.steps", "100000000")
    wait_for((run / "checkpoints/checkpoint_000001.safetensors").exists, process)
    process.send_signal(signal.SIGUSR1)
    wait_for((run / "checkpoints/checkpoint_000002.safetensors").exists, process)
    assert process.poll() is None

    # One program a run; reading it is for all.
    for option, words in (("--resume", ["in use", str(process.pid)]), ("--run", [str(run)])):
        err = call(ENGRAM, "train", option, run, status=2).stderr
        assert err.count("\n") == 1 and all(word in err for word in words), err
    call(ENGRAM, "evaluate", run, "--weights", "last", "--episodes", "2", status=None, saying=None, timeout=60)

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
    assert older.name in engram("train", "--resume", run, saying=newest.name)
    same_outcome(whole, run)
    for file in checkpoints(run):
        file.write_bytes(b"nothing")
    refused("--resume", run, saying=["checkpoint_"])
    for file in checkpoints(run):
        file.unlink()
    refused("--resume", run, saying=["no checkpoint"])


def check_lost_files(folder, whole):
    """What can be made again, or done without, never keeps a run from going on; what it needs is named."""
    run = folder / "lost"
    for lost in (["timings.jsonl"], ["events.out.tfevents.engram"],
                 ["timings.jsonl", "events.out.tfevents.engram", "about.json", "resumes.jsonl", "lock",
                  "weights/best.safetensors", "weights/last.safetensors", "weights"]):
        shutil.copytree(whole, run)
        for name in lost:
            path = run / name
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        facts = engram_json("inspect", run)
        assert facts["resume"] == f"engram train --resume {run}", facts
        out = train("--resume", run)
        for name in ("timings.jsonl", "events.out.tfevents.engram"):
            assert (f"{name}' had lost" in out) == (name in lost), (lost, out)
        same_outcome(whole, run)
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
        facts = engram_json("inspect", run)
        assert facts["resume"] is None and (left is None) != (run / "metrics.jsonl").exists(), facts
        text = engram("inspect", run)
        assert "cannot go on: " in text and said in " ".join(text.split()), text
    (run / "metrics.jsonl").write_bytes(kept)
    train("--resume", run)
    same_outcome(whole, run)


def check_fewer_steps(folder):
    """A total below what is done already is refused and nothing changes; below what was planned is all right."""
    run = folder / "fewer"
    # Of two environments: 302.
    train("--config", folder / "c.ini", "--run", run, "--run.steps", "301", "--device", "cpu")
    for steps in ("1", "300"):
        for how in (["--resume", run], ["--resume", "auto", "--run", run]):
            refused(*how, "--run.steps", steps, saying=[f"'{run}'", "302 steps already", f"run.steps {steps};"])
    train("--resume", run)
    train("--resume", run, "--run.steps", "301")

    train("--resume", run, "--run.steps", "1200", "--run.max_seconds", "0.000001")  # planned, and stopped at once
    assert "steps = 1200" in (run / "config.ini").read_text().splitlines()
    out = train("--resume", run, "--run.steps", "400", "--run.max_seconds", "0")
    assert "400 steps" in out and "steps = 400" in (run / "config.ini").read_text().splitlines(), out


def check_full_disk(folder):
    """The disk is full from some write on: one line, status 1, and what was saved before goes on."""
    run = folder / "full"
    train("--config", folder / "c.ini", "--run", run, "--run.steps", "300")
    # AddressSanitizer wants to be the first library; here another one has to be.
    environment = dict(os.environ, LD_PRELOAD=FAULTY_IO, FAULTY_IO_PREFIX=str(run), FAULTY_IO_NTH="60",
                       FAULTY_IO_ERROR="28", FAULTY_IO_STAYS="1", ASAN_OPTIONS="verify_asan_link_order=0")
    err = call(ENGRAM, "train", "--resume", run, "--run.steps", "1200", status=1, env=environment, timeout=300).stderr
    assert err.count("\n") == 1 and "No space left on device" in err and str(run) in err and "--resume" in err, err
    train("--resume", run, "--run.steps", "1200")
    same_outcome(folder / "whole", run)


folder = scratch_folder()
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
