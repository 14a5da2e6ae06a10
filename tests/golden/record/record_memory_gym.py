"""Records ../memory_gym.jsonl: episodes of Memory Gym's Mortar Mayhem and Mystery Path as its code plays them (format:
../README.md).
usage: git clone https://github.com/MarcoMeter/endless-memory-gym
       git -C endless-memory-gym checkout a94f2b60d1769ea44df3226561488768e1dff9f4
       pip install gymnasium==0.29.0 pygame==2.4.0 "numpy<2"
       python3 record_memory_gym.py endless-memory-gym > ../memory_gym.jsonl

Episode i of a setting is reset with seed i. The grid forms are played as they are. The endless forms have no grid: there
the character that moves by pixels is exchanged for one that turns and walks a tile, as in the grid forms; all else is
the original's. Of every four episodes one is played by a player who knows what is hidden, two by one who forgets it now
and then, and one at random.
"""

import contextlib
import json
import random
import sys

sys.path.insert(0, sys.argv[1])
with contextlib.redirect_stdout(sys.stderr):  # what pygame says of itself
    import pygame
    from memory_gym import mystery_path_grid, pygame_assets
    from memory_gym.endless_mortar_mayhem import EndlessMortarMayhemEnv
    from memory_gym.endless_mystery_path import EndlessMysteryPathEnv
    from memory_gym.mortar_mayhem_b_grid import GridMortarMayhemTaskBEnv
    from memory_gym.mortar_mayhem_grid import GridMortarMayhemEnv
    from memory_gym.mystery_path_grid import GridMysteryPathEnv
    from memory_gym.pygame_assets import Command

EPISODES = 8
COMMANDS = list(Command.COMMANDS)
STEPS = ((0, -1), (-1, 0), (0, 1), (1, 0))  # up, left, down, right: as GridCharacterController numbers them
STAY, LEFT, RIGHT, FORWARD = range(4)

MORTAR = (
    ("sequence", {}),
    ("sequence", {"command_count": [3], "arena_size": 3, "allowed_commands": 9, "command_show_duration": [1],
                  "command_show_delay": [0], "explosion_delay": [4], "explosion_duration": [1],
                  "reward_command_failure": -0.5, "reward_episode_success": 0.7}),
    ("sequence", {"command_count": [2], "arena_size": 2, "allowed_commands": 4, "command_show_duration": [2],
                  "command_show_delay": [3], "explosion_delay": [3], "explosion_duration": [5]}),
    ("act", {}),
    ("act", {"command_count": [4], "arena_size": 6, "allowed_commands": 7, "explosion_delay": [5]}),
    ("endless", {"explosion_delay": [6], "explosion_duration": [2]}),
    ("endless", {"allowed_commands": 5, "command_show_duration": [1], "command_show_delay": [0],
                 "explosion_delay": [4], "explosion_duration": [1], "reward_command_success": 0.3,
                 "reward_new_command_success": 0.4, "reward_command_failure": -1.0}),
)
PATH = (
    (False, {}),
    (False, {"max_steps": 500, "reward_path_progress": 0.1, "reward_fall_off": -0.2, "reward_step": -0.01}),
    (True, {}),
    (True, {"stamina_level": 12, "max_steps": 400, "reward_fall_off": -0.3, "reward_step": -0.001}),
)


class Draws:
    """A generator that keeps what it drew, each as a number from 0 on."""

    def __init__(self, generator):
        self.generator, self.drawn = generator, []

    def integers(self, low, high):
        number = self.generator.integers(low, high)
        self.drawn.append(int(number) - low)
        return number

    def choice(self, things):
        self.drawn.append(int(self.generator.integers(0, len(things))))
        return things[self.drawn[-1]]


class RecordedPath(pygame_assets.MysteryPath):
    drawn = []  # of all paths of the episode

    def __init__(self, columns, rows, start, end, generator):
        draws = Draws(generator)
        super().__init__(columns, rows, start, end, draws)
        RecordedPath.drawn.append(draws.drawn)


pygame_assets.MysteryPath = mystery_path_grid.MysteryPath = RecordedPath


