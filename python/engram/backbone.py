"""Memory backbones as torch modules."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engram import _native
from engram.native_module import NativeModule, Road, dtype_on, module_of, roads
from engram.options import Option, Value, option_texts, option_value


class Cost(NamedTuple):
    """What a backbone costs, for one row of a batch.

    Attributes:
        parameters: how many.
        state_bytes: of the memory, numbers as float32 and positions as int64.
        multiply_adds_per_step: of the products of a step; of attention at a full window or cache.
        mlp_parameters: those of the layers that carry nothing from one step to the next.
        mlp_multiply_adds_per_step: the same of the work.
    """

    parameters: int
    state_bytes: int
    multiply_adds_per_step: int
    mlp_parameters: int
    mlp_multiply_adds_per_step: int


def backbone_names() -> list[str]:
    """Names of all memory backbones."""
    return _native.backbone_names()


def backbone_options(name: str) -> list[Option]:
    """The options that a backbone has beside max_steps. Raises ValueError for an unknown name."""
    return [
        Option(key, option_value(text, allowed), allowed, help)
        for key, text, allowed, help in _native.backbone_options(name)
    ]


class Backbone(NativeModule):
    """A memory backbone: [B, T, D] -> [B, T, D], where the output at a step depends on the inputs up to it.

    B is the batch, T time and D the width. The state of a memory is a list of tensors, each with the batch first; zeros
    are a fresh memory. forward() takes whole sequences, step() one step with constant memory, and both carry the same
    state: forward() of any split of a sequence equals step() repeated.

    An input may have any floating type, and the output has the same. On a CPU everything is computed in the parameters'
    type, float32 or float64. On a GPU a bfloat16 input, or torch.autocast, asks for products in bfloat16 beside float32
    parameters, which step() and the fast road of forward() take; roads() says what computes them. States have the
    parameters' type, counts of steps int64.

    Weights, and dropout in training mode, are drawn from torch's default generators.

    Args:
        name: one of backbone_names().
        max_steps: the longest sequence that a row will ever see; attention over an episode keeps as many.
        **options: those of backbone_options(name), such as width and layers.

    Raises:
        ValueError: an unknown name or option, or a value that is not allowed.
    """

    def __init__(self, name: str, *, max_steps: int = 1024, **options: Value) -> None:
        super().__init__(_native.Backbone(name, max_steps, option_texts(options)))
        self._layout: list[tuple[tuple[int, ...], bool]] = [
            (tuple(shape), is_floating) for shape, is_floating in self._network.state_layout()
        ]

    @property
    def name(self) -> str:
        """The backbone's name."""
        return self._network.name

    @property
    def width(self) -> int:
        """D."""
        return self._network.width

    @property
    def max_steps(self) -> int:
        """The longest sequence that a row may see."""
        return self._network.max_steps

    @property
    def options(self) -> dict[str, Value]:
        """The value of every option."""
        allowed = {option.name: option.allowed for option in backbone_options(self.name)}
        return {key: option_value(text, allowed[key]) for key, text in self._network.options()}

    def forward(
        self,
        x: Tensor,
        state: Sequence[Tensor] | None = None,
        *,
        lengths: Tensor | None = None,
        return_state: bool = True,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Whole sequences, with gradients of everything that goes in: inputs, state and parameters.

        Fresh sequences whose last state nobody wants, which is what learning from episodes is, take the fast road with
        return_state=False: fused kernels on a GPU, loops of engram's own on a CPU, for the backbones that have some.
        With a state, given or returned, LibTorch's operations compute, in the parameters' type. Both give the same up
        to rounding.

        Args:
            x: [B, T, D]. What follows a row's length must be finite.
            state: the memory before the first step, as initial_state() and forward() give it; None: fresh.
            lengths: int64 [B], 0..T: the steps that each row takes; None: all T. The output behind them is
                unspecified but finite. A row of length 0 keeps its state.
            return_state: whether the state of each row after its last step is wanted. A given state is followed either
                way.

        Returns:
            (y, state): y [B, T, D] in x's type (autocast's where that is on); state None unless it is wanted.

        Raises:
            ValueError: shapes, types or devices that do not fit, or more steps than max_steps where they are bounded.
                Lengths on a GPU are not looked at, since that would wait for it.
        """
        if x.dim() != 3:
            raise ValueError(f"x has shape {list(x.shape)}; it must be [batch, time, {self.width}]")
        if lengths is None:
            lengths = torch.full((x.shape[0],), x.shape[1], dtype=torch.int64, device=x.device)
        inputs = [x, lengths]
        if state is not None:
            inputs += state
        elif return_state:
            inputs += self.initial_state(x.shape[0])
        y, *final_state = self._run(inputs, dtype_on(x.device, x.dtype))
        return y, final_state if return_state else None

    def step(self, x: Tensor, state: Sequence[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        """One step of every row, for acting: constant memory, no gradients.

        The tensors of `state` are rewritten in place, and are those returned; clone them to keep what they held.

        Args:
            x: [B, D].
            state: contiguous and without gradients (detach() those of forward()); None: fresh.

        Returns:
            (y [B, D] in x's type, state).

        Raises:
            ValueError: shapes, types or devices that do not fit; a step beyond max_steps where they are bounded, on a
                CPU.
        """
        if x.dim() != 2:
            raise ValueError(f"x has shape {list(x.shape)}; it must be [batch, {self.width}]")
        memory = self.initial_state(x.shape[0]) if state is None else list(state)
        dtype = dtype_on(x.device, x.dtype)
        if torch.compiler.is_compiling():
            with torch.no_grad():
                y = _step(self._key, x, memory, self._network_tensors.parameters, dtype, self.training)
            return y, memory
        self._check_places()
        return self._network.step(x, memory, dtype, self.training), memory

    def initial_state(self, batch: int) -> list[Tensor]:
        """The state of `batch` fresh rows: zeros, on the parameters' device."""
        like = self._network_tensors.parameters[0]
        return [
            torch.zeros((batch, *shape), dtype=like.dtype if is_floating else torch.int64, device=like.device)
            for shape, is_floating in self._layout
        ]

    @staticmethod
    def reset_rows(state: Sequence[Tensor], mask: Tensor) -> list[Tensor]:
        """The state, forgotten in the rows where mask, bool [B], is true.

        What they held, NaN included, leaves no trace; nothing is overwritten, and gradients reach what is kept. Raises
        ValueError for a mask that does not fit.
        """
        for tensor in state:
            if mask.dtype != torch.bool or mask.shape != tensor.shape[:1]:
                raise ValueError(f"mask must be bool [{tensor.shape[0]}], not {mask.dtype} {list(mask.shape)}")
        return [tensor.masked_fill(mask.view(-1, *[1] * (tensor.dim() - 1)), 0) for tensor in state]

    def cost(self) -> Cost:
        """What it costs, for matched comparisons."""
        cost = self._network.cost()
        return Cost(*(getattr(cost, field) for field in Cost._fields))

    def roads(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> list[Road]:
        """Which way learning ("backbone": forward() on its fast road) and step() ("step") go, and why not a faster one.

        Args:
            dtype: of the input; None: the parameters'.
            device: None: the parameters'.

        Raises:
            ValueError: a GPU that is not there.
        """
        like = self._network_tensors.parameters[0]
        return roads(self._network, dtype or like.dtype, device or like.device)

    def extra_repr(self) -> str:
        given = {"max_steps": self.max_steps, **self.options}
        return ", ".join([repr(self.name), *(f"{key}={value!r}" for key, value in given.items())])

    def _outputs_like(self, inputs: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
        x, _, *state = inputs
        return [torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)] + [
            torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in state
        ]


@torch.library.custom_op("engram::step", mutates_args=("state",))
def _step(
    key: int,
    x: Tensor,
    state: Sequence[Tensor],
    parameters: Sequence[Tensor],
    dtype: torch.dtype,
    training: bool,
) -> Tensor:
    return module_of(key)._network.step(x, state, dtype, training).clone(memory_format=torch.contiguous_format)


@_step.register_fake
def _(
    key: int,
    x: Tensor,
    state: Sequence[Tensor],
    parameters: Sequence[Tensor],
    dtype: torch.dtype,
    training: bool,
) -> Tensor:
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)
