"""engram.train with environments of Gymnasium: what is recorded of them, in all ways in which they reset."""

import json
import subprocess
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import engram
from engram.program import environment, program
from engram.external import ObservationRows, environments_of

TINY = {
    "memory": {"name": "gru", "width": 8, "layers": 1},
    "network": {"hidden_width": 8, "previous_action_width": 4, "token_width": 4},
    "replay.batch_episodes": 4,
    "run": {"steps": 120, "random_episodes": 4, "threads": 1, "num_envs": 3, "updates_per_step": 0.1},
    "run.report_seconds": 0.01,
    "evaluation": {"every_steps": 60, "episodes": 4, "final_episodes": 4},
}
PPO = {
    "memory": TINY["memory"],
    "network": TINY["network"],
    "evaluation": TINY["evaluation"],
    "learner": {"name": "ppo", "iteration_steps": 60, "minibatches": 2, "epochs": 2},
    "run": {"steps": 240, "threads": 1, "num_envs": 3},
}


class Diary(gymnasium.Env):
    """Writes down what happens in it: an observation is its own number, its episode's, and the step's."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(3, start=5)
    made = 0

    def __init__(self):
        self.number = Diary.made
        Diary.made += 1
        self.episodes = {}  # number -> actions, how it ended
        self.episode = -1

    def _observation(self):
        return np.array([self.number, self.episode, self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.t = 0
        self.actions = []
        return self._observation(), {}

    def step(self, action):
        assert action in self.action_space and isinstance(action, np.integer)
        self.actions.append(int(action))
        self.t += 1
        terminated = self.t == 2 + (self.number + self.episode) % 4
        truncated = not terminated and self.t == 4
        if terminated or truncated:
            self.episodes[self.episode] = (self.actions, terminated)
        return self._observation(), 10.0 * self.t, terminated, truncated, {"success": terminated and self.t == 2}


def diaries(mode, size=3):
    return SyncVectorEnv([Diary] * size, autoreset_mode=mode)


def checkpoint(run):
    """The tensors of a run's newest checkpoint, by name."""
    data = sorted((Path(run) / "checkpoints").iterdir())[-1].read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__")
    types = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U8": np.uint8}
    return {
        name: np.frombuffer(data[begin:], types[fact["dtype"]], int(np.prod(fact["shape"])), fact["data_offsets"][0])
        for name, fact in header.items()
        if fact["dtype"] in types
    }


def replayed(run):
    """Episodes of a checkpoint's replay: observations [T+1, 3], actions, rewards, whether they terminated."""
    tensors = checkpoint(run)
    part = {
        name: tensors["experience.replay." + name]
        for name in ("steps", "action", "observation", "reward", "terminated")
    }
    observations = part["observation"].view(np.float32).reshape(-1, 3)
    first = 0
    for i, steps in enumerate(part["steps"]):
        yield (
            observations[first + i : first + i + steps + 1],
            part["action"][first : first + steps],
            part["reward"][first : first + steps],
            part["terminated"][i],
        )
        first += steps


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_what_is_recorded_is_what_was_played(tmp_path, mode):
    env = diaries(mode)
    result = engram.train(TINY, run=tmp_path / "a", env=env, max_episode_steps=4)
    assert result.best_evaluation is None and result.final_evaluation is None
    by_number = {diary.number: diary for diary in env.envs}
    steps = episodes = 0
    for observations, actions, rewards, terminated in replayed(tmp_path / "a"):
        number, episode = observations[0, 0], observations[0, 1]
        taken, ended_so = by_number[number].episodes[episode]
        assert [action + 5 for action in actions] == taken
        assert terminated == ended_so
        count = np.arange(len(taken) + 1)
        assert (observations == np.stack([np.full_like(count, number), np.full_like(count, episode), count], 1)).all()
        assert (rewards == 10 * count[1:]).all()
        steps += len(taken)
        episodes += 1
    assert episodes == result.episodes
    running = sum(len(diary.actions) for diary in env.envs if diary.episode not in diary.episodes)
    abandoned = result.steps - steps - running  # when the random episodes were over
    assert 0 <= abandoned <= 3 * 4
    env.close()


@pytest.mark.parametrize("config", [TINY, PPO, {**TINY, "learner.name": "dqn"}], ids=["sac", "ppo", "dqn"])
def test_learners_train_and_evaluate(tmp_path, config):
    result = engram.train(config, run=tmp_path / "a", env=Diary, max_episode_steps=4)
    assert result.stopped == "steps" and result.updates > 0
    assert result.best_evaluation.episodes == 4 and result.final_evaluation.episodes == 4
    assert 0 < result.final_evaluation.success < 1  # as the episodes' lengths have it
    assert result.final_evaluation.mean_return >= 30
    saved = (tmp_path / "a" / "config.ini").read_text()
    for line in ("name = external", "id = Diary", "observation = float32: observation vector 3", "actions = 3"):
        assert line in saved.splitlines()


