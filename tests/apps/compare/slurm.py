"""apps/scripts/compare_slurm.sh under a real Slurm: of an array's four jobs one is preempted, one is put back by hand,
one comes to the end of its time and one loses its node. Every run is finished once, none begins anew, and what it
leaves behind is byte for byte that of the same comparison made without Slurm.
usage: slurm.py ENGRAM ROOT"""

import os
import pathlib
import signal
import sys
import time

import slurm_cluster
from program import (ENGRAM, checkpoints, commands_of_processes, comparison, json_lines, metrics, results,
                     scratch_folder, skip, tiny)

ROOT = pathlib.Path(sys.argv[2]).resolve()
SCRIPT = ROOT / "apps/scripts/compare_slurm.sh"
SIZES = ["--memory.width=16", "--memory.layers=1", "--run.steps=1000", "--run.random_episodes=4",
         "--replay.batch_episodes=8", "--evaluation.every_steps=500", "--evaluation.episodes=4",
         "--evaluation.final_episodes=20", "--checkpoint.every_steps=20"]
CONFIG = comparison(
    "--compare.seeds=0-1", "--compare.match=none", "--compare.reference=gru", "--compare.controls=", *SIZES,
    tasks={"short": 4, "long": 6}, backbones=("gru", "lstm"))
RUNS = {f"{task}/{backbone}/{seed}" for task in ("short", "long") for backbone in ("gru", "lstm") for seed in (0, 1)}
NODES = {f"node{i}": 8 for i in (1, 2, 3, 4)}
MIDDLE = "checkpoint_000040.safetensors"  # of some 52 that a run saves
TIME_CHECK_SECONDS = 30  # how often slurmctld looks at the time limits of jobs


def job_of(cluster, array, task):
    """What scontrol says of one job of the array."""
    text = cluster.call("scontrol", "show", "job", f"{array}_{task}", "--oneliner").stdout
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def resumes(run):
    file = run / "resumes.jsonl"
    return json_lines(file) if file.exists() else []


def training(cluster, node):
    """The process that trains on a node, and the folder of its run."""
    commands = commands_of_processes()
    for process in cluster.processes(node):
        words = commands.get(process, [])
        if words[1:2] == ["train"]:
            folder = words[words.index("--run") + 1] if "--run" in words else words[2]
            return process, cluster.folder / "work" / folder
    return None


def freeze_training(cluster, node):
    """Holds a run in its middle, so that what happens to its job happens there on a machine of any speed. Returns its
    process, its folder and its newest checkpoint."""
    found = []

    def frozen():
        where = training(cluster, node)
        if where is None or len(checkpoints(where[1])) < 2:
            return False
        os.kill(where[0], signal.SIGSTOP)
        newest = checkpoints(where[1])[-1].name
        if newest > MIDDLE:  # too late: the next one of its job
            os.kill(where[0], signal.SIGCONT)
            return False
        found.append((*where, newest))
        return True

    cluster.wait_for(frozen, f"a run in its middle on {node}", 90)
    return found[0]


def await_time_check(cluster, began, ahead):
    """Until slurmctld's next look at the limits is `ahead` seconds away, or a little less."""
    while not ahead - 5 < TIME_CHECK_SECONDS - (time.monotonic() - began) % TIME_CHECK_SECONDS <= ahead:
        time.sleep(0.1)


def restarts(cluster, array, task):
    return int(job_of(cluster, array, task)["Restarts"])


