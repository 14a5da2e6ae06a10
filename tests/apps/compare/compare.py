"""engram compare: plans, runs, is stopped and killed, goes on, carries on beside failures.
usage: compare.py ENGRAM"""

import functools
import json
import os
import pathlib
import shutil
import signal
import time

import program
from program import (checkpoints, commands_of_processes, comparison, engram, engram_json, finished, kill, same_outcome,
                     scratch_folder, stop, wait_for)

CONFIG = comparison(
    "--compare.question=Which memory keeps a sign?", "--compare.seeds=0-1", "--compare.match=parameters",
    "--compare.reference=gru", "--compare.controls=full_state", "--memory.width=16", "--memory.layers=1",
    "--run.steps=400", "--run.random_episodes=4", "--run.report_seconds=0.05", "--run.metrics_every_steps=20",
    "--evaluation.every_steps=100", "--evaluation.episodes=4", "--evaluation.final_episodes=20",
    "--replay.batch_episodes=8", "--checkpoint.every_steps=20",
    tasks={"short": 4, "long": 6}, backbones=("gru", "lstm"))
RUNS = {f"{task}/{backbone}/{seed}" for task in ("short", "long") for backbone in ("gru", "lstm", "full_state")
        for seed in (0, 1)}
start = functools.partial(program.start, "compare")
refused = functools.partial(program.refused, "compare")


def finish(process, status=0, saying=""):
    return program.finish(process, status, saying, timeout=300)


def compare(*arguments, status=0, saying=""):
    return finish(start(*arguments), status, saying)


def training(directory):
    """Numbers of the processes that train under the folder."""
    return [number for number, words in commands_of_processes().items()
            if words[1:2] == ["train"] and any(f"{directory.name}/runs/" in word for word in words)]


def inspect(run):
    """The text of engram inspect, and the object of its --json."""
    return engram("inspect", run, timeout=60), engram_json("inspect", run, timeout=60)


def live_page(directory):
    """What the page says of runs that are under way; None where it says of none."""
    page = directory / "report/report.html"
    found = page.read_text().partition('"live":{"headline":"')[2] if page.exists() else ""
    assert not found or " finished, " in found.partition('"')[0], found[:200]
    return found.partition('"')[0] or None


def check_dry_run(folder):
    out = compare("--config", "c.ini", "--run", "dry", "--dry-run").stdout
    lines = out.splitlines()
    assert lines[:2] == ["Which memory keeps a sign?", "2 tasks x 3 backbones x 2 seeds, in dry"], out
    assert lines[2].startswith("12 of 12 to do, ") and lines[2].endswith(" at once on the CPU"), out
    assert max(map(len, lines)) <= 80, out
    # Two lines of titles: of the second, where each column ends.
    budgets = next(i for i, line in enumerate(lines) if line.startswith("backbone"))
    assert lines[budgets - 1].split() == ["MLP", "para-", "%", "in", "bytes", "flops", "%", "in"], lines
    assert lines[budgets].split() == [
        "backbone", "width", "width", "meters", "MLPs", "of", "state", "a", "step", "MLPs"], lines
    rows = {line.split()[0]: line.split() for line in lines[budgets + 1:budgets + 4]}
    assert list(rows) == ["gru", "lstm", "full_state"] and rows["full_state"][1] == "(none)", rows
    assert rows["gru"][1] == "16" and rows["gru"][4] == "0" and rows["full_state"][5] == "100", rows
    for word in ("50.0", "At most about"):
        assert word in out, (word, out)
    assert not (folder / "dry").exists()


