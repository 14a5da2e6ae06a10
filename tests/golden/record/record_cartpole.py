"""Records ../cartpole.jsonl: episodes of POPGym's cart-poles as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_cartpole.py > ../cartpole.jsonl

Of every five episodes one is balanced to its end, one with a random push now and then, one at random, one until it is
let fall some time, and one until it is let fall so that it falls with the very last step. Episode i of each size is
reset with seed i.

The package takes sine and cosine from the platform, whose last bit is not the same everywhere, and a pole's errors
double every nine steps. Each episode is played again with sine and cosine rounded correctly; where that shows in an
observation, it is left out, and standard error says so.
"""

import json
import random
import sys

import numpy
from gymnasium.envs.classic_control import cartpole
from popgym.envs import noisy_position_only_cartpole, position_only_cartpole, velocity_only_cartpole

from control_games import CorrectlyRounded, floats, watch_noise

KINDS = (
    (position_only_cartpole, "PositionOnlyCartPole", "positions"),
    (velocity_only_cartpole, "VelocityOnlyCartPole", "velocities"),
    (noisy_position_only_cartpole, "NoisyPositionOnlyCartPole", "positions"),
)
SIZES = ("Easy", "Medium", "Hard")
EPISODES = 5


class Player:
    """Plays one episode; `choose(t, state)` gives the actions."""

    def __init__(self, game, seed, choose):
        self.drawn = watch_noise(game)
        observation, _ = game.reset(seed=seed)
        self.start = [float(number) for number in game.state]
        self.actions, self.rewards, self.observations = [], [], [observation]
        self.terminated = self.truncated = False
        while not self.terminated and not self.truncated:
            action = choose(len(self.actions), game.state)
            observation, reward, self.terminated, self.truncated, _ = game.step(action)
            self.actions.append(action)
            self.rewards.append(float(reward))
            self.observations.append(observation)


def balance(state):
    x, x_dot, theta, theta_dot = state
    return int(0.3 * x + 0.6 * x_dot + 8 * theta + 1.5 * theta_dot > 0)


def policy(index, seed, let_go):
    choice = random.Random(seed)
    kind = index % 5
    if kind == 0:
        return lambda t, state: balance(state)
    if kind == 1:
        return lambda t, state: choice.randrange(2) if choice.random() < 0.3 else balance(state)
    if kind == 2:
        return lambda t, state: choice.randrange(2)
    if kind == 3:
        return lambda t, state: balance(state) if t < let_go else int(state[2] < 0)
    return lambda t, state: balance(state) if t < let_go else choice.randrange(2)


def play(make, index):
    """Episode `index`: the game, and what was played."""
    game = make()
    longest = game.max_episode_length
    choice = random.Random(f"{type(game).__name__} {index}")
    if index % 5 != 4:
        return game, Player(game, index, policy(index, choice.random(), choice.randrange(20, longest - 20)))
    while True:
        game = make()
        player = Player(game, index, policy(index, choice.random(), longest - 30))
        if player.terminated and player.truncated:
            return game, player


def same_when_rounded_correctly(make, index, played):
    cartpole.np = CorrectlyRounded()
    try:
        game = make()
        again = Player(game, index, lambda t, state: played.actions[t] if t < len(played.actions) else 0)
    finally:
        cartpole.np = numpy
    return len(again.actions) == len(played.actions) and numpy.array_equal(again.observations, played.observations)


def main():
    for module, kind, sees in KINDS:
        for size in SIZES:
            make = getattr(module, kind + size)
            for index in range(EPISODES):
                game, played = play(make, index)
                if not same_when_rounded_correctly(make, index, played):
                    print(f"{kind}{size}, seed {index}: left out, sine or cosine shows", file=sys.stderr)
                    continue
                assert len(set(played.rewards)) == 1 and len(played.actions) <= game.max_episode_length
                assert played.truncated == (len(played.actions) == game.max_episode_length)
                episode = {
                    "env": "cartpole", "size": kind + size, "seed": index, "sees": sees,
                    "noise": float(game.noise_sigma[0]) if played.drawn else 0.0,
                    "max_steps": game.max_episode_length, "start": played.start, "length": len(played.actions),
                    "actions": "".join(map(str, played.actions)), "reward": played.rewards[0],
                    "end": "terminated" if played.terminated else "truncated",
                    "obs": [floats(observation) for observation in played.observations],
                }
                if played.drawn:
                    episode["drawn"] = played.drawn
                episode["success"] = not played.terminated
                print(json.dumps(episode, separators=(",", ":")))


main()
