"""engram compare: plans, runs, is stopped and killed, goes on, carries on beside failures.
usage: compare.py ENGRAM"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import safetensors.numpy

ENGRAM = sys.argv[1]
CONFIG = """[compare]
question = Which memory keeps a sign?
seeds = 0-1
match = parameters
reference = gru
controls = full_state
[task]
name = tmaze
[network]
hidden_width = 16
[memory]
width = 16
layers = 1
[run]
steps = 400
random_episodes = 4
threads = 1
report_seconds = 0.05
metrics_every_steps = 20
[evaluation]
every_steps = 100
episodes = 4
final_episodes = 20
[replay]
batch_episodes = 8
[checkpoint]
every_steps = 20
[tasks.short]
task.corridor_length = 4
[tasks.long]
task.corridor_length = 6
[backbones.gru]
memory.name = gru
[backbones.lstm]
memory.name = lstm
"""
RUNS = {f"{task}/{backbone}/{seed}" for task in ("short", "long") for backbone in ("gru", "lstm", "full_state")
        for seed in (0, 1)}


def start(folder, *arguments, **options):
    device = [] if "--device" in arguments else ["--device=cpu"]
    return subprocess.Popen([ENGRAM, "compare", *device, *map(str, arguments)], cwd=folder,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finish(process, status=0, seconds=300):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == status, (process.returncode, out[-1000:], err)
    if status == 0:
        assert err == "", err
    return out, err


def compare(folder, *arguments, status=0, **options):
    return finish(start(folder, *arguments, **options), status)


def refused(folder, *arguments, saying):
    _, err = compare(folder, *arguments, status=2)
    assert err.count("\n") == 1 and all(words in err for words in saying), (err, saying)


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def finished(directory):
    names = set()
    for file in directory.glob("runs/*/*/*/metrics.jsonl"):
        lines = file.read_text().split("\n")[:-1]  # what follows the last newline is still being written
        if lines and json.loads(lines[-1])["kind"] == "final":
            names.add(str(file.parent.relative_to(directory / "runs")))
    return names


def wait_for(condition, process, seconds=60):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end and process.poll() is None, (process.poll(), process.stderr.read())
        time.sleep(0.01)


def training(directory):
    """Numbers of the processes that train under the folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"train" in words[1:2] and any(str(directory.name).encode() + b"/runs/" in word for word in words):
            found.append(int(process.name))
    return found


def same_weights(a, b):
    for which in ("best", "last"):
        first, second = (safetensors.numpy.load_file(run / f"weights/{which}.safetensors") for run in (a, b))
        assert all(numpy.array_equal(first[name], second[name]) for name in first), (a, b)


def inspect(folder, run):
    """The text of engram inspect, and the object of its --json."""
    text, json_text = (subprocess.run([ENGRAM, "inspect", run, *more], cwd=folder, capture_output=True, text=True,
                                      check=True, timeout=60).stdout for more in ([], ["--json"]))
    return text, json.loads(json_text)


def check_dry_run(folder):
    out, _ = compare(folder, "--config", "c.ini", "--run", "dry", "--dry-run")
    lines = out.splitlines()
    assert lines[:2] == ["Which memory keeps a sign?", "2 tasks x 3 backbones x 2 seeds, in dry"], out
    assert lines[2].startswith("12 of 12 to do, ") and lines[2].endswith(" at once on the CPU"), out
    assert max(map(len, lines)) <= 80, out
    # Two lines of titles: of the second, where each column ends.
    budgets = next(i for i, line in enumerate(lines) if line.startswith("backbone"))
    assert lines[budgets - 1].split() == ["MLP", "para-", "%", "in", "bytes", "flops", "%", "in"], lines
    assert lines[budgets].split() == ["backbone", "width", "width", "meters", "MLPs", "of", "state", "a", "step", "MLPs"]
    rows = {line.split()[0]: line.split() for line in lines[budgets + 1:budgets + 4]}
    assert list(rows) == ["gru", "lstm", "full_state"] and rows["full_state"][1] == "(none)", rows
    assert rows["gru"][1] == "16" and rows["gru"][4] == "0" and rows["full_state"][5] == "100", rows
    for word in ("50.0", "At most about"):
        assert word in out, (word, out)
    assert not (folder / "dry").exists()


