"""The environments for Stable-Baselines3: its interface over the same episodes."""

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import engram  # noqa: E402
from engram.sb3 import VecEnv  # noqa: E402


def test_episodes_and_infos_are_those_of_the_vector():
    task = {"corridor_length": 3}
    adapted, envs = VecEnv("tmaze", 6, **task), engram.make_vec("tmaze", 6, copy=True, **task)
    adapted.seed(11)
    first = adapted.reset()
    assert np.array_equal(first, envs.reset(seed=11)[0])
    actions, solved = np.random.default_rng(0).integers(4, size=(40, 6)), set()
    actions[4:8] = np.array([0, 0, 0, 1])[:, None]  # one episode of all to the end, then up
    for t in range(40):
        observations, rewards, dones, infos = adapted.step(actions[t])
        expected = envs.step(actions[t])
        assert np.array_equal(observations, expected[0]) and np.array_equal(rewards, expected[1])
        assert rewards.dtype == np.float32 and np.array_equal(dones, expected[2] | expected[3])
        for i in range(6):
            if not dones[i]:
                assert infos[i] == {}
                continue
            assert np.array_equal(infos[i]["terminal_observation"], expected[4]["final_obs"][i])
            assert not infos[i]["TimeLimit.truncated"]
            solved.add(infos[i]["is_success"])
            assert infos[i]["is_success"] == (rewards[i] > 0)
    assert solved == {False, True}
    assert np.array_equal(first, envs.reset(seed=11)[0])  # observations stay what they were


def test_attributes():
    envs = VecEnv("visual_match", 3, render_mode="rgb_array")
    assert envs.get_attr("num_envs", indices=[0, 2]) == [3, 3] and envs.env_is_wrapped(object) == [False] * 3
    envs.reset()
    assert len(envs.get_images()) == 3 and envs.render().ndim == 3
    for refused in (lambda: envs.set_attr("x", 1), lambda: envs.env_method("x")):
        with pytest.raises(NotImplementedError, match="'x'"):
            refused()
    with pytest.raises(ValueError, match="task.corridor"):
        VecEnv("tmaze", 3, corridor=3)
