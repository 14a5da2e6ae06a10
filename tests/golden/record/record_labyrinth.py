"""Records ../labyrinth.jsonl: episodes of POPGym's labyrinths as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_labyrinth.py > ../labyrinth.jsonl

Of every three episodes one is walked cell by cell, depth first, one the same with a random step now and then, and one at
random. Episode i of each size is reset with seed i.
"""

import json
import random
import warnings

import numpy
from popgym.envs import labyrinth_escape, labyrinth_explore

warnings.simplefilter("ignore")
SIZES = (("Easy", 6), ("Medium", 3), ("Hard", 3))
OFFSETS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # left, right, up, down; y, x


class Walker:
    """Goes where it has not been, and back where there is no such cell beside it."""

    def __init__(self):
        self.path, self.been = [], set()

    def action(self, game, choice):
        place = tuple(int(number) for number in game.position)
        if not self.path or self.path[-1] != place:
            self.path = self.path[:self.path.index(place)] if place in self.path else self.path
            self.path.append(place)
        self.been.add(place)
        side = len(game.maze.grid)
        ways = []
        for action, (y, x) in enumerate(OFFSETS):
            to = (place[0] + y, place[1] + x)
            if 0 <= to[0] < side and 0 <= to[1] < side and game.maze.grid[to] != 1 and to not in self.been:
                ways.append(action)
        if ways:
            return choice.choice(ways)
        if len(self.path) < 2:
            return choice.randrange(4)
        back = self.path[-2]
        return OFFSETS.index((back[0] - place[0], back[1] - place[1]))


def digits(numbers):
    return "".join(str(int(number)) for number in numbers)


def record(env, game, size, index):
    choice, walker = random.Random(f"{env} {size} {index}"), Walker()
    observations, actions, rewards = [game.reset(seed=index)[0]], [], []
    grid = [digits(row) for row in game.maze.grid]
    over = False
    while not over:
        walked = walker.action(game, choice)
        at_random = index % 3 == 2 or (index % 3 == 1 and choice.random() < 0.2)
        actions.append(choice.randrange(4) if at_random else walked)
        observation, reward, terminated, truncated, _ = game.step(actions[-1])
        observations.append(observation)
        rewards.append(float(reward))
        over = terminated or truncated
    assert all(row.shape == (10,) and row.dtype == numpy.int32 for row in observations)
    values = sorted(set(rewards))
    return {"episode_length": game.max_episode_length, "grid": grid, "length": len(actions), "actions": actions,
            "reward_values": values, "rewards": "".join(str(values.index(reward)) for reward in rewards),
            "obs": [digits(row) for row in observations], "end": "terminated" if terminated else "truncated",
            "success": bool(terminated)}


def main():
    for env, module in (("labyrinth_escape", labyrinth_escape), ("labyrinth_explore", labyrinth_explore)):
        name = "".join(word.capitalize() for word in env.split("_"))
        for size, episodes in SIZES:
            for index in range(episodes):
                game = getattr(module, name + size)()
                print(json.dumps({"env": env, "size": size, "seed": index, **record(env, game, size, index)},
                                 separators=(",", ":")))


main()
