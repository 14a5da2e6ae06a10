"""Trained agents: loading one of a run directory, and acting with it in environments of any kind."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from engram import _native
from engram.agent_module import AgentModule
from engram.options import option_texts

Array: TypeAlias = np.ndarray | torch.Tensor
Observation: TypeAlias = Array | Mapping[str, Array]


def load(
    run: str | os.PathLike[str], *, weights: str = "best", device: str | torch.device = "auto", **task_settings: Any
) -> Agent:
    """Loads the agent of a run directory.

    Args:
        run: The run directory.
        weights: "best", of the best evaluation during training, or "last".
        device: "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:N".
        **task_settings: Options of the task to play instead of those that it was trained with, such as
            ``corridor_length=50``, as long as it sees and does the same there.

    Raises:
        ValueError: If there is no such run, its files are damaged, or the agent cannot play that task.
    """
    return Agent(_native.TrainedAgent(os.fspath(run), weights, str(device), task_settings_text(task_settings)))


class Agent:
    """A trained agent, made by :func:`load`.

    ``state = agent.initial_state(batch)``, then ``action, state = agent.act(observation, state)`` in a loop, and
    ``state.reset(mask)`` where episodes end.

    Attributes:
        config: The settings of its run by section, as in ``config["memory"]["name"]``, with the options of the task
            that it plays.
        task: Name of the task.
        device: Where it computes.
        action_names: What its actions 0, 1, ... are called; empty where its action is continuous.
        action_numbers: Of a continuous action the numbers, each with its name, its least and its most; else empty.
    """

    config: dict[str, dict[str, Any]]
    task: str
    device: torch.device
    action_names: tuple[str, ...]
    action_numbers: tuple[tuple[str, float, float], ...]

    def __init__(self, native: _native.TrainedAgent) -> None:
        self._native = native
        self.config = {}
        for key, value in json.loads(native.config).items():
            section, _, option = key.partition(".")
            self.config.setdefault(section, {})[option] = value
        task = native.task
        self.task = task.name
        self.device = native.device
        self.action_names = tuple(task.action_names)
        self.action_numbers = tuple(task.action_numbers)
        self._dtype: torch.dtype = getattr(torch, task.observation_dtype)
        self._parts = [_Part(part.name, part.kind, part.shape, part.values) for part in task.observation_parts]
        self._values_are_of_actions = native.values_are_of_actions

    def __repr__(self) -> str:
        return f"<engram.Agent: {self.config['memory']['name']} on {self.task}, {self.device}>"

    def initial_state(self, batch: int | None = None, *, seed: int = 0) -> AgentState:
        """The state of `batch` rows, each at the beginning of an episode with an empty memory.

        Args:
            batch: Number of rows; None: a single environment, whose observations and actions have no axis of rows.
            seed: What sampled actions are drawn by, 0 .. 2**64 - 1; row i draws from a stream of its own.

        Raises:
            ValueError: If `batch` is less than 1, or `seed` out of its range.
        """
        if batch is not None and batch < 1:
            raise ValueError(f"batch is {batch}; a state has at least 1 row")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed is {seed}; it is one of 0 .. 2**64 - 1")
        return AgentState(self._native.initial_state(batch or 1, seed), batch, self._values_are_of_actions)

    def act(
        self, observation: Observation, state: AgentState, reward: Array | float | None = None, *, greedy: bool = True
    ) -> tuple[Any, AgentState]:
        """Chooses the next action of each row.

        Args:
            observation: What the agent sees, [batch, *shape] in the task's type (uint8 or a floating type); of a task
                whose observations have several parts a mapping from their names, or all of them flat, one after the
                other. NumPy arrays or tensors.
            state: Where the agent stands; it stays as it is.
            reward: What the last actions earned, [batch]; rows that begin an episode ignore it. May be left out for an
                agent that does not see rewards (``network.previous_reward_width`` 0).
            greedy: The most probable actions (of a continuous one the means), or else ones drawn from the policy, by
                the state's seed.

        Returns:
            The actions, int64 [batch], or of a continuous action float32 [batch, numbers] within its bounds, as an
            array or a tensor like the observation; and the state to go on from.

        Raises:
            ValueError: For an observation or reward of another shape, type or batch, one with values that the task
                does not have, or an episode that is longer than any of the task.
        """
        like = _Like.of(observation)
        observations = self._rows(observation, state)
        rewards = self._rewards(reward, state)
        native = state._native.act(observations, rewards, greedy)
        following = AgentState(native, state.batch, self._values_are_of_actions, like)
        return following._shown(self._as_taken(native.actions)), following

    def _as_taken(self, actions: torch.Tensor) -> torch.Tensor:
        """The numbers of a continuous action as a task takes them, within its bounds."""
        if not self.action_numbers:
            return actions.to(torch.int64)
        least, most = (torch.tensor(bounds, device=actions.device) for bounds in list(zip(*self.action_numbers))[1:])
        return actions.clamp(least, most)

    def to_torch(self) -> AgentModule:
        """Its network as a torch module, in evaluation mode, to fine-tune, compile or save: a copy of the weights.

        Of whole episodes it computes what :meth:`act` computes of their steps.
        """
        return AgentModule.of_network(self._native.network()).eval()

    def _rows(self, observation: Observation, state: AgentState) -> torch.Tensor:
        """The observation as the network takes it, checked: [rows, *shape], or [rows, elements] of several parts."""
        lead = () if state.batch is None else (state.batch,)
        rows = len(state._native)
        if not isinstance(observation, Mapping):
            sizes = [part.elements for part in self._parts]
            shape = self._parts[0].shape if len(self._parts) == 1 else (sum(sizes),)
            whole = self._checked("observation", observation, (*lead, *shape)).reshape(rows, *shape)
            for part, values in zip(self._parts, whole.reshape(rows, -1).split(sizes, dim=1)):
                part.check_values(values)
            return whole
        names = [part.name for part in self._parts]
        if set(observation) != set(names):
            found = ", ".join(map(str, observation))
            raise ValueError(f"observation has the parts {found}; {self.task}'s has {', '.join(names)}")
        columns = []
        for part in self._parts:
            values = self._checked(f"observation['{part.name}']", observation[part.name], (*lead, *part.shape))
            part.check_values(values)
            columns.append(values.reshape(rows, part.elements))
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0].reshape(rows, *self._parts[0].shape)

    def _checked(self, name: str, array: Array, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor in the task's type of an array that must have this shape."""
        tensor = _as_tensor(name, array)
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has the shape {list(tensor.shape)}; here {self.task}'s has {list(shape)}")
        wanted = str(self._dtype).removeprefix("torch.")
        if self._dtype == torch.uint8:
            if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
                raise ValueError(f"{name} is {tensor.dtype}; {self.task}'s are {wanted}")
            if tensor.dtype != torch.uint8 and bool(((tensor < 0) | (tensor > 255)).any()):
                raise ValueError(f"{name} has values outside 0 .. 255; {self.task}'s are {wanted}")
        elif not tensor.is_floating_point():
            raise ValueError(f"{name} is {tensor.dtype}; {self.task}'s are {wanted}")
        elif not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} has values that are not finite")
        return tensor.to(self._dtype)

    def _rewards(self, reward: Array | float | None, state: AgentState) -> torch.Tensor:
        rows = len(state._native)
        if reward is None:
            if self._native.sees_previous_reward and not state._native.all_begin:
                raise ValueError("reward is missing: the agent sees what its last action earned")
            return torch.zeros(rows)
        tensor = torch.tensor(float(reward)) if isinstance(reward, numbers.Real) else _as_tensor("reward", reward)
        shape = () if state.batch is None else (state.batch,)
        if tuple(tensor.shape) != shape:
            raise ValueError(f"reward has the shape {list(tensor.shape)}; the state's is {list(shape)}")
        if not bool(tensor.isfinite().all()):
            raise ValueError("reward has values that are not finite")
        return tensor.to(torch.float32).reshape(rows)