def test_the_same_seed_is_the_same_run(tmp_path):
    for name in ("a", "b"):
        engram.train(TINY, run=tmp_path / name, env="CartPole-v1")
    file = Path("weights") / "last.safetensors"
    assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    engram.train({**TINY, "run.seed": 2}, run=tmp_path / "c", env="CartPole-v1")
    assert (tmp_path / "a" / file).read_bytes() != (tmp_path / "c" / file).read_bytes()


def test_an_environment_of_its_own_evaluates(tmp_path):
    env, eval_env = diaries(AutoresetMode.NEXT_STEP), diaries(AutoresetMode.SAME_STEP, size=2)
    result = engram.train(TINY, run=tmp_path / "a", env=env, eval_env=eval_env, max_episode_steps=4)
    assert result.final_evaluation.episodes == 4
    assert all(diary.episodes for diary in eval_env.envs)
    eval_env.close()


@pytest.mark.parametrize("config", [TINY, PPO], ids=["sac", "ppo"])
def test_a_run_goes_on(tmp_path, config):
    engram.train(config, run=tmp_path / "a", env=Diary, max_episode_steps=4, callback=lambda event: event.steps < 70)
    before = list(replayed(tmp_path / "a"))
    stopped = engram.train(
        {}, run=tmp_path / "a", env=Diary, max_episode_steps=4, resume=True, callback=lambda _: False
    )
    after = list(replayed(tmp_path / "a"))
    assert stopped.stopped == "request" and len(before) > 0
    for old, new in zip(before, after) if config is TINY else ():  # a learner on policy forgets what it has learnt from
        for a, b in zip(old, new):
            assert np.array_equal(a, b)
    assert engram.train({}, run=tmp_path / "a", env=Diary, max_episode_steps=4, resume=True).stopped == "steps"
    with pytest.raises(ValueError, match="task.max_episode_steps = 4"):
        engram.train({}, run=tmp_path / "a", env=Diary, max_episode_steps=5, resume=True)


def test_what_an_environment_raises_comes_after_a_save(tmp_path):
    class Broken(Diary):
        def step(self, action):
            if self.episode == 5:
                raise KeyError("broken")
            return super().step(action)

    with pytest.raises(KeyError, match="broken"):
        engram.train(TINY, run=tmp_path / "a", env=Broken, max_episode_steps=4)
    assert len(list(replayed(tmp_path / "a"))) >= 6  # two and more of each


@pytest.mark.parametrize(
    "make",
    [
        lambda: gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point"),
        lambda: gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"),
        lambda: AsyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3),
    ],
    ids=["own", "sync", "processes"],
)
def test_vector_environments_of_gymnasium(tmp_path, make):
    env = make()
    assert engram.train(TINY, run=tmp_path / "a", env=env).steps >= 120
    saved = (tmp_path / "a" / "config.ini").read_text().splitlines()
    assert "id = CartPole-v1" in saved and "max_episode_steps = 500" in saved
    env.close()


def test_observations_of_many_kinds(tmp_path):
    class Mixed(Diary):
        observation_space = spaces.Dict(
            {
                "picture": spaces.Box(0, 255, (5, 4, 3), np.uint8),
                "place": spaces.Tuple((spaces.Discrete(4, start=-1), spaces.MultiDiscrete([3, 2]))),
                "speed": spaces.Box(-1, 1, (2,), np.float64),
                "buttons": spaces.MultiBinary(3),
            }
        )

        def _observation(self):
            return self.observation_space.sample()

    rows = ObservationRows(Mixed.observation_space)
    assert rows.text() == (
        "float32: buttons tokens 3 of 2 + picture image 3x5x4 + place_0 tokens 1 of 4 + place_1 tokens 2 of 3 + "
        "speed vector 2"
    )
    sample = Mixed.observation_space.sample()
    row = np.zeros(rows.elements, np.float32)
    rows.write_one(sample, row)
    assert (row[:3] == sample["buttons"]).all()
    assert np.allclose(row[3:63].reshape(3, 5, 4) * 255, sample["picture"].transpose(2, 0, 1))
    assert row[63] == sample["place"][0] + 1 and (row[64:66] == sample["place"][1]).all()
    assert np.allclose(row[66:], sample["speed"])
    for mode in AutoresetMode:
        env = SyncVectorEnv([Mixed] * 3, autoreset_mode=mode)
        assert engram.train(TINY, run=tmp_path / mode.name, env=env, max_episode_steps=4).updates > 0


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), "uint8: observation image 3x84x84"),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), "uint8: observation image 4x84x84"),
        (spaces.Box(0, 255, (84, 84), np.uint8), "uint8: observation image 1x84x84"),
        (spaces.Box(0, 255, (128,), np.uint8), "uint8: observation vector 128"),
        (spaces.Box(-1, 1, (2, 3), np.float32), "float32: observation vector 6"),
        (spaces.Discrete(256), "uint8: observation tokens 1 of 256"),
        (spaces.Discrete(257), "float32: observation tokens 1 of 257"),
        (spaces.MultiDiscrete([[2, 3], [4, 2]]), "uint8: observation tokens 2x2 of 4"),
    ],
)
def test_spaces(space, text):
    assert ObservationRows(space).text() == text


