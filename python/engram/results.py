"""What runs and comparisons leave behind, as data frames."""

from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

_REPORT_TEXT = (
    "task", "backbone", "learner", "control", "state", "failure", "reason", "remark", "tuned", "device", "engram", "commit",
    "evaluations",
)


def read_metrics(run: str | os.PathLike[str]) -> pandas.DataFrame:
    """The metrics of a run, finished or running: a row for each line of its metrics.jsonl.

    Columns are ``kind`` ("train", "evaluation" or "final"), ``environment_steps`` (int64), and every figure that some
    row has (float64), in the order in which they are first met; a figure that a row has not, or that was not finite, is
    NaN. A last line that is still being written is left out.

    Args:
        run: The run directory.

    Raises:
        ValueError: If there is no such file, or a line of it is damaged.
        ImportError: Where pandas is not installed.
    """
    pandas = _pandas()
    file = pathlib.Path(run) / "metrics.jsonl"
    rows = [
        _metrics_row(line, f"{file}, line {number}")
        for number, line in enumerate(_read_text(file).splitlines(keepends=True), start=1)
        if line.endswith("\n")
    ]
    columns = {"kind": None, "environment_steps": None} | {name: None for row in rows for name in row}
    frame = pandas.DataFrame(rows, columns=list(columns))
    figures = frame.columns[2:]
    return frame.astype({"kind": str, "environment_steps": "int64"} | dict.fromkeys(figures, "float64"))


def read_report(report: str | os.PathLike[str]) -> pandas.DataFrame:
    """The runs of a comparison, a row a run, from the CSV that ``engram compare report`` writes.

    Columns are those of the file: texts as str, empty where there is none; numbers as float64, NaN where there is none,
    but for ``seed`` (int64; float64 where a try of tuning has none, as all of its runs diverged). A run that has not
    finished has no scores; reports count one that diverged with a success of 0. ``failure`` says as one word or three
    why a run has failed, ``reason`` in a line.

    Args:
        report: The CSV, or the folder of a comparison that has a report.

    Raises:
        ValueError: If there is no such file, or it is no report.
        ImportError: Where pandas is not installed.
    """
    pandas = _pandas()
    file = pathlib.Path(report)
    if file.is_dir():
        file = file / "report" / "report.csv"
    try:
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, UnicodeDecodeError, pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise ValueError(f"report '{file}' cannot be read: {error}") from error
    if list(frame.columns.drop("learner", errors="ignore")[:3]) != ["task", "backbone", "seed"]:
        raise ValueError(f"'{file}' is no report of a comparison: its columns are not task, backbone, seed ...")
    seed_type = "float64" if (frame["seed"] == "").any() else "int64"  # a try of tuning of which all have diverged
    for name in frame.columns.difference(_REPORT_TEXT, sort=False):
        try:
            frame[name] = frame[name].replace("", "nan").astype(seed_type if name == "seed" else "float64")
        except ValueError as error:
            raise ValueError(f"report '{file}', column {name}: {error}") from error
    return frame


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install pandas, or engram[frames]") from error
    return pandas


def _read_text(file: pathlib.Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"'{file}' cannot be read: {error}") from error


def _metrics_row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is no row of metrics: {error}") from error
    if not isinstance(row, dict) or not {"kind", "environment_steps"} <= row.keys():
        raise ValueError(f"{where} is no row of metrics: kind or environment_steps is missing")
    return row
