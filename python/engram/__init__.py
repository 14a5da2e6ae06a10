"""engram: environments, memories, learners and trained agents of reinforcement learning that must remember."""

import torch  # noqa: F401  LibTorch's libraries, which the extension is linked to

from engram import _native
from engram.comparison import Comparison, compare
from engram.training import Evaluation, TrainEvent, TrainResult, train

__all__ = ["Comparison", "Evaluation", "TrainEvent", "TrainResult", "compare", "task_names", "train"]

task_names = _native.task_names
