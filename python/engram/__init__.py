"""engram: environments, memories, learners and trained agents of reinforcement learning that must remember."""

import torch  # noqa: F401  LibTorch's libraries, which the extension is linked to

from engram import _native

__all__ = ["task_names"]

task_names = _native.task_names
