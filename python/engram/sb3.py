"""The environments for Stable-Baselines3, which has an interface of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common import vec_env
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from engram.vector import make_vec

__all__ = ["VecEnv"]


class VecEnv(vec_env.VecEnv):
    """N environments of one task, on the CPU.

    The infos of an ended episode have what Stable-Baselines3 reads of them: `terminal_observation`,
    `TimeLimit.truncated`, and `is_success`, of which it logs the rate.

    Args:
        name: A task or a preset.
        num_envs: How many environments.
        **options: As of `engram.make_vec`: the task's, and `run_seed`, `threads`, `render_mode`.

    Raises:
        ValueError: For an unknown name or option, or a value that is not allowed.
    """

    def __init__(self, name: str, num_envs: int, **options: Any) -> None:
        # Stable-Baselines3 keeps the observations before a step until after it: they have to be copies.
        self.envs = make_vec(name, num_envs, copy=True, **options)
        super().__init__(num_envs, self.envs.single_observation_space, self.envs.single_action_space)

    def reset(self) -> VecEnvObs:
        """Starts an episode everywhere: the first ones of the seed's after seed(), else the next ones."""
        observations, _ = self.envs.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminations, truncations, infos = self.envs.step(self._actions)
        dones = terminations | truncations
        of_environments: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(dones):
            of_environments[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": bool(truncations[i]),
                "is_success": bool(infos["final_info"]["success"][i]),
            }
        return observations, rewards.astype(np.float32), dones, of_environments

    def close(self) -> None:
        self.envs.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        return self.envs.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise NotImplementedError(f"'{attr_name}' is not settable: the environments have no attributes of their own")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError(f"'{method_name}' is not callable: the environments have no methods of their own")

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))
