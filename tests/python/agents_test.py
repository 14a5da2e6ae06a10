"""Trained agents act, are evaluated, diagnosed and filmed as by the program, and leave the caller's state alone."""

import dataclasses
import json
import signal

import numpy as np
import program
import pytest
import torch
from safetensors.torch import load_file, save_file

import engram

SMALL = ("--memory.layers", 1, "--memory.width", 16)
# name -> memory, options of a run; small agents of the documentation have their folder instead.
TRAINED = {
    "none": ("none", *SMALL),
    "transformer": ("transformer", *SMALL, "--memory.heads", 2),
    "hqlt": ("hqlt", *SMALL, "--memory.heads", 2),
    "lstm": ("lstm", *SMALL),
    "ppo": ("gru", *SMALL, "--learner.name", "ppo", "--run.num_envs", 4),
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The run directory of an agent by name, trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def find(name):
        if name not in TRAINED and name != "parts":
            return program.AGENTS / name
        if not (folder / name).exists():
            if name == "parts":
                program.train(folder / name, "gru", *SMALL, "--task.direction", "true", task="minigrid_memory")
            else:
                program.train(folder / name, *TRAINED[name])
        return folder / name

    return find


def traced(run, episodes=6, device="cpu"):
    """The trace of an evaluation, and the rows of each episode."""
    trace = engram.evaluate(run, episodes, device=device, trace=True).trace
    starts = [*trace["episode_starts"].tolist(), len(trace["actions"])]
    return trace, [range(first, last) for first, last in zip(starts, starts[1:])]


def replay(agent, trace, episodes, batch, convert):
    """Plays traced episodes through act: row i those at i, i + batch, ... one after the other, as long as all rows have
    some, up to 60 steps. Yields the rows of the trace with the actions and the state of each step."""
    rows = [np.concatenate([episodes[e] for e in range(row, len(episodes), batch)]) for row in range(batch)]
    starts = {episode[0] for episode in episodes}
    state = agent.initial_state(batch)
    for t in range(min(60, *map(len, rows))):
        at = torch.tensor([row[t] for row in rows])
        state.reset(convert(torch.tensor([row[t] in starts for row in rows])))
        earned = trace["rewards"][(at - 1).clamp(min=0)]
        action, state = agent.act(convert(trace["observations"][at]), state, convert(earned))
        yield at, action, state


def test_the_trace_is_the_programs(runs, tmp_path):
    program.run("evaluate", runs("lstm"), "--episodes", 6, "--device", "cpu", "--trace", tmp_path / "t.safetensors")
    kept = load_file(tmp_path / "t.safetensors")
    trace, _ = traced(runs("lstm"))
    assert trace.keys() == kept.keys()
    for name, tensor in trace.items():
        # The program may take another number of threads, and sum in another order.
        torch.testing.assert_close(tensor, kept[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*TRAINED, "visual_match", "tmaze", "minesweeper", "cartpole", "parts"])
@pytest.mark.parametrize(("batch", "tolerance"), [(6, 1e-6), (2, 1e-5)])
def test_act_computes_what_the_trace_has(runs, name, batch, tolerance):
    # The trace is of 6 rows; products of fewer may be summed in another order.
    trace, episodes = traced(runs(name))
    agent = engram.load(runs(name), device="cpu")
    steps = 0
    for at, action, state in replay(agent, trace, episodes, batch, torch.Tensor.numpy):
        assert isinstance(action, np.ndarray) and action.dtype == np.int64
        np.testing.assert_array_equal(action, trace["actions"][at].numpy())
        values = trace["values" if name == "ppo" else "q_values"]
        for computed, kept in (
            (state.features, trace["features"]),
            (state.values, values),
            (state.probabilities, trace["action_probabilities"]),
        ):
            assert computed.dtype == np.float32
            np.testing.assert_allclose(computed, kept[at].numpy(), rtol=tolerance, atol=tolerance)
        steps += 1
    assert steps > 5


def test_tensors_give_tensors_and_one_environment_has_no_axis_of_rows(runs):
    agent = engram.load(runs("hqlt"), device="cpu")
    trace, episodes = traced(runs("hqlt"), episodes=1)
    state = agent.initial_state()
    for row in episodes[0]:
        reward = 0.0 if row == 0 else float(trace["rewards"][row - 1])
        action, state = agent.act(trace["observations"][row], state, reward)
        assert isinstance(action, torch.Tensor) and action.shape == () and action == trace["actions"][row]
        torch.testing.assert_close(state.features, trace["features"][row], rtol=1e-5, atol=1e-6)
    state.reset(True)
    action, _ = agent.act(trace["observations"][0].numpy(), state)
    assert action == trace["actions"][0] and action.dtype == np.int64


def test_an_observation_of_several_parts_may_be_a_mapping(runs):
    agent = engram.load(runs("parts"), device="cpu")
    flat = engram.evaluate(runs("parts"), 1, device="cpu", trace=True).trace["observations"][:3]
    cells, direction = flat[:, :-1].reshape(3, 3, 7, 7), flat[:, -1:]
    for convert in (torch.Tensor.numpy, torch.clone):
        parts = {"direction": convert(direction.long()), "cells": convert(cells)}
        _, of_parts = agent.act(parts, agent.initial_state(3))
        _, of_flat = agent.act(convert(flat), agent.initial_state(3))
        np.testing.assert_array_equal(of_parts.features, of_flat.features)


@pytest.mark.parametrize("name", ["lstm", "hqlt", "transformer", "visual_match"])
def test_the_torch_module_computes_whole_episodes_as_act_does(runs, tmp_path, name):
    trace, episodes = traced(runs(name), episodes=3)
    agent = engram.load(runs(name), device="cpu")
    network = agent.to_torch()
    for rows in episodes:
        none = torch.tensor([len(agent.action_names)])
        whole = {
            "observation": trace["observations"][rows][None],
            "previous_action": torch.cat([none, trace["actions"][rows][:-1].long()])[None],
            "previous_reward": torch.cat([torch.zeros(1), trace["rewards"][rows][:-1]])[None],
        }
        out = network(**whole)
        torch.testing.assert_close(out["features"][0], trace["features"][rows], rtol=1e-4, atol=1e-5)
        probabilities = out["actor"][0].softmax(-1)
        torch.testing.assert_close(probabilities, trace["action_probabilities"][rows], rtol=1e-4, atol=1e-5)
        values = torch.minimum(out["critic1"], out["critic2"])[0]
        torch.testing.assert_close(values, trace["q_values"][rows], rtol=1e-4, atol=1e-5)
    # Its weights are those of the run's file, and go through files and a step of an optimiser; the agent keeps its own.
    weights = load_file(runs(name) / "weights/best.safetensors")
    assert network.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[key]) for key, tensor in network.state_dict().items())
    before = agent.act(whole["observation"][:, 0], agent.initial_state(1))[1].features
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.1)
    network(**whole)["actor"].square().sum().backward()
    optimizer.step()
    save_file(network.state_dict(), tmp_path / "tuned.safetensors")
    torch.save(network.state_dict(), tmp_path / "tuned.pt")
    for read in (load_file(tmp_path / "tuned.safetensors"), torch.load(tmp_path / "tuned.pt")):
        again = agent.to_torch()
        again.load_state_dict(read)
        assert torch.equal(again(**whole)["features"], network(**whole)["features"])
    assert not torch.equal(network(**whole)["features"], out["features"])
    assert torch.equal(agent.act(whole["observation"][:, 0], agent.initial_state(1))[1].features, before)


