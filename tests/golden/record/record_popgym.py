"""Records ../popgym.jsonl: episodes of POPGym's card games as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_popgym.py > ../popgym.jsonl

Of every four episodes one is answered without an error, one with a single error, one with an error now and then, and
one at random. Episode i of each size is reset with seed i.
"""

import json
import random
import sys

import numpy
from gymnasium.spaces import flatten
from popgym.envs import autoencode, count_recall, repeat_first, repeat_previous

SIZES = ("Easy", "Medium", "Hard")
DIGITS = "0123456789abc"


def digits(kinds):
    return "".join(DIGITS[kind] for kind in kinds)


def dealt(deck, kinds):
    """The kinds of a full deck's cards in the order in which they are dealt, which is from its end."""
    assert len(deck) <= deck.num_cards == len(deck.idx)
    return digits(kinds[deck.idx[::-1]])


class RepeatFirst:
    env, module, episodes = "repeat_first", repeat_first.RepeatFirst, (20, 8, 5)

    def layout(self, game):
        return {"num_decks": game.deck.num_decks, "cards": dealt(game.deck, game.deck.suits_idx)}

    def right(self, game):
        return int(game.card)


class RepeatPrevious:
    env, module, episodes = "repeat_previous", repeat_previous.RepeatPrevious, (20, 20, 16)

    def layout(self, game):
        return {"num_decks": game.deck.num_decks, "k": game.k, "cards": dealt(game.deck, game.deck.suits_idx)}

    def right(self, game):
        hand = game.deck["player"]
        return int(game.deck.suits_idx[hand[-game.k]]) if len(hand) >= game.k else None


class Autoencode:
    env, module, episodes = "autoencode", autoencode.Autoencode, (20, 16, 12)

    def layout(self, game):
        return {"num_decks": game.deck.num_decks, "cards": dealt(game.deck, game.deck.suits_idx)}

    def right(self, game):
        if game.mode == autoencode.Mode.WATCH:
            return None
        return int(game.deck.suits_idx[game.deck["system"][-1]])


class CountRecall:
    env, module, episodes = "count_recall", count_recall.CountRecall, (20, 20, 16)

    def layout(self, game):
        kinds = {2: "colours", 4: "suits", 13: "ranks"}
        return {"num_decks": game.value_deck.num_decks, "kind": kinds[game.num_distinct_cards],
                "cards": dealt(game.value_deck, game.deck_idx_type),
                "queries": dealt(game.query_deck, game.deck_idx_type)}

    def right(self, game):
        return int(game.counts[game.query])


def parts(game, observation):
    """The numbers of an observation, in order. engram's one-hot codes of them are what gymnasium makes of it."""
    space = game.observation_space
    widths = {"Discrete": lambda: [space.n], "MultiDiscrete": lambda: space.nvec,
              "Tuple": lambda: [part.n for part in space]}[type(space).__name__]()
    numbers = [int(number) for number in numpy.atleast_1d(observation)]
    codes = numpy.concatenate([numpy.eye(width)[number] for width, number in zip(widths, numbers, strict=True)])
    assert numpy.array_equal(flatten(space, observation), codes)
    return numbers


def record(task, game, index):
    """Plays and returns one episode."""
    choice = random.Random(f"{task.env} {type(game).__name__} {index}")
    observation, _ = game.reset(seed=index)
    layout = task.layout(game)
    num_actions = int(game.action_space.n)
    observations, actions, rewards, asked = [observation], [], [], []
    errors = (0, 1, 0.2, None)[index % 4]
    only_error = choice.randrange(game.max_episode_length)
    terminated = truncated = False
    while not terminated and not truncated:
        right = task.right(game)
        action = right
        if right is not None and len(actions) >= only_error and errors == 1 and False not in asked:
            action = (right + 1) % num_actions
        elif right is None or errors is None or errors == 0.2 and choice.random() < errors:
            action = choice.randrange(num_actions)
        observation, reward, terminated, truncated, _ = game.step(action)
        observations.append(observation)
        actions.append(action)
        rewards.append(float(reward))
        if right is not None:
            asked.append(reward > 0)
            assert (action == right) == (reward > 0)
    assert terminated and len(actions) == game.max_episode_length
    answer_reward = max(map(abs, rewards))
    signs = {answer_reward: "+", -answer_reward: "-", 0.0: "0"}
    return {
        "env": task.env, "size": type(game).__name__, "seed": index, **layout, "length": len(actions), "actions": actions,
        "answer_reward": answer_reward, "rewards": "".join(signs[reward] for reward in rewards),
        "obs": digits(number for row in observations for number in parts(game, row)), "success": all(asked),
    }


def main():
    for task in (RepeatFirst(), RepeatPrevious(), Autoencode(), CountRecall()):
        for size, episodes in zip(SIZES, task.episodes):
            game = getattr(sys.modules[task.module.__module__], task.module.__name__ + size)()
            for index in range(episodes):
                print(json.dumps(record(task, game, index), separators=(",", ":")))


main()
