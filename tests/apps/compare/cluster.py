"""Shards of one comparison without a cluster: apps/scripts/compare_kubernetes.yaml as an indexed Job would run it,
apps/scripts/compare_ssh.sh with a stand-in for ssh, and what the scripts say to wrong use (apps.slurm is for Slurm).
usage: cluster.py ENGRAM ROOT"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from program import ENGRAM, call, comparison, engram, finish, finished, results, scratch_folder, skip, wait_for

ROOT = pathlib.Path(sys.argv[2]).resolve()
CONFIG = comparison(
    "--compare.seeds=0-3", "--compare.match=none", "--compare.reference=gru", "--compare.controls=",
    "--memory.width=16", "--memory.layers=1", "--run.steps=100", "--run.random_episodes=4",
    "--evaluation.every_steps=50", "--evaluation.episodes=4", "--evaluation.final_episodes=10",
    "--replay.batch_episodes=8", "--checkpoint.every_steps=10", backbones=("gru", "lstm"))
COMPARE = ["--config", "configs/compare/tmaze_length.ini", "--run"]
RUNS = {f"short/{backbone}/{seed}" for backbone in ("gru", "lstm") for seed in range(4)}
# As sshd does: a shell in another folder with the one string of the command, whose standard input is ssh's.
SSH = """#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -o ]] && shift; shift; done
echo "$1" >>"$HOSTS"
[[ $1 != lost ]] || exit 255
cd / && exec "$SHELL" -c "$2"
"""
SBATCH = '#!/bin/bash\nprintf "%s\\n" "$@" >"$ARGUMENTS"\necho "Submitted batch job 7"\n'


def as_json(file):
    """A YAML file by the first Python that has PyYAML; None where there is none."""
    convert = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)"
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        if shutil.which(python) and call(python, "-c", "import yaml", status=None, saying=None).returncode == 0:
            return json.loads(call(python, "-c", convert, file, saying=None).stdout)
    return None


def training(folder):
    """Numbers of the programs that train or compare in the folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder and (process / "exe").resolve() == pathlib.Path(ENGRAM).resolve():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def same_runs(one, other):
    for name in sorted(RUNS):
        assert results(one / "runs" / name) == results(other / "runs" / name), name


def check_kubernetes(root):
    documents = as_json(ROOT / "apps/scripts/compare_kubernetes.yaml")
    if documents is None:
        return False
    (job,) = documents
    assert (job["apiVersion"], job["kind"], job["spec"]["completionMode"]) == ("batch/v1", "Job", "Indexed"), job
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["restartPolicy"] == "Never"  # a podFailurePolicy asks for it
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    environment = {item["name"]: item["value"] for item in container["env"]}
    count = job["spec"]["completions"]
    assert environment["SHARDS"] == str(count), environment
    # Its very command, in a folder as the image has one; every shard has its part of the runs.
    seen = set()
    for index in range(count):
        call(*container["command"], *container["args"], saying=None,
             env={**os.environ, **environment, "JOB_COMPLETION_INDEX": str(index)})
        now = finished(root / "runs/tmaze")
        assert len(now - seen) == len(RUNS) / count, (index, now, seen)
        seen = now
    assert seen == RUNS, seen
    return True


