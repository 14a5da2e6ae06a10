"""Backbone and AgentModule: C++ networks that behave as torch modules."""

import copy
import io
import os
import pickle
import socket
import threading

import pytest
import torch
from torch import Tensor, nn

import engram
from engram import AgentModule, Backbone

BATCH, TIME, WIDTH = 3, 7, 8
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(5)
    torch.set_num_threads(1)


def output(memory: Backbone, x: torch.Tensor, **arguments) -> torch.Tensor:
    """That of fresh sequences, by the road that learning takes."""
    return memory(x, return_state=False, **arguments)[0]


def small(name: str, **options) -> Backbone:
    """A small backbone, with two layers and without dropout where it has such options."""
    known = {option.name for option in engram.backbone_options(name)}
    wanted = {"width": WIDTH, "layers": 2, "dropout": 0.0, "window": 4, **options}
    return Backbone(name, max_steps=16, **{key: value for key, value in wanted.items() if key in known})


def inputs(dtype=torch.float32) -> Tensor:
    return torch.randn(BATCH, TIME, WIDTH, dtype=dtype)


def gradients_of(module: nn.Module, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [p for p in module.parameters() if p.requires_grad]))


def assert_all_close(found, wanted, **tolerances):
    torch.testing.assert_close(list(found), list(wanted), **tolerances)


# ---- What there is, and what is refused


def test_backbones_and_their_options_are_listed():
    assert {"hqlt", "deltanet", "transformer", "lstm", "gru", "none"} <= set(engram.backbone_names())
    options = {option.name: option for option in engram.backbone_options("hqlt")}
    assert options["width"].default == 100 and options["width"].allowed.startswith("integer 1..")
    assert options["dropout"].default == 0.1 and options["branch_norm"].default is False
    assert options["mixing"].default == "vector" and "scalar" in options["mixing"].allowed and options["mixing"].help


def test_a_backbone_says_what_it_is():
    memory = Backbone("hqlt", width=16, layers=1, branch_norm=True, dropout=0.25, max_steps=50)
    assert (memory.name, memory.width, memory.max_steps) == ("hqlt", 16, 50)
    assert memory.options["layers"] == 1 and memory.options["branch_norm"] is True
    assert memory.options["dropout"] == 0.25 and memory.options["mixing"] == "vector"
    assert "'hqlt', max_steps=50, width=16" in repr(memory)
    cost = memory.cost()
    assert cost.parameters == sum(p.numel() for p in memory.parameters()) > cost.mlp_parameters > 0
    assert cost.state_bytes == sum(t.numel() * (4 if t.is_floating_point() else 8) for t in memory.initial_state(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Backbone("hqtl"), "unknown backbone 'hqtl'; did you mean 'hqlt'"),
        (lambda: Backbone("gru", widht=3), "unknown key 'memory.widht'; did you mean"),
        (lambda: Backbone("gru", width=0), "memory.width = '0' is not allowed; it takes integer 1.."),
        (lambda: Backbone("gru", width=1.5), "memory.width = '1.5' is not allowed"),
        (lambda: Backbone("gru", width=[3]), "width = [3] is not allowed; it takes a number"),
        (lambda: Backbone("hqlt", width=30, heads=4), "memory.width 30 is not divisible by memory.heads 4"),
        (lambda: Backbone("gru", max_steps=0), "max_steps = 0 is not allowed; it takes 1 or more"),
        (lambda: engram.backbone_options("x"), "unknown backbone 'x'"),
        (lambda: small("gru")(torch.zeros(3, 8)), "x has shape [3, 8]; it must be [batch, time, 8]"),
        (lambda: small("gru")(torch.zeros(3, 2, 9)), "input has shape [3, 2, 9]; it must be [batch, time, 8]"),
        (lambda: small("gru")(inputs(), lengths=torch.tensor([1, 8, 2])), "lengths must lie in 0..7, not 8"),
        (lambda: small("gru")(inputs(), lengths=torch.ones(3)), "lengths must be int64 [3], not Float [3]"),
        (lambda: small("gru")(inputs(), [torch.zeros(2, 2, 8)]), "memory state tensor 0 has shape [2, 2, 8]"),
        (lambda: small("gru")(inputs(), [torch.zeros(3, 2, 8).double()]), "memory state tensor 0 is Double on cpu"),
        (lambda: small("lstm")(inputs(), [torch.zeros(3, 2, 8)]), "memory state has 1 tensors; this backbone has 2"),
        (lambda: small("gru").step(inputs()), "x has shape [3, 7, 8]; it must be [batch, 8]"),
        (lambda: small("gru").step(inputs()[:, 0], [torch.zeros(2, 2, 8)]), "memory state tensor 0 has shape"),
        (lambda: small("gru").bfloat16()(inputs()), "the parameters are bfloat16; they must be float32 or float64"),
        (lambda: small("transformer")(torch.zeros(1, 17, 8)), "a sequence of 17 steps exceeds the transformer's cache"),
        (lambda: Backbone.reset_rows([torch.zeros(3, 2)], torch.zeros(2).bool()), "mask must be bool [3], not"),
        (lambda: AgentModule({"task.name": "tmazes"}), "unknown task 'tmazes'"),
        (lambda: AgentModule({"memory.widht": 3}), "unknown key 'memory.widht'"),
    ],
)
def test_bad_input_is_a_value_error_of_one_line(make, message):
    with pytest.raises(ValueError) as refused:
        make()
    assert message in str(refused.value) and "\n" not in str(refused.value)


