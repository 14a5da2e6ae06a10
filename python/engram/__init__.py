"""engram: environments, memories, learners and trained agents of reinforcement learning that must remember."""

import torch  # noqa: F401  LibTorch's libraries, which the extension is linked to

from engram import _native
from engram.agent import Agent, AgentState, load
from engram.evaluation import Evaluation, Interval, PlayedEpisodes, diagnose, evaluate, render
from engram.results import read_metrics, read_report

__all__ = [
    "Agent",
    "AgentState",
    "Evaluation",
    "Interval",
    "PlayedEpisodes",
    "diagnose",
    "evaluate",
    "load",
    "read_metrics",
    "read_report",
    "render",
    "task_names",
]

task_names = _native.task_names
