"""Comparisons of memories: tasks x backbones x seeds."""

import csv
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.program import environment, program
from engram.options import settings_of


@dataclass(frozen=True)
class Comparison:
    """What a comparison came to.

    Attributes:
        folder: that holds it, each run in a run directory below runs/.
        page: its report, HTML; beside it are the same as Markdown and every figure as JSON.
        runs: a dict for each run, as text by the names of the report's columns.
    """

    folder: Path
    page: Path
    runs: list[dict[str, str]]


def compare(
    experiment: Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    jobs: int = 0,
    device: str = "auto",
    progress: bool = False,
) -> Comparison:
    """Trains tasks x backbones x seeds, as `engram compare` does, and reports on them.

    A folder that was begun is gone on with: runs that are finished are not made again.

    Args:
        experiment: INI file, or dict: {"compare": {"seeds": "0-4"}, "run": {"steps": 10000},
            "tasks": {"tmaze": {}}, "backbones": {"lstm": {}, "hqlt": {"memory.width": 32}}}.
        folder: of the comparison; new, empty, or one to go on with.
        jobs: runs at once, each a process; 0: one for each GPU, or each processor.
        device: "auto" (GPUs where there are some), "cpu" or "cuda".
        progress: shows what the program prints.

    Raises:
        ValueError: bad input of any kind, in one line.
        RuntimeError: a run has failed.
        KeyboardInterrupt: Ctrl-C; the runs have been saved.
    """
    folder = Path(folder)
    with tempfile.TemporaryDirectory() as temporary:
        if isinstance(experiment, Mapping):
            file = Path(temporary) / "experiment.ini"
            file.write_text(experiment_text(experiment), encoding="utf-8")
        else:
            file = Path(experiment)
        words = ["compare", "--config", str(file), "--run", str(folder), "--jobs", str(jobs), "--device", device]
        _run(words, progress)
    _run(["compare", "report", str(folder)], progress)
    page = folder / "report" / "report.html"
    with page.with_suffix(".csv").open(newline="", encoding="utf-8") as table:
        return Comparison(folder, page, list(csv.DictReader(table)))


def experiment_text(experiment: Mapping[str, Any]) -> str:
    """The INI file of an experiment.

    Raises:
        ValueError: a value stands in no section, or cannot stand in such a file.
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    for name, value in experiment.items():
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} = {value!r} stands in no section")
        if name in ("tasks", "backbones"):
            sections |= {f"{name}.{label}": settings_of(entry) for label, entry in value.items()}
        else:
            sections[name] = settings_of(value)
    lines = []
    for name, settings in sections.items():
        lines.append(f"[{name}]")
        for key, text in settings:
            if "\n" in text or "#" in text:
                raise ValueError(f"{name}.{key} = {text!r} is not allowed: a line ends it, and # begins a comment")
            lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"


def _run(arguments: list[str], progress: bool) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            [program(), *arguments],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=None if progress else subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)  # saves the runs; in a terminal it has had the signal already
            process.wait()
            raise
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if status == 0:
        return
    message = lines[-1].removeprefix("engram: ") if lines else f"engram {arguments[0]} ended with status {status}"
    raise ValueError(message) if status == 2 else RuntimeError(message)