# ---- Parameters are the C++ module's own


def test_the_state_dict_has_engrams_names():
    assert set(Backbone("lstm", width=4, layers=1).state_dict()) == {
        "lstm.weight_ih_l0",
        "lstm.weight_hh_l0",
        "lstm.bias_ih_l0",
        "lstm.bias_hh_l0",
    }
    names = set(Backbone("hqlt", width=8, layers=2).state_dict())
    assert {"blocks.1.mixer.query.weight", "blocks.0.mlp.gate.weight", "norm.weight"} <= names
    transformer = Backbone("transformer", width=8, layers=1)
    assert "blocks.0.attention.query.bias" in transformer.state_dict()
    assert [name for name, _ in transformer.named_buffers()] == ["position_code"]
    assert "position_code" not in transformer.state_dict()
    assert all(isinstance(p, nn.Parameter) and p.is_leaf and p.requires_grad for p in transformer.parameters())


def test_weights_are_drawn_from_torchs_generator():
    torch.manual_seed(1)
    first = Backbone("hqlt", width=8).state_dict()
    torch.manual_seed(1)
    assert_all_close(Backbone("hqlt", width=8).state_dict().values(), first.values(), rtol=0, atol=0)
    query = "blocks.0.mixer.query.weight"
    assert not torch.equal(Backbone("hqlt", width=8).state_dict()[query], first[query])


@pytest.mark.parametrize("name", ["hqlt", "deltanet", "transformer", "gru", "lstm", "lru"])
def test_an_optimisers_steps_are_seen(name):
    memory, x = small(name), inputs()
    optimiser = torch.optim.AdamW(memory.parameters(), lr=0.1)
    before = output(memory, x)
    output(memory, x).square().mean().backward()
    nn.utils.clip_grad_norm_(memory.parameters(), 1.0)
    optimiser.step()
    fresh = small(name)
    fresh.load_state_dict(memory.state_dict())
    assert not torch.allclose(output(memory, x), before, atol=1e-3)
    assert_all_close([output(memory, x)], [output(fresh, x)], rtol=0, atol=0)
    assert_all_close([memory.step(x[:, 0])[0]], [fresh.step(x[:, 0])[0]], rtol=0, atol=0)


