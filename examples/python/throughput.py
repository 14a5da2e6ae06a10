"""Environment steps a second: engram's environments from Python, beside the same loop in C++ and beside other packages.

Prints a Markdown table. Each figure is that of the fastest of many parts of the time, on one thread, with random actions
that were drawn before.

    python3 throughput.py --num-envs 4096
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import engram
from engram.registration import environment_id

# Of each task the environment of another package that it is the same as; None where none is installed by pip.
OTHERS = {
    "repeat_previous": ("popgym", "popgym.envs.repeat_previous:RepeatPreviousEasy"),
    "higher_lower": ("popgym", "popgym.envs.higher_lower:HigherLowerEasy"),
    "minigrid_memory": ("minigrid", "MiniGrid-MemoryS7-v0"),
    "tmaze": None,
}


def steps_per_second(envs: gymnasium.vector.VectorEnv, seconds: float) -> float:
    """Of the fastest part: other work on the machine only ever slows one down."""
    envs.action_space.seed(1)
    actions = [np.asarray(envs.action_space.sample()) for _ in range(32)]
    envs.reset(seed=1)
    fastest, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for action in actions:
            envs.step(action)
        fastest = min(fastest, (time.perf_counter() - begin) / len(actions))
    return envs.num_envs / fastest


def program() -> str | None:
    """The engram program: the package's own, or one on the path."""
    own = pathlib.Path(engram.__file__).parent / "bin" / "engram"
    return str(own) if own.exists() else shutil.which("engram")


def cpp_steps_per_second(command: str, task: str, num_envs: int, seconds: float) -> float:
    arguments = [command, "bench", "env", "--task", task, "--num_envs", str(num_envs), "--threads", "1", "--json"]
    printed = subprocess.run([*arguments, "--seconds", str(seconds)], check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[0])["steps_per_second_one_core"]


def made_by_others(task: str) -> tuple[str, Callable[[], gymnasium.Env]] | None:
    """The package and what makes one environment, where it is installed."""
    if OTHERS[task] is None:
        return None
    package, name = OTHERS[task]
    try:
        __import__(package)
    except ImportError:
        return None
    if ":" in name:
        return package, gymnasium.envs.registration.load_env_creator(name)
    return package, lambda: gymnasium.make(name, disable_env_checker=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=3, help="for each figure")
    parser.add_argument("--engram", default=program(), help="the program, which times the loop in C++")
    arguments = parser.parse_args()
    size, seconds = arguments.num_envs, arguments.seconds

    print("| task | steps a second of | | of the loop in C++ |")
    print("|---|---|--:|--:|")
    for task in OTHERS:
        rows = {}
        if arguments.engram:
            rows["engram, the loop in C++"] = cpp_steps_per_second(arguments.engram, task, size, seconds)
        rows["engram.make_vec"] = steps_per_second(engram.make_vec(task, size, threads=1), seconds)
        single = environment_id(task)
        for package, make in [
            ("engram", lambda: gymnasium.make(single, disable_env_checker=True)),
            *filter(None, [made_by_others(task)]),
        ]:
            envs = SyncVectorEnv([make] * size, autoreset_mode=AutoresetMode.SAME_STEP)
            rows[f"{package}, Gymnasium's SyncVectorEnv"] = steps_per_second(envs, seconds)
            envs.close()
        reference = rows.get("engram, the loop in C++", np.nan)
        for what, rate in rows.items():
            print(f"| {task} | {what} | {rate:,.0f} | {rate / reference:.2%} |", flush=True)


if __name__ == "__main__":
    main()
