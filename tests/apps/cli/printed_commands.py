"""Every command that engram prints can be given to a shell as it stands, whatever the folder is called.
usage: printed_commands.py ENGRAM"""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ENGRAM = pathlib.Path(sys.argv[1]).resolve()
HOSTILE = "my runs/it's a $(touch here)"
TINY = ["--task.name=tmaze", "--task.corridor_length=3", "--memory.name=gru", "--memory.width=8",
        "--network.hidden_width=16", "--run.random_episodes=2", "--replay.batch_episodes=2", "--evaluation.episodes=2",
        "--evaluation.final_episodes=2", "--evaluation.every_steps=40", "--run.threads=1", "--device=cpu"]
COMPARE = """[compare]
seeds = 1
controls =
[task]
name = tmaze
[memory]
width = 8
[network]
hidden_width = 16
[run]
steps = 60
random_episodes = 2
threads = 1
device = cpu
[replay]
batch_episodes = 2
[evaluation]
every_steps = 40
episodes = 2
final_episodes = 2
[tasks.short]
task.corridor_length = 3
[backbones.gru]
memory.name = gru
"""


def engram(folder, *arguments, status=0):
    result = subprocess.run([ENGRAM, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == status, (arguments, result.returncode, result.stdout, result.stderr)
    return result.stdout + result.stderr


def shell(folder, command, status=0):
    """Runs it as a person would who has engram on the PATH."""
    environment = {**os.environ, "PATH": f"{ENGRAM.parent}:{os.environ['PATH']}"}
    result = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                            timeout=120)
    assert result.returncode == status, (command, result.returncode, result.stdout, result.stderr)
    return result.stdout


def commands(text):
    """Of text in which each command ends its line."""
    return re.findall(r"engram (?:train|evaluate|render|compare|inspect) .*", text)


def command(text, *words):
    """The one command that has these words, up to the end of its line."""
    found = [line for line in commands(text) if all(word in line for word in words)]
    assert len(found) == 1, (words, text)
    return found[0]


def check_run(folder):
    run = f"{HOSTILE}/run"
    said = engram(folder, "train", run, "--run.steps=60", *TINY)
    assert "success" in shell(folder, command(said, "evaluate") + " --episodes 2")
    render = command(said, "render")
    assert f"'my runs/it'\\''s a $(touch here)/run/episodes.mp4'" in render, render
    board = next(line for line in said.splitlines() if "tensorboard" in line).strip()
    assert shell(folder, board.replace("tensorboard --logdir", "ls -d")).strip() == run
    resume = command(engram(folder, "inspect", run), "--resume")
    shell(folder, resume.replace("N", "80"))
    parsed = json.loads(engram(folder, "inspect", run, "--json"))
    assert parsed["progress"]["environment_steps"] >= 80, parsed["progress"]
    shell(folder, parsed["resume"] + " --run.steps=100")

    refused = engram(folder, "train", run, *TINY, status=2)
    resume, look = re.search(r"go on with it \((engram .*)\), look at it \((engram .*)\), choose", refused).groups()
    shell(folder, resume + " --run.steps=120")
    shell(folder, look + " --episodes 2")


def check_stopped(folder):
    run = folder / HOSTILE / "stopped"
    process = subprocess.Popen([ENGRAM, "train", run.relative_to(folder), "--run.steps=1000000", *TINY], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.time() + 60
    while not (run / "weights/last.safetensors").exists():
        assert time.time() < end and process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    steps = json.loads(engram(folder, "inspect", run, "--json"))["progress"]["environment_steps"]
    shell(folder, command(said, "--resume") + f" --run.steps={steps + 40}")


def check_comparison(folder):
    config = folder / HOSTILE / "a config.ini"
    config.write_text(COMPARE)
    comparison = f"{HOSTILE}/comparison"
    # The wrong command for a file names the right one.
    for given, right in ((["train", "--config", config, "--run", "x"], "compare"), (["train", config], "train")):
        refused = engram(folder, *given, status=2)
        if right == "compare":
            shell(folder, command(refused, "compare") + f" --run '{folder}/x' --dry-run")
        else:
            option = refused.split("did you mean --config ")[1].removesuffix("?\n")
            assert shell(folder, f"ls {option}").strip() == str(config), refused
    said = engram(folder, "compare", "--config", config, "--run", comparison)
    text = engram(folder, "inspect", comparison)
    for report in (command(said, "report"), command(text, "report")):
        shell(folder, report + " --resamples 1000")
    shell(folder, command(text, "TASK/BACKBONE/SEED").replace("TASK/BACKBONE/SEED", "short/gru/1"))
    plan = json.loads((folder / comparison / "plan.json").read_text())
    shell(folder, plan["runs"][0]["command"])
    page = (folder / comparison / "report/report.md").read_text()
    assert plan["runs"][0]["command"] in page and command(said, "report") in page, page
    shell(folder, command(page, "--config experiment.ini").replace("experiment.ini", shlex.quote(str(config))))
    engram(folder, "compare", "--run", comparison, "--seeds", "1-2", "--jobs", "1")
    parsed = json.loads(engram(folder, "inspect", comparison, "--json"))
    shell(folder, parsed["report"] + " --resamples 1000")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    check_run(folder)
    check_stopped(folder)
    check_comparison(folder)
    assert not list(folder.rglob("here")), "a shell has run what is part of a name"
print("ok")