class AgentState:
    """Where an agent stands in its episodes: what it remembers of each row, its last actions, and which rows begin.

    Attributes:
        batch: Number of rows; None: a single environment, without an axis of rows.
    """

    batch: int | None

    def __init__(
        self, native: _native.ActingState, batch: int | None, values_are_of_actions: bool, like: _Like | None = None
    ) -> None:
        self.batch = batch
        self._native = native
        self._values_are_of_actions = values_are_of_actions
        self._like = like

    def reset(self, mask: Array | bool | None = None) -> None:
        """Rows begin an episode with their next action: they forget all, in place.

        Args:
            mask: Which ones, bool [batch]; None: all.

        Raises:
            ValueError: For a mask of another shape or type.
        """
        rows = len(self._native)
        shape = [] if self.batch is None else [self.batch]
        if mask is None:
            mask = torch.ones(shape, dtype=torch.bool)
        tensor = torch.tensor(bool(mask)) if isinstance(mask, (bool, np.bool_)) else _as_tensor("mask", mask)
        if tensor.dtype != torch.bool or list(tensor.shape) != shape:
            raise ValueError(f"mask is {tensor.dtype} {list(tensor.shape)}; this state's is bool {shape}")
        self._native.begin_episodes(tensor.reshape(rows))

    @property
    def features(self) -> Any:
        """What the memory put out in the last act: float32 [batch, width]."""
        return self._step(0)

    @property
    def probabilities(self) -> Any:
        """Of the actions in the last act: float32 [batch, actions]. Of a continuous action the means of its numbers and
        then the logarithms of their standard deviations, [batch, 2 x numbers]."""
        return self._step(1)

    @property
    def values(self) -> Any:
        """What the agent expected in the last act, float32: of each action [batch, actions], or of the moment [batch],
        where its critic is one of states, as PPO's is."""
        values = self._step(2)
        return values if self._values_are_of_actions else values[..., 0]

    def _step(self, index: int) -> Any:
        if self._like is None:
            raise ValueError("the agent has not acted yet: what it computes is in the state that act returns")
        return self._shown(self._native.step()[index])

    def _shown(self, tensor: torch.Tensor) -> Any:
        assert self._like is not None
        tensor = tensor if self.batch is not None else tensor[0]
        return tensor.cpu().numpy() if self._like.device is None else tensor.to(self._like.device)


