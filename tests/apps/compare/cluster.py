"""Shards of one comparison without a cluster: apps/scripts/compare_kubernetes.yaml as an indexed Job would run it,
apps/scripts/compare_ssh.sh with a stand-in for ssh, and what the scripts say to wrong use (apps.slurm is for Slurm itself).
usage: cluster.py ENGRAM ROOT"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77  # tests/skip.h
ENGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
CONFIG = """[compare]
seeds = 0-3
match = none
reference = gru
controls =
[task]
name = tmaze
corridor_length = 4
[network]
hidden_width = 16
[memory]
width = 16
layers = 1
[run]
device = cpu
steps = 100
random_episodes = 4
threads = 1
[evaluation]
every_steps = 50
episodes = 4
final_episodes = 10
[replay]
batch_episodes = 8
[checkpoint]
every_steps = 10
[tasks.short]
task.corridor_length = 4
[backbones.gru]
memory.name = gru
[backbones.lstm]
memory.name = lstm
"""
RUNS = {f"{backbone}/{seed}" for backbone in ("gru", "lstm") for seed in range(4)}
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
        if shutil.which(python) is None or subprocess.run([python, "-c", "import yaml"], capture_output=True).returncode:
            continue
        return json.loads(subprocess.run([python, "-c", convert, file], capture_output=True, check=True).stdout)
    return None


def finished(directory):
    names = set()
    for file in directory.glob("runs/short/*/*/metrics.jsonl"):
        lines = file.read_text().split("\n")[:-1]
        if lines and json.loads(lines[-1])["kind"] == "final":
            names.add(f"{file.parent.parent.name}/{file.parent.name}")
    return names


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
        for file in ("metrics.jsonl", "weights/best.safetensors", "weights/last.safetensors"):
            a, b = (folder / "runs/short" / name / file for folder in (one, other))
            assert a.read_bytes() == b.read_bytes(), b


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
        subprocess.run(container["command"] + container["args"], cwd=root, check=True, capture_output=True, timeout=120,
                       env={**os.environ, **environment, "JOB_COMPLETION_INDEX": str(index)})
        now = finished(root / "runs/tmaze")
        assert len(now - seen) == len(RUNS) / count, (index, now, seen)
        seen = now
    assert seen == RUNS, seen
    return True


def start_ssh(root, *hosts, run):
    return subprocess.Popen(["bash", ROOT / "apps/scripts/compare_ssh.sh", *hosts, "--", "--config",
                             "configs/compare/tmaze_length.ini", "--run", run, "--jobs", "1"], cwd=root,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, status):
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, (process.returncode, out, err)
    return out, err


def check_ssh(root, hosts, plain):
    # Ended on the way, in both manners: the hosts save and leave. Then one host is lost, and other hosts go on.
    run = root / "runs/ssh"
    for number, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        process = start_ssh(root, "one", "two", run="runs/ssh")
        begun, end = len(finished(run)), time.monotonic() + 60
        while len(finished(run)) == begun:
            assert time.monotonic() < end and process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        out, _ = finish(process, status)
        end = time.monotonic() + 30
        while training(root):
            assert time.monotonic() < end, "shards outlive the program that started them"
            time.sleep(0.05)
        assert begun < len(finished(run)) < len(RUNS), finished(run)
        assert number == signal.SIGKILL or ("one: Stopped by SIGTERM" in out and "two: Stopped by SIGTERM" in out), out
    _, err = finish(start_ssh(root, "one", "lost", run="runs/ssh"), 1)
    assert err.count("\n") == 1 and "not finished on lost (255)" in err, err
    assert finished(run) < RUNS
    hosts.write_text("")
    out, err = finish(start_ssh(root, "three", "four", "five", run="runs/ssh"), 0)
    assert sorted(hosts.read_text().split()) == ["five", "four", "three"] and err == "", (hosts.read_text(), err)
    assert finished(run) == RUNS and "shard 3/3" in out, out
    same_runs(plain, run)


def refused(root, script, *arguments, saying, path=None):
    result = subprocess.run([shutil.which("bash"), ROOT / "apps/scripts" / script, *arguments], cwd=root, capture_output=True,
                            text=True, timeout=60, env={**os.environ, **({"PATH": path} if path else {})})
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and saying in result.stderr, (arguments, result)


def check_wrong_use(root, submitted):
    compare = ["--", "--config", "configs/compare/tmaze_length.ini", "--run", "runs/new"]
    refused(root, "compare_ssh.sh", "one", *compare[1:], saying="'--config' is no host")
    refused(root, "compare_ssh.sh", "one", "two", saying="a -- is missing")
    refused(root, "compare_ssh.sh", *compare, saying="no host is named")
    refused(root, "compare_ssh.sh", "one", *compare, "--shard", "1/2", saying="--shard is chosen by the hosts")
    refused(root, "compare_ssh.sh", "one", *compare, path="/nowhere", saying="ssh was not found")
    refused(root, "compare_slurm.sh", "--array=1-4", *compare[1:], saying="a -- is missing")
    refused(root, "compare_slurm.sh", "--array=0-3", *compare, saying="--array '0-3' is not allowed; it takes 1-N")
    refused(root, "compare_slurm.sh", "-a", "3", *compare, saying="--array '3' is not allowed")
    refused(root, "compare_slurm.sh", *compare, "--shard=1/2", saying="--shard is chosen by the array")
    refused(root, "compare_slurm.sh", *compare, path="/nowhere", saying="sbatch was not found")
    refused(root, "compare_slurm.sh", "--array=1-9", *compare, saying="fewer runs than shards")
    refused(root, "compare_slurm.sh", *compare, "--memory.widht", "3", saying="memory.widht")
    refused(root, "compare_slurm.sh", *compare[:-2], saying="--run DIR is missing")
    assert not submitted.exists() and not (root / "runs/new.slurm").exists()
    result = subprocess.run(["bash", ROOT / "apps/scripts/compare_slurm.sh", "--array", "1-8%2", "--account=a", *compare,
                             "--run.device", "cuda"], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert submitted.read_text().split("\n")[:-1] == [
        "--output=runs/new.slurm/%a.txt", "--array", "1-8%2", "--account=a", str(ROOT / "apps/scripts/compare_slurm.sh"),
        *compare[1:], "--run.device", "cuda"], submitted.read_text()
    assert "Logs: runs/new.slurm" in result.stdout and (root / "runs/new.slurm").is_dir(), result


with tempfile.TemporaryDirectory(prefix="engram-cluster-") as name:
    root = pathlib.Path(name).resolve()
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
    subprocess.run([ENGRAM, "compare", "--config", "configs/compare/tmaze_length.ini", "--run", "runs/plain"], cwd=root,
                   check=True, capture_output=True, timeout=120)
    check_ssh(root, root / "hosts", plain)
    parsed = check_kubernetes(root)
    if parsed:
        same_runs(plain, root / "runs/tmaze")
if not parsed:
    print("skipped: no Python with PyYAML; the checks of ssh and of wrong use have passed")
    sys.exit(SKIPPED)
print("ok")
