"""The program engram of the build that the package under test is of."""

import json
import pathlib
import subprocess

import pytest

import engram

SOURCE = pathlib.Path(__file__).resolve().parents[2]
AGENTS = SOURCE / "docs/agents/small"
PROGRAM = pathlib.Path(engram._native.__file__).parents[2] / "engram"


def run(*arguments):
    """What the program prints; skips the test where it was not built."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"))


def train(folder, memory, *options, task="tmaze", previous=4):
    """A run of some seconds of a small agent on the CPU. `previous`: widths of its previous action and reward."""
    run("train", folder, "--task.name", task, "--memory.name", memory, "--run.steps", 300, "--run.device", "cpu",
        "--network.hidden_width", 16, "--network.previous_action_width", previous,
        "--network.previous_reward_width", previous, "--evaluation.final_episodes", 10, *options)  # fmt: skip
    return folder
