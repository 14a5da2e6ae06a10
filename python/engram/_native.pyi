from collections.abc import Callable
from typing import Any

from engram.external import Environments

def task_names() -> list[str]: ...
def train(
    defaults: list[tuple[str, str]],
    file: str | None,
    settings: list[tuple[str, list[tuple[str, str]]]],
    directory: str,
    resume: bool,
    environments: Environments | None,
    tell: Callable[[str, dict[str, Any]], bool | None],
    warn: Callable[[str], None],
) -> dict[str, Any]: ...
