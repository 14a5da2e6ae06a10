"""The examples that train on environments, and the one that times them, run."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


def printed(name, *arguments):
    command = [sys.executable, "-W", "error::DeprecationWarning", EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ppo_of_stable_baselines3_trains():
    pytest.importorskip("stable_baselines3")
    assert "return of 200 unseen episodes" in printed("sb3_ppo.py", "--steps", "2048")


def test_recurrent_ppo_of_sb3_contrib_trains():
    pytest.importorskip("sb3_contrib")
    assert "return of 200 unseen episodes" in printed("sb3_recurrent_ppo.py", "--steps", "2048")


def test_a_recurrent_ppo_in_one_file_learns():
    lines = printed("cleanrl_ppo.py", "--steps", "8192").splitlines()
    assert len(lines) == 2 and "success" in lines[-1]


def test_throughput_is_a_table():
    lines = printed("throughput.py", "--num-envs", "4", "--seconds", "0.02", "--engram", "").splitlines()
    assert lines[1].startswith("|---") and any("engram.make_vec" in line for line in lines)