class TurningWalker:
    """GridCharacterController's turns and steps, for environments that place their character by its rectangle."""

    def __init__(self, agent, tile, columns, rows, wraps):
        self.sprite, self.rect, self.radius = agent.get_rotated_sprite(0)[0], agent.rect, agent.radius
        self.tile, self.columns, self.rows, self.wraps = int(tile), columns, rows, wraps
        self.facing, self.velocity, self.action = 0, pygame.math.Vector2(), STAY

    def get_rotated_sprite(self, angle):
        return self.sprite, self.rect

    def step(self, unused, boundary=None):
        """Takes self.action: what the environment passes says only where to go by pixels."""
        left, top = (int(boundary[0]), int(boundary[1])) if boundary is not None else (0, 0)
        x, y = (self.rect.center[0] - left) // self.tile, (self.rect.center[1] - top) // self.tile
        self.facing = (self.facing + (self.action == LEFT) - (self.action == RIGHT)) % 4
        if self.action == FORWARD:
            to_x, to_y = x + STEPS[self.facing][0], y + STEPS[self.facing][1]
            if self.wraps:
                to_x, to_y = to_x % self.columns, to_y % self.rows
            if 0 <= to_x < self.columns and 0 <= to_y < self.rows:
                self.rect.center = (self.rect.center[0] + (to_x - x) * self.tile,
                                    self.rect.center[1] + (to_y - y) * self.tile)
        return self.sprite, self.rect


def place(position):
    return [int(position[0]), int(position[1])]


def facing(game):
    return game.agent.facing if isinstance(game.agent, TurningWalker) else game.agent.face_direction.value


def towards(direction, looks):
    """The action that turns towards a direction, or walks there."""
    return (FORWARD, LEFT, LEFT, RIGHT)[(direction - looks) % 4]


def finish(actions, rewards, observations, end, success):
    values = sorted(set(rewards))
    return {"length": len(actions), "actions": "".join(map(str, actions)), "reward_values": values,
            "rewards": "".join(str(values.index(reward)) for reward in rewards), "obs": observations, "end": end,
            "success": success}


def player_errs(index, choice, rate):
    return index % 4 == 3 or (index % 4 != 0 and choice.random() < rate)


