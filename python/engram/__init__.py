"""engram: environments, memories, learners and trained agents of reinforcement learning that must remember."""

import torch  # noqa: F401  LibTorch's libraries, which the extension is linked to

from engram import _native
from engram.agent import Agent, AgentState, load
from engram.agent_module import AgentModule
from engram.backbone import Backbone, backbone_names, backbone_options
from engram.comparison import Comparison, compare
from engram.evaluation import Evaluation, Interval, PlayedEpisodes, diagnose, evaluate, render
from engram.registration import register_environments
from engram.results import read_metrics, read_report
from engram.training import TrainEvent, TrainResult, train
from engram.vector import make_vec

__all__ = [
    "Agent",
    "AgentModule",
    "AgentState",
    "Backbone",
    "Comparison",
    "Evaluation",
    "Interval",
    "PlayedEpisodes",
    "TrainEvent",
    "TrainResult",
    "backbone_names",
    "backbone_options",
    "compare",
    "diagnose",
    "evaluate",
    "load",
    "make_vec",
    "read_metrics",
    "read_report",
    "render",
    "task_names",
    "train",
]

task_names = _native.task_names
register_environments()