def space_env(observation=Diary.observation_space, action=Diary.action_space):
    return type("Other", (Diary,), {"observation_space": observation, "action_space": action})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": space_env(action=spaces.Box(-1, 1, (2,)))}, "action space Box"),
        ({"env": space_env(action=spaces.MultiDiscrete([2, 2]))}, "action space MultiDiscrete"),
        ({"env": space_env(observation=spaces.Text(9))}, "observation space 'observation', Text"),
        ({"env": space_env(observation=spaces.Dict({"mission": spaces.Text(9)}))}, "observation space 'mission', Text"),
        ({"env": Diary, "max_episode_steps": None}, "give max_episode_steps"),
        ({"env": Diary, "max_episode_steps": 3}, "has not ended its episode after 3 steps"),
        ({"env": "CartPole-v99", "max_episode_steps": None}, "CartPole"),
        ({"env": 7}, "env = 7 is not allowed"),
        ({"env": Diary()}, "is not allowed"),
        ({"env": lambda: 7}, "made 7, which is not"),
        ({"env": Diary, "eval_env": diaries(AutoresetMode.DISABLED).envs[0]}, "eval_env = "),
        ({"env": Diary, "eval_env": SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])}, "has the spaces"),
        ({"env": diaries(AutoresetMode.DISABLED, size=2)}, "run.num_envs 3 and the 2 environments"),
        ({"env": Diary, "config": {**TINY, "task.name": "tmaze"}}, "task.name 'tmaze' and env contradict"),
        ({"env": Diary, "config": {**TINY, "task.corridor_length": 4}}, "task.corridor_length"),
        ({"env": None}, "about env, which is not given"),
    ],
)
def test_bad_input_is_a_value_error(tmp_path, arguments, message):
    arguments = {"config": TINY, "max_episode_steps": 4, **arguments}
    with pytest.raises(ValueError, match=message) as raised:
        engram.train(arguments.pop("config"), run=tmp_path / "a", **arguments)
    assert "\n" not in str(raised.value)


def test_rewards_are_finite(tmp_path):
    class Broken(Diary):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, float("nan"), *rest

    with pytest.raises(ValueError, match="not finite"):
        engram.train(TINY, run=tmp_path / "a", env=Broken, max_episode_steps=4)


def test_the_program_shows_such_a_run_and_plays_none(tmp_path):
    try:
        path = program()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    engram.train(TINY, run=tmp_path / "a", env=Diary, max_episode_steps=4)

    def run(*arguments):
        return subprocess.run([path, *arguments], env=environment(), capture_output=True, text=True)

    assert run("inspect", tmp_path / "a").returncode == 0
    for arguments in (["evaluate", tmp_path / "a"], ["train", "--resume", tmp_path / "a", "--run.steps", "500"]):
        refused = run(*arguments)
        assert refused.returncode == 2
        assert "task 'external' is 'Diary', environments that are played from Python alone" in refused.stderr


def test_environments_that_were_given_stay_open():
    env = diaries(AutoresetMode.NEXT_STEP)
    made = environments_of(env, None, 4)
    made.close()
    env.reset()


def popgym_task():
    return pytest.importorskip("popgym").envs.repeat_previous.RepeatPreviousEasy()


def minigrid_task():
    wrappers = pytest.importorskip("minigrid.wrappers")
    return wrappers.ImgObsWrapper(gymnasium.make("MiniGrid-MemoryS7-v0"))


class EveryFifthPixel(gymnasium.ObservationWrapper):
    """Of either direction."""

    observation_space = spaces.Box(0, 255, (42, 32), np.uint8)

    def observation(self, observation):
        return observation[::5, ::5]


def atari_game():
    gymnasium.register_envs(pytest.importorskip("ale_py"))
    return EveryFifthPixel(gymnasium.make("ALE/Breakout-v5", obs_type="grayscale", max_episode_steps=50))


@pytest.mark.parametrize(
    ("make", "observation", "steps", "longest"),
    [
        pytest.param(popgym_task, "uint8: observation tokens 1 of 4", 300, 200, id="popgym"),
        pytest.param(minigrid_task, "uint8: observation image 3x7x7", 300, 245, id="minigrid"),
        pytest.param(atari_game, "uint8: observation image 1x42x32", 120, 50, id="atari"),
    ],
)
def test_known_environments(tmp_path, make, observation, steps, longest):
    make()
    config = {**TINY, "run": {**TINY["run"], "steps": steps, "random_episodes": 0, "num_envs": 2}}
    config["evaluation"] = {"every_steps": 1_000_000, "episodes": 1, "final_episodes": 0}
    env = SyncVectorEnv([make] * 2)
    result = engram.train(config, run=tmp_path / "a", env=env, max_episode_steps=longest)
    assert result.steps >= steps
    assert f"observation = {observation}" in (tmp_path / "a" / "config.ini").read_text().splitlines()
    env.close()