def test_sampled_actions_are_drawn_from_the_policy_by_the_seed_of_each_row(runs):
    agent = engram.load(runs("lstm"), device="cpu")
    observation = engram.evaluate(runs("lstm"), 1, device="cpu", trace=True).trace["observations"][:1].expand(4000, -1)
    action, state = agent.act(observation, agent.initial_state(4000, seed=7), greedy=False)
    frequencies = torch.bincount(action, minlength=4) / 4000
    assert (frequencies - state.probabilities[0]).abs().max() < 0.04
    again, _ = agent.act(observation[:10], agent.initial_state(10, seed=7), greedy=False)
    assert torch.equal(again, action[:10])
    other, _ = agent.act(observation, agent.initial_state(4000, seed=8), greedy=False)
    assert not torch.equal(other, action)
    following, _ = agent.act(observation, state, torch.zeros(4000), greedy=False)
    assert not torch.equal(following, action)


def test_a_state_that_was_acted_from_stays_as_it_was(runs):
    agent = engram.load(runs("transformer"), device="cpu")
    trace, episodes = traced(runs("transformer"), episodes=1)
    states = [agent.initial_state(1)]
    for row in episodes[0]:
        observation = trace["observations"][row : row + 1]
        states.append(agent.act(observation, states[-1], trace["rewards"][row - 1 : row or None][:1])[1])
    for row, state, following in zip(episodes[0], states, states[1:]):
        observation = trace["observations"][row : row + 1]
        _, again = agent.act(observation, state, trace["rewards"][row - 1 : row or None][:1])
        assert torch.equal(again.features, following.features)