def check_array(cluster, work):
    began = time.monotonic()
    cluster.call(ENGRAM, "compare", "--config", "c.ini", "--run", "plain", "--device", "cpu", "--jobs", "2", cwd=work)
    await_time_check(cluster, began, 18)
    said = cluster.call("bash", SCRIPT, "--array=1-4", "--partition=low", "--time=30", "--signal=B:USR1@30", "--",
                        "--config", "c.ini", "--run", "slurm", "--device", "cpu", "--jobs", "1", cwd=work).stdout
    assert "8 runs" not in said and "Logs: slurm.slurm" in said and "inspect slurm" in said, said
    array = said.split("Submitted batch job ")[1].split()[0]
    cluster.wait_for(lambda: all(job_of(cluster, array, task)["JobState"] == "RUNNING" for task in (1, 2, 3, 4)),
                     "four jobs that run")
    node_of = {task: job_of(cluster, array, task)["NodeList"] for task in (1, 2, 3, 4)}
    assert set(node_of.values()) == set(NODES), node_of
    frozen = {task: freeze_training(cluster, node) for task, node in node_of.items()}

    # 1: the end of its time. Slurm sends the signal up to a minute before the 30 s that were asked for.
    cluster.call("scontrol", "update", f"JobId={array}_1", "TimeLimit=1")
    # 2: its node is gone.
    cluster.lose_node(node_of[2])
    # 3: a job that goes before it.
    cluster.call("sbatch", "--partition=high", f"--nodelist={node_of[3]}", "--cpus-per-task=8", "--output=/dev/null",
                 "--wrap", "sleep 1")
    # 4: by hand.
    cluster.call("scontrol", "requeue", f"{array}_4")

    process, run, before = frozen[1]
    log = work / "slurm.slurm/1.txt"
    cluster.wait_for(lambda: "Stopping: 1 runs save" in log.read_text(), "the signal before the limit", 70)
    os.kill(process, signal.SIGCONT)
    cluster.wait_for(lambda: restarts(cluster, array, 1) == 1, "the job that puts itself back")
    assert "back into the queue" in log.read_text(), log.read_text()
    assert checkpoints(run)[-1].name > before, "the run did not save at the signal"
    cluster.call("scontrol", "update", f"JobId={array}_1", "TimeLimit=30")

    cluster.wait_for(lambda: not cluster.call("squeue", "--noheader").stdout, "an empty queue", 120)
    for task in (1, 2, 3, 4):
        job = job_of(cluster, array, task)
        assert (job["JobState"], job["ExitCode"], job["Restarts"]) == ("COMPLETED", "0:0", "1"), job
    for task, (_, run, checkpoint) in frozen.items():
        rows = resumes(run)
        assert len(rows) == 1 and rows[0]["checkpoint"] >= checkpoint, (task, checkpoint, rows)
        assert task == 2 or rows[0]["checkpoint"] > checkpoint, (task, "did not save when its job was ended", rows)
    assert {str(run.relative_to(work / "slurm/runs")) for run in work.glob("slurm/runs/*/*/*")} == RUNS
    for name in sorted(RUNS):
        run = work / "slurm/runs" / name
        assert len(metrics(run, "final")) == 1
        if run not in [where for _, where, _ in frozen.values()]:
            assert resumes(run) == [], (name, resumes(run))
        assert results(run) == results(work / "plain/runs" / name), name
    assert not list((work / "slurm").rglob("*.partial*")) and not list((work / "slurm").glob("failures/**/*.txt"))
    assert sorted(file.name for file in (work / "slurm.slurm").iterdir()) == [f"{task}.txt" for task in (1, 2, 3, 4)]


def check_straight_to_sbatch(cluster, work):
    """Without the script's own checks: an array that is not 1-N says so in its log, one job alone does it all."""
    for array, log, words, state in (("--array=2-3", "wrong-%a.txt", "--array has to be 1-N", "FAILED"),
                                     (None, "alone.txt", "All 8 runs are finished", "COMPLETED")):
        options = [array] if array else []
        out = cluster.call("sbatch", "--parsable", *options, "--time=30", f"--output={log}", SCRIPT, "--config",
                           "c.ini", "--run", "slurm", "--device", "cpu", cwd=work).stdout.strip()
        cluster.wait_for(lambda: not cluster.call("squeue", "--noheader").stdout, "an empty queue", 60)
        text = cluster.call("scontrol", "show", "job", out, "--oneliner").stdout
        assert f"JobState={state}" in text, text
        logs = list(work.glob(log.replace("%a", "*")))
        assert len(logs) == (2 if array else 1) and all(words in file.read_text() for file in logs), logs


def check_ranks_of_a_step(cluster, work):
    """One run by the two tasks of a step. The nodes' names here are no machine's, so it is said where they meet."""
    said = cluster.call("srun", "--ntasks=2", "--cpus-per-task=1", ENGRAM, "train", "ranks",
                        *tiny("--memory.name=gru", "--run.num_envs=2", *SIZES), cwd=work,
                        environment={"MASTER_ADDR": "127.0.0.1"}).stdout
    assert "2 ranks, each 1 CPU thread" in said and said.count("Everything is in ranks") == 1, said
    assert checkpoints(work / "ranks"), said


missing = slurm_cluster.missing()
if missing:
    skip(f"{', '.join(missing)} of Slurm and munge not installed")
folder = scratch_folder()
work = folder / "work"
work.mkdir()
(work / "c.ini").write_text(CONFIG)
os.environ["ENGRAM"] = ENGRAM
with slurm_cluster.Cluster(folder, NODES) as cluster:
    check_array(cluster, work)
    check_straight_to_sbatch(cluster, work)
    check_ranks_of_a_step(cluster, work)
assert not cluster.processes(), cluster.processes()
