"""An LSTM's agent rebuilt in plain PyTorch from its weights and docs/use/weights.md alone acts as engram's does."""

import program
import pytest
import torch
from safetensors import safe_open
from torch.nn import functional

import engram


class RebuiltLstm:
    """Of the weights' names in docs/use/weights.md, with what that page says a step computes; one environment."""

    def __init__(self, file):
        with safe_open(file, framework="pt") as weights:
            self.weights = {name: weights.get_tensor(name) for name in weights.keys()}
        layers = len({name for name in self.weights if name.startswith("backbone.lstm.weight_ih_l")})
        width = self.weights["observation.bias"].shape[0]
        self.lstm = torch.nn.LSTM(width, width, layers)
        self.lstm.load_state_dict({
            name.removeprefix("backbone.lstm."): tensor
            for name, tensor in self.weights.items()
            if name.startswith("backbone.lstm.")
        })  # fmt: skip
        self.memory = None

    def linear(self, name, x):
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def head(self, name, h):
        hidden = self.linear(f"{name}.hidden1", h).relu()
        return self.linear(f"{name}.output", self.linear(f"{name}.hidden2", hidden).relu())

    def encode(self, observation):
        if "convolution1.weight" not in self.weights:
            return self.linear("observation", observation).relu()
        image = observation.float() / 255
        for name in ("convolution1", "convolution2"):
            image = functional.conv2d(image, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]).relu()
        return self.linear("observation", image.flatten())

    @torch.no_grad()
    def step(self, observation, action, reward):
        """`action`: the previous one; None at an episode's beginning."""
        x = self.encode(observation)
        if "joined.weight" in self.weights:
            table = self.weights["previous_action.weight"]
            previous = table[-1 if action is None else action]
            earned = self.linear("previous_reward", torch.tensor([0.0 if action is None else reward])).relu()
            x = self.linear("joined", torch.cat([x, previous, earned]))
        features, self.memory = self.lstm(x[None], None if action is None else self.memory)
        h = features[0]
        return h, self.head("actor", h).softmax(-1), torch.minimum(self.head("critic1", h), self.head("critic2", h))


@pytest.mark.parametrize(
    ("task", "task_options", "previous"),
    [("tmaze", ("--task.corridor_length", 5), 4), ("visual_match", ("--task.distractor_steps", 2), 0)],
)
def test_the_rebuilt_agent_acts_alike(tmp_path, task, task_options, previous):
    options = ("--memory.layers", 2, "--memory.width", 16, *task_options)
    run = program.train(tmp_path / "run", "lstm", *options, task=task, previous=previous)
    rebuilt = RebuiltLstm(run / "weights/best.safetensors")
    trace = engram.evaluate(run, 2, device="cpu", trace=True).trace
    agent, starts = engram.load(run, device="cpu"), set(trace["episode_starts"].tolist())
    state = agent.initial_state()
    for row, observation in enumerate(trace["observations"]):
        reward = float(trace["rewards"][row - 1])
        action = None if row in starts else int(trace["actions"][row - 1])
        if action is None:
            state.reset()
        chosen, state = agent.act(observation, state, reward)
        features, probabilities, values = rebuilt.step(observation, action, reward)
        assert chosen == probabilities.argmax() == trace["actions"][row]
        torch.testing.assert_close(features, state.features, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(probabilities, state.probabilities, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(values, state.values, rtol=1e-5, atol=1e-6)