@dataclasses.dataclass(frozen=True)
class _Part:
    """A part of an observation (base/observation_spec.h)."""

    name: str
    kind: str  # "image", "vector" or "tokens"
    shape: tuple[int, ...]
    values: int  # of tokens

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def check_values(self, tensor: torch.Tensor) -> None:
        """Raises ValueError for what is no token: it would be looked up beside the table of all."""
        if self.kind == "tokens" and bool(((tensor < 0) | (tensor >= self.values) | (tensor != tensor.round())).any()):
            raise ValueError(f"observation {self.name} has values that are none of its tokens 0 .. {self.values - 1}")


@dataclasses.dataclass(frozen=True)
class _Like:
    """What results are to be like: tensors on a device, or arrays, where there is none."""

    device: torch.device | None

    @staticmethod
    def of(observation: Observation) -> _Like:
        array = next(iter(observation.values()), None) if isinstance(observation, Mapping) else observation
        return _Like(array.device if isinstance(array, torch.Tensor) else None)


def _as_tensor(name: str, array: Array) -> torch.Tensor:
    """A tensor over the same memory where that can be written, else over a copy."""
    if isinstance(array, torch.Tensor):
        return array.detach()
    if not isinstance(array, (np.ndarray, np.generic)):
        raise ValueError(f"{name} is a {type(array).__name__}; it is a NumPy array or a tensor")
    try:
        return torch.from_numpy(np.require(array, requirements=["C", "W"]))
    except TypeError as error:
        raise ValueError(f"{name} has the type {array.dtype}, which tensors do not have") from error


def task_settings_text(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Options of a task as the program takes them, from Python values."""
    return [(f"task.{name}", text) for name, text in option_texts(settings)]
