"""NativeModule: a network of engram's C++ library as a torch.nn.Module.

Its parameters and buffers are the C++ module's own tensors, in a tree of modules by engram's dotted names. So whatever
changes them in place, an optimiser or a move to another device, changes what C++ computes with; nothing is copied.
"""

import copy
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from engram import _native


class Road(NamedTuple):
    """What computes a part of a network.

    Attributes:
        part: "backbone", "step", "heads", "encoder".
        road: what computes it, "fused kernels in bfloat16".
        reason: why not what would be faster; empty for the fastest.
        fast: whether engram's own kernels compute it.
    """

    part: str
    road: str
    reason: str
    fast: bool


class _Held:
    """Lets a tensor that C++ holds be copied and pickled as one of its network's, for as long as there is the network.

    The tensor's class stays what optimisers know, and copy and pickle find these methods on the tensor itself.
    """

    def __init__(self, tensor: Tensor, network: "_NetworkTensors", name: str) -> None:
        self._tensor, self._network, self.name = weakref.ref(tensor), weakref.ref(network), name

    def deepcopy(self, memo: dict[int, Any]) -> Tensor:
        network = self._network()
        twin = copy.deepcopy(self._alone(), memo) if network is None else copy.deepcopy(network, memo).tensors[self.name]
        memo[id(self._tensor())] = twin
        return twin

    def reduce(self, protocol: int) -> tuple[Any, ...]:
        network = self._network()
        return self._alone().__reduce_ex__(protocol) if network is None else (_tensor_of, (network, self.name))

    def _alone(self) -> Tensor:
        """The same numbers as a tensor that no network holds."""
        tensor = self._tensor()
        values = tensor.detach()
        return nn.Parameter(values, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else values


class _NetworkTensors:
    """A C++ network, and its tensors by their names, the parameters first."""

    def __init__(self, network: _native.Network) -> None:
        self.network = network
        self.parameters = [self._hold(name, tensor) for name, tensor in network.parameters()]
        self.tensors: dict[str, Tensor] = {tensor.held.name: tensor for tensor in self.parameters}
        for parameter in self.parameters:
            parameter.__class__ = nn.Parameter
        self.tensors |= {name: self._hold(name, tensor) for name, tensor in network.buffers()}

    def _hold(self, name: str, tensor: Tensor) -> Tensor:
        tensor.held = _Held(tensor, self, name)
        tensor.__deepcopy__, tensor.__reduce_ex__ = tensor.held.deepcopy, tensor.held.reduce
        return tensor

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: (tensor.detach(), tensor.requires_grad) for name, tensor in self.tensors.items()}
        return _network_again, (type(self.network), self.network.arguments(), values)


def _network_again(
    kind: type[_native.Network], arguments: tuple[Any, ...], values: dict[str, tuple[Tensor, bool]]
) -> _NetworkTensors:
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and thrown away
        network = _NetworkTensors(kind(*arguments))
    for name, (data, requires_grad) in values.items():
        network.tensors[name].data = data
        network.tensors[name].requires_grad_(requires_grad)
    return network


def _tensor_of(network: _NetworkTensors, name: str) -> Tensor:
    return network.tensors[name]


class _Node(nn.Module):
    """A module of the tree: it keeps its tensors where another would exchange them."""

    @contextmanager
    def _keeping_tensors(self) -> Iterator[None]:
        places = [
            (place, key, tensor)
            for place in (self._parameters, self._buffers)
            for key, tensor in place.items()
            if hasattr(tensor, "held")
        ]
        yield
        for place, key, tensor in places:
            if (other := place[key]) is not tensor:
                tensor.data, tensor.grad = other.data, other.grad
                place[key] = tensor

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        with self._keeping_tensors():
            return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        with self._keeping_tensors():
            super()._load_from_state_dict(*args, **kwargs)


