"""Every command that engram prints can be given to a shell as it stands, whatever the folder is called.
usage: printed_commands.py ENGRAM"""

import json
import os
import re
import shlex
import signal

from program import ENGRAM, call, comparison, scratch_folder, start, stop, tiny, wait_for, with_changes

HOSTILE = "my runs/it's a $(touch here)"
TINY = tiny("--task.corridor_length=3", "--memory.name=gru", "--evaluation.every_steps=40")


def engram(*arguments, status=0):
    """All that it says."""
    result = call(ENGRAM, *arguments, status=status, saying=None)
    return result.stdout + result.stderr


def engram_json(*arguments):
    return json.loads(engram(*arguments, "--json"))


def shell(command):
    """The output of what a person types who has engram on the PATH."""
    environment = {**os.environ, "PATH": f"{os.path.dirname(ENGRAM)}:{os.environ['PATH']}"}
    return call("sh", "-c", command, saying=None, env=environment).stdout


def commands(text):
    """Of text in which each command ends its line."""
    return re.findall(r"engram (?:train|evaluate|render|compare|inspect) .*", text)


def command(text, *words):
    """The one command that has these words, up to the end of its line."""
    found = [line for line in commands(text) if all(word in line for word in words)]
    assert len(found) == 1, (words, text)
    return found[0]


def check_run():
    run = f"{HOSTILE}/run"
    said = engram("train", run, *TINY)
    assert "success" in shell(command(said, "evaluate") + " --episodes 2")
    render = command(said, "render")
    assert f"'my runs/it'\\''s a $(touch here)/run/episodes.mp4'" in render, render
    board = next(line for line in said.splitlines() if "tensorboard" in line).strip()
    assert shell(board.replace("tensorboard --logdir", "ls -d")).strip() == run
    resume = command(engram("inspect", run), "--resume")
    shell(resume.replace("N", "80"))
    parsed = engram_json("inspect", run)
    assert parsed["progress"]["environment_steps"] >= 80, parsed["progress"]
    shell(parsed["resume"] + " --run.steps=100")

    refused = engram("train", run, *TINY, status=2)
    resume, look = re.search(r"go on with it \((engram .*)\), look at it \((engram .*)\), choose", refused).groups()
    shell(resume + " --run.steps=120")
    shell(look + " --episodes 2")


def check_stopped(folder):
    run = folder / HOSTILE / "stopped"
    process = start("train", run.relative_to(folder), *with_changes(TINY, "--run.steps=1000000"))
    wait_for((run / "weights/last.safetensors").exists, process)
    said = stop(process, signal.SIGINT).stdout
    steps = engram_json("inspect", run)["progress"]["environment_steps"]
    shell(command(said, "--resume") + f" --run.steps={steps + 40}")


def check_comparison(folder):
    config = folder / HOSTILE / "a config.ini"
    config.write_text(comparison("--compare.controls=", "--evaluation.every_steps=40", tasks={"short": 3}))
    directory = f"{HOSTILE}/comparison"
    # The wrong command for a file names the right one.
    for given, right in ((["train", "--config", config, "--run", "x"], "compare"), (["train", config], "train")):
        refused = engram(*given, status=2)
        if right == "compare":
            shell(command(refused, "compare") + f" --run '{folder}/x' --dry-run")
        else:
            option = refused.split("did you mean --config ")[1].removesuffix("?\n")
            assert shell(f"ls {option}").strip() == str(config), refused
    said = engram("compare", "--config", config, "--run", directory)
    text = engram("inspect", directory)
    for report in (command(said, "report"), command(text, "report")):
        shell(report + " --resamples 1000")
    shell(command(text, "TASK/BACKBONE/SEED").replace("TASK/BACKBONE/SEED", "short/gru/1"))
    plan = json.loads((folder / directory / "plan.json").read_text())
    shell(plan["runs"][0]["command"])
    page = (folder / directory / "report/report.md").read_text()
    assert plan["runs"][0]["command"] in page and command(said, "report") in page, page
    shell(command(page, "--config experiment.ini").replace("experiment.ini", shlex.quote(str(config))))
    engram("compare", "--run", directory, "--seeds", "1-2", "--jobs", "1")
    parsed = engram_json("inspect", directory)
    shell(parsed["report"] + " --resamples 1000")


folder = scratch_folder()
check_run()
check_stopped(folder)
check_comparison(folder)
assert not list(folder.rglob("here")), "a shell has run what is part of a name"
