"""Environment steps a second: engram's environments from Python, beside the same loop in C++ and beside other packages.

Prints a Markdown table. Each figure is that of the fastest of many parts of the time, on one thread, with random actions
that were drawn before.

    python3 throughput.py --num-envs 4096
"""

import argparse
import json
import subprocess
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import engram
from engram.program import environment, program
from engram.registration import environment_id

# Of each task the environment of another package that it is the same as; None where none is installed by pip.
OTHERS = {
    "repeat_previous": ("popgym", "popgym.envs.repeat_previous:RepeatPreviousEasy"),
    "higher_lower": ("popgym", "popgym.envs.higher_lower:HigherLowerEasy"),
    "minigrid_memory": ("minigrid", "MiniGrid-MemoryS7-v0"),
    "tmaze": None,
}
# Environments of SyncVectorEnv, which steps them one after the other: more of them only take longer.
ONE_AFTER_THE_OTHER = 64


def steps_per_second(envs: gymnasium.vector.VectorEnv, seconds: float) -> float:
    """Of the fastest 128 steps, as engram bench does: other work on the machine only ever slows some down."""
    envs.action_space.seed(1)
    actions = [np.asarray(envs.action_space.sample()) for _ in range(128)]
    envs.reset(seed=1)
    fastest, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for action in actions:
            envs.step(action)
        fastest = min(fastest, (time.perf_counter() - begin) / len(actions))
    return envs.num_envs / fastest


def cpp_steps_per_second(command: str, task: str, num_envs: int, seconds: float) -> float:
    arguments = [command, "bench", "env", "--task", task, "--num_envs", str(num_envs), "--threads", "1", "--json"]
    arguments += ["--seconds", str(seconds)]
    printed = subprocess.run(arguments, env=environment(), check=True, capture_output=True, text=True).stdout
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
    parser.add_argument("--engram", help="the program, which times the loop in C++; by default the package's; '': none")
    arguments = parser.parse_args()
    command = str(program()) if arguments.engram is None else arguments.engram
    size, seconds = arguments.num_envs, arguments.seconds

    print("| task | environments | | steps a second | of the loop in C++ |")
    print("|---|--:|---|--:|--:|")
    for task in OTHERS:
        rows = []
        if command:
            rows.append((size, "engram, the loop in C++", cpp_steps_per_second(command, task, size, seconds)))
        rows.append((size, "engram.make_vec", steps_per_second(engram.make_vec(task, size, threads=1), seconds)))
        single = environment_id(task)
        for package, make in [
            ("engram", lambda: gymnasium.make(single, disable_env_checker=True)),
            *filter(None, [made_by_others(task)]),
        ]:
            few = min(size, ONE_AFTER_THE_OTHER)
            envs = SyncVectorEnv([make] * few, autoreset_mode=AutoresetMode.SAME_STEP)
            rows.append((few, f"{package}, Gymnasium's SyncVectorEnv", steps_per_second(envs, seconds)))
            envs.close()
        reference = rows[0][2] if command else np.nan
        for num_envs, what, rate in rows:
            print(f"| {task} | {num_envs} | {what} | {rate:,.0f} | {rate / reference:.2%} |", flush=True)


if __name__ == "__main__":
    main()
