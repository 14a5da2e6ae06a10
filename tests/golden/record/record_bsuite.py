"""Records ../bsuite.jsonl: episodes of bsuite's memory_len, memory_size and umbrella_length as the package itself plays
them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_bsuite.py > ../bsuite.jsonl

Of every four episodes one is answered rightly, one wrongly, and two at random. Each size has an environment of its own,
made with the package's loader and the seed 0.
"""

import json
import random

import numpy
from bsuite.experiments.memory_len import memory_len, sweep as memory_len_sweep
from bsuite.experiments.memory_size import memory_size, sweep as memory_size_sweep
from bsuite.experiments.umbrella_length import sweep as umbrella_sweep, umbrella_length


def digits(numbers):
    return "".join(str(int(number)) for number in numbers)


def played(game, answers):
    """One episode: what the environment returned at reset and after each of the actions, `answers(step)`."""
    moments, actions = [game.reset()], []
    while not moments[-1].last():
        actions.append(int(answers(len(actions))))
        moments.append(game.step(actions[-1]))
    observations = [moment.observation for moment in moments]
    assert all(row.shape == (1, row.size) and row.dtype == numpy.float32 for row in observations)
    assert all(moment.discount == 1 for moment in moments[1:-1]) and moments[-1].discount == 0
    return [row[0] for row in observations], actions, [float(moment.reward) for moment in moments[1:]]


def record_memory(game, choice, index):
    # The answer is that to the query; the episode's own is drawn by reset, so the last action is chosen when it comes.
    def answer(step):
        right = game._context[game._query]
        last = step == game._memory_length
        return (right, 1 - right, choice.randrange(2), choice.randrange(2))[index % 4] if last else choice.randrange(2)

    observations, actions, rewards = played(game, answer)
    assert not any(rewards[:-1])
    return {"memory_length": game._memory_length, "bits": game._num_bits, "context": digits(game._context),
            "query": int(game._query), "length": len(actions), "actions": digits(actions), "last_reward": rewards[-1],
            "obs": [[float(number) for number in row] for row in observations], "success": rewards[-1] > 0}


def record_umbrella(game, choice, index):
    def answer(step):
        right = game._need_umbrella
        return (right, 1 - right, choice.randrange(2), choice.randrange(2))[index % 4] if step == 0 else choice.randrange(2)

    observations, actions, rewards = played(game, answer)
    assert set(rewards) <= {-1.0, 1.0} and all(set(row[3:]) <= {0, 1} for row in observations)
    return {"chain_length": game._chain_length, "distractors": game._n_distractor, "length": len(actions),
            "actions": digits(actions), "rewards": "".join("+" if reward > 0 else "-" for reward in rewards),
            "obs": [[digits(row[:2]), float(row[2]), digits(row[3:])] for row in observations],
            "success": rewards[-1] > 0}


def main():
    for env, load, settings, record in (
        ("memory_chain", memory_len.load, memory_len_sweep.SETTINGS, record_memory),
        ("memory_chain", memory_size.load, memory_size_sweep.SETTINGS, record_memory),
        ("umbrella_chain", umbrella_length.load, umbrella_sweep.SETTINGS, record_umbrella),
    ):
        for setting in settings:
            game = load(**setting, seed=0)
            name = load.__module__.split(".")[-1].replace("umbrella_chain", "umbrella_length")
            choice = random.Random(f"{name} {setting}")
            for index in range(4):
                episode = {"env": env, "experiment": name, **record(game, choice, index)}
                print(json.dumps(episode, separators=(",", ":")))


main()
