"""A trained agent acts in an environment that engram knows nothing of: a T-maze written here in NumPy.

    python examples/python/act_in_a_loop.py [RUN]

RUN is the run directory of an agent that was trained in the passive T-maze (docs/tasks/tmaze.md).
"""

import sys

import numpy as np

import engram


class TMazes:
    """`batch` mazes in lockstep: a sign at the start says at which end of the junction the goal is."""

    def __init__(self, batch: int, length: int, seed: int):
        self.length = length
        self.goal = np.random.default_rng(seed).choice([-1, 1], batch)
        self.x, self.y, self.steps = np.zeros(batch, int), np.zeros(batch, int), 0

    def observation(self) -> np.ndarray:
        at_end = self.x == self.length
        sign = self.goal if self.steps == 0 else np.zeros_like(self.goal)
        return np.stack([at_end, np.where(at_end, self.y, sign)], axis=1).astype(np.float32)

    def step(self, action: np.ndarray) -> bool:
        """Takes a step with each action, +x, +y, -x, -y, and says whether the episodes have ended."""
        x = self.x + (action == 0) - (action == 2)
        y = self.y + (action == 1) - (action == 3)
        is_open = (x >= 0) & (x <= self.length) & ((y == 0) | ((x == self.length) & (abs(y) <= 1)))
        self.x, self.y = np.where(is_open, x, self.x), np.where(is_open, y, self.y)
        self.steps += 1
        return self.steps > self.length


def solved(run: str, batch: int = 100) -> float:
    """The fraction of the mazes in which the agent of a run finds the goal."""
    agent = engram.load(run)
    mazes = TMazes(batch, agent.config["task"]["corridor_length"], seed=0)
    state = agent.initial_state(batch)
    ended = False
    while not ended:
        action, state = agent.act(mazes.observation(), state)
        ended = mazes.step(action)
    return float(np.mean(mazes.y == mazes.goal))


if __name__ == "__main__":
    print(f"{solved(sys.argv[1] if len(sys.argv) > 1 else 'docs/agents/small/tmaze'):.0%} of the mazes are solved")
