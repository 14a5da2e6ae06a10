"""engram: environments, memories, learners and trained agents of reinforcement learning that must remember."""

import torch  # noqa: F401  LibTorch's libraries, which the extension is linked to

from engram import _native
from engram.agent_module import AgentModule
from engram.backbone import Backbone, backbone_names, backbone_options

__all__ = ["AgentModule", "Backbone", "backbone_names", "backbone_options", "task_names"]
from engram.registration import register_environments
from engram.vector import make_vec

__all__ = ["make_vec", "task_names"]

task_names = _native.task_names
register_environments()
