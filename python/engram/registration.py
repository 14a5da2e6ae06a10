"""The tasks and presets under Gymnasium's names: gymnasium.make("engram/VisualMatch-v0"), gymnasium.make_vec(...)."""

import gymnasium

from engram import _native

__all__ = ["environment_id", "register_environments"]


def environment_id(name: str) -> str:
    """Gymnasium's name of a task or a preset: "engram/VisualMatch-v0" of "visual_match"."""
    return f"engram/{''.join(word.capitalize() for word in name.split('_'))}-v0"


def register_environments() -> None:
    """Makes all tasks and presets known to Gymnasium. `import engram` calls it."""
    for name in _native.task_and_preset_names():
        gymnasium.register(
            environment_id(name),
            entry_point="engram.vector:Env",
            vector_entry_point="engram.vector:make_vec",
            kwargs={"name": name},
        )
