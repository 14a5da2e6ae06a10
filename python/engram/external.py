"""Environments of Gymnasium that engram's agents are trained in: what they look like to an agent, and their steps.

An observation consists of parts, in the order of its space:

- Box of uint8: an image, where it has two or three dimensions of 3 pixels and more. Height x width x channels, which is
  taken to be where the last of three dimensions is at most 4 and the first is more, is transposed to channels x height
  x width. Of other shapes: a vector, flattened; 255 stands for 1.
- Box of other numbers: a vector of float32, flattened.
- Discrete, MultiDiscrete, MultiBinary: tokens, things without an order.
- Tuple, Dict: the parts of their spaces.

All parts are uint8, or all are float32, where one of them has to be: bytes are then divided by 255.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

EnvMaker = Callable[[], gymnasium.Env]

_MOST_BYTE_VALUES = 256
_MOST_CHANNELS = 4
_SMALLEST_IMAGE = 3


@dataclass(frozen=True)
class Part:
    """A part of an observation.

    Attributes:
        name: of letters, digits and "_".
        path: keys and indices that lead to it in an observation.
        kind: what it means to a network.
        shape: as the network sees it; of an image channels x height x width.
        values: of tokens: how many there are; otherwise 0.
        first: of tokens, what the first one is in an observation; int64 of the space's shape, or a scalar.
        transposed: whether its channels come last in an observation.
        is_bytes: whether uint8 holds it.
    """

    name: str
    path: tuple[str | int, ...]
    kind: Literal["image", "vector", "tokens"]
    shape: tuple[int, ...]
    values: int = 0
    first: Any = 0
    transposed: bool = False
    is_bytes: bool = True

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape))

    def text(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"{self.name} {self.kind} {sizes}" + (f" of {self.values}" if self.kind == "tokens" else "")


class ObservationRows:
    """How a batch of observations becomes rows [N, elements] of uint8 or float32.

    Raises:
        ValueError: the space, or a part of it, is none that an agent can see.
    """

    def __init__(self, space: spaces.Space) -> None:
        self.parts = list(_parts(space, ()))
        if not self.parts:
            raise ValueError(f"observation space {space} is empty")
        self.dtype = np.dtype(np.uint8 if all(part.is_bytes for part in self.parts) else np.float32)
        self.elements = sum(part.elements for part in self.parts)

    def text(self) -> str:
        return f"{self.dtype.name}: " + " + ".join(part.text() for part in self.parts)

    def write(self, observations: Any, rows: np.ndarray) -> None:
        """Writes a batch of N observations, as a vector environment gives it, into rows [N, elements]."""
        self._write(observations, rows, np.asarray)

    def write_one(self, observation: Any, row: np.ndarray) -> None:
        """The same of one observation, row [elements]."""
        self._write(observation, row[None], lambda value: np.asarray(value)[None])

    def _write(self, observations: Any, rows: np.ndarray, as_batch: Callable[[Any], np.ndarray]) -> None:
        begin = 0
        for part in self.parts:
            values = observations
            for key in part.path:
                values = values[key]
            rows[:, begin : begin + part.elements] = self._columns(part, as_batch(values), len(rows))
            begin += part.elements

    def _columns(self, part: Part, batch: np.ndarray, size: int) -> np.ndarray:
        if part.kind == "tokens":
            tokens = (batch - part.first).reshape(size, part.elements)
            if tokens.min() < 0 or tokens.max() >= part.values:
                raise ValueError(f"observation {part.name!r} has a token outside its {part.values} values: {batch}")
            return tokens
        if part.transposed:
            batch = np.moveaxis(batch, -1, 1)
        columns = batch.reshape(size, part.elements)
        return columns / np.float32(255) if part.is_bytes and self.dtype == np.float32 else columns


def _parts(space: spaces.Space, path: tuple[str | int, ...]) -> Iterator[Part]:
    name = re.sub(r"\W", "_", "_".join(map(str, path)), flags=re.ASCII) or "observation"
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _parts(inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _parts(inner, (*path, index))
    elif isinstance(space, spaces.Box) and space.dtype == np.uint8:
        yield _byte_part(name, path, space.shape)
    elif isinstance(space, spaces.Box):
        yield Part(name, path, "vector", (int(np.prod(space.shape)),), is_bytes=False)
    elif isinstance(space, spaces.Discrete):
        yield _token_part(name, path, (1,), int(space.n), int(space.start))
    elif isinstance(space, spaces.MultiDiscrete):
        yield _token_part(name, path, space.shape, int(space.nvec.max()), space.start)
    elif isinstance(space, spaces.MultiBinary):
        yield _token_part(name, path, space.shape, 2, 0)
    else:
        raise ValueError(
            f"observation space {name!r}, {space}, is none that an agent can see; it takes Box, Discrete, "
            "MultiDiscrete, MultiBinary, and Tuple and Dict of these"
        )


def _byte_part(name: str, path: tuple[str | int, ...], shape: tuple[int, ...]) -> Part:
    transposed = len(shape) == 3 and shape[2] <= _MOST_CHANNELS < shape[0]
    image = (shape[2], *shape[:2]) if transposed else (1, *shape) if len(shape) == 2 else shape
    if len(image) == 3 and min(image[1:]) >= _SMALLEST_IMAGE:
        return Part(name, path, "image", image, transposed=transposed)
    return Part(name, path, "vector", (int(np.prod(shape)),))


def _token_part(name: str, path: tuple[str | int, ...], shape: tuple[int, ...], values: int, first: Any) -> Part:
    return Part(name, path, "tokens", shape, values, first, is_bytes=values <= _MOST_BYTE_VALUES)


class VectorRows:
    """A vector environment of N as the library plays it (ForeignEnvs in agents/play/foreign_envs.h).

    Its arrays stay where they are, and reset() and step() rewrite them:
    action int32 [N], which the library writes; stepped uint8 [N], whether the action was taken, and then observation
    [N, elements] after it, reward float32 [N], end uint8 [N] (0 none, 1 terminated, 2 truncated), success uint8 [N];
    began uint8 [N], whether an episode has begun, and then first_observation [N, elements].

    Success is what "is_success" or "success" in the info of an episode's last step says; without either, none.
    """

    def __init__(self, env: VectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise ValueError(f'{env} does not say how it resets itself: metadata["autoreset_mode"] is missing')
        self._mode = AutoresetMode(mode)
        self._env = env
        self._space = ObservationRows(env.single_observation_space)
        self._first_action = int(env.single_action_space.start)
        self.size = env.num_envs
        self.action = np.zeros(self.size, np.int32)
        self.stepped = np.zeros(self.size, np.uint8)
        self.observation = np.zeros((self.size, self._space.elements), self._space.dtype)
        self.reward = np.zeros(self.size, np.float32)
        self.end = np.zeros(self.size, np.uint8)
        self.success = np.zeros(self.size, np.uint8)
        self.began = np.zeros(self.size, np.uint8)
        self.first_observation = np.zeros_like(self.observation)
        self._waiting = np.zeros(self.size, bool)  # ended, and reset by the next step

    def reset(self, seed: int) -> None:
        """Begins an episode in every environment."""
        observations, _ = self._env.reset(seed=seed)
        self._space.write(observations, self.first_observation)
        self._waiting[:] = False

    def step(self) -> None:
        """Takes a step with the actions."""
        actions = (self.action + self._first_action).astype(self._env.action_space.dtype)
        observations, rewards, terminated, truncated, info = self._env.step(actions)
        if not np.isfinite(rewards).all():
            raise ValueError(f"{self._env} gave rewards that are not finite: {rewards}")
        self._space.write(observations, self.observation)
        self.stepped[:] = ~self._waiting
        self.began[:] = self._waiting
        self.first_observation[self._waiting] = self.observation[self._waiting]
        self.reward[:] = rewards
        self.end[:] = np.where(terminated, 1, np.where(truncated, 2, 0))
        ended = np.logical_and(self.end != 0, ~self._waiting)
        self._waiting[:] = False
        self.success[:] = 0
        if not ended.any():
            return
        last_info = info.get("final_info", {}) if self._mode == AutoresetMode.SAME_STEP else info
        self.success[ended] = _successes(last_info, self.size)[ended]
        if self._mode == AutoresetMode.NEXT_STEP:
            self._waiting[:] = ended
            return
        self.began[:] = ended
        if self._mode == AutoresetMode.DISABLED:
            observations, _ = self._env.reset(options={"reset_mask": ended})
            self._space.write(observations, self.first_observation)
            return
        self.first_observation[ended] = self.observation[ended]
        self._write_final(info, ended)

    def _write_final(self, info: dict[str, Any], ended: np.ndarray) -> None:
        if "final_obs" not in info:
            raise ValueError(f'{self._env} resets in the same step and gives no info["final_obs"]')
        final = info["final_obs"]
        if isinstance(final, np.ndarray) and final.dtype == object:
            for row in np.flatnonzero(ended):
                self._space.write_one(final[row], self.observation[row])
        else:  # a batch, in which the other rows mean nothing
            batch = np.zeros_like(self.observation)
            self._space.write(final, batch)
            self.observation[ended] = batch[ended]


def _successes(info: dict[str, Any], size: int) -> np.ndarray:
    for key in ("is_success", "success"):
        if key in info:
            return np.asarray(info[key]).astype(bool) & np.asarray(info.get(f"_{key}", np.ones(size, bool)))
    return np.zeros(size, bool)


class Environments:
    """Where a run's environments come from (EnvironmentSource in agents/play/rollout.h), and what they look like.

    Args:
        training, evaluation: a function that makes one environment, or a vector environment; evaluation may be None.
        name: what the environments call themselves.
        max_episode_steps: of the longest episode.

    Raises:
        ValueError: an agent cannot see or do what these spaces hold, or the two differ.
    """

    def __init__(
        self,
        training: EnvMaker | VectorEnv,
        evaluation: EnvMaker | VectorEnv | None,
        name: str,
        max_episode_steps: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
    ) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise ValueError(f"action space {action_space} is not Discrete, the only one that agents act in")
        self._sources = {"training": training, "evaluation": evaluation}
        self._name = name
        self._max_episode_steps = max_episode_steps
        self._spaces = (observation_space, action_space)
        self._observation = ObservationRows(observation_space)
        self._made: dict[str, VectorEnv] = {}
        if isinstance(evaluation, VectorEnv):
            self._check_spaces(evaluation)

    @property
    def evaluates(self) -> bool:
        """Whether there are environments for evaluations."""
        return self._sources["evaluation"] is not None

    def settings(self) -> list[tuple[str, str]]:
        """What a run's config says of these environments, above all else."""
        facts = [
            ("task.name", "external"),
            ("task.id", self._name),
            ("task.observation", self._observation.text()),
            ("task.actions", str(self._spaces[1].n)),
            ("task.max_episode_steps", str(self._max_episode_steps)),
        ]
        if not self.evaluates:
            facts.append(("evaluation.final_episodes", "0"))
        return facts

    def defaults(self) -> list[tuple[str, str]]:
        """What a config that does not say otherwise means with these environments."""
        training = self._sources["training"]
        sizes = [("run.num_envs", str(training.num_envs))] if isinstance(training, VectorEnv) else []
        return [("run.device", "cpu"), *sizes]

    def make(self, purpose: Literal["training", "evaluation"], num_envs: int) -> VectorRows:
        """Environments for training or evaluations; a vector environment is as large as it is."""
        source = self._sources[purpose]
        if isinstance(source, VectorEnv):
            return VectorRows(source)
        if purpose in self._made:
            self._made.pop(purpose).close()  # of another number
        env = SyncVectorEnv([source] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
        self._made[purpose] = env
        self._check_spaces(env)
        return VectorRows(env)

    def close(self) -> None:
        """Closes what was made here; vector environments that were given stay open."""
        for env in self._made.values():
            env.close()

    def _check_spaces(self, env: VectorEnv) -> None:
        if (env.single_observation_space, env.single_action_space) != self._spaces:
            raise ValueError(
                f"{env} has the spaces {env.single_observation_space} and {env.single_action_space}; those of env are "
                f"{self._spaces[0]} and {self._spaces[1]}"
            )


def environments_of(
    env: str | EnvMaker | VectorEnv,
    eval_env: str | EnvMaker | VectorEnv | None,
    max_episode_steps: int | None,
) -> Environments:
    """The environments that engram.train() was given.

    Raises:
        ValueError: it was given something else, an agent cannot see or do what the spaces hold, or nothing says how
            long an episode is at most.
    """
    training = _source("env", env)
    if eval_env is not None:
        evaluation = _source("eval_env", eval_env)
    else:
        evaluation = None if isinstance(training, VectorEnv) else training
    if isinstance(training, VectorEnv):
        shown = training
        observation_space, action_space = training.single_observation_space, training.single_action_space
    else:
        shown = training()
        if not isinstance(shown, gymnasium.Env):
            raise ValueError(f"env() made {shown!r}, which is not a gymnasium.Env")
        shown.close()
        observation_space, action_space = shown.observation_space, shown.action_space
    spec = _spec(shown)
    if max_episode_steps is None:
        max_episode_steps = spec.max_episode_steps if spec is not None else None
    if max_episode_steps is None:
        raise ValueError(f"nothing says how long an episode of {shown} is at most: give max_episode_steps")
    name = spec.id if spec is not None else type(shown.unwrapped).__name__
    return Environments(training, evaluation, name, max_episode_steps, observation_space, action_space)


def _spec(env: gymnasium.Env | VectorEnv) -> EnvSpec | None:
    if env.spec is not None or not isinstance(env, VectorEnv):
        return env.spec
    try:
        return env.get_attr("spec")[0]  # SyncVectorEnv and AsyncVectorEnv have it of each environment alone
    except AttributeError:
        return None


def _source(argument: str, given: Any) -> EnvMaker | VectorEnv:
    if isinstance(given, VectorEnv):
        return given
    if isinstance(given, str):
        try:
            gymnasium.spec(given)
        except gymnasium.error.Error as error:
            raise ValueError(f"{argument} = {given!r}: {error}") from None
        return lambda: gymnasium.make(given)
    if callable(given) and not isinstance(given, gymnasium.Env):
        return given
    raise ValueError(
        f"{argument} = {given!r} is not allowed; it takes an id of Gymnasium, a function that makes an environment, or "
        "a vector environment"
    )
