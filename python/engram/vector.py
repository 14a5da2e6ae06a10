"""The tasks as environments of Gymnasium: many that are stepped together (make_vec), or one (Env)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from engram import _native
from engram.options import option_texts

__all__ = ["Env", "VectorEnv", "make_vec"]

Array = np.ndarray | torch.Tensor
Observation = Array | dict[str, Array]

# A stream of random numbers has the number of its environment in 32 bits.
NUM_STREAMS = 2**32
METADATA = {"render_modes": ["rgb_array"], "render_fps": 8}


def make_vec(
    name: str,
    num_envs: int = 1,
    *,
    device: str = "cpu",
    seed: int | None = None,
    run_seed: int = 1,
    threads: int | None = None,
    copy: bool = False,
    render_mode: str | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    **options: Any,
) -> VectorEnv:
    """Makes environments of one task that are stepped together.

    Args:
        name: A task or a preset (`engram list`).
        num_envs: How many environments.
        device: "cpu", "cuda", "cuda:N", or "auto": a GPU where there is one.
        seed: What the first reset takes if it is given none; without either it is drawn.
        run_seed: Decides what the task draws once for all of its episodes; most tasks draw nothing.
        threads: Of the CPU that share a step; by default as many as are worth it.
        copy: Observations are the caller's own. Without it they are views of memory that the next step rewrites.
        render_mode: "rgb_array" for render(), on the CPU.
        autoreset_mode: What happens to an environment whose episode has ended.
        **options: The task's own (`engram list NAME`), without "task.".

    Raises:
        ValueError: For an unknown name or option, or a value that is not allowed.
    """
    _check_int("num_envs", num_envs, 1, 2**31 - 1)
    _check_int("run_seed", run_seed, 0, 2**64 - 1)
    if threads is not None:
        _check_int("threads", threads, 1, 1024)
    if seed is not None:
        _first_environment(seed, num_envs)
    _check_render_mode(render_mode)
    device = _native.device_of(device)
    if device == "cpu":
        environments = _native.CpuEnvironments(name, option_texts(options), run_seed, num_envs, threads)
    elif render_mode is not None:
        raise ValueError(f"render_mode '{render_mode}' needs device 'cpu', not '{device}'")
    elif threads is not None:
        raise ValueError(f"threads = {threads} needs device 'cpu', not '{device}'")
    else:
        environments = _native.CudaEnvironments(device, name, option_texts(options), run_seed, num_envs)
    return VectorEnv(environments, device, seed, copy, render_mode, AutoresetMode(autoreset_mode))


class VectorEnv(gymnasium.vector.VectorEnv):
    """N environments of one task, made by `make_vec`.

    On the CPU observations, rewards, ends and infos are NumPy arrays; on a GPU they are tensors there, and no step
    waits for the GPU. Observations are views of memory that the next step or reset rewrites, unless `copy` was asked
    for; everything else is the caller's own.

    Environment i of `reset(seed=s)` plays the episodes of stream s + i, however many environments there are: those of
    `reset(seed=s + i)` with one environment.

    Attributes:
        task: What there is to know about the task (`TaskInfo`).
        device: Where the environments live, "cpu" or "cuda:N".
    """

    def __init__(
        self,
        environments: _native.CpuEnvironments | _native.CudaEnvironments,
        device: str,
        seed: int | None,
        copy: bool,
        render_mode: str | None,
        autoreset_mode: AutoresetMode,
    ) -> None:
        self._environments = environments
        self._first_seed = seed
        self._started = False
        self._copy = copy
        self.task = environments.info
        self._layout = _Layout(self.task)
        self._elements = environments.observations
        self._observations = self._layout.parts(self._elements)
        self._successes = environments.successes
        self.device = device
        self.num_envs = len(self._elements)
        self.metadata = METADATA | {"autoreset_mode": autoreset_mode}
        self.render_mode = render_mode
        self.single_observation_space = _observation_space(self.task)
        self.single_action_space = _action_space(self.task)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode in every environment: the first of the seed's, without a seed the next one.

        Args:
            seed: Of environment 0; environment i has `seed + i`. Also as the list of these.
            options: `{"reset_mask": mask}`, bool [N], starts the next episode in those environments alone.

        Raises:
            ValueError: For other seeds, options and masks; on a GPU, if an action was out of range since the last reset
                of all (`check`).
        """
        mask = _reset_mask(options, self.num_envs)
        if mask is not None:
            if seed is not None:
                raise ValueError(f"seed {seed} comes with a reset_mask; a seed resets all environments")
            self._check_started()
            self._environments.reset_chosen(self._own(mask))
            return self._current_observations(), {"success": _copied(self._successes), "_success": self._own(mask)}
        self.check()
        if seed is None and not self._started:
            seed = _drawn_seed(self.num_envs) if self._first_seed is None else self._first_seed
        if seed is None:
            self._environments.reset_chosen(self._all())
        else:
            first = _first_environment(seed, self.num_envs)
            super().reset(seed=first)
            self._environments.move_streams(first)
        self._started = True
        return self._current_observations(), self._success_infos()

    def step(self, actions: Array | Sequence[int]) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """Takes a step in every environment.

        What happens where an episode has ended is `metadata["autoreset_mode"]`: with SAME_STEP the next one starts at
        once, and the infos have `final_obs` and `final_info` of the step; with NEXT_STEP the next step starts it and
        takes no action; with DISABLED the caller resets (`reset_mask`).

        Args:
            actions: Integers [N]; of a task whose action space is a Box real numbers [N, numbers], of which those
                beyond its bounds count as the bounds. On a GPU int32 and float32 there are taken as they are; others
                are brought there.

        Returns:
            Observations; rewards, float64 on the CPU and float32 on a GPU [N]; terminations and truncations, bool [N];
            infos. `infos["success"]`, bool [N]: whether the episode counts as solved so far.

        Raises:
            ValueError: For actions of another shape or dtype. On the CPU also for one that the task does not have, for
                a number that is not finite, and for a step of an ended episode, and nothing changes; on a GPU such
                environments alone stay as they are.
        """
        self._check_started()
        mode = self.metadata["autoreset_mode"]
        actions = np.asarray(actions) if self.device == "cpu" else torch.as_tensor(actions)
        advance = self._environments.step_or_reset if mode is AutoresetMode.NEXT_STEP else self._environments.step
        rewards, terminations, truncations = advance(actions)
        finals = self._start_anew(terminations | truncations) if mode is AutoresetMode.SAME_STEP else {}
        return self._current_observations(), rewards, terminations, truncations, finals | self._success_infos()

    def check(self) -> None:
        """Waits for the GPU; raises a ValueError if an action was out of range since the last check.

        On the CPU nothing is left to check: `step` refuses such an action.
        """
        if self.device != "cpu":
            self._environments.check()

    def render(self) -> tuple[np.ndarray, ...] | None:
        """The whole board of each environment as films show it, uint8 [height, width, 3]."""
        return tuple(self._environments.boards()) if _renders(self) else None

    def _start_anew(self, ended: Array) -> dict[str, Any]:
        """Starts the next episode where one has ended; returns what the infos say of the ended ones."""
        if self.device == "cpu":
            if not ended.any():
                return {}
            final_obs = _rows_as_objects(self._layout.parts(self._elements[ended]), ended)
        else:  # Whether any has ended, only the GPU knows.
            final_obs = self._layout.parts(self._elements.clone())
        final_info = {"success": self._successes & ended, "_success": ended}
        self._environments.reset_finished()
        return {"final_obs": final_obs, "_final_obs": ended, "final_info": final_info, "_final_info": ended}

    def _current_observations(self) -> Observation:
        if isinstance(self._observations, dict):
            return {name: _copied(part) if self._copy else part for name, part in self._observations.items()}
        return _copied(self._observations) if self._copy else self._observations

    def _success_infos(self) -> dict[str, Any]:
        return {"success": _copied(self._successes), "_success": self._all()}

    def _all(self) -> Array:
        return np.ones(self.num_envs, bool) if self.device == "cpu" else torch.ones_like(self._successes)

    def _own(self, mask: Array) -> Array:
        """A copy where the environments live."""
        if self.device == "cpu":
            return np.array(mask)
        return torch.as_tensor(mask).to(self.device, copy=True)

    def _check_started(self) -> None:
        if not self._started:
            raise gymnasium.error.ResetNeeded("the environments have no episodes yet; reset() starts the first")