def record_mortar(form, changes, setting, index):
    kind = {"sequence": GridMortarMayhemEnv, "act": GridMortarMayhemTaskBEnv, "endless": EndlessMortarMayhemEnv}[form]
    game, choice = kind(), random.Random(f"mortar {setting} {index}")
    game.reset(seed=index, options=changes)
    size = game.arena.arena_size
    if form == "endless":
        game.agent = TurningWalker(game.agent, game.arena.tile_dim, size, size, wraps=True)
    longest = 4  # at which the player who knows all stops, as the original has no end
    start = place(game.normalized_agent_position)

    def seen(command):
        shown = str(COMMANDS.index(command)) if command else "-"
        return shown + "".join(map(str, [*place(game.normalized_agent_position), facing(game), int(game.arena.tiles_on)]))

    actions, rewards, done = [], [], False
    observations = [seen("" if form == "act" else game._commands[0])]
    while not done:
        x, y = place(game.normalized_agent_position)
        target = place(game._target_pos)
        ways = []
        for direction, (by_x, by_y) in enumerate(STEPS):
            off_x, off_y = target[0] - x, target[1] - y
            if form == "endless":  # the shorter way around
                off_x, off_y = (off_x + size // 2) % size - size // 2, (off_y + size // 2) % size - size // 2
            if by_x * off_x > 0 or by_y * off_y > 0:
                ways.append(direction)
        action = towards(facing(game) if facing(game) in ways else ways[0], facing(game)) if ways else STAY
        if player_errs(index, choice, 0.04):
            action = choice.randrange(4)
        shows = list(game._command_visualization or [])
        if form == "endless":
            game.agent.action = action
        rounds = len(game._commands)
        _, reward, done, _, _ = game.step([0, 0] if form == "endless" else action)
        actions.append(action)
        rewards.append(float(reward))
        observations.append(seen(shows[0] if shows else ""))
        if form == "endless" and len(game._commands) > longest and not done:
            break
    parameters = game.reset_params
    # Whether all commands were carried out. The original's `success` also counts a last one that failed.
    on_target = place(game.normalized_agent_position) == place(game._target_pos)
    success = bool(rounds == longest and not done if form == "endless"
                   else game._current_command == game.num_commands and on_target)
    commands = game._commands[:longest] if form == "endless" else game._commands
    commands = commands + ["stay"] * (longest - len(commands)) if form == "endless" else commands  # never shown
    return {"form": form, "arena_size": size, "allowed_commands": parameters["allowed_commands"],
            "show_duration": parameters.get("command_show_duration", [1])[0],
            "show_delay": parameters.get("command_show_delay", [0])[0],
            "explosion_delay": parameters["explosion_delay"][0],
            "explosion_duration": parameters["explosion_duration"][0],
            "command_reward": parameters["reward_command_success"],
            "sequence_reward": parameters["reward_new_command_success" if form == "endless" else "reward_episode_success"],
            "failure_reward": parameters["reward_command_failure"], "start": start,
            "commands": "".join(str(COMMANDS.index(command)) for command in commands),
            **finish(actions, rewards, observations, "terminated" if done else "truncated", success)}


class PathFinder:
    """Walks what it has found of the path; at its end tries a cell where it has not fallen yet."""

    def __init__(self, choice, origin, columns):
        self.choice, self.found, self.falls, self.aim, self.columns = choice, [origin], [], None, columns

    def saw(self, here, fell):
        if fell:
            self.falls.append(here)
        elif here not in self.found:
            self.found.append(here)
        if fell or here == self.aim:
            self.aim = None

    def action(self, here, looks):
        if here != self.found[-1]:
            aim = self.found[self.found.index(here) + 1]
        else:
            beside = [[here[0] + x, here[1] + y] for x, y in STEPS]
            inside = [cell for cell in beside if 0 <= cell[0] < self.columns and 0 <= cell[1] < 7]
            new = [cell for cell in inside if cell not in self.falls + self.found]
            aim = self.aim = self.aim or self.choice.choice(new or inside)
        return towards(STEPS.index((aim[0] - here[0], aim[1] - here[1])), looks)


def record_path(endless, changes, setting, index):
    game, choice = (EndlessMysteryPathEnv if endless else GridMysteryPathEnv)(), random.Random(f"path {setting} {index}")
    RecordedPath.drawn = []
    game.reset(seed=index, options=changes)
    segments = 3
    if endless:
        game.agent = TurningWalker(game.agent, game.tile_dim, 1000, 7, wraps=False)

    def cells():
        nodes = [node for segment in game.endless_path.path[:segments] for node in segment] if endless else \
            game.mystery_path.path[::-1]
        return [[int(node.x), int(node.y)] for node in nodes]

    def seen():
        return [*place(game.normalized_agent_position), facing(game), int(game.is_off_path)]

    path = cells()
    finder = PathFinder(choice, path[0], 8 * segments if endless else 7)
    actions, rewards, observations, done = [], [], [seen()], False
    while not done:
        here = place(game.normalized_agent_position)
        action = STAY
        if here in path and here != path[-1]:
            after = path[path.index(here) + 1]
            action = towards(STEPS.index((after[0] - here[0], after[1] - here[1])), facing(game))
        if index % 4 == 2 and here in finder.found:
            action = finder.action(here, facing(game))
        elif player_errs(index, choice, 0.1):
            action = choice.randrange(4)
        if index == EPISODES - 1:  # loiters
            action = choice.choice((STAY, LEFT, RIGHT, FORWARD) if len(actions) < 20 else (STAY, LEFT, RIGHT))
        if endless:
            game.agent.action = STAY if game.is_off_path else action
        known_falls, farthest = (list(game.fall_off_locations), game.max_x_reached) if endless else ([], 0)
        _, reward, done, _, _ = game.step(action)
        actions.append(action)
        rewards.append(float(reward))
        observations.append(seen())
        finder.saw(observations[-1][:2], game.is_off_path)
        if endless and observations[-1][:2] == path[-1]:
            break
    at_goal = observations[-1][:2] == path[-1]
    at = game.normalized_agent_position
    failed = endless and (game.stamina == 0 or (game.is_off_path and (at[0] < farthest or at in known_falls)))
    cut = game.t == game.max_episode_steps and not failed
    parameters = game.reset_params
    return {"endless": endless, "segments": segments if endless else 1, "stamina": parameters.get("stamina_level", 1),
            "max_steps": parameters["max_steps"] if parameters["max_steps"] > 0 else 1000000,
            # The endless original has no goal: its last cell here is a cell as any other.
            "goal_reward": parameters["reward_path_progress" if endless else "reward_goal"],
            "progress_reward": parameters["reward_path_progress"], "fall_reward": parameters["reward_fall_off"],
            "step_reward": parameters["reward_step"], "path": path, "draws": RecordedPath.drawn[:segments],
            **finish(actions, rewards, observations,
                     "truncated" if (endless and at_goal) or (cut and not at_goal) else "terminated", at_goal)}


def main():
    for setting, (form, changes) in enumerate(MORTAR):
        for index in range(EPISODES):
            print(json.dumps({"env": "mortar_mayhem", **record_mortar(form, changes, setting, index)},
                             separators=(",", ":")))
    for setting, (endless, changes) in enumerate(PATH):
        for index in range(EPISODES):
            print(json.dumps({"env": "mystery_path", **record_path(endless, changes, setting, index)},
                             separators=(",", ":")))


main()