class NativeModule(_Node):
    """Base of the modules whose forward pass is C++.

    The C++ module computes with the tensors that it was made with: a parameter that is replaced (by
    torch.func.functional_call, pruning or a parametrization) is refused with RuntimeError when the module is called.
    Python's lock is released while C++ computes; one module computes one call at a time.
    """

    def __init__(self, network: _native.Network) -> None:
        super().__init__()
        self._network_tensors = _NetworkTensors(network)
        for name, tensor in self._network_tensors.tensors.items():
            node: nn.Module = self
            *path, leaf = name.split(".")
            for part in path:
                if part not in node._modules:
                    node.add_module(part, _Node())
                node = node._modules[part]
            if isinstance(tensor, nn.Parameter):
                node.register_parameter(leaf, tensor)
            else:
                node.register_buffer(leaf, tensor, persistent=False)  # C++ makes them; weights' files have none
        self._begin()

    def _begin(self) -> None:
        """What belongs to this object alone, not to its copies."""
        self._places = []
        for name, tensor in self._network_tensors.tensors.items():
            path, _, leaf = name.rpartition(".")
            node = self.get_submodule(path)
            place = node._parameters if isinstance(tensor, nn.Parameter) else node._buffers
            place[leaf] = tensor  # another process gets tensors of a tree one by one
            self._places.append((place, leaf, tensor))
        self._key = next(_keys)
        _modules[self._key] = self

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_places"], state["_key"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._begin()

    @property
    def _network(self) -> Any:
        return self._network_tensors.network

    def _dtype_on(self, device: torch.device, dtype: torch.dtype) -> torch.dtype:
        """The type of products on that device: autocast's where a GPU is in its scope, else `dtype`."""
        if device.type == "cuda" and torch.is_autocast_enabled("cuda"):
            return torch.get_autocast_dtype("cuda")
        return dtype

    def _check_places(self) -> None:
        for place, key, tensor in self._places:
            if place.get(key) is not tensor:
                raise RuntimeError(
                    f"parameter {tensor.held.name} was replaced, but C++ computes with the one that it was made with: "
                    "change that one in place"
                )

    def _run(self, inputs: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
        """The forward pass of the C++ network: its inputs and outputs, in their order."""
        if torch.compiler.is_compiling():
            parameters = self._network_tensors.parameters
            recorded = torch.is_grad_enabled() and any(t.requires_grad for t in itertools.chain(inputs, parameters))
            return _forward(self._key, inputs, parameters, dtype, self.training, recorded)[:-1]
        self._check_places()
        return self._network.forward(inputs, dtype, self.training)

    def _outputs_like(self, inputs: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
        """Empty tensors like those that _run() gives."""
        raise NotImplementedError


def roads(network: Any, dtype: torch.dtype, device: torch.device | str) -> list[Road]:
    """The roads of a C++ network, from the C++ library's answers."""
    return [Road(r.part, r.road, r.reason, r.fast) for r in network.roads(dtype, torch.device(device))]


# What torch.compile sees: operations on a module that a number stands for, with its parameters among their inputs. The
# forward pass records in C++, and a ticket among its outputs, for as long as it lives, stands for what it recorded.
_keys = itertools.count(1)
_modules: "weakref.WeakValueDictionary[int, NativeModule]" = weakref.WeakValueDictionary()


def module_of(key: int) -> NativeModule:
    """The module that a compiled graph knows by this number."""
    if (module := _modules.get(key)) is None:
        raise RuntimeError("a compiled graph outlives the engram module that it was compiled of")
    return module


@torch.library.custom_op("engram::forward", mutates_args=())
def _forward(
    key: int,
    inputs: Sequence[Tensor],
    parameters: Sequence[Tensor],
    dtype: torch.dtype,
    training: bool,
    recorded: bool,
) -> list[Tensor]:
    return module_of(key)._network.compiled_forward(inputs, dtype, training, recorded)


@_forward.register_fake
def _(
    key: int,
    inputs: Sequence[Tensor],
    parameters: Sequence[Tensor],
    dtype: torch.dtype,
    training: bool,
    recorded: bool,
) -> list[Tensor]:
    return [*module_of(key)._outputs_like(inputs, dtype), torch.empty(1, dtype=torch.int64, device="cpu")]


@torch.library.custom_op("engram::backward", mutates_args=())
def _backward(ticket: Tensor, gradients: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    return _native.Network.backward(ticket, gradients)


@_backward.register_fake
def _(ticket: Tensor, gradients: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in wanted]


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    _, tensors, parameters, *_ = inputs
    ctx.floating = [tensor.is_floating_point() for tensor in tensors]
    ctx.learnt = [parameter.requires_grad for parameter in parameters]
    wanted = [tensor for tensor in tensors if tensor.is_floating_point()]
    wanted += [parameter for parameter in parameters if parameter.requires_grad]
    ctx.save_for_backward(output[-1], *wanted)


def _backward_of(ctx: Any, gradients: list[Tensor]) -> tuple[Any, ...]:
    ticket, *wanted = ctx.saved_tensors
    found = iter(_backward(ticket, gradients[:-1], wanted))
    of_inputs = [next(found) if floating else None for floating in ctx.floating]
    of_parameters = [next(found) if learnt else None for learnt in ctx.learnt]
    return None, of_inputs, of_parameters, None, None, None


_forward.register_autograd(_backward_of, setup_context=_keep_for_backward)