def start_ssh(*hosts):
    return subprocess.Popen(["bash", ROOT / "apps/scripts/compare_ssh.sh", *hosts, "--", *COMPARE, "runs/ssh", "--jobs",
                             "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_ssh(root, hosts, plain):
    # Ended on the way, in both manners: the hosts save and leave. Then one host is lost, and other hosts go on.
    run = root / "runs/ssh"
    for number, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        process = start_ssh("one", "two")
        begun = len(finished(run))
        wait_for(lambda: len(finished(run)) > begun, process)
        process.send_signal(number)
        out = finish(process, status, saying=None).stdout
        wait_for(lambda: not training(root), seconds=30)  # shards do not outlive the program that started them
        assert begun < len(finished(run)) < len(RUNS), finished(run)
        assert number == signal.SIGKILL or ("one: Stopped by SIGTERM" in out and "two: Stopped by SIGTERM" in out), out
    err = finish(start_ssh("one", "lost"), 1, "not finished on lost (255)").stderr
    assert err.count("\n") == 1, err
    assert finished(run) < RUNS
    hosts.write_text("")
    out = finish(start_ssh("three", "four", "five")).stdout
    assert sorted(hosts.read_text().split()) == ["five", "four", "three"], hosts.read_text()
    assert finished(run) == RUNS and "shard 3/3" in out, out
    same_runs(plain, run)


def refused(script, *arguments, saying, path=None):
    result = call(shutil.which("bash"), ROOT / "apps/scripts" / script, *arguments, status=2, saying=saying, timeout=60,
                  env={**os.environ, **({"PATH": path} if path else {})})
    assert result.stderr.count("\n") == 1, result


def check_wrong_use(root, submitted):
    compare = ["--", *COMPARE, "runs/new"]
    refused("compare_ssh.sh", "one", *compare[1:], saying="'--config' is no host")
    refused("compare_ssh.sh", "one", "two", saying="a -- is missing")
    refused("compare_ssh.sh", *compare, saying="no host is named")
    refused("compare_ssh.sh", "one", *compare, "--shard", "1/2", saying="--shard is chosen by the hosts")
    refused("compare_ssh.sh", "one", *compare, path="/nowhere", saying="ssh was not found")
    refused("compare_slurm.sh", "--array=1-4", *compare[1:], saying="a -- is missing")
    refused("compare_slurm.sh", "--array=0-3", *compare, saying="--array '0-3' is not allowed; it takes 1-N")
    refused("compare_slurm.sh", "-a", "3", *compare, saying="--array '3' is not allowed")
    refused("compare_slurm.sh", *compare, "--shard=1/2", saying="--shard is chosen by the array")
    refused("compare_slurm.sh", *compare, path="/nowhere", saying="sbatch was not found")
    refused("compare_slurm.sh", "--array=1-9", *compare, saying="fewer runs than shards")
    refused("compare_slurm.sh", *compare, "--memory.widht", "3", saying="memory.widht")
    refused("compare_slurm.sh", *compare[:-2], saying="--run DIR is missing")
    assert not submitted.exists() and not (root / "runs/new.slurm").exists()
    slurm = ROOT / "apps/scripts/compare_slurm.sh"
    out = call("bash", slurm, "--array", "1-8%2", "--account=a", *compare, "--run.device", "cuda", saying=None,
               timeout=60).stdout
    assert submitted.read_text().split("\n")[:-1] == [
        "--output=runs/new.slurm/%a.txt", "--array", "1-8%2", "--account=a", str(slurm), *compare[1:], "--run.device",
        "cuda"], submitted.read_text()
    assert "Logs: runs/new.slurm" in out and (root / "runs/new.slurm").is_dir(), out


root = scratch_folder()
for folder in ("configs/compare", "build/release", "bin", "runs"):
    (root / folder).mkdir(parents=True)
(root / "configs/compare/tmaze_length.ini").write_text(CONFIG)
(root / "build/release/engram").symlink_to(ENGRAM)
for program, text in (("ssh", SSH), ("sbatch", SBATCH)):
    (root / "bin" / program).write_text(text)
    (root / "bin" / program).chmod(0o755)
os.environ.update(PATH=f"{root}/bin:{os.environ['PATH']}", HOSTS=str(root / "hosts"), SHELL="/bin/sh",
                  ARGUMENTS=str(root / "submitted"))
os.environ.pop("ENGRAM", None)
check_wrong_use(root, root / "submitted")
plain = root / "runs/plain"
engram("compare", *COMPARE, "runs/plain", saying=None)
check_ssh(root, root / "hosts", plain)
if not check_kubernetes(root):
    skip("no Python with PyYAML; the checks of ssh and of wrong use have passed")
same_runs(plain, root / "runs/tmaze")
