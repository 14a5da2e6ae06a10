"""Records ../dark_key_to_door.jsonl: episodes of AMAGO's RoomKeyDoor as its own code plays them (format: ../README.md).
usage: git clone https://github.com/UT-Austin-RPL/amago
       git -C amago checkout 2d85600cff8db8483f417f566d4d9f80ba259e01
       pip install -r requirements.txt && python3 record_dark_key_to_door.py amago > ../dark_key_to_door.jsonl

Of AMAGO only the file of this task is loaded. Episode i is made after random.seed(i). Of every three episodes one is
played at random, one by a player who knows both places, and one by a player who learns them now and then.
"""

import importlib.util
import json
import pathlib
import random
import sys
import types

import numpy

# What RoomKeyDoor is made with; (start None: random).
SETTINGS = (
    {"size": 3, "attempt_steps": 12, "steps": 90},
    {"size": 3, "attempt_steps": 12, "steps": 90, "randomize_actions": True},
    {"size": 4, "attempt_steps": 30, "steps": 95, "start": True},
    {"size": 4, "attempt_steps": 7, "steps": 64, "dark": False},
    {"size": 2, "attempt_steps": 1, "steps": 9},
    {"size": 5, "attempt_steps": 40, "steps": 120},
    {"size": 9, "attempt_steps": 50, "steps": 500},
    {"size": 8, "attempt_steps": 50, "steps": 500, "randomize_actions": True},
)
EPISODES = 6


def room_class(checkout):
    package = types.ModuleType("amago.envs")
    package.AMAGO_ENV_LOG_PREFIX = ""
    sys.modules["amago"], sys.modules["amago.envs"] = types.ModuleType("amago"), package
    path = pathlib.Path(checkout, "amago/envs/builtin/toy_gym.py")
    spec = importlib.util.spec_from_file_location("toy_gym", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RoomKeyDoor


def floats(numbers):
    """float32 numbers, written as short as reads back to the same."""
    assert numbers.dtype == numpy.float32
    written = [float(str(number)) for number in numbers]
    assert [numpy.float32(number) for number in written] == list(numbers)
    return written


def towards(room, target, choice):
    """An action that leads to the target, or stays there."""
    off = [int(target[i] - room.pos[i]) for i in (0, 1)]
    wanted = [[(off[0] > 0) - (off[0] < 0), 0]] * (off[0] != 0) + [[0, (off[1] > 0) - (off[1] < 0)]] * (off[1] != 0)
    return room.dirs.index(choice.choice(wanted or [[0, 0]]))


def record(room, settings, index):
    choice = random.Random(f"{settings} {index}")
    random.seed(index)
    observation, _ = room.reset()
    named = [[0, -1], [-1, 0], [0, 1], [1, 0], [0, 0]]
    episode = {
        "env": "dark_key_to_door", "seed": index, "size": settings["size"], "attempt_steps": settings["attempt_steps"],
        "steps": settings["steps"], "full_state": not settings.get("dark", True),
        "directions": "".join(str(named.index(direction)) for direction in room.dirs),
        "start": room.start.tolist(), "key": room.key.tolist(), "door": room.goal.tolist(),
    }
    observations, actions, rewards = [floats(observation)], [], []
    results = []  # of attempts that came to their end: whether the door was opened
    done = False
    while not done:
        knows = (0, 1, choice.random() < 0.6)[index % 3]
        action = towards(room, room.goal if room.has_key else room.key, choice) if knows else choice.randrange(5)
        returns, had_key = room.reset_next_step, room.has_key
        observation, reward, done, truncated, _ = room.step(action)
        assert done == truncated
        observations.append(floats(observation))
        actions.append(action)
        rewards.append(int(reward))
        assert rewards[-1] == reward
        if room.reset_next_step and not returns:
            results.append(had_key and reward == 1)
    assert len(actions) == settings["steps"]
    after = results[results.index(True) + 1:] if True in results else []
    return {**episode, "length": len(actions), "actions": "".join(map(str, actions)), "rewards": "".join(map(str, rewards)),
            "obs": observations, "success": bool(after) and all(after)}


def main():
    make = room_class(sys.argv[1])
    for settings in SETTINGS:
        size = settings["size"]
        room = make(dark=settings.get("dark", True), size=size, max_episode_steps=settings["attempt_steps"],
                    meta_rollout_horizon=settings["steps"],
                    start_location=(size // 2, size // 2) if settings.get("start") else "random",
                    randomize_actions=settings.get("randomize_actions", False))
        for index in range(EPISODES if size < 6 else EPISODES // 2):
            print(json.dumps(record(room, settings, index), separators=(",", ":")))


main()