@pytest.mark.parametrize("assign", [False, True])
def test_loaded_weights_are_seen(assign):
    memory, other, x = small("hqlt"), small("hqlt"), inputs()
    parameter = next(memory.parameters())
    memory.load_state_dict(copy.deepcopy(other.state_dict()), assign=assign)
    assert next(memory.parameters()) is parameter
    assert_all_close([output(memory, x)], [output(other, x)], rtol=0, atol=0)


def test_frozen_parameters_get_no_gradient():
    memory = small("hqlt").requires_grad_(False)
    memory.norm.weight.requires_grad_()
    output(memory, inputs()).sum().backward()
    assert [name for name, p in memory.named_parameters() if p.grad is not None] == ["norm.weight"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["transformer", "hqlt", "lstm"])
def test_parameters_and_buffers_move(name, overwrite):
    memory, x = small(name), inputs()
    wanted, held = output(memory, x), [*memory.parameters(), *memory.buffers()]
    output(memory, x).sum().backward()
    torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    try:
        memory.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert all(now is then for now, then in zip([*memory.parameters(), *memory.buffers()], held))
    assert all(tensor.dtype == torch.float64 for tensor in held)
    assert all(p.grad.dtype == torch.float64 for p in memory.parameters())
    found = output(memory, x.double())
    assert found.dtype == torch.float64
    assert_all_close([found.float()], [wanted])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_equal_and_apart(copied):
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.memory = small("transformer")
            self.optimiser = torch.optim.SGD(self.memory.parameters(), lr=0.5)

    globals()["Owner"], Owner.__qualname__ = Owner, "Owner"  # pickle looks it up there
    owner, x = Owner(), inputs()
    owner.memory.eval().norm.weight.requires_grad_(False)
    state = torch.get_rng_state()
    twin = copied(owner)
    assert torch.equal(torch.get_rng_state(), state)
    before = output(owner.memory, x)
    assert not twin.memory.training and not twin.memory.norm.weight.requires_grad
    assert_all_close([output(twin.memory, x)], [before], rtol=0, atol=0)
    # The optimiser's parameters are still those of its memory.
    output(twin.memory, x).square().sum().backward()
    twin.optimiser.step()
    assert not torch.allclose(output(twin.memory, x), before)
    assert_all_close([output(owner.memory, x)], [before], rtol=0, atol=0)


