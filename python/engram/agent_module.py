"""An agent's network as a torch module."""

from collections.abc import Mapping

import torch
from torch import Tensor

from engram import _native
from engram.native_module import NativeModule, Road, dtype_on, roads
from engram.options import Value, option_texts


class AgentModule(NativeModule):
    """An agent's network: encoder of observations, memory, and the heads of its learner.

    The names of its parameters are those of weights/*.safetensors. Heads that follow others, as target critics do, take
    no gradient, and have the weights that they were given: nothing moves them here.

    Args:
        settings: what a config of a run says, by section.key: {"task.name": "tmaze", "memory.name": "gru",
            "memory.width": 32}. What is left out is as in a run.

    Raises:
        ValueError: an unknown key, or a value that is not allowed.
    """

    def __init__(self, settings: Mapping[str, Value]) -> None:
        self._begin_with(_native.AgentNetwork(option_texts(settings)))

    @classmethod
    def of_network(cls, network: _native.AgentNetwork) -> "AgentModule":
        """The module of a network that the extension made, with which it shares the weights."""
        module = cls.__new__(cls)
        module._begin_with(network)
        return module

    def _begin_with(self, network: _native.AgentNetwork) -> None:
        super().__init__(network)
        self._heads = network.heads()

    @property
    def head_names(self) -> list[str]:
        """The heads, those that follow others last."""
        return [name for name, _ in self._heads]

    def forward(
        self,
        observation: Tensor,
        previous_action: Tensor,
        previous_reward: Tensor,
        lengths: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """What the network computes of whole episodes, from their first step on, with gradients of its parameters.

        On a GPU activations and products are bfloat16 in the scope of torch.autocast, else float32.

        Args:
            observation: [B, T, ...], uint8 or float32 as the task gives it.
            previous_action: int64 [B, T]; where there is none, the number of actions. Of a continuous action its
                numbers, floating [B, T, numbers]; where there is none, NaN.
            previous_reward: floating [B, T]; 0 where there is none.
            lengths: int64 [B], 0..T: the steps of each episode; None: all T. What is computed behind them means
                nothing.

        Returns:
            "features" [B, T, D], the memory's output in the type of products, and by its name each head's output [B, T,
            outputs] in the parameters' type.

        Raises:
            ValueError: shapes, types or devices that do not fit, or on a CPU numbers that are out of range.
        """
        if lengths is None:
            lengths = torch.full(
                previous_action.shape[:1], previous_action.shape[1], dtype=torch.int64, device=previous_action.device
            )
        like = self._network_tensors.parameters[0]
        dtype = dtype_on(like.device, like.dtype)
        outputs = self._run([observation, previous_action, previous_reward, lengths], dtype)
        return dict(zip(["features", *self.head_names], outputs))

    def roads(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> list[Road]:
        """Which way backbone, heads and encoder go, and why not a faster one.

        Args:
            dtype: of products; None: the parameters'. bfloat16 is what torch.autocast asks for.
            device: None: the parameters'.

        Raises:
            ValueError: a GPU that is not there.
        """
        like = self._network_tensors.parameters[0]
        return roads(self._network, dtype or like.dtype, device or like.device)

    def _outputs_like(self, inputs: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
        batch, steps = inputs[1].shape
        widths = [self._network.width, *(outputs for _, outputs in self._heads)]
        device = inputs[1].device
        dtypes = [dtype] + [self._network_tensors.parameters[0].dtype] * (len(widths) - 1)
        return [
            torch.empty((batch, steps, width), dtype=dtype, device=device) for width, dtype in zip(widths, dtypes)
        ]
