"""Records ../popgym.jsonl: episodes of POPGym's games as the package itself plays them (format: ../README.md).
usage: pip install -r requirements.txt && python3 record_popgym.py > ../popgym.jsonl

Of every four episodes of a game that asks for answers one is answered without an error, one with a single error, one
with an error now and then, and one at random. How the other games are played each of them says at its policies. Episode
i of each size is reset with seed i.
"""

import json
import random
import sys

import numpy
from gymnasium.spaces import flatten
from popgym.envs import (autoencode, battleship, concentration, count_recall, higher_lower, minesweeper,
                         multiarmed_bandit, repeat_first, repeat_previous)

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


class Concentration:
    """Policies: perfect memory; pairs known, and found so slowly that the last one comes with the last step; perfect
    memory with an action in five at random; at random."""
    env, original, episodes = "concentration", concentration.Concentration, (12, 8, 12)

    def layout(self, game):
        kinds = {2: "colours", 13: "ranks"}
        self.known = {}
        return {"num_decks": game.deck.num_decks, "kind": kinds[game.facedown_card],
                "cards": digits(game.deck_idx_type[game.deck.idx])}

    def act(self, game, policy, choice):
        kinds, up = game.deck_idx_type[game.deck.idx], set(game.deck["face_up_idx"])
        shown = {card: kind for card, kind in enumerate(game.obs) if kind != game.facedown_card}
        self.known.update(shown)
        down = [card for card in range(len(kinds)) if card not in up]
        first = game.deck["in_play_idx"]
        if policy == 3 or policy == 2 and choice.random() < 0.2:
            return choice.randrange(len(kinds))
        if policy == 1:
            left = game.episode_length - game.curr_step
            slack = left - len(down) + len(first)
            if not first and up and slack % 2:
                return choice.choice(sorted(up))
            wanted = slack < 2 or not up
            if not first:
                self.pairs = wanted
                if wanted or len(set(kinds[down])) > 1:
                    return choice.choice(down)
                return choice.choice(sorted(up))
            return choice.choice([card for card in down if card != first[0]
                                  and (kinds[card] == kinds[first[0]]) == self.pairs])
        known = [card for card in down if card in self.known]
        unknown = [card for card in down if card not in self.known] or down
        if first:
            like = [card for card in known if card != first[0] and self.known[card] == self.known[first[0]]]
            return choice.choice(like or [card for card in unknown if card != first[0]])
        for card in known:
            if sum(self.known[card] == self.known[other] for other in known) > 1:
                return card
        return choice.choice(unknown)

    def success(self, game):
        return len(game.deck["face_up"]) == game.deck.num_cards

    def observations(self, game, observations):
        """Of each the cards that look other than before, with what they show."""
        rows, before = [], [game.facedown_card] * game.deck.num_cards
        for observation in observations:
            now = parts(game, observation)
            rows.append([number for card, kind in enumerate(now) if kind != before[card] for number in (card, kind)])
            before = now
        return rows


class OneNumber:
    def observations(self, game, observations):
        return digits(number for row in observations for number in parts(game, row))


