"""Records ../minigrid.jsonl: episodes of MiniGrid's tasks as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_minigrid.py > ../minigrid.jsonl

Of every six episodes one goes straight to its end, one straight to a failure where there is one, two stray from the
way at random, one goes about for a while, and one acts at random. Episode i of each size is reset with seed i.
"""

import collections
import json
import random

import gymnasium
import minigrid  # registers the environments
import numpy
from minigrid.core.actions import Actions
from minigrid.core.constants import DIR_TO_VEC

# A character for each cell of a view: its three codes.
SYMBOLS = {
    (0, 0, 0): "?", (1, 0, 0): ".", (2, 5, 0): "#", (5, 1, 0): "k", (6, 1, 0): "b",
}


def text_of(image):
    """The cells of an observation, image[column][row], row by row, the farthest first."""
    assert image.shape == (7, 7, 3) and image.dtype == numpy.uint8
    return "".join(SYMBOLS[tuple(int(code) for code in image[column, row])] for row in range(7) for column in range(7))


def turn_towards(direction, wanted):
    return Actions.right if (wanted - direction) % 4 == 1 else Actions.left


def step_towards(game, cell, into, avoid=()):
    """The next action on a shortest way into the cell, or to stand before it and face it; None once that is so.
    Throws LookupError where there is no way that avoids these cells."""
    cell = tuple(int(number) for number in cell)

    def passable(place):
        what = game.grid.get(*place)
        return place not in avoid and (what is None or what.can_overlap())

    def there(place, direction):
        if into:
            return place == cell
        return (place[0] + DIR_TO_VEC[direction][0], place[1] + DIR_TO_VEC[direction][1]) == cell

    start = (tuple(int(number) for number in game.agent_pos), int(game.agent_dir))
    if there(*start):
        return None
    first = {start: None}
    waiting = collections.deque([start])
    while waiting:
        state = waiting.popleft()
        place, direction = state
        ahead = (int(place[0] + DIR_TO_VEC[direction][0]), int(place[1] + DIR_TO_VEC[direction][1]))
        after = {Actions.left: (place, (direction + 3) % 4), Actions.right: (place, (direction + 1) % 4)}
        if passable(ahead):
            after[Actions.forward] = (ahead, direction)
        for action, reached in after.items():
            if reached in first:
                continue
            first[reached] = action if state == start else first[state]
            if there(*reached):
                return first[reached]
            waiting.append(reached)
    raise LookupError(f"no way to {cell}")


class Memory:
    env = "minigrid_memory"
    sizes = {f"MiniGrid-Memory{size}-v0": episodes for size, episodes in
             (("S7", 24), ("S9", 18), ("S11", 18), ("S13", 18), ("S13Random", 18), ("S17Random", 24))}

    def layout(self, game):
        hall_end, middle = int(game.success_pos[0]) - 1, game.height // 2
        kinds = [game.grid.get(*place).type for place in ((1, middle - 1), (hall_end + 1, middle - 2))]
        assert game.width == game.height and tuple(game.agent_pos)[1] == middle and game.agent_dir == 0
        return {"size": game.width, "hall_end": hall_end, "x": int(game.agent_pos[0]), "object": kinds[0],
                "upper": kinds[1]}

    def ends(self, game):
        """Cells that end the episode."""
        return game.success_pos, game.failure_pos

    def right(self, game):
        return step_towards(game, game.success_pos, into=True)

    def wrong(self, game):
        return step_towards(game, game.failure_pos, into=True)

    def success(self, game):
        return tuple(game.agent_pos) == game.success_pos


class Roaming:
    """The next action on a way through cells drawn at random, `count` of them; None after that."""

    def __init__(self, choice, count):
        self.choice, self.count, self.cell = choice, count, None

    def __call__(self, game, avoid):
        while self.count > 0:
            if self.cell is not None:
                try:
                    action = step_towards(game, self.cell, into=True, avoid=avoid)
                except LookupError:
                    action = None
                if action is not None:
                    return action
                self.count -= 1
            self.cell = (self.choice.randrange(game.width), self.choice.randrange(game.height))
        return None


def record(task, name, index):
    """Plays and returns one episode."""
    choice = random.Random(f"{name} {index}")
    game = gymnasium.make(name).unwrapped
    observation, _ = game.reset(seed=index)
    assert not game.see_through_walls and game.agent_view_size == 7
    episode = {"env": task.env, "name": name, "seed": index, **task.layout(game)}
    strays = (0, 0, 0.1, 0.4, 0, 1)[index % 6]
    roaming = Roaming(choice, 12 if index % 6 == 4 else 0)
    wanted = task.wrong if index % 6 == 1 or index % 12 == 3 else task.right
    views, seen, actions, rewards = {}, [], [], []
    terminated = truncated = False
    while True:
        seen.append(views.setdefault(text_of(observation["image"]), len(views)))
        if terminated or truncated:
            break
        action = roaming(game, task.ends(game))
        if action is None:
            action = choice.randrange(7) if choice.random() < strays else wanted(game)
        observation, reward, terminated, truncated, _ = game.step(int(action))
        actions.append(int(action))
        rewards.append(float(reward))
    assert not any(rewards[:-1])
    return {**episode, "length": len(actions), "actions": "".join(map(str, actions)), "last_reward": rewards[-1],
            "end": "terminated" if terminated else "truncated", "views": list(views), "obs": seen,
            "success": task.success(game)}


def main():
    for task in (Memory(),):
        for name, episodes in task.sizes.items():
            for index in range(episodes):
                print(json.dumps(record(task, name, index), separators=(",", ":")))


main()
