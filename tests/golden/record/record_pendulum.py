"""Records ../pendulum.jsonl: episodes of POPGym's pendulums as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_pendulum.py > ../pendulum.jsonl

Of every four episodes one is swung up and held there, one the same with a random torque now and then, one played at
random with torques beyond the bounds among them, and one spun as fast as it goes. Episode i of each size is reset with
seed i.

The package takes sine and cosine from the platform, whose last bit is not the same everywhere. Each episode is played
again with sine and cosine rounded correctly; where that shows in an observation or, as float32, in a reward, it is left
out, and standard error says so.
"""

import json
import math
import random
import sys

import numpy
from gymnasium.envs.classic_control import pendulum
from popgym.envs import noisy_position_only_pendulum, position_only_pendulum

from control_games import CorrectlyRounded, floats, watch_noise

KINDS = ((position_only_pendulum, "PositionOnlyPendulum"), (noisy_position_only_pendulum, "NoisyPositionOnlyPendulum"))
SIZES = ("Easy", "Medium", "Hard")
EPISODES = 4


class Player:
    """Plays one episode; `choose(state)` gives the torques."""

    def __init__(self, game, seed, choose):
        self.drawn = watch_noise(game)
        observation, _ = game.reset(seed=seed)
        self.start = [float(number) for number in game.state]
        self.actions, self.rewards, self.observations = [], [], [observation]
        truncated = False
        while not truncated:
            action = numpy.array([choose(game.state)], numpy.float32)
            observation, reward, terminated, truncated, _ = game.step(action)
            assert not terminated
            self.actions.append(action)
            self.rewards.append(float(reward))
            self.observations.append(observation)
        self.angle = float(game.state[0])


def swing_up(state):
    """By its energy until it is near the top, then by angle and speed."""
    angle, speed = state
    angle = (angle + math.pi) % (2 * math.pi) - math.pi
    if abs(angle) < 0.6:
        return -12 * angle - 3 * speed
    energy = speed**2 / 2 + 15 * (math.cos(angle) - 1)
    return 2 if energy * speed < 0 else -2


def policy(index, choice):
    kind = index % 4
    if kind == 0:
        return swing_up
    if kind == 1:
        return lambda state: choice.uniform(-2, 2) if choice.random() < 0.2 else swing_up(state)
    if kind == 2:
        return lambda state: choice.uniform(-3, 3)
    return lambda state: 2 if state[1] > 0 else -2


def main():
    for module, kind in KINDS:
        for size in SIZES:
            for index in range(EPISODES):
                game = getattr(module, kind + size)()
                played = Player(game, index, policy(index, random.Random(f"{kind}{size} {index}")))
                pendulum.np = CorrectlyRounded()
                taken = iter(played.actions)
                again = Player(getattr(module, kind + size)(), index, lambda state: next(taken)[0])
                pendulum.np = numpy
                if not numpy.array_equal(again.observations, played.observations) or not numpy.array_equal(
                    numpy.array(again.rewards, numpy.float32), numpy.array(played.rewards, numpy.float32)
                ):
                    print(f"{kind}{size}, seed {index}: left out, sine or cosine shows", file=sys.stderr)
                    continue
                episode = {
                    "env": "pendulum", "size": kind + size, "seed": index,
                    "noise": float(game.noise_sigma[0]) if played.drawn else 0.0,
                    "max_steps": game.max_episode_length, "start": played.start, "length": len(played.actions),
                    "actions": [floats(action) for action in played.actions], "rewards": played.rewards,
                    "obs": [floats(observation) for observation in played.observations],
                    "success": math.cos(played.angle) >= 0.95,
                }
                if played.drawn:
                    episode["drawn"] = played.drawn
                print(json.dumps(episode, separators=(",", ":")))


main()