class MultiarmedBandit(OneNumber):
    """Policies: the best arm after a look at each; the arm that paid best so far, with an action in ten at random; an
    arm until it does not pay; at random."""
    env, original, episodes = "multiarmed_bandit", multiarmed_bandit.MultiarmedBandit, (12, 8, 8)

    def layout(self, game):
        self.pulls, self.paid, self.arm, self.regret = [1] * game.num_bandits, [0.5] * game.num_bandits, 0, 0.0
        return {"arms": game.num_bandits, "steps": game.max_episode_length,
                "probabilities": [float(probability) for probability in game.bandits]}

    def act(self, game, policy, choice):
        arms = range(game.num_bandits)
        if policy == 0:
            self.arm = game.num_steps if game.num_steps < game.num_bandits else int(numpy.argmax(game.bandits))
        elif policy == 3 or policy == 1 and choice.random() < 0.1:
            self.arm = choice.choice(arms)
        elif policy == 1:
            self.arm = max(arms, key=lambda arm: self.paid[arm] / self.pulls[arm])
        elif not self.last:
            self.arm = choice.choice(arms)
        if game.num_steps >= game.max_episode_length // 2:
            self.regret += float(max(game.bandits) - game.bandits[self.arm])
        return self.arm

    def seen(self, observation):
        self.last = bool(observation)
        self.pulls[self.arm] += 1
        self.paid[self.arm] += self.last

    def success(self, game):
        most = 0.1 * (game.max_episode_length - game.max_episode_length // 2)
        assert abs(self.regret - most) > 1e-3
        return self.regret < most


class HigherLower(OneNumber):
    """Policies: counting cards; the same with one error; by the card in sight; at random."""
    env, original, episodes = "higher_lower", higher_lower.HigherLower, (16, 12, 12)

    def layout(self, game):
        self.misjudged = self.erred = False
        return {"num_decks": game.num_decks, "cards": dealt(game.deck, game.deck.ranks_idx)}

    def act(self, game, policy, choice):
        rank = int(game.deck.show("player", ["ranks_idx"]).item())
        left = numpy.full(13, 4 * game.num_decks) - game.state
        higher, lower = int(left[rank + 1:].sum()), int(left[:rank].sum())
        action = int(lower > higher) if lower != higher else choice.randrange(2)
        if policy == 1 and not self.erred and lower != higher and len(game.deck) < 26:
            action, self.erred = 1 - action, True
        elif policy == 2:
            action = int(rank > 6)
        elif policy == 3:
            action = choice.randrange(2)
        self.misjudged |= (higher, lower)[action] < (higher, lower)[1 - action]
        return action

    def success(self, game):
        return not self.misjudged


class Minesweeper(OneNumber):
    """Policies: all fields without a mine; the same, going back to an open one now and then; the same, and a mine with
    an action in ten; at random."""
    env, original, episodes = "minesweeper", minesweeper.MineSweeper, (24, 20, 20)

    def layout(self, game):
        squares = game.hidden_grid.flatten()
        return {"side": game.dims[0], "mines": "".join(".#"[int(square == 1)] for square in squares)}

    def act(self, game, policy, choice):
        squares = game.hidden_grid.flatten()
        clear, mines, viewed = ([int(at) for at in numpy.flatnonzero(squares == kind)] for kind in (0, 1, 2))
        if policy == 1 and viewed and choice.random() < 0.2:
            return choice.choice(viewed)
        if policy == 2 and choice.random() < 0.1:
            return choice.choice(mines)
        return choice.randrange(len(squares)) if policy == 3 else choice.choice(clear)

    def success(self, game):
        return bool((game.hidden_grid != 0).all())


class Battleship(OneNumber):
    """Policies: the ships, with a square in four at random; everything else first, then the ships; the next square to
    the last one, or with an action in three any; at random."""
    env, original, episodes = "battleship", battleship.Battleship, (16, 12, 12)

    def layout(self, game):
        return {"side": game.board_size, "ships": "".join(".#"[square] for square in game.board.flatten())}

    def act(self, game, policy, choice):
        squares = game.board_size**2
        ships, guesses = game.board.flatten(), game.guesses.flatten()
        at_ship = [at for at in range(squares) if ships[at] and not guesses[at]]
        at_water = [at for at in range(squares) if not ships[at] and not guesses[at]]
        if policy == 1:
            self.last = choice.choice(at_water or at_ship)
        elif policy == 0 and choice.random() < 0.75:
            self.last = choice.choice(at_ship)
        elif policy == 2 and choice.random() < 0.67:
            self.last = (self.last + 1) % squares
        else:
            self.last = choice.randrange(squares)
        return self.last

    def success(self, game):
        return bool((game.guesses[game.board == 1] == 1).all())


def play(task, game, index):
    """Plays and returns one episode of a game that asks for no answers."""
    choice = random.Random(f"{task.env} {type(game).__name__} {index}")
    observation, _ = game.reset(seed=index)
    layout = task.layout(game)
    task.last = 0
    observations, actions, rewards = [observation], [], []
    terminated = truncated = False
    while not terminated and not truncated:
        action = int(task.act(game, index % 4, choice))
        board = game.action_space.nvec[1] if hasattr(game.action_space, "nvec") else None
        observation, reward, terminated, truncated, _ = game.step(action if board is None else divmod(action, board))
        if hasattr(task, "seen"):
            task.seen(observation)
        observations.append(observation)
        actions.append(action)
        rewards.append(float(reward))
    values = sorted(set(rewards))
    return {
        "env": task.env, "size": type(game).__name__, "seed": index, **layout, "length": len(actions),
        "actions": actions, "reward_values": values, "rewards": digits(values.index(reward) for reward in rewards),
        "obs": task.observations(game, observations), "end": "terminated" if terminated else "truncated",
        "success": task.success(game),
    }


def main():
    for task in (RepeatFirst(), RepeatPrevious(), Autoencode(), CountRecall()):
        for size, episodes in zip(SIZES, task.episodes):
            game = getattr(sys.modules[task.module.__module__], task.module.__name__ + size)()
            for index in range(episodes):
                print(json.dumps(record(task, game, index), separators=(",", ":")))
    for task in (Concentration(), MultiarmedBandit(), HigherLower(), Minesweeper(), Battleship()):
        for size, episodes in zip(SIZES, task.episodes):
            game = getattr(sys.modules[task.original.__module__], task.original.__name__ + size)()
            for index in range(episodes):
                print(json.dumps(play(task, game, index), separators=(",", ":")))


main()