class Env(gymnasium.Env):
    """One environment of a task, on the CPU. Observations are the caller's own.

    Args:
        name: A task or a preset (`engram list`).
        run_seed: As of `make_vec`.
        render_mode: "rgb_array" for render().
        **options: The task's own (`engram list NAME`), without "task.".

    Raises:
        ValueError: For an unknown name or option, or a value that is not allowed.

    Attributes:
        task: What there is to know about the task (`TaskInfo`).
    """

    metadata = METADATA

    def __init__(self, name: str, *, run_seed: int = 1, render_mode: str | None = None, **options: Any) -> None:
        _check_int("run_seed", run_seed, 0, 2**64 - 1)
        _check_render_mode(render_mode)
        self._environments = _native.CpuEnvironments(name, option_texts(options), run_seed, num_envs=1, threads=1)
        self._started = False
        self.task = self._environments.info
        self._layout = _Layout(self.task)
        self._elements = self._environments.observations[0]
        self._successes = self._environments.successes
        self.render_mode = render_mode
        self.observation_space = _observation_space(self.task)
        self.action_space = _action_space(self.task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts the first episode of the seed's stream, without a seed the next one."""
        if options:
            raise ValueError(f"reset takes no options, and was given {sorted(options)}")
        if seed is None and not self._started:
            seed = _drawn_seed(1)
        if seed is None:
            self._environments.reset_chosen([True])
        else:
            first = _first_environment(seed, 1)
            super().reset(seed=first)
            self._environments.move_streams(first)
        self._started = True
        return self._observation(), self._info()

    def step(self, action: int | np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Takes a step; `info["success"]`: whether the episode counts as solved so far.

        Raises:
            ValueError: For an action that the task does not have, and for a step of an ended episode.
        """
        if not self._started:
            raise gymnasium.error.ResetNeeded("the environment has no episode yet; reset() starts the first")
        rewards, terminations, truncations = self._environments.step(np.asarray([action]))
        return self._observation(), float(rewards[0]), bool(terminations[0]), bool(truncations[0]), self._info()

    def render(self) -> np.ndarray | None:
        """The whole board as films show it, uint8 [height, width, 3]."""
        return self._environments.boards()[0] if _renders(self) else None

    def _observation(self) -> Observation:
        return self._layout.parts(self._elements.copy())

    def _info(self) -> dict[str, Any]:
        return {"success": bool(self._successes[0])}


class _Layout:
    """Where the parts of an observation lie among its elements."""

    def __init__(self, task: _native.TaskInfo) -> None:
        self._parts: list[tuple[str, slice, tuple[int, ...]]] = []
        begin = 0
        for part in task.observation_parts:
            end = begin + math.prod(part.shape)
            self._parts.append((part.name, slice(begin, end), part.shape))
            begin = end

    def parts(self, elements: Array) -> Observation:
        """Observations [..., elements] as the space says: views of their parts by name, or of the only one."""
        leading = elements.shape[:-1]
        if len(self._parts) == 1:
            return elements.reshape(*leading, *self._parts[0][2])
        return {name: elements[..., place].reshape(*leading, *shape) for name, place, shape in self._parts}


def _rows_as_objects(observations: Observation, mask: np.ndarray) -> np.ndarray:
    """Observations of the environments in the mask, in order, as Gymnasium wants them: objects [N], None of others."""
    rows: Iterable[Any] = observations
    if isinstance(observations, dict):
        rows = (dict(zip(observations, row)) for row in zip(*observations.values()))
    objects = np.full(len(mask), None, dtype=object)
    objects[mask] = np.fromiter(rows, dtype=object, count=np.count_nonzero(mask))
    return objects


def _observation_space(task: _native.TaskInfo) -> spaces.Space:
    parts = {part.name: _part_space(part, task.observation_dtype) for part in task.observation_parts}
    return spaces.Dict(parts) if len(parts) > 1 else next(iter(parts.values()))


def _part_space(part: _native.ObservationPart, dtype: str) -> spaces.Space:
    if part.kind == "tokens":
        return spaces.MultiDiscrete(np.full(part.shape, part.values), dtype=np.dtype(dtype))
    low, high = (0, 255) if dtype == "uint8" else (-np.inf, np.inf)
    return spaces.Box(low, high, part.shape, np.dtype(dtype))


def _action_space(task: _native.TaskInfo) -> spaces.Discrete | spaces.Box:
    if task.action_numbers:
        _, least, most = zip(*task.action_numbers)
        return spaces.Box(np.array(least, np.float32), np.array(most, np.float32))
    return spaces.Discrete(len(task.action_names))


def _copied(array: Array) -> Array:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def _check_int(what: str, value: Any, low: int, high: int) -> None:
    if not isinstance(value, numbers.Integral) or not low <= value <= high:
        raise ValueError(f"{what} = {value!r} is not allowed; it is an integer {low}..{high}")


def _check_render_mode(render_mode: str | None) -> None:
    if render_mode is not None and render_mode not in METADATA["render_modes"]:
        raise ValueError(f"render_mode {render_mode!r} is unknown; it is 'rgb_array' or None")


def _renders(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> bool:
    if env.render_mode is None:
        gymnasium.logger.warn("render() without a render_mode; 'rgb_array' gives pictures")
    return env.render_mode is not None


def _drawn_seed(num_envs: int) -> int:
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) % (NUM_STREAMS - num_envs + 1)


def _first_environment(seed: int | Sequence[int], num_envs: int) -> int:
    if isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, str):
        seeds = list(seed)
        if len(seeds) != num_envs or seeds != list(range(seeds[0], seeds[0] + num_envs)):
            raise ValueError(f"seed = {seed!r} is not allowed; as a list it has {num_envs} consecutive numbers")
        seed = seeds[0]
    _check_int("seed", seed, 0, NUM_STREAMS - num_envs)
    return int(seed)


def _reset_mask(options: dict[str, Any] | None, num_envs: int) -> Array | None:
    if not options:
        return None
    if set(options) != {"reset_mask"}:
        raise ValueError(f"reset takes the option reset_mask alone, and was given {sorted(options)}")
    mask = options["reset_mask"]
    if not isinstance(mask, Array) or mask.dtype not in (np.bool_, torch.bool) or tuple(mask.shape) != (num_envs,):
        raise ValueError(f"reset_mask = {mask!r} is not allowed; it is an array of truth values ({num_envs},)")
    return mask