def test_a_module_is_saved_and_loaded_whole():
    memory, x, file = small("hqlt"), inputs(), io.BytesIO()
    torch.save(memory, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.options == memory.options
    assert_all_close([output(loaded, x)], [output(memory, x)], rtol=0, atol=0)


def test_a_parameter_outlives_its_module():
    parameter = next(small("gru").parameters())
    assert torch.equal(copy.deepcopy(parameter), parameter)
    assert torch.equal(pickle.loads(pickle.dumps(parameter)), parameter)


def test_replaced_parameters_are_refused():
    memory, x = small("gru"), inputs()
    weights = {name: torch.zeros_like(p) for name, p in memory.named_parameters()}
    with pytest.raises(RuntimeError, match="parameter gru.* was replaced"):
        torch.func.functional_call(memory, weights, (x,))
    assert output(memory, x).shape == x.shape


def test_a_module_in_another_trains_along():
    model = nn.ModuleDict({"input": nn.Linear(3, WIDTH), "memory": small("gru"), "output": nn.Linear(WIDTH, 1)})
    features, _ = model["memory"](model["input"](torch.randn(2, 4, 3)))
    model["output"](features).sum().backward()
    assert "memory.gru.weight_ih_l1" in model.state_dict() and all(p.grad is not None for p in model.parameters())


# ---- What is computed


def test_a_lstm_is_pytorchs():
    memory, x = Backbone("lstm", width=WIDTH, layers=2), inputs()
    plain = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
    plain.load_state_dict({name.removeprefix("lstm."): value for name, value in memory.state_dict().items()})
    y, (hidden, cell) = plain(x)
    assert_all_close([output(memory, x)], [y])
    found, state = memory(x)
    assert_all_close([found, *state], [y, hidden.transpose(0, 1), cell.transpose(0, 1)])
    assert_all_close(gradients_of(memory, output(memory, x).square().sum()), gradients_of(plain, y.square().sum()))


@pytest.mark.parametrize("name", engram.backbone_names())
def test_forward_is_step_repeated_and_any_split(name):
    memory, x = small(name).eval(), inputs()
    whole, last = memory(x)
    assert_all_close([output(memory, x)], [whole], rtol=1e-4, atol=1e-5)

    outputs, state = [], None
    for t in range(TIME):
        y, state = memory.step(x[:, t], state)
        outputs.append(y)
    assert_all_close([torch.stack(outputs, 1), *state], [whole, *last], rtol=1e-4, atol=1e-5)

    for cut in (1, 4):
        first, middle = memory(x[:, :cut])
        second, state = memory(x[:, cut:], middle)
        assert_all_close([torch.cat([first, second], 1), *state], [whole, *last], rtol=1e-4, atol=1e-5)

    lengths = torch.tensor([TIME, 4, 0])
    y, state = memory(x, lengths=lengths)
    shorter = memory(x[:, :4])[1]
    for found, full, short in zip(state, last, shorter):
        assert_all_close([found[0], found[1]], [full[0], short[1]], rtol=1e-4, atol=1e-5)
        assert not found[2].any()
    for row, length in enumerate(lengths.tolist()):
        assert_all_close([y[row, :length]], [whole[row, :length]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["hqlt", "deltanet", "transformer", "gru", "lru", "gated_deltanet"])
def test_gradients_are_right_in_double_precision(name):
    memory = small(name, width=4, layers=1, mlp_width=3).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    _, state = memory(torch.randn(2, 2, 4, dtype=torch.float64))
    floating = [tensor.detach().requires_grad_() for tensor in state if tensor.is_floating_point()]
    parameters = list(memory.parameters())

    def carried(x, *tensors):  # the parameters among them are changed in place by gradcheck
        given = iter(tensors)
        y, last = memory(x, [next(given) if t.is_floating_point() else t for t in state])
        return y, *(t for t in last if t.is_floating_point())

    assert torch.autograd.gradcheck(carried, (x, *floating, *parameters))
    lengths = torch.tensor([3, 2])
    assert torch.autograd.gradcheck(lambda x, *_: output(memory, x, lengths=lengths)[:, :2], (x, *parameters))


@pytest.mark.parametrize("name", ["hqlt", "lstm", "frame_stack", "fast_weights", "transformer"])
def test_a_step_rewrites_the_state_in_place(name):
    memory, x = small(name), inputs()
    _, state = memory(x)
    state = [tensor.detach() for tensor in state]
    places, before = [t.data_ptr() for t in state], [t.clone() for t in state]
    _, after = memory.step(x[:, 0], state)
    assert [t.data_ptr() for t in after] == places
    assert any(not torch.equal(now, then) for now, then in zip(state, before))
    with pytest.raises(ValueError, match="has a gradient; step.. writes into it"):
        memory.step(x[:, 0], [t.requires_grad_() if t.is_floating_point() else t for t in after])


def test_rows_are_reset():
    memory, x = small("hqlt"), inputs()
    _, state = memory(x)
    state[1].data[1] = float("nan")
    reset = Backbone.reset_rows(state, torch.tensor([False, True, False]))
    assert all(not tensor[1].any() for tensor in reset)
    assert_all_close([t[0] for t in reset], [t[0] for t in state])
    y, _ = memory.step(x[:, 0], [tensor.detach() for tensor in reset])
    assert_all_close([y[1]], [memory.step(x[:, 0])[0][1]])


def test_types_of_inputs_pass_through():
    memory, x = small("hqlt"), inputs()
    wanted = output(memory, x)
    for dtype in (torch.bfloat16, torch.float64):
        y = output(memory, x.to(dtype))
        assert y.dtype == dtype and memory.step(x[:, 0].to(dtype))[0].dtype == dtype
        assert_all_close([y.float()], [wanted], rtol=0.05, atol=0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_all_close([output(memory, x)], [wanted], rtol=0, atol=0)


def test_no_steps_and_no_memory():
    memory = small("gru")
    y, state = memory(torch.zeros(2, 0, WIDTH))
    assert y.shape == (2, 0, WIDTH) and not state[0].any()
    assert small("none").initial_state(3) == [] and small("none")(inputs())[1] == []


def test_roads_say_what_computes_and_why():
    learning, step = small("hqlt").roads()
    assert learning.part == "backbone" and learning.road == "LibTorch and own loops in float32" and learning.reason
    assert step.part == "step" and not step.fast
    assert small("hqlt").double().roads()[0].road.endswith("float64")
    with pytest.raises(ValueError, match="device 'cuda:99' is not there: GPUs found"):
        small("hqlt").roads(torch.bfloat16, "cuda:99")


# ---- Draws


def test_dropout_is_torchs_draw():
    memory, x = small("hqlt", dropout=0.5), inputs()
    torch.manual_seed(3)
    first, second = output(memory, x), output(memory, x)
    torch.manual_seed(3)
    assert_all_close([output(memory, x)], [first], rtol=0, atol=0)
    assert not torch.allclose(first, second)
    memory.eval()
    assert_all_close([output(memory, x)], [output(memory, x)], rtol=0, atol=0)
    assert not torch.allclose(output(memory, x), first)


def test_each_backward_pass_belongs_to_its_forward_pass():
    memory, x = small("hqlt", dropout=0.5), inputs()
    torch.manual_seed(3)
    wanted = gradients_of(memory, output(memory, x).square().sum())
    torch.manual_seed(3)
    first = output(memory, x).square().sum()
    output(memory, x)  # draws anew
    assert_all_close(gradients_of(memory, first), wanted, rtol=0, atol=0)


def test_checkpointing_draws_the_same_again():
    memory, x = small("transformer", dropout=0.5), inputs().requires_grad_()
    torch.manual_seed(3)
    wanted = gradients_of(memory, output(memory, x).square().sum())
    torch.manual_seed(3)
    y = torch.utils.checkpoint.checkpoint(output, memory, x, use_reentrant=False)
    assert_all_close(gradients_of(memory, y.square().sum()), wanted, rtol=0, atol=0)


# ---- Threads, processes, compiled graphs


def test_python_runs_while_cpp_computes():
    memory, x = Backbone("hqlt", width=64, layers=2), torch.randn(16, 256, 64)
    thread = threading.Thread(target=lambda: [output(memory, x) for _ in range(3)])
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 10_000


def _train_together(rank: int, port: int, expected: list[Tensor]) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(5)
    memory = small("hqlt")
    x = torch.randn(2, TIME, WIDTH)
    together = nn.parallel.DistributedDataParallel(memory)
    output(together, x[rank : rank + 1]).square().mean().backward()
    assert_all_close([p.grad for p in memory.parameters()], expected, rtol=1e-4, atol=1e-6)
    torch.distributed.destroy_process_group()


def test_two_processes_average_their_gradients():
    torch.manual_seed(5)
    memory = small("hqlt")
    expected = gradients_of(memory, output(memory, torch.randn(2, TIME, WIDTH)).square().mean())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_train_together, args=(port, expected), nprocs=2)


class Recall(nn.Module):
    """A network around a memory, with and without a state."""

    def __init__(self, memory: Backbone) -> None:
        super().__init__()
        self.memory, self.output = memory, nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, state: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        if state is None:
            return self.output(output(self.memory, torch.tanh(x))), []
        y, state = self.memory(torch.tanh(x), state)
        return self.output(y), state


@pytest.mark.parametrize("name", ["hqlt", "lstm"])
@pytest.mark.parametrize("carried", [False, True])
def test_compiled_is_as_eager(name, carried):
    torch._dynamo.reset()
    model, x = Recall(small(name)), inputs().requires_grad_()
    state = small(name)(inputs())[1] if carried else None
    if carried:
        state = [t.detach().requires_grad_() if t.is_floating_point() else t for t in state]
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)

    def results(network):
        y, last = network(x, state)
        wanted = [x, *model.parameters(), *(t for t in state or [] if t.requires_grad)]
        loss = y.square().sum() + sum(t.square().sum() for t in last if t.is_floating_point())
        return [y, *last, *torch.autograd.grad(loss, wanted)]

    for _ in range(2):
        assert_all_close(results(compiled), results(model), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            next(model.memory.parameters()).mul_(1.5)
            assert_all_close([compiled(x, state)[0]], [model(x, state)[0]], rtol=1e-4, atol=1e-5)


def test_inductor_compiles_it():
    torch._dynamo.reset()
    memory, x = small("hqlt"), inputs().requires_grad_()
    compiled = torch.compile(lambda x: output(memory, x.tanh()).square().sum(), fullgraph=True)
    found, wanted = compiled(x), output(memory, x.tanh()).square().sum()
    assert_all_close([found], [wanted])
    given = [x, *memory.parameters()]
    assert_all_close(torch.autograd.grad(found, given), torch.autograd.grad(wanted, given), rtol=1e-4, atol=1e-5)


def test_a_compiled_step_rewrites_the_state():
    torch._dynamo.reset()
    memory, x = small("hqlt"), inputs()
    act = torch.compile(lambda x, state: memory.step(x * 2, state), backend="aot_eager", fullgraph=True)
    compiled, eager = memory.initial_state(BATCH), memory.initial_state(BATCH)
    for t in range(3):
        y, _ = act(x[:, t], compiled)
        wanted, _ = memory.step(x[:, t] * 2, eager)
        assert_all_close([y, *compiled], [wanted, *eager])


def test_operations_change_what_they_say():
    memory, x = small("hqlt"), inputs()
    rest = (list(memory.parameters()), torch.float32, True)
    checks = ("test_schema", "test_faketensor")
    step = (memory._key, x[:, 0], memory.initial_state(BATCH), *rest)
    torch.library.opcheck(torch.ops.engram.step, step, test_utils=checks)
    given = [x, torch.full((BATCH,), TIME), *memory.initial_state(BATCH)]
    for recorded in (False, True):
        torch.library.opcheck(torch.ops.engram.forward, (memory._key, given, *rest, recorded), test_utils=checks)


def test_records_end_with_their_graphs():
    memory, x = small("gru"), inputs()
    network, parameters = memory._network, list(memory.parameters())
    lengths = torch.full((BATCH,), TIME)
    *_, ticket = network.compiled_forward([x, lengths], torch.float32, True, True)
    kept = ticket.clone()
    assert len(network.backward(ticket, [torch.ones_like(x)])) == 1 + len(parameters)
    del ticket
    with pytest.raises(RuntimeError, match="no forward pass is recorded under ticket"):
        network.backward(kept, [torch.ones_like(x)])


# ---- An agent's network

SETTINGS = {
    "task.name": "tmaze",
    "memory.name": "lstm",
    "memory.width": WIDTH,
    "memory.layers": 1,
    "network.hidden_width": 5,
    "network.dropout": 0.0,
    "network.previous_action_width": 3,
    "network.previous_reward_width": 2,
}


def episodes() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        torch.randn(BATCH, TIME, 2),
        torch.randint(0, 5, (BATCH, TIME)),
        torch.randn(BATCH, TIME),
        torch.tensor([TIME, 3, 1]),
    )


def test_an_agents_network_in_plain_pytorch():
    agent, (observation, action, reward, lengths) = AgentModule(SETTINGS), episodes()
    weights = agent.state_dict()

    def linear(name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    prefix = "backbone.lstm."
    lstm.load_state_dict({name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)})
    seen = linear("observation", observation).relu()
    acted = nn.functional.embedding(action, weights["previous_action.weight"])
    earned = linear("previous_reward", reward.unsqueeze(-1)).relu()
    features = lstm(linear("joined", torch.cat([seen, acted, earned], -1)))[0]

    found = agent(observation, action, reward, lengths)
    assert list(found) == ["features", "actor", "critic1", "critic2", "target_critic1", "target_critic2"]
    for row, length in enumerate(lengths.tolist()):
        assert_all_close([found["features"][row, :length]], [features[row, :length]], rtol=1e-4, atol=1e-5)
        for head in agent.head_names:
            x = linear(f"{head}.hidden1", features[row, :length]).relu()
            x = linear(f"{head}.output", linear(f"{head}.hidden2", x).relu())
            assert_all_close([found[head][row, :length]], [x], rtol=1e-4, atol=1e-5)

    found["actor"][0].sum().backward()
    assert agent.backbone.lstm.weight_ih_l0.grad.any() and agent.target_critic1.output.weight.grad is None


def test_an_agents_network_is_a_module_like_others():
    agent, given = AgentModule(SETTINGS).eval(), episodes()
    wanted = agent(*given)
    twin = pickle.loads(pickle.dumps(agent))
    assert_all_close(twin(*given).values(), wanted.values(), rtol=0, atol=0)
    assert_all_close([v.float() for v in twin.double()(*given).values()], wanted.values(), rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    compiled = torch.compile(agent, backend="aot_eager", fullgraph=True)(*given)
    assert_all_close(compiled.values(), wanted.values())
    loss, wanted_loss = compiled["critic1"].sum(), wanted["critic1"].sum()
    learnt = [p for name, p in agent.named_parameters() if name.startswith(("backbone", "critic1"))]
    assert_all_close(torch.autograd.grad(loss, learnt), torch.autograd.grad(wanted_loss, learnt))
    assert [road.part for road in agent.roads()] == ["backbone", "heads", "encoder"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda o, a, r, n: (o[:2], a, r, n), "observation has shape [2, 7, 2]; it must be [3, 7, 2]"),
        (lambda o, a, r, n: (o.byte(), a, r, n), "observation is Byte; task tmaze gives Float"),
        (lambda o, a, r, n: (o, a.float(), r, n), "previous_action must be int64 [batch, time], not Float [3, 7]"),
        (lambda o, a, r, n: (o, a + 9, r, n), "previous_action must lie in 0..4, where 4 is none, not"),
        (lambda o, a, r, n: (o, a, r[:, 1:], n), "previous_reward must be floating [3, 7], not Float [3, 6]"),
        (lambda o, a, r, n: (o, a, r, n + 1), "lengths must lie in 0..7, not 8"),
    ],
)
def test_an_agents_network_refuses_what_does_not_fit(changed, message):
    with pytest.raises(ValueError) as refused:
        AgentModule(SETTINGS)(*changed(*episodes()))
    assert message in str(refused.value) and "\n" not in str(refused.value)