def check_whole(folder):
    whole = folder / "whole"
    out, _ = compare(folder, "--config", "c.ini", "--run", "whole", "--jobs", "2")
    assert finished(whole) == RUNS, finished(whole)
    assert "All 12 runs are finished" in out and "short/lstm/1: success" in out, out
    plan = json.loads((whole / "plan.json").read_text())
    assert {run["folder"] for run in plan["runs"]} == {f"runs/{name}" for name in RUNS}
    sizes = {run["backbone"]: run for run in plan["runs"]}
    for run in plan["runs"]:  # recurrent networks are memory alone, memoryless ones an MLP
        of_mlp = run["parameters"] if run["memory"] == "none" else 0
        assert (run["mlp_parameters"], run["mlp_width"]) == (of_mlp, 0), run
    for backbone in ("lstm", "full_state"):
        assert abs(sizes[backbone]["parameters"] / sizes["gru"]["parameters"] - 1) <= 0.03, sizes
    assert plan["tasks"][0]["chance_success"] == 0.5, plan["tasks"]
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    out, _ = compare(folder, "--run", "whole")
    assert "0 of 12 to do" in out, out
    text, found = inspect(folder, "whole")
    assert "12 of 12 finished" in text and "engram compare report whole" in text and "go on" not in text, text
    assert found["runs"] == {"count": 12, "finished": 12, "running": 0, "unfinished": 0, "not_begun": 0, "failed": 0}
    assert (found["tasks"], found["backbones"], found["seeds"]) == (
        ["short", "long"], ["gru", "lstm", "full_state"], [0, 1]), found
    assert before == {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    # A run on its own, by the command of the plan, is the same run.
    command = next(run["command"] for run in plan["runs"] if run["folder"] == "runs/long/gru/1")
    command = command.replace("whole/runs/long/gru/1", "alone").split()[1:]
    subprocess.run([ENGRAM, *command, "--device=cpu"], cwd=folder, check=True, capture_output=True, timeout=120)
    assert rows(folder / "alone") == rows(whole / "runs/long/gru/1")
    same_weights(folder / "alone", whole / "runs/long/gru/1")
    return whole


def same_runs(whole, other, names=RUNS):
    for name in sorted(names):
        assert rows(whole / "runs" / name) == rows(other / "runs" / name), name
        same_weights(whole / "runs" / name, other / "runs" / name)
    assert not list(other.rglob("*.partial*"))


def check_stopped(folder, whole):
    """SIGTERM and SIGINT: the runs save, the same command goes on, and the whole is as if nothing had happened."""
    directory = folder / "stopped"
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        begun = len(finished(directory))
        process = start(folder, "--config", "c.ini", "--run", "stopped", "--jobs", "3")
        wait_for(lambda: len(finished(directory)) > begun, process)
        process.send_signal(number)
        out, err = finish(process, status)
        assert err == "" and "engram compare --run stopped" in out, (out, err)
        assert training(directory) == [] and begun < len(finished(directory)) < len(RUNS)
        assert not (directory / "failures").exists()
    compare(folder, "--run", "stopped", "--jobs", "3")
    assert finished(directory) == RUNS
    same_runs(whole, directory)


def check_killed(folder, whole):
    """SIGKILL at any time leaves no process behind and nothing that cannot be gone on from."""
    directory = folder / "killed"
    for round in range(4):
        process = start(folder, "--config", "c.ini", "--run", "killed", "--jobs", "3")
        wait_for(lambda: training(directory), process)
        time.sleep(0.4 * round)
        process.kill()
        process.communicate()
        end = time.time() + 30
        while training(directory):
            assert time.time() < end, "runs outlive the program that started them"
            time.sleep(0.02)
    compare(folder, "--run", "killed", "--jobs", "3")
    assert finished(directory) == RUNS
    same_runs(whole, directory)


def check_batch_system(folder):
    """One signals every process of a job, at any time: runs that have just started carry on after SIGUSR1, and those
    that get SIGTERM twice, from it and from this program, save like others."""
    directory = folder / "batch"
    arguments = ["--config", "c.ini", "--run", "batch", "--jobs", "1", "--tasks", "long", "--backbones", "gru", "--seeds",
                 "0", "--run.steps", "100000000", "--checkpoint.every_steps", "0"]
    saved = lambda: sorted(file.name for file in directory.glob("runs/long/gru/0/checkpoints/*"))
    for round in range(3):
        process = start(folder, *arguments)
        wait_for(lambda: training(directory), process)
        process.send_signal(signal.SIGUSR1)
        log = directory / "runs/long/gru/0/metrics.jsonl"
        size = log.stat().st_size if log.exists() else 0
        wait_for(lambda: log.exists() and log.stat().st_size > size, process)
        before = saved()
        for number in training(directory):
            os.kill(number, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        finish(process, 143)
        assert saved()[-1:] > before[-1:], (round, before, saved())
        assert not (directory / "failures").exists()


def check_failing(folder):
    """A run that fails, and one that is killed, are recorded; the others are done; the same command tries again."""
    directory = folder / "failing"
    compare(folder, "--config", "c.ini", "--run", "failing", "--seeds", "0", "--tasks", "short", "--backbones", "gru")
    (directory / "runs/short/lstm").mkdir(parents=True)
    (directory / "runs/short/lstm/1").write_text("in the way")
    process = start(folder, "--config", "c.ini", "--run", "failing", "--jobs", "1", "--tasks", "short")
    found = []
    wait_for(lambda: found.extend(training(directory)) or found, process)
    victim = found[0]
    name = pathlib.Path(f"/proc/{victim}/cmdline").read_bytes().split(b"/runs/")[1].split(b"\0")[0].decode()
    os.kill(victim, signal.SIGKILL)
    out, err = finish(process, 1)
    assert err.count("\n") == 1 and "2 of 6 runs failed" in err, err
    assert "signal 9" in (directory / f"failures/{name}.txt").read_text()
    assert "is a file" in (directory / "failures/short/lstm/1.txt").read_text(), out
    text, found = inspect(folder, "failing")
    assert found["runs"] == {"count": 6, "finished": 4, "running": 0, "unfinished": 0, "not_begun": 0, "failed": 2}, found
    assert {item["run"] for item in found["failures"]} == {name, "short/lstm/1"} and "is a file" in text, found
    assert "4 of 6 finished, 2 failed" in text and "engram compare --run failing" in text, text
    short = {run for run in RUNS if run.startswith("short")}
    assert finished(directory) == short - {name, "short/lstm/1"}, finished(directory)
    (directory / "runs/short/lstm/1").unlink()
    compare(folder, "--run", "failing", "--jobs", "2")
    assert finished(directory) == short
    assert not list((directory / "failures").rglob("*.txt"))


def check_seeds_per_job(folder, whole):
    """Several seeds in a process are what they are alone; one that cannot begin leaves the others alone; they are
    stopped and go on together."""
    directory = folder / "together"
    arguments = ["--config", "c.ini", "--run", "together", "--jobs", "2", "--seeds-per-job", "2"]
    (directory / "runs/short/lstm").mkdir(parents=True)
    (directory / "runs/short/lstm/1").write_text("in the way")
    (directory / "experiment.ini").write_text((whole / "experiment.ini").read_text())
    process = start(folder, *arguments)
    wait_for(lambda: finished(directory), process)
    process.send_signal(signal.SIGTERM)
    finish(process, 143)
    assert training(directory) == [] and len(finished(directory)) < len(RUNS) - 1
    out, err = compare(folder, *arguments, status=1)
    assert "up to 4 runs at once" in out and "1 of 12 runs failed: short/lstm/1" in err and "is a file" in err, (out, err)
    assert finished(directory) == RUNS - {"short/lstm/1"}, finished(directory)
    same_runs(whole, directory, RUNS - {"short/lstm/1"})
    outputs = [directory / f"output/long/gru/{seed}.txt" for seed in (0, 1)]
    assert outputs[0].samefile(outputs[1]) and "seed 1: " in outputs[1].read_text()
    (directory / "runs/short/lstm/1").unlink()
    compare(folder, *arguments)
    same_runs(whole, directory)
    # A process that dies takes all of its seeds along, and each says why.
    process = start(folder, "--config", "c.ini", "--run", "failing_seed", "--seeds-per-job", "2", "--jobs", "1",
                    "--tasks", "short", "--backbones", "gru", "--run.steps", "100000000")
    broken = folder / "failing_seed/runs/short/gru/1/metrics.jsonl"
    wait_for(lambda: broken.exists() and training(folder / "failing_seed"), process)
    os.kill(training(folder / "failing_seed")[0], signal.SIGKILL)
    _, err = finish(process, 1)
    assert "2 of 2 runs failed" in err and "signal 9" in err, err


def check_shards(folder, whole):
    """Three shards at once, one of which dies and is repeated."""
    directory = folder / "shards"
    arguments = ["--config", "c.ini", "--run", "shards", "--jobs", "1"]
    processes = [start(folder, *arguments, "--shard", f"{i}/3") for i in (1, 2, 3)]
    wait_for(lambda: training(directory), processes[1])
    processes[1].kill()
    processes[1].communicate()
    for i in (0, 2):
        finish(processes[i])
    assert 0 < len(finished(directory)) < len(RUNS)
    compare(folder, *arguments, "--shard", "2/3")
    assert finished(directory) == RUNS
    same_runs(whole, directory)
    for text in ("0/3", "4/3", "1", "a/b", "1/0", "1/3/5"):
        refused(folder, *arguments, "--shard", text, saying=[f"'{text}'", "I/N"])


def check_beside_each_other(folder, whole):
    """Two programs with the same runs wait for each other's instead of failing."""
    processes = [start(folder, "--config", "c.ini", "--run", "both", "--jobs", "1", "--seeds", "0") for _ in range(2)]
    for process in processes:
        finish(process)
    zero = {run for run in RUNS if run.endswith("/0")}
    assert finished(folder / "both") == zero
    same_runs(whole, folder / "both", zero)


def check_growing(folder, whole):
    directory = folder / "growing"
    compare(folder, "--config", "c.ini", "--run", "growing", "--seeds", "0", "--tasks", "short")
    compare(folder, "--config", "c.ini", "--run", "growing", "--backbones", "gru")
    names = {run for run in RUNS if run.startswith("short") and run.endswith("/0")}
    names |= {run for run in RUNS if "/gru/" in run}
    assert finished(directory) == names, finished(directory)
    same_runs(whole, directory, names)


def check_earlier(folder, whole):
    """A report's table stands in for the folders of its runs."""
    report = ["compare", "report", "--resamples", "1000", "--output"]
    subprocess.run([ENGRAM, *report, "all.html", "whole"], cwd=folder, check=True, capture_output=True, timeout=300)
    lines = (folder / "all.csv").read_text().splitlines(keepends=True)
    kept = [line for line in lines[1:] if line.split(",")[2] == "0"]
    (folder / "some.csv").write_text("".join([lines[0], *kept]))
    assert len(kept) == 6, kept
    refused(folder, "--config", "c.ini", "--run", "later", "--earlier", "none.csv", saying=["'none.csv' is not a file"])
    refused(folder, "--config", "c.ini", "--run", "later", "--earlier", "c.ini", saying=["'c.ini'", "no report's table"])
    assert not (folder / "later").exists()
    out, _ = compare(folder, "--config", "c.ini", "--run", "later", "--earlier", "some.csv", "--jobs", "2")
    assert "6 of 12 to do" in out and "All 12 runs are finished" in out, out
    new = {run for run in RUNS if run.endswith("/1")}
    assert finished(folder / "later") == new, finished(folder / "later")
    same_runs(whole, folder / "later", new)
    assert "0 of 12 to do" in compare(folder, "--run", "later")[0]
    assert "0 of 12 to do" in compare(folder, "--run", "later", "--earlier", "some.csv")[0]
    refused(folder, "--run", "later", "--earlier", "all.csv", saying=["'later/earlier.csv' is there and differs"])
    assert "12 of 12 finished" in inspect(folder, "later")[0]
    subprocess.run([ENGRAM, *report, "later.html", "later"], cwd=folder, check=True, capture_output=True, timeout=300)
    again = (folder / "later.csv").read_text().splitlines(keepends=True)
    assert len(again) == 13 and set(kept) < set(again), again
    assert "6 of the runs are rows of earlier.csv" in (folder / "later.md").read_text()


def check_refusals(folder, whole):
    refused(folder, "--config", "c.ini", saying=["--run DIR is missing"])
    refused(folder, "--run", "nothing", saying=["--config FILE is missing", "'nothing'"])
    refused(folder, "--config", "none.ini", "--run", "new", saying=["'none.ini'", "cannot be read"])
    refused(folder, "--config", "c.ini", "--run", "c.ini", saying=["'c.ini' exists"])
    refused(folder, "--config", "c.ini", "--run", "new", "--tasks", "shirt", saying=["'shirt'", "did you mean 'short'"])
    refused(folder, "--config", "c.ini", "--run", "new", "--seeds", "1-", saying=["seeds '1-'"])
    refused(folder, "--config", "c.ini", "--run", "new", "--match", "width", saying=["'width'", "parameters | state"])
    refused(folder, "--config", "c.ini", "--run", "new", "--backbones", "lstm", saying=["compare.reference 'gru'"])
    refused(folder, "--config", "c.ini", "--run", "new", "--memory.widht", "3", saying=["memory.widht"])
    refused(folder, "--config", "c.ini", "--run", "new", "--device", "tpu", saying=["'tpu'", "auto | cpu | cuda"])
    assert not (folder / "new").exists()
    (folder / "full").mkdir()
    (folder / "full/file").write_text("mine")
    refused(folder, "--config", "c.ini", "--run", "full", saying=["'full' exists, is not empty"])
    refused(folder, "--config", "c.ini", "--run", "whole", "--learner.gamma", "0.5",
            saying=["'whole', short/gru, was made with learner.gamma = 0.99", "0.5"])
    refused(folder, "--run", "whole", "--match", "none", saying=["compare.match = parameters", "none"])
    # A run of another experiment in the place of one of this.
    other = whole / "runs/short/gru/0"
    other.rename(folder / "kept")
    (whole / "runs/long/lstm/0").rename(other)
    refused(folder, "--run", "whole", saying=["short/gru/0' was made with"])
    other.rename(whole / "runs/long/lstm/0")
    (folder / "kept").rename(other)
    compare(folder, "--run", "whole")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "c.ini").write_text(CONFIG)
    assert "--shard" in compare(folder, "--help")[0]
    check_dry_run(folder)
    whole = check_whole(folder)
    check_refusals(folder, whole)
    check_stopped(folder, whole)
    check_killed(folder, whole)
    check_batch_system(folder)
    check_failing(folder)
    check_seeds_per_job(folder, whole)
    check_shards(folder, whole)
    check_beside_each_other(folder, whole)
    check_growing(folder, whole)
    check_earlier(folder, whole)
print("ok")
