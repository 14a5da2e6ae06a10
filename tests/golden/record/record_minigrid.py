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
    (4, 0, 0): "r", (4, 0, 1): "R", (4, 2, 0): "e", (4, 2, 1): "E",
    (4, 4, 0): "y", (4, 4, 1): "Y", (4, 4, 2): "L", (5, 4, 0): "K", (8, 1, 0): "g",
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

    def right(self, game, choice):
        return step_towards(game, game.success_pos, into=True)

    def wrong(self, game, choice):
        return step_towards(game, game.failure_pos, into=True)

    def success(self, game):
        return tuple(game.agent_pos) == game.success_pos


def cell_of(game, thing):
    """Where it lies in the grid."""
    return next((i % game.width, i // game.width) for i, what in enumerate(game.grid.grid) if what is thing)


def pose(game):
    return {"agent": [int(game.agent_pos[0]), int(game.agent_pos[1]), int(game.agent_dir)]}


class RedBlueDoors:
    env = "red_blue_doors"
    sizes = {"MiniGrid-RedBlueDoors-6x6-v0": 24, "MiniGrid-RedBlueDoors-8x8-v0": 24}

    def layout(self, game):
        red, blue = cell_of(game, game.red_door), cell_of(game, game.blue_door)
        size = game.height
        assert (game.width, red[0], blue[0]) == (2 * size, size // 2, size // 2 + size - 1)
        return {"size": size, **pose(game), "red_y": red[1], "blue_y": blue[1]}

    def ends(self, game):
        return ()

    def open(self, game, door):
        action = step_towards(game, cell_of(game, door), into=False)
        return Actions.toggle if action is None else action

    def right(self, game, choice):
        return self.open(game, game.blue_door if game.red_door.is_open else game.red_door)

    def wrong(self, game, choice):
        return self.open(game, game.blue_door)

    def success(self, game):
        return self.red_was_open and game.blue_door.is_open

    def look(self, game):
        """Before a step."""
        self.red_was_open = game.red_door.is_open


class DoorKey:
    env = "door_key"
    sizes = {"MiniGrid-DoorKey-5x5-v0": 24, "MiniGrid-DoorKey-6x6-v0": 18, "MiniGrid-DoorKey-8x8-v0": 18,
             "MiniGrid-DoorKey-16x16-v0": 12}

    def find(self, game, kind):
        return next((what for what in game.grid.grid if what is not None and what.type == kind), None)

    def layout(self, game):
        door, key = self.find(game, "door"), self.find(game, "key")
        size, (wall_x, door_y) = game.height, cell_of(game, door)
        assert game.width == size and cell_of(game, self.find(game, "goal")) == (size - 2, size - 2) and door.is_locked
        return {"size": size, **pose(game), "wall_x": wall_x, "door_y": door_y, "key": list(cell_of(game, key))}

    def ends(self, game):
        return ((game.width - 2, game.height - 2),)

    def right(self, game, choice):
        door, key = self.find(game, "door"), self.find(game, "key")

        def at(thing, then):
            action = step_towards(game, cell_of(game, thing), into=False)
            return then if action is None else action

        if door.is_locked and game.carrying is None:
            return at(key, Actions.pickup)
        try:
            if not door.is_open:
                return at(door, Actions.toggle)
            return step_towards(game, self.ends(game)[0], into=True)
        except LookupError:  # the key lies in the way
            return at(key, Actions.pickup)

    def wrong(self, game, choice):
        """Mostly what there is to do with keys and doors."""
        if game.step_count > 300:
            return self.right(game, choice)
        return choice.choice((Actions.pickup, Actions.drop, Actions.toggle, Actions.forward, Actions.forward, Actions.left,
                              Actions.right)) if choice.random() < 0.5 else self.right(game, choice)

    def success(self, game):
        return tuple(game.agent_pos) == self.ends(game)[0]


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
            action = choice.randrange(7) if choice.random() < strays else wanted(game, choice)
        if hasattr(task, "look"):
            task.look(game)
        observation, reward, terminated, truncated, _ = game.step(int(action))
        actions.append(int(action))
        rewards.append(float(reward))
    assert not any(rewards[:-1])
    return {**episode, "length": len(actions), "actions": "".join(map(str, actions)), "last_reward": rewards[-1],
            "end": "terminated" if terminated else "truncated", "views": list(views), "obs": seen,
            "success": task.success(game)}


def main():
    for task in (Memory(), RedBlueDoors(), DoorKey()):
        for name, episodes in task.sizes.items():
            for index in range(episodes):
                print(json.dumps(record(task, name, index), separators=(",", ":")))


main()
