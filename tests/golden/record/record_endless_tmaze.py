"""Records ../endless_tmaze.jsonl: episodes of the endless T-maze as its first author's code plays them (format:
../README.md).
usage: git clone https://github.com/Quartz-Admirer/Adaptive-Memory-Envs
       git -C Adaptive-Memory-Envs checkout a1c5938f828533e0263d4821d0193ad8abd56b6a
       pip install -r requirements.txt && python3 record_endless_tmaze.py Adaptive-Memory-Envs > ../endless_tmaze.jsonl

Of the repository only the files of this task are loaded. Episode i is made after random.seed(i). Of every four episodes
one is played by a player who knows all corridors, one by a player who forgets that now and then, one by a player who
guesses the turns, and one at random.
"""

import importlib.util
import json
import pathlib
import random
import sys
import types

import numpy

SETTINGS = (
    {"num_corridors": 5, "lengths": {"mode": "fixed", "max": 10}},
    {"num_corridors": 5, "lengths": {"mode": "uniform", "max": 10, "min": 1}},
    {"num_corridors": 1, "lengths": {"mode": "fixed", "max": 3}},
    {"num_corridors": 10, "lengths": {"mode": "uniform", "max": 3, "min": 1}},
    {"num_corridors": 3, "lengths": {"mode": "fixed", "max": 1}, "penalty": -0.5, "goal_reward": 2.0},
)
EPISODES = 8
FORWARD, LEFT, RIGHT = 0, 1, 2


def environment_class(checkout):
    folder = pathlib.Path(checkout, "FFM_SHM/popgym/envs")
    sys.modules["popgym"], sys.modules["popgym.envs"] = types.ModuleType("popgym"), types.ModuleType("popgym.envs")
    for name in ("endless_tmaze", "endless_tmaze_env"):
        spec = importlib.util.spec_from_file_location(f"popgym.envs.{name}", folder / f"{name}.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.EndlessTMazeGym


def floats(numbers):
    """float32 numbers, written as short as reads back to the same."""
    assert numbers.dtype == numpy.float32
    written = [float(str(number)) for number in numbers]
    assert [numpy.float32(number) for number in written] == list(numbers)
    return written


def chosen(maze, choice, index):
    right_turn = RIGHT if maze.current_hint == 1 else LEFT
    ahead = maze.x < maze.corridor_length
    known = FORWARD if ahead else right_turn
    if index % 4 == 0:
        return known
    if index % 4 == 1:
        return choice.choice((LEFT, RIGHT)) if ahead and choice.random() < 0.6 else known
    if index % 4 == 2:
        return FORWARD if ahead else choice.choice((LEFT, RIGHT))
    return choice.randrange(3)


def record(game, settings, index):
    choice = random.Random(f"{settings} {index}")
    random.seed(index)
    observations, actions, rewards, corridors = [game.reset()[0]], [], [], []
    maze = game._base_env
    over = False
    while not over:
        if maze.current_corridor == len(corridors):
            corridors.append([maze.corridor_length, int(maze.current_hint)])
        # Nobody loiters for ever but the last episode of a setting, which ends by the number of its steps.
        actions.append(LEFT if index == EPISODES - 1 and maze.x == 0 else chosen(maze, choice, index))
        observation, reward, terminated, truncated, info = game.step(actions[-1])
        observations.append(observation)
        rewards.append(float(reward))
        over = terminated or truncated
    return {"corridor_length": maze.corridor_length_max, "num_corridors": maze.num_corridors,
            "penalty": maze.penalty, "goal_reward": maze.goal_reward, "corridors": corridors, "length": len(actions),
            "actions": "".join(map(str, actions)), "rewards": rewards, "obs": [floats(row) for row in observations],
            "end": "truncated" if truncated else "terminated", "success": info["success"] == 1}


def main():
    for settings in SETTINGS:
        for index in range(EPISODES):
            game = environment_class(sys.argv[1])({"penalty": -0.01, "goal_reward": 1.0, **settings})
            print(json.dumps({"env": "endless_tmaze", **record(game, settings, index)}, separators=(",", ":")))


main()
