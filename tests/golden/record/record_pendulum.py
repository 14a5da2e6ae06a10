"""Records ../pendulum.jsonl: episodes of POPGym's pendulums as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_pendulum.py > ../pendulum.jsonl

Of every four episodes one is swung up and held there, one the same with a random torque now and then, one played at
random with torques beyond the bounds among them, and one spun as fast as it goes. Episode i of each size is reset with
seed i.

The package takes sine and cosine from the platform, whose last bit is not the same everywhere. Each episode is played
again with sine and cosine rounded correctly; where that shows in an observation or, as float32, in a reward, it is left
out, and standard error says so.
"""

import copy
import decimal
import json
import math
import random
import sys

import numpy
from gymnasium.envs.classic_control import pendulum
from popgym.envs import noisy_position_only_pendulum, position_only_pendulum

KINDS = ((position_only_pendulum, "PositionOnlyPendulum"), (noisy_position_only_pendulum, "NoisyPositionOnlyPendulum"))
SIZES = ("Easy", "Medium", "Hard")
EPISODES = 4


class CorrectlyRounded:
    """numpy with sine and cosine rounded correctly."""

    def __getattr__(self, name):
        return getattr(numpy, name)

    @staticmethod
    def series(x, first):
        with decimal.localcontext(prec=200):
            square = decimal.Decimal(float(x)) ** 2
            term = total = decimal.Decimal(float(x)) if first else decimal.Decimal(1)
            for k in range(1, 300):
                term = -term * square / ((2 * k + first) * (2 * k + first - 1))
                total += term
            return numpy.float64(total)

    def sin(self, x):
        return self.series(x, 1)

    def cos(self, x):
        return self.series(x, 0)


def floats(numbers):
    """float32 numbers, written as short as reads back to the same."""
    numbers = numpy.asarray(numbers)
    assert numbers.dtype == numpy.float32
    written = [float(str(number)) for number in numbers]
    assert [numpy.float32(number) for number in written] == list(numbers)
    return written


class Player:
    """Plays one episode; `choose(state)` gives the torques."""

    def __init__(self, game, seed, choose):
        self.drawn = []
        if hasattr(game, "noise_sigma"):
            self.watch_noise(game)
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

    def watch_noise(self, game):
        add = type(game).add_noise_to_obs

        def watched(observation):
            noise = copy.deepcopy(game.np_random).normal(0, game.noise_sigma).astype(numpy.float32)
            noisy = add(game, observation)
            space = game.observation_space
            assert numpy.array_equal(noisy, numpy.clip(observation + noise, space.low, space.high))
            self.drawn.append(floats(noise))
            return noisy

        game.add_noise_to_obs = watched


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