def check_whole(folder):
    whole = folder / "whole"
    out = compare("--config", "c.ini", "--run", "whole", "--jobs", "2").stdout
    assert finished(whole) == RUNS, finished(whole)
    assert "All 12 runs are finished" in out and "short/lstm/1: success" in out, out
    page = (whole / "report/report.html").read_text()
    assert '"live":{' not in page and "12 finished" in page and "gru" in page, page[:3000]
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
    out = compare("--run", "whole").stdout
    assert "0 of 12 to do" in out, out
    text, found = inspect("whole")
    assert "12 of 12 finished" in text and "engram compare report whole" in text and "go on" not in text, text
    assert found["runs"] == {"count": 12, "finished": 12, "running": 0, "unfinished": 0, "not_begun": 0,
                             "diverged": 0, "failed": 0}
    assert (found["tasks"], found["backbones"], found["seeds"]) == (
        ["short", "long"], ["gru", "lstm", "full_state"], [0, 1]), found
    assert before == {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    # A run on its own, by the command of the plan, is the same run.
    command = next(run["command"] for run in plan["runs"] if run["folder"] == "runs/long/gru/1")
    command = command.replace("whole/runs/long/gru/1", "alone").split()[1:]
    engram(*command, "--device=cpu")
    same_outcome(whole / "runs/long/gru/1", folder / "alone")
    return whole


def same_runs(whole, other, names=RUNS):
    for name in sorted(names):
        same_outcome(whole / "runs" / name, other / "runs" / name)
    assert not list(other.rglob("*.partial*"))


def check_stopped(folder, whole):
    """SIGTERM and SIGINT: the runs save, the same command goes on, and the whole is as if nothing had happened."""
    directory = folder / "stopped"
    for number in (signal.SIGTERM, signal.SIGINT):
        begun = len(finished(directory))
        process = start("--config", "c.ini", "--run", "stopped", "--jobs", "3")
        wait_for(lambda: live_page(directory) is not None, process)
        wait_for(lambda: len(finished(directory)) > begun, process)
        out = stop(process, number).stdout
        assert live_page(directory) is None  # nothing is under way any more
        assert "engram compare --run stopped" in out, out
        assert training(directory) == [] and begun < len(finished(directory)) < len(RUNS)
        assert not (directory / "failures").exists()
    compare("--run", "stopped", "--jobs", "3")
    assert finished(directory) == RUNS
    same_runs(whole, directory)


def check_killed(folder, whole):
    """SIGKILL at any time leaves no process behind and nothing that cannot be gone on from."""
    directory = folder / "killed"
    for round in range(4):
        process = start("--config", "c.ini", "--run", "killed", "--jobs", "3")
        wait_for(lambda: training(directory), process)
        time.sleep(0.4 * round)
        kill(process)
        wait_for(lambda: not training(directory), seconds=30)  # runs do not outlive the program that started them
    compare("--run", "killed", "--jobs", "3")
    assert finished(directory) == RUNS
    same_runs(whole, directory)


def check_batch_system(folder):
    """One signals every process of a job, at any time: runs that have just started carry on after SIGUSR1, and those
    that get SIGTERM twice, from it and from this program, save like others."""
    directory = folder / "batch"
    arguments = ["--config", "c.ini", "--run", "batch", "--jobs", "1", "--tasks", "long", "--backbones", "gru",
                 "--seeds", "0", "--run.steps", "100000000", "--checkpoint.every_steps", "0"]
    run = directory / "runs/long/gru/0"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    for round in range(3):
        process = start(*arguments, env=environment)
        number = wait_for(lambda: training(directory), process)[0]
        # A share of the machine from its first moment on.
        assert b"OMP_NUM_THREADS=1" in pathlib.Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        process.send_signal(signal.SIGUSR1)
        log = run / "metrics.jsonl"
        size = log.stat().st_size if log.exists() else 0
        wait_for(lambda: log.exists() and log.stat().st_size > size, process)
        before = checkpoints(run)
        for number in training(directory):
            os.kill(number, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        finish(process, 143)
        assert checkpoints(run)[-1:] > before[-1:], (round, before, checkpoints(run))
        assert not (directory / "failures").exists()


def check_failing(folder):
    """A run that fails, and one that is killed, are recorded; the others are done; the same command tries again."""
    directory = folder / "failing"
    compare("--config", "c.ini", "--run", "failing", "--seeds", "0", "--tasks", "short", "--backbones", "gru")
    (directory / "runs/short/lstm").mkdir(parents=True)
    (directory / "runs/short/lstm/1").write_text("in the way")
    process = start("--config", "c.ini", "--run", "failing", "--jobs", "1", "--tasks", "short")
    victim = wait_for(lambda: training(directory), process)[0]
    name = next(word for word in commands_of_processes()[victim] if "/runs/" in word).split("/runs/")[1]
    os.kill(victim, signal.SIGKILL)
    ended = finish(process, 1, "2 of 6 runs failed")
    assert ended.stderr.count("\n") == 1, ended
    assert "signal 9" in (directory / f"failures/{name}.txt").read_text()
    assert "is a file" in (directory / "failures/short/lstm/1.txt").read_text(), ended
    text, found = inspect("failing")
    assert found["runs"] == {
        "count": 6, "finished": 4, "running": 0, "unfinished": 0, "not_begun": 0, "diverged": 0, "failed": 2}, found
    assert {item["run"] for item in found["failures"]} == {name, "short/lstm/1"} and "is a file" in text, found
    assert "4 of 6 finished, 2 failed" in text and "engram compare --run failing" in text, text
    short = {run for run in RUNS if run.startswith("short")}
    assert finished(directory) == short - {name, "short/lstm/1"}, finished(directory)
    (directory / "runs/short/lstm/1").unlink()
    compare("--run", "failing", "--jobs", "2")
    assert finished(directory) == short
    assert not list((directory / "failures").rglob("*.txt"))


def check_diverging(folder):
    """A run that diverges is a result: the command ends well, names it, and does not try it again."""
    directory = folder / "wild"
    # Its weights grow ninefold with every update.
    (folder / "wild.ini").write_text(comparison(
        "--compare.seeds=0-1", "--compare.controls=", "--memory.width=8", "--run.steps=120", "--run.random_episodes=0",
        "--evaluation.final_episodes=20", "--backbones.wild.memory.name=gru", "--backbones.wild.learner.weight_decay=10",
        "--backbones.wild.learner.learning_rate=1"))
    names = {f"short/wild/{seed}" for seed in (0, 1)}
    said = "2 of 4 runs have diverged, which is their result: short/wild/0, short/wild/1.\n2 of 4 runs are finished."
    out = compare("--config", "wild.ini", "--run", "wild", "--jobs", "2").stdout
    assert said in out and "short/wild/1 diverged: update" in out, out
    before = {name: (directory / f"failures/{name}.txt").read_text() for name in names}
    out = compare("--run", "wild").stdout
    assert "0 of 4 to do" in out and said in out, out
    assert before == {name: (directory / f"failures/{name}.txt").read_text() for name in names}
    text, found = inspect("wild")
    assert found["runs"] == {
        "count": 4, "finished": 2, "running": 0, "unfinished": 0, "not_begun": 0, "diverged": 2, "failed": 0}, found
    assert {item["run"]: item["kind"] for item in found["failures"]} == dict.fromkeys(names, "diverged"), found
    assert found["resume"] is None and "2 of 4 finished, 2 diverged" in text and "go on" not in text, text
    # Its report's table stands in for it, and says so again.
    out = engram("compare", "report", "wild", "--resamples", "1000")
    assert "2 of 4 runs are finished, 2 have diverged. " in out, out
    table = (directory / "report/report.csv").read_text()
    out = compare("--config", "wild.ini", "--run", "elsewhere", "--earlier", "wild/report/report.csv").stdout
    assert "0 of 4 to do" in out and said in out, out
    assert "2 of 4 finished, 2 diverged" in inspect("elsewhere")[0]
    engram("compare", "report", "elsewhere", "--resamples", "1000")
    assert (folder / "elsewhere/report/report.csv").read_text() == table
    out = engram("compare", "report", "wild/report/report.csv", "--resamples", "1000", "--output", "table.html")
    assert "2 of 4 runs are finished, 2 have diverged. " in out, out
    # Without its folder and its record it is made again; beside a run that fails it is named, too.
    shutil.rmtree(directory / "runs/short/wild/0")
    (directory / "failures/short/wild/0.txt").unlink()
    shutil.rmtree(directory / "runs/short/gru/1")
    (directory / "runs/short/gru/1").write_text("in the way")
    ended = compare("--run", "wild", status=1, saying="1 of 4 runs failed: short/gru/1")
    assert "2 of 4 to do" in ended.stdout and "2 of 4 runs have diverged" in ended.stdout, ended


def check_seeds_per_job(folder, whole):
    """Several seeds in a process are what they are alone; one that cannot begin leaves the others alone; they are
    stopped and go on together."""
    directory = folder / "together"
    arguments = ["--config", "c.ini", "--run", "together", "--jobs", "2", "--seeds-per-job", "2"]
    (directory / "runs/short/lstm").mkdir(parents=True)
    (directory / "runs/short/lstm/1").write_text("in the way")
    (directory / "experiment.ini").write_text((whole / "experiment.ini").read_text())
    process = start(*arguments)
    wait_for(lambda: finished(directory), process)
    stop(process)
    assert training(directory) == [] and len(finished(directory)) < len(RUNS) - 1
    ended = compare(*arguments, status=1, saying="1 of 12 runs failed: short/lstm/1")
    assert "up to 4 runs at once" in ended.stdout and "is a file" in ended.stderr, ended
    assert finished(directory) == RUNS - {"short/lstm/1"}, finished(directory)
    same_runs(whole, directory, RUNS - {"short/lstm/1"})
    outputs = [directory / f"output/long/gru/{seed}.txt" for seed in (0, 1)]
    assert outputs[0].samefile(outputs[1]) and "seed 1: " in outputs[1].read_text()
    (directory / "runs/short/lstm/1").unlink()
    compare(*arguments)
    same_runs(whole, directory)
    # A process that dies takes all of its seeds along, and each says why.
    process = start("--config", "c.ini", "--run", "failing_seed", "--seeds-per-job", "2", "--jobs", "1",
                    "--tasks", "short", "--backbones", "gru", "--run.steps", "100000000")
    broken = folder / "failing_seed/runs/short/gru/1/metrics.jsonl"
    wait_for(lambda: broken.exists() and training(folder / "failing_seed"), process)
    os.kill(training(folder / "failing_seed")[0], signal.SIGKILL)
    assert "signal 9" in finish(process, 1, "2 of 2 runs failed").stderr


def check_shards(folder, whole):
    """Three shards at once, one of which dies and is repeated."""
    directory = folder / "shards"
    arguments = ["--config", "c.ini", "--run", "shards", "--jobs", "1"]
    processes = [start(*arguments, "--shard", f"{i}/3") for i in (1, 2, 3)]
    wait_for(lambda: training(directory), processes[1])
    kill(processes[1])
    for i in (0, 2):
        finish(processes[i])
    assert 0 < len(finished(directory)) < len(RUNS)
    compare(*arguments, "--shard", "2/3")
    assert finished(directory) == RUNS
    same_runs(whole, directory)
    for text in ("0/3", "4/3", "1", "a/b", "1/0", "1/3/5"):
        refused(*arguments, "--shard", text, saying=[f"'{text}'", "I/N"])


def check_beside_each_other(folder, whole):
    """Two programs with the same runs wait for each other's instead of failing."""
    processes = [start("--config", "c.ini", "--run", "both", "--jobs", "1", "--seeds", "0") for _ in range(2)]
    for process in processes:
        finish(process)
    zero = {run for run in RUNS if run.endswith("/0")}
    assert finished(folder / "both") == zero
    same_runs(whole, folder / "both", zero)


def check_growing(folder, whole):
    directory = folder / "growing"
    compare("--config", "c.ini", "--run", "growing", "--seeds", "0", "--tasks", "short")
    compare("--config", "c.ini", "--run", "growing", "--backbones", "gru")
    names = {run for run in RUNS if run.startswith("short") and run.endswith("/0")}
    names |= {run for run in RUNS if "/gru/" in run}
    assert finished(directory) == names, finished(directory)
    same_runs(whole, directory, names)


def check_earlier(folder, whole):
    """A report's table stands in for the folders of its runs."""
    report = ["compare", "report", "--resamples", "1000", "--output"]
    engram(*report, "all.html", "whole", saying=None, timeout=300)
    lines = (folder / "all.csv").read_text().splitlines(keepends=True)
    kept = [line for line in lines[1:] if line.split(",")[2] == "0"]
    (folder / "some.csv").write_text("".join([lines[0], *kept]))
    assert len(kept) == 6, kept
    refused("--config", "c.ini", "--run", "later", "--earlier", "none.csv", saying=["'none.csv' is not a file"])
    refused("--config", "c.ini", "--run", "later", "--earlier", "c.ini", saying=["'c.ini'", "no report's table"])
    assert not (folder / "later").exists()
    out = compare("--config", "c.ini", "--run", "later", "--earlier", "some.csv", "--jobs", "2").stdout
    assert "6 of 12 to do" in out and "All 12 runs are finished" in out, out
    new = {run for run in RUNS if run.endswith("/1")}
    assert finished(folder / "later") == new, finished(folder / "later")
    same_runs(whole, folder / "later", new)
    assert "0 of 12 to do" in compare("--run", "later").stdout
    assert "0 of 12 to do" in compare("--run", "later", "--earlier", "some.csv").stdout
    refused("--run", "later", "--earlier", "all.csv", saying=["'later/earlier.csv' is there and differs"])
    assert "12 of 12 finished" in inspect("later")[0]
    engram(*report, "later.html", "later", saying=None, timeout=300)
    again = (folder / "later.csv").read_text().splitlines(keepends=True)
    assert len(again) == 13 and set(kept) < set(again), again
    assert "6 of the runs are rows of earlier.csv" in (folder / "later.md").read_text()


def check_refusals(folder, whole):
    refused("--config", "c.ini", saying=["--run DIR is missing"])
    refused("--run", "nothing", saying=["--config FILE is missing", "'nothing'"])
    refused("--config", "none.ini", "--run", "new", saying=["'none.ini'", "cannot be read"])
    refused("--config", "c.ini", "--run", "c.ini", saying=["'c.ini' exists"])
    refused("--config", "c.ini", "--run", "new", "--tasks", "shirt", saying=["'shirt'", "did you mean 'short'"])
    refused("--config", "c.ini", "--run", "new", "--seeds", "1-", saying=["seeds '1-'"])
    refused("--config", "c.ini", "--run", "new", "--match", "width", saying=["'width'", "parameters | state"])
    refused("--config", "c.ini", "--run", "new", "--backbones", "lstm", saying=["compare.reference 'gru'"])
    refused("--config", "c.ini", "--run", "new", "--memory.widht", "3", saying=["memory.widht"])
    refused("--config", "c.ini", "--run", "new", "--device", "tpu", saying=["'tpu'", "auto | cpu | cuda"])
    refused("--config", "c.ini", "--run", "new", "--device", "cpu", "--run.precision", "bfloat16",
            saying=["short/gru", "run.precision bfloat16 is for GPUs"])
    assert not (folder / "new").exists()
    (folder / "full").mkdir()
    (folder / "full/file").write_text("mine")
    refused("--config", "c.ini", "--run", "full", saying=["'full' exists, is not empty"])
    refused("--config", "c.ini", "--run", "whole", "--learner.gamma", "0.5",
            saying=["'whole', short/gru, was made with learner.gamma = 0.99", "0.5"])
    refused("--run", "whole", "--match", "none", saying=["compare.match = parameters", "none"])
    # A run of another experiment in the place of one of this.
    other = whole / "runs/short/gru/0"
    other.rename(folder / "kept")
    (whole / "runs/long/lstm/0").rename(other)
    refused("--run", "whole", saying=["short/gru/0' was made with"])
    other.rename(whole / "runs/long/lstm/0")
    (folder / "kept").rename(other)
    compare("--run", "whole")


folder = scratch_folder()
(folder / "c.ini").write_text(CONFIG)
assert "--shard" in compare("--help").stdout
check_dry_run(folder)
whole = check_whole(folder)
check_refusals(folder, whole)
check_stopped(folder, whole)
check_killed(folder, whole)
check_batch_system(folder)
check_failing(folder)
check_diverging(folder)
check_seeds_per_job(folder, whole)
check_shards(folder, whole)
check_beside_each_other(folder, whole)
check_growing(folder, whole)
check_earlier(folder, whole)