# ---- On a GPU


@gpu
@pytest.mark.parametrize("name", ["hqlt", "deltanet", "transformer"])
@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_takes_the_fused_kernels(name, autocast):
    memory, x = small(name, width=32, layers=2).cuda(), torch.randn(4, 33, 32, device="cuda")
    learning, step = memory.roads(torch.bfloat16)
    assert learning.fast and learning.road == "fused kernels in bfloat16"
    wanted = output(memory, x)
    wanted_gradients = gradients_of(memory, wanted.square().mean())
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
        y = output(memory, x if autocast else x.bfloat16())
        acted, state = memory.step(x[:, 0] if autocast else x[:, 0].bfloat16())
    assert y.dtype == acted.dtype == torch.bfloat16
    assert all(t.dtype in (torch.float32, torch.int64) and t.is_cuda for t in state)
    torch.testing.assert_close(y.float(), wanted, rtol=0.05, atol=0.05)
    torch.testing.assert_close(acted.float(), wanted[:, 0], rtol=0.05, atol=0.05)
    for found, exact in zip(gradients_of(memory, y.float().square().mean()), wanted_gradients):
        assert (found - exact).norm() <= 0.1 * exact.norm() + 1e-4


@gpu
@pytest.mark.parametrize("name", engram.backbone_names())
def test_a_gpu_computes_what_a_cpu_does(name):
    memory, x = small(name).eval(), inputs()
    wanted, last = memory(x)
    memory.cuda()
    found, state = memory(x.cuda())
    assert all(t.is_cuda for t in state)
    fresh = output(memory, x.cuda())
    assert_all_close([t.cpu() for t in (found, fresh, *state)], [wanted, wanted, *last], rtol=1e-3, atol=1e-4)
    outputs, state = [], None
    for t in range(TIME):
        y, state = memory.step(x[:, t].cuda(), state)
        outputs.append(y.cpu())
    assert_all_close([torch.stack(outputs, 1)], [wanted], rtol=1e-3, atol=1e-4)


