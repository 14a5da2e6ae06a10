"""Environments as Gymnasium has them: spaces, seeds, ends, wrappers; the same episodes as the program's."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

import engram
from engram import _native
from engram.registration import environment_id

# Of several kinds of observation, with episodes short enough to end often; options as values and as texts.
SHORT = {
    "visual_match": {"explore_steps": 2, "distractor_steps": "3", "reward_steps": 4},
    "tmaze": {"corridor_length": 5},
    "minigrid_memory": {"codes": "tokens", "direction": True},
    "cartpole": {},
}
MODES = list(AutoresetMode)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def equal(a, b):
    """Whether two observations, infos or their parts are the same, types included."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and a.dtype == object:
        return a.shape == b.shape and all(equal(x, y) for x, y in zip(a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def row(observations, i):
    return {name: part[i] for name, part in observations.items()} if isinstance(observations, dict) else observations[i]


def played(envs, steps, seed, columns=slice(None)):
    """Observations, rewards and ends of these environments under actions that depend on the step alone."""
    observations, _ = envs.reset(seed=seed)
    moments = [np.copy(observations[columns])]
    for t in range(steps):
        actions = np.full(envs.num_envs, t * 7 % 3 % envs.single_action_space.n)
        observations, rewards, terminations, truncations, _ = envs.step(actions)
        moments += [np.copy(observations[columns]), rewards[columns], (terminations | truncations)[columns]]
    return moments


@pytest.mark.parametrize("name", _native.task_names())
def test_gymnasiums_checker_passes_every_task(name, recwarn):
    env = gymnasium.make(environment_id(name), render_mode="rgb_array").unwrapped
    check_env(env)
    # Of numbers whose range a task does not say the space is unbounded, and a torque has bounds of its own, which the
    # checker mentions.
    said = [str(warning.message) for warning in recwarn]
    assert not [text for text in said if "infinity" not in text and "normalized space" not in text], said


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SHORT)
def test_many_environments_are_as_many_single_ones(name, mode):
    size = 5
    ours = engram.make_vec(name, size, autoreset_mode=mode, **SHORT[name])
    singles = [lambda: gymnasium.make(environment_id(name), **SHORT[name])] * size
    theirs = SyncVectorEnv(singles, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is mode
    first, second = ours.reset(seed=3), theirs.reset(seed=3)
    assert equal(first[0], second[0]) and equal(first[1], second[1])
    theirs.action_space.seed(0)
    ends = 0
    for _ in range(300):
        actions = theirs.action_space.sample()
        first, second = ours.step(actions), theirs.step(actions)
        for mine, gymnasiums in zip(first, second):
            assert equal(mine, gymnasiums)
        assert first[0] in ours.observation_space
        ended = first[2] | first[3]
        ends += np.count_nonzero(ended)
        if mode is AutoresetMode.DISABLED and ended.any():
            first, second = (envs.reset(options={"reset_mask": ended.copy()}) for envs in (ours, theirs))
            assert equal(first[0], second[0]) and equal(first[1], second[1])
    assert ends > size


@pytest.mark.parametrize("threads", [1, 3])
def test_a_rows_episodes_are_those_of_its_seed(threads):
    many = engram.make_vec("visual_match", 700, threads=threads, **SHORT["visual_match"])
    alone = engram.make_vec("visual_match", 1, **SHORT["visual_match"])
    of_many, of_one = played(many, 40, seed=10, columns=slice(681, 682)), played(alone, 40, seed=691)
    assert all(np.array_equal(a, b) for a, b in zip(of_many, of_one, strict=True))


def philox(counter, key):
    """Philox4x32-10, after Salmon et al. 2011."""
    for _ in range(10):
        products = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        high, low = [product >> 32 for product in products], [product % 2**32 for product in products]
        counter = [high[1] ^ counter[1] ^ key[0], low[1], high[0] ^ counter[3] ^ key[1], low[0]]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_episodes_are_those_of_the_programs_streams():
    """The T-maze's side is the first bit of stream (run seed, training, environment, episode)."""
    envs = engram.make_vec("tmaze", 64, corridor_length=1, run_seed=2**40 + 5)
    observations, _ = envs.reset(seed=1000)
    for episode in range(6):
        sides = [
            1.0 if philox([0, episode, 1000 + i, 0], [5, 2**8])[0] >> 31 else -1.0 for i in range(envs.num_envs)
        ]
        assert observations[:, 1].tolist() == sides
        envs.step(np.zeros(64, np.int64))
        envs.step(np.ones(64, np.int64))  # ends the episode, and begins the next


def test_seeds():
    envs = engram.make_vec("repeat_previous", 4, copy=True)
    first, _ = envs.reset(seed=5)
    second, _ = envs.reset()
    assert not np.array_equal(first, second)  # the next episodes
    again, _ = envs.reset(seed=[5, 6, 7, 8])
    assert np.array_equal(first, again) and np.array_equal(second, envs.reset()[0])
    given = engram.make_vec("repeat_previous", 4, seed=5, copy=True)
    assert np.array_equal(first, given.reset()[0]) and np.array_equal(second, given.reset()[0])
    envs.reset(seed=2**32 - 4)
    fresh = {engram.make_vec("visual_match", 16).reset()[0].tobytes() for _ in range(8)}
    assert len(fresh) == 8  # without a seed one is drawn
    for seed in (-1, 2**32 - 3, 1.5, [5, 6], [5, 7, 8, 9], [1, 2, 3, "4"]):
        with pytest.raises(ValueError, match="seed"):
            envs.reset(seed=seed)


def test_a_mask_resets_its_environments_alone():
    envs = engram.make_vec("tmaze", 3, copy=True, autoreset_mode="Disabled", corridor_length=1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.reset(options={"reset_mask": np.ones(3, bool)})
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    last, _, terminations, _, _ = envs.step([1, 1, 1])
    assert terminations.all()
    with pytest.raises(ValueError, match="environment 0 has ended"):
        envs.step([0, 0, 0])
    observations, infos = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(observations[[0, 2]], last[[0, 2]]) and observations[1, 0] == 0
    assert infos["_success"].tolist() == [False, True, False]
    for mask in ([True, False, False], np.ones(2, bool), np.ones(3, int)):
        with pytest.raises(ValueError, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="seed 1 comes with a reset_mask"):
        envs.reset(seed=1, options={"reset_mask": np.ones(3, bool)})
    with pytest.raises(ValueError, match="difficulty"):
        envs.reset(options={"difficulty": 1})


def test_views_are_rewritten_and_copies_stay():
    envs, copying = (engram.make_vec("minigrid_memory", 4, copy=copy) for copy in (False, True))
    view, copy = envs.reset(seed=1)[0], copying.reset(seed=1)[0]
    kept = copy.copy()
    after = [each.step([0, 1, 0, 1])[0] for each in (envs, copying)]
    assert view is after[0] and np.array_equal(view, after[1])
    assert np.array_equal(copy, kept) and not np.array_equal(view, kept)
    del envs
    assert np.array_equal(view, after[1])  # the view keeps the memory


def test_a_refused_step_changes_nothing():
    envs = engram.make_vec("visual_match", 3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step([0, 0, 0])
    before = envs.reset(seed=1)[0].copy()
    for actions, line in [
        ([0, 4, 0], "action 4 of environment 1 is not one of 0..3"),
        ([0, 0, -1], "action -1 of environment 2"),
        (np.array([0, 2**40, 0]), "of environment 1"),
        (np.array([0, 1, 0], np.uint64) * 2**63, "of environment 1"),
        ([0, 0], r"the shape \(2,\); it has to be \(3,\)"),
        ([[0], [0], [0]], r"the shape \(3, 1\)"),
        ([0.0, 1.0, 2.0], "actions are float64; they have to be integers"),
    ]:
        with pytest.raises(ValueError, match=line):
            envs.step(actions)
    assert np.array_equal(envs.step(np.array([3, 3, 3], np.uint8))[0].shape, before.shape)
    replayed = engram.make_vec("visual_match", 3)
    replayed.reset(seed=1)
    assert np.array_equal(envs.reset(seed=1)[0], before)
    assert equal(envs.step(torch.tensor([1, 2, 3]))[0], replayed.step(np.array([1, 9, 2, 9, 3], np.int32)[::2])[0])


def test_bad_input_is_one_line():
    for arguments, line in [
        (("visual_macht",), "unknown task or preset 'visual_macht'; did you mean 'visual_match'"),
        (("visual_match", 0), "num_envs = 0 is not allowed"),
        (("visual_match", 2.0), "num_envs = 2.0"),
    ]:
        with pytest.raises(ValueError, match=line) as error:
            engram.make_vec(*arguments)
        assert "\n" not in str(error.value)
    for options, line in [
        ({"distractor_step": 5}, "task.distractor_step.*did you mean"),
        ({"distractor_steps": "many"}, "task.distractor_steps"),
        ({"distractor_steps": 1.5}, "task.distractor_steps"),
        ({"distractor_steps": None}, "distractor_steps = None"),
        ({"device": "gpu"}, "device 'gpu' is unknown"),
        ({"render_mode": "human"}, "render_mode 'human'"),
        ({"threads": 0}, "threads = 0"),
        ({"run_seed": -1}, "run_seed = -1"),
        ({"seed": -1}, "seed = -1"),
        ({"autoreset_mode": "never"}, "never"),
    ]:
        with pytest.raises(ValueError, match=line):
            engram.make_vec("visual_match", **options)
    with pytest.raises(ValueError, match="task.seed"):
        gymnasium.make("engram/VisualMatch-v0", seed=1)


def test_spaces_say_what_an_observation_is():
    def space(name, **options):
        return engram.make_vec(name, 2, **options).single_observation_space

    assert space("visual_match") == gymnasium.spaces.Box(0, 255, (3, 5, 5), np.uint8)
    assert space("tmaze") == gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    parts = space("minigrid_memory", codes="tokens", direction=True)
    assert list(parts) == sorted(["objects", "colours", "states", "direction"])
    assert parts["objects"] == gymnasium.spaces.MultiDiscrete(np.full((7, 7), 11), np.uint8)
    assert parts["direction"] == gymnasium.spaces.MultiDiscrete([4], np.uint8)


def test_registered_under_gymnasiums_names():
    names = _native.task_and_preset_names()
    assert len({environment_id(name) for name in names}) == len(names)
    assert environment_id("repeat_previous_easy") == "engram/RepeatPreviousEasy-v0"
    assert {environment_id(name) for name in names} <= set(gymnasium.registry)
    envs = gymnasium.make_vec("engram:engram/VisualMatch-v0", num_envs=4, distractor_steps=9)
    assert isinstance(envs, engram.vector.VectorEnv) and envs.num_envs == 4 and envs.task.max_episode_steps == 39
    assert gymnasium.make("engram/RepeatPreviousEasy-v0").unwrapped.task.name == "repeat_previous"
    synced = gymnasium.make_vec("engram/Tmaze-v0", num_envs=2, vectorization_mode="sync")
    assert equal(synced.reset(seed=4)[0], engram.make_vec("tmaze", 2).reset(seed=4)[0])


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_gymnasiums_wrappers_work(mode):
    envs = engram.make_vec("tmaze", 3, autoreset_mode=mode, corridor_length=5)
    envs = statistics = wrappers.RecordEpisodeStatistics(envs)
    if mode is AutoresetMode.NEXT_STEP:  # Gymnasium's wrappers of observations take no other
        envs = wrappers.DtypeObservation(wrappers.FlattenObservation(envs), np.float64)
    envs = wrappers.DictInfoToList(wrappers.TransformReward(envs, lambda reward: 2 * reward))
    envs.reset(seed=0)
    for _ in range(11):
        _, _, terminations, _, infos = envs.step(np.zeros(3, np.int64))
        if terminations.any():
            assert [info["episode"]["l"] for info in infos] == [6, 6, 6]
    assert list(statistics.length_queue) == [6] * 3


def test_render_shows_the_board():
    envs = engram.make_vec("visual_match", 2, render_mode="rgb_array")
    observations, _ = envs.reset(seed=0)
    frames = envs.render()
    assert [frame.shape for frame in frames] == [(7 * 44, 11 * 44, 3)] * 2 and frames[0].dtype == np.uint8
    cells = frames[0][22::44, 22::44]  # the middle of each
    at = np.argwhere((cells == observations[0, :, 2, 2]).all(axis=-1))  # the player, the middle of what it sees
    assert len(at) == 1
    top, left = np.maximum(at[0] - 2, 0)
    seen = observations[0].transpose(1, 2, 0)[max(0, 2 - at[0][0]) :, max(0, 2 - at[0][1]) :]
    board = cells[top : at[0][0] + 3, left : at[0][1] + 3]
    assert np.array_equal(board, seen[: board.shape[0], : board.shape[1]])
    alone = gymnasium.make("engram/VisualMatch-v0", render_mode="rgb_array")
    alone.reset(seed=1)
    assert np.array_equal(alone.render(), frames[1])
    for name in _native.task_names():
        env = engram.vector.Env(name, render_mode="rgb_array")
        env.reset(seed=0)
        frame = env.render()
        assert frame.ndim == 3 and frame.shape[2] == 3 and len(np.unique(frame)) > 1
    with pytest.warns(UserWarning, match="render_mode"):
        assert engram.make_vec("tmaze").render() is None


@on_gpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SHORT)
def test_a_gpu_plays_the_same_episodes(name, mode):
    size = 300
    cpu, gpu = (
        engram.make_vec(name, size, device=device, autoreset_mode=mode, **SHORT[name]) for device in ("cpu", "cuda")
    )

    def same(on_cpu, on_gpu, what):
        if isinstance(on_cpu, dict):
            for key in on_cpu:
                same(on_cpu[key], on_gpu[key], f"{what}.{key}")
        else:
            assert on_gpu.is_cuda, what
            assert np.array_equal(on_cpu, on_gpu.cpu().numpy()), what

    def same_finals(expected, final_obs, mask):
        for i in np.flatnonzero(mask):
            same(expected[i], row(final_obs, i), f"final_obs {i}")

    same(cpu.reset(seed=7)[0], gpu.reset(seed=7)[0], "first observations")
    rng = np.random.default_rng(0)
    for t in range(100):
        actions = rng.integers(cpu.single_action_space.n, size=size)
        given = torch.as_tensor(actions, device="cuda", dtype=[torch.int32, torch.int64][t % 2])
        first, second = cpu.step(actions), gpu.step(given)
        same(dict(enumerate(first[:4])), dict(enumerate(second[:4])), f"step {t}")
        same(first[4]["success"], second[4]["success"], "success")
        ended = first[2] | first[3]
        if "final_obs" in first[4]:
            same_finals(first[4]["final_obs"], second[4]["final_obs"], ended)
            same(first[4]["final_info"], second[4]["final_info"], "final_info")
        if mode is AutoresetMode.SAME_STEP:
            same(ended, second[4]["_final_obs"], "_final_obs")
        if mode is AutoresetMode.DISABLED and ended.any():
            masks = ended, torch.as_tensor(ended, device="cuda")
            same(*(envs.reset(options={"reset_mask": m})[0] for envs, m in zip((cpu, gpu), masks)), "after a reset")
    same(cpu.reset()[0], gpu.reset()[0], "next episodes")
    same(cpu.reset(seed=2)[0], gpu.reset(seed=2)[0], "other streams")


@on_gpu
def test_a_gpu_tells_of_bad_actions_when_asked():
    envs = engram.make_vec("visual_match", 3, device="cuda")
    observations, _ = envs.reset(seed=1)
    assert torch.from_dlpack(observations).data_ptr() == observations.data_ptr()
    envs.step(torch.tensor([0, 9, 0], device="cuda"))
    with pytest.raises(ValueError, match="action 9 of environment 1 is not one of 0..3"):
        envs.check()
    envs.check()
    with pytest.raises(ValueError, match="actions are Float"):
        envs.step(torch.zeros(3, device="cuda"))
    with pytest.raises(ValueError, match="render_mode 'rgb_array' needs device 'cpu'"):
        engram.make_vec("visual_match", device="cuda", render_mode="rgb_array")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="device 'cuda' is not there"):
        engram.make_vec("visual_match", device="cuda")


def test_a_continuous_action_is_a_box():
    envs = engram.make_vec("pendulum", 3, max_steps=20, noise=0.1)
    assert envs.single_action_space == gymnasium.spaces.Box(-2, 2, (1,), np.float32)
    assert envs.action_space.shape == (3, 1)

    def played_with(actions):
        observations, _ = envs.reset(seed=7)
        seen = [observations.copy()]
        for action in actions:
            observations, rewards, *_ = envs.step(action)
            seen += [observations.copy(), rewards.copy()]
        return seen

    def same(first, second):
        return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))

    pushed = played_with([np.array([[2], [-0.5], [-2]], np.float32)] * 15)
    assert same(pushed, played_with([np.array([[70], [-0.5], [-2.5]])] * 15))  # brought into the bounds, from any type
    assert same(pushed, played_with([[[2], [-0.5], [-2]]] * 15))
    assert not same(pushed, played_with([np.array([[2], [-0.5], [-1.9]], np.float32)] * 15))
    for bad, why in (
        (np.zeros(3, np.float32), r"have the shape \(3,\); it has to be \(3, 1\)"),
        (np.zeros((3, 2), np.float32), r"have the shape \(3, 2\)"),
        (np.full((3, 1), True), "are bool; they have to be real numbers"),
        (np.array([[0], [np.nan], [0]]), "the action of environment 1 has a number that is not finite"),
    ):
        with pytest.raises(ValueError, match=why):
            envs.step(bad)
    alone = gymnasium.make("engram/Pendulum-v0", max_steps=20, noise=0.1)
    alone.reset(seed=7)
    for _ in range(3):
        alone.step(np.array([2], np.float32))
