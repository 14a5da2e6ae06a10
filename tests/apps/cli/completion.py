"""What bash completes with the script that the program prints; of zsh the script's syntax, where there is a zsh.
usage: completion.py ENGRAM"""

import functools
import json
import shutil

import program
from program import refused, scratch_folder

call = functools.partial(program.call, timeout=60)
engram = functools.partial(program.engram, timeout=60)


def complete(*words):
    """Of these words behind the program's name, of which the last is being typed."""
    code = ('source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _engram; '
            '(( ${#COMPREPLY[@]} )) && printf "%s\\n" "${COMPREPLY[@]}"; exit 0')
    return call("bash", "--norc", "-c", code, "bash", "engram", *words).stdout.splitlines()


folder = scratch_folder()
(folder / "script").write_text(engram("completion", "bash"))
(folder / "runs/first").mkdir(parents=True)
(folder / "runs/with blank").mkdir()
(folder / "run.ini").touch()

listed = json.loads(engram("list", "--json"))
backbones = [backbone["name"] for backbone in listed["backbones"]]
tasks = [task["name"] for task in listed["tasks"]]
presets = [preset["name"] for preset in listed["presets"]]

commands = complete("")
assert set(commands) >= {"train", "evaluate", "diagnose", "compare", "render", "play", "inspect", "list", "probe",
                         "replay", "bench", "sweep", "completion"}, commands
for command in commands:
    assert command in engram("--help"), command
assert complete("tr") == ["train"]
assert complete("--v") == ["--version"]
assert complete("nonsense", "--") == []

# Of each command all that it takes, by its own word: it refuses an option that it does not know in the same list.
for option in ("--run", "--resume", "--config", "--seed", "--memory.name", "--task.corridor_length", "--run.steps",
               "--checkpoint.keep", "--help"):
    assert option in complete("train", "--"), option
assert complete("train", "--memory.na") == ["--memory.name"]
assert set(complete("evaluate", "--")) >= {"--episodes", "--weights", "--json", "--trace", "--device"}
assert not [option for option in complete("evaluate", "--") if option.startswith("--memory.")]
assert complete("compare", "--dry") == ["--dry-run"]
assert "--resamples" in complete("compare", "report", "--") and "--jobs" not in complete("compare", "report", "--")
assert "--preset" in complete("probe", "--")
assert set(complete("play", "--")) >= {"--full", "--record", "--seed", "--episode", "--task.corridor_length"}
assert "--task.name" not in complete("play", "--")
assert complete("play", "tm") == [name for name in tasks + presets if name.startswith("tm")]
assert complete("compare", "re") == ["report"]
assert "--learners" in complete("compare", "--le") and complete("compare", "--tune") == ["--tune-only"]
assert set(complete("sweep", "--tune.ke")) == {"--tune.keep"} and "--tune.memory.layers" in complete("sweep", "--tune.m")
assert "env" in complete("bench", "") and "--num_envs" in complete("bench", "env", "--")
if "--output" in complete("render", "--"):  # not in a program without video
    assert "--task.name" in complete("render", "--") and "--memory.name" not in complete("render", "--")
    assert complete("render", "--policy", "") == ["greedy", "sample", "random"]

# Values, in each of the ways that they can be written: bash makes three words of --name=value.
assert complete("train", "--memory.name", "") == backbones
assert complete("train", "--memory.name", "=", "") == backbones
assert complete("train", "--memory.name", "=") == backbones
assert complete("train", "--memory.name=hq") == [f"--memory.name={name}" for name in backbones if name[:2] == "hq"]
assert complete("train", "--seed", "3", "--memory.name", "=", "ls") == ["lstm"]
assert complete("train", "--task.name", "") == tasks
assert complete("compare", "--task.preset", "tmaze_active_5") == ["tmaze_active_50", "tmaze_active_500"]
assert complete("train", "--task.active", "t") == ["true"]
assert complete("train", "--run.device", "c") == ["cpu", "cuda"] == complete("train", "--device", "c")
assert complete("train", "--run.precision", "b") == ["bfloat16"]
assert complete("evaluate", "x", "--weights", "") == ["best", "last"]
assert complete("probe", "--preset", "s") == ["small"]
assert complete("train", "--run.steps", "") == []  # a number
assert complete("list", "tm") == [name for name in tasks + presets if name.startswith("tm")]
assert complete("list", "--json", "lst") == ["lstm"]  # a flag takes no value
assert complete("completion", "") == ["bash", "zsh"]

# Paths.
assert complete("train", "--config", "run") == ["runs", "run.ini"] or complete("train", "--config", "run") == [
    "run.ini", "runs"]
assert complete("train", "--run", "run") == ["runs"]
assert complete("train", "--run=run") == ["--run=runs"]
assert sorted(complete("evaluate", "runs/")) == ["runs/first", "runs/with blank"]
assert complete("evaluate", "run") == ["runs"]
assert "run.ini" in complete("inspect", "run") and "runs" in complete("inspect", "run")
assert complete("compare", "report", "run.") == ["run.ini"]

# What the script offers is taken: an option of each command's, by its help.
for command in (["train"], ["evaluate"], ["compare"], ["inspect"], ["list"], ["play"], ["probe"], ["compare", "report"],
                ["bench", "env"]):
    own = [option for option in complete(*command, "--") if "." not in option and option != "--help"]
    text = engram(*command, "--help")
    for option in own:
        assert option in text, (command, option)

for shell in ("fish", "bas"):
    refused("completion", shell, saying=f"'{shell}'")

script = engram("completion", "zsh")
assert script.startswith("#compdef engram\n")
zsh = shutil.which("zsh")
if zsh:
    (folder / "_engram").write_text(script)
    call(zsh, "-n", "_engram", saying=None)
else:
    print("not checked: the script for zsh, for there is no zsh")