@gpu
def test_dropout_on_a_gpu_belongs_to_its_forward_pass():
    memory, x = small("hqlt", width=32, dropout=0.5).cuda(), torch.randn(4, 33, 32, device="cuda").bfloat16()
    torch.manual_seed(3)
    wanted = gradients_of(memory, output(memory, x).float().square().sum())
    torch.manual_seed(3)
    first = output(memory, x).float().square().sum()
    output(memory, x)  # draws anew
    assert_all_close(gradients_of(memory, first), wanted, rtol=1e-3, atol=1e-3)


@gpu
def test_an_optimisers_steps_are_seen_by_fused_kernels():
    memory, x = small("hqlt", width=32).cuda(), torch.randn(4, 33, 32, device="cuda").bfloat16()
    optimiser = torch.optim.AdamW(memory.parameters(), lr=0.1)
    output(memory, x).float().square().mean().backward()
    memory.step(x[:, 0])
    optimiser.step()
    fresh = small("hqlt", width=32).cuda()
    fresh.load_state_dict(memory.state_dict())
    assert_all_close([output(memory, x)], [output(fresh, x)], rtol=0, atol=0)
    assert_all_close([memory.step(x[:, 0])[0]], [fresh.step(x[:, 0])[0]], rtol=0, atol=0)


@gpu
def test_compiled_is_as_eager_on_a_gpu():
    torch._dynamo.reset()
    model, x = Recall(small("hqlt")).cuda(), inputs().cuda().requires_grad_()
    compiled = torch.compile(model, fullgraph=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found, wanted = compiled(x)[0], model(x)[0]
    assert_all_close([found], [wanted], rtol=0.02, atol=0.02)
    found, wanted = (gradients_of(model, y.float().square().sum()) for y in (found, wanted))
    assert_all_close(found, wanted, rtol=0.05, atol=0.05)


@gpu
def test_an_agents_network_on_a_gpu():
    agent, given = AgentModule(SETTINGS), episodes()
    wanted = agent(*given)
    agent.cuda()
    given = [t.cuda() for t in given]
    found = agent(*given)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        rounded = agent(*given)
    for name in wanted:
        valid = (slice(0, 1), slice(None))  # the row of full length
        torch.testing.assert_close(found[name][valid].cpu(), wanted[name][valid], rtol=1e-2, atol=1e-3)
        torch.testing.assert_close(rounded[name][valid].float().cpu(), wanted[name][valid], rtol=0.1, atol=0.05)