@pytest.mark.parametrize("name", ["tmaze", "ppo"])
def test_evaluate_finds_what_the_program_finds(runs, name):
    printed = program.run_json("evaluate", runs(name), "--episodes", 70, "--device", "cpu")
    found = engram.evaluate(runs(name), 70, device="cpu")
    for kind in ("greedy", "sampled"):
        played = getattr(found, kind)
        assert played.success.estimate == printed[kind]["success"]
        assert list(played.success[1:]) == printed[kind]["success_interval"]
        assert played.mean_return.estimate == printed[kind]["return"]
        assert list(played.mean_return[1:]) == printed[kind]["return_interval"]
        assert played.returns.shape == played.successes.shape == played.lengths.shape == (70,)
        assert played.successes.mean() == played.success.estimate
        assert played.returns.mean() == pytest.approx(played.mean_return.estimate)
    assert found.chance_success == printed["chance_success"] and found.trace is None and found.differs == {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.trace = {}


def test_episodes_are_in_the_order_of_the_trace(runs):
    found = engram.evaluate(runs("multiarmed_bandit"), 70, device="cpu", trace=True)
    ends = [*found.trace["episode_starts"][1:].tolist(), len(found.trace["actions"])]
    np.testing.assert_array_equal(np.cumsum(found.greedy.lengths), ends)
    np.testing.assert_array_equal(found.greedy.successes, found.trace["successes"].bool().numpy())
    starts = found.trace["episode_starts"].tolist()
    returns = [float(found.trace["rewards"][a:b].double().sum()) for a, b in zip(starts, ends)]
    np.testing.assert_allclose(found.greedy.returns, returns, atol=1e-5)
    assert len(set(returns)) > 5


def test_a_task_of_another_size(runs):
    printed = program.run_json("evaluate", runs("lstm"), "--episodes", 5, "--device", "cpu",
                               "--task.corridor_length", 20, "--task.active", "false")  # fmt: skip
    found = engram.evaluate(runs("lstm"), 5, device="cpu", corridor_length=20, active=False)
    assert found.differs == printed["differs"]
    assert found.differs["task.corridor_length"]["evaluated"] == 20
    assert found.greedy.mean_return.estimate == printed["greedy"]["return"]
    assert engram.load(runs("lstm"), device="cpu", corridor_length=20).config["task"]["corridor_length"] == 20


@pytest.mark.parametrize("name", ["lstm", "tmaze"])
def test_diagnose_returns_what_the_program_prints(runs, name):
    printed = program.run_json("diagnose", runs(name), "--episodes", 12, "--device", "cpu")
    assert engram.diagnose(runs(name), 12, device="cpu") == printed


def test_a_film_is_the_programs(runs, tmp_path):
    try:
        frames = engram.render(runs("tmaze"), corridor_length=5, first_episode=2)
    except ValueError as error:
        pytest.skip(str(error))
    assert frames.dtype == np.uint8 and frames.ndim == 4 and frames.shape[-1] == 3 and len(np.unique(frames)) > 10
    printed = program.run("render", runs("tmaze"), "--output", tmp_path / "a.gif", "--episodes", 1, "--scale", 1)
    path = engram.render(runs("tmaze"), tmp_path / "b.gif", scale=1)
    assert path == str(tmp_path / "b.gif")
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    count, height, width, _ = engram.render(runs("tmaze")).shape
    assert f"{count} frames of {width} x {height} in" in printed
    with pytest.raises(ValueError, match="b.gif' is there"):
        engram.render(runs("tmaze"), tmp_path / "b.gif")
    with pytest.raises(ValueError, match="only = 'none'"):
        engram.render(runs("tmaze"), only="none")
    with pytest.raises(ValueError, match="scale = '9'"):
        engram.render(runs("tmaze"), scale=9)


def test_what_an_agent_says_of_itself(runs):
    agent = engram.load(runs("lstm"), weights="last", device="cpu")
    assert agent.task == "tmaze" and agent.device == torch.device("cpu")
    assert agent.config["memory"] == {"name": "lstm", "width": 16, "layers": 1, "first_weights": "uniform"}
    assert agent.config["task"]["active"] is False and agent.config["run"]["device"] == "cpu"
    assert len(agent.action_names) == 4
    assert repr(agent) == "<engram.Agent: lstm on tmaze, cpu>"


def refused(message, function, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        function(*arguments, **options)
    text = str(caught.value)
    assert message in text and "\n" not in text, text


def test_bad_input_is_refused_by_what_is_wrong(runs, tmp_path):
    run = runs("hqlt")
    refused("nowhere", engram.load, tmp_path / "nowhere")
    refused("'worst'", engram.load, run, weights="worst")
    refused("'tpu'", engram.load, run, device="tpu")
    refused("corridor_length", engram.load, run, device="cpu", corridor_length=-3)
    refused("colour", engram.load, run, device="cpu", colour="red")
    refused("episodes is 0", engram.evaluate, run, 0)
    refused("episodes is 0", engram.diagnose, run, 0)
    agent = engram.load(run, device="cpu")
    refused("batch is 0", agent.initial_state, 0)
    refused("seed is -1", agent.initial_state, 1, seed=-1)
    state = agent.initial_state(2)
    refused("has not acted yet", lambda: state.features)
    shape = engram.evaluate(run, 1, device="cpu", trace=True).trace["observations"].shape[1:]
    observation = np.zeros((2, *shape), np.float32)
    refused("is a list", agent.act, observation.tolist(), state)
    refused("has the shape", agent.act, observation[:1], state)
    refused("observation is torch.int64", agent.act, observation.astype(np.int64), state)
    refused("not finite", agent.act, np.full_like(observation, np.nan), state)
    refused("mask is", state.reset, np.zeros(3, bool))
    refused("mask is", state.reset, np.zeros(2))
    _, state = agent.act(observation, state)
    refused("reward is missing", agent.act, observation, state)
    refused("reward has the shape", agent.act, observation, state, np.zeros(3))
    refused("reward has values", agent.act, observation, state, np.array([0, np.inf]))
    for _ in range(200):
        state.reset()
        _, state = agent.act(observation, state)
    with pytest.raises(ValueError, match="say where episodes begin"):
        for _ in range(200):
            _, state = agent.act(observation, state, np.zeros(2))
    parts = engram.load(runs("parts"), device="cpu")
    cells, direction = np.zeros((1, 3, 7, 7), np.uint8), np.full((1, 1), 4, np.uint8)
    state = parts.initial_state(1)
    refused("direction has values", parts.act, {"cells": cells, "direction": direction}, state)
    refused("direction has values", parts.act, np.concatenate([cells.reshape(1, -1), direction], 1), state)
    refused("has the parts cells;", parts.act, {"cells": cells}, state)
    refused("outside 0 .. 255", parts.act, {"cells": cells.astype(int) - 1, "direction": direction * 0}, state)
    refused("is torch.float32", parts.act, {"cells": cells.astype(np.float32), "direction": direction * 0}, state)


def test_the_callers_state_is_left_alone(runs, capfd):
    run = runs("hqlt")
    torch.manual_seed(3)
    before = torch.get_rng_state(), torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    engram.evaluate(run, 3, device="cpu", trace=True)
    engram.diagnose(run, 3, device="cpu")
    agent = engram.load(run, device="cpu")
    shape = engram.evaluate(run, 1, device="cpu", trace=True).trace["observations"].shape[1:]
    agent.act(np.zeros((2, *shape), np.float32), agent.initial_state(2), greedy=False)
    after = torch.get_rng_state(), torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert torch.is_grad_enabled()
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_ends_an_evaluation(runs):
    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            engram.evaluate(runs("hqlt"), 1_000_000, device="cpu")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*TRAINED, "visual_match"])
def test_on_a_gpu_act_computes_what_the_trace_has(runs, name):
    trace, episodes = traced(runs(name), device="cuda")
    agent = engram.load(runs(name), device="cuda")
    for convert in (torch.Tensor.cuda, torch.Tensor.numpy):
        for at, action, state in replay(agent, trace, episodes, 3, convert):
            if convert is torch.Tensor.cuda:
                assert action.is_cuda and state.features.is_cuda
            # Products in bfloat16 may be summed in another order for other numbers of rows.
            close = dict(rtol=3e-2, atol=3e-2)
            np.testing.assert_allclose(torch.as_tensor(state.features).cpu(), trace["features"][at], **close)
            np.testing.assert_allclose(torch.as_tensor(state.probabilities).cpu(), trace["action_probabilities"][at],
                                       **close)  # fmt: skip


def test_the_json_of_the_config_is_the_files(runs):
    config = engram.load(runs("tmaze"), device="cpu").config
    assert json.loads(json.dumps(config)) == config
    text = (runs("tmaze") / "config.ini").read_text()
    assert f"corridor_length = {config['task']['corridor_length']}\n" in text
