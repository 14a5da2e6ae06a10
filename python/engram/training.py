"""Training an agent from Python."""

import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from engram import _native
from engram.options import settings_of

if TYPE_CHECKING:
    import gymnasium

    from engram.external import Environments


@dataclass(frozen=True)
class EvaluationSummary:
    """Episodes that were played to evaluate an agent: greedy ones, and as many with sampled actions.

    Attributes:
        steps, updates: how far training was, or of the final evaluation: when its weights were made.
        episodes: greedy ones.
        success, mean_return: of the greedy episodes: rate, and undiscounted return.
        sampled_success, sampled_mean_return: of those with actions drawn from the policy.
        success_interval: Wilson's 95% interval of the success; of the final evaluation alone.
    """

    steps: int
    updates: int
    episodes: int
    success: float
    mean_return: float
    sampled_success: float | None
    sampled_mean_return: float | None
    success_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class TrainEvent:
    """What a callback is told.

    Attributes:
        kind: "report" every run.report_seconds, "measurement" every run.metrics_every_steps, "evaluation" after each,
            "end" once, after the last save.
        steps, total_steps: environment steps so far, and of the whole run.
        updates, episodes: gradient updates; finished training episodes.
        seconds, seconds_left: of training; an estimate, None before there is one.
        done: fraction of the run.
        steps_per_second, updates_per_second: since learning began or went on.
        recent_return, recent_success: mean of the last 50 training episodes.
        skipped_updates: whose loss or gradients were not finite.
        losses: of the last update, by name.
        last_evaluation, best_evaluation: None before the first.
        final_evaluation: at the end, of the best weights.
        stopped: at the end, why: "steps", "time", "solved" or "request"; else "".
    """

    kind: Literal["report", "measurement", "evaluation", "end"]
    steps: int
    total_steps: int
    updates: int
    episodes: int
    seconds: float
    seconds_left: float | None
    done: float
    steps_per_second: float
    updates_per_second: float
    recent_return: float
    recent_success: float
    skipped_updates: int
    losses: dict[str, float]
    last_evaluation: EvaluationSummary | None
    best_evaluation: EvaluationSummary | None
    final_evaluation: EvaluationSummary | None
    stopped: str


@dataclass(frozen=True)
class TrainResult:
    """What a call of train() came to.

    Attributes:
        run: the folder with everything that the run leaves behind.
        steps, updates, episodes: environment steps, gradient updates, finished training episodes of the whole run.
        seconds: of training, those before it was resumed included.
        stopped: "steps" (all done), "time" (run.max_seconds), "solved" (evaluation.stop_at_success) or "request" (the
            callback returned False).
        best_evaluation: that chose the best weights; None where nothing was evaluated.
        final_evaluation: of the best weights, on episodes that did not choose them; None where there was none.
    """

    run: Path
    steps: int
    updates: int
    episodes: int
    seconds: float
    stopped: str
    best_evaluation: EvaluationSummary | None
    final_evaluation: EvaluationSummary | None


Callback = Callable[[TrainEvent], bool | None]


def train(
    config: Mapping[str, Any] | str | os.PathLike[str],
    run: str | os.PathLike[str],
    *,
    env: "str | Callable[[], gymnasium.Env] | gymnasium.vector.VectorEnv | None" = None,
    eval_env: "str | Callable[[], gymnasium.Env] | gymnasium.vector.VectorEnv | None" = None,
    max_episode_steps: int | None = None,
    callback: Callback | None = None,
    resume: bool = False,
    device: str | None = None,
    progress: bool = False,
) -> TrainResult:
    """Trains an agent, as `engram train` does: the same config gives the same weights, byte for byte on a CPU.

    Threads, random generators and signal handlers of the process stay, or are again, as they were.

    Args:
        config: INI file, or dict of sections or dotted keys, of what differs from the defaults.
        run: folder for everything that the run leaves behind; new or empty, but for resume.
        env: environments in place of a task of engram's: an id of Gymnasium, a function that makes one environment, of
            which run.num_envs are made, or a vector environment. See docs/python/training.md.
        eval_env: likewise, for evaluations; by default those that env makes. Where env is a vector environment and this
            is not given, nothing is evaluated.
        max_episode_steps: of env, where its spec does not say: steps of the longest episode.
        callback: called with a TrainEvent; stops the run by returning False. What it raises stops the run, too, and is
            raised again. Either way the run is saved and can be resumed.
        resume: goes on with the run where its newest checkpoint is, with what the config says otherwise where a run may
            change it (such as run.steps); begins it if there is none.
        device: "auto", "cpu", "cuda" or "cuda:N"; short for run.device.
        progress: shows a line on stderr that is rewritten.

    Raises:
        ValueError: bad input of any kind, in one line.
        OSError: a file could not be written.
        RuntimeError: a loss or gradient was not finite (run.on_nan), or the device failed.
        KeyboardInterrupt: Ctrl-C; the run has been saved.
    """
    file, layers = _layers(config)
    environments: Environments | None = None
    defaults: list[tuple[str, str]] = []
    if env is not None:
        from engram import external

        environments = external.environments_of(env, eval_env, max_episode_steps)
        defaults = environments.defaults()
        layers = [*layers, ("env", environments.settings())]
    elif eval_env is not None or max_episode_steps is not None:
        raise ValueError("eval_env and max_episode_steps are about env, which is not given")
    if device is not None:
        layers.append(("device", [("run.device", device)]))

    line = _ProgressLine(sys.stderr) if progress else None

    def tell(kind: str, status: dict[str, Any]) -> bool | None:
        event = TrainEvent(kind=kind, **_status(status))
        if line is not None:
            line.show(event)
        return callback(event) if callback is not None else None

    def warn(text: str) -> None:
        warnings.warn(f"{text}; going on from an older one", RuntimeWarning, stacklevel=3)

    try:
        status = _native.train(defaults, file, layers, os.fspath(run), resume, environments, tell, warn)
    finally:
        if line is not None:
            line.close()
        if environments is not None:
            environments.close()
    kept = {name: value for name, value in _status(status).items() if name in TrainResult.__dataclass_fields__}
    return TrainResult(run=Path(run), **kept)


def _layers(config: Mapping[str, Any] | str | os.PathLike[str]) -> tuple[str | None, list[tuple[str, Any]]]:
    if isinstance(config, Mapping):
        return None, [("config", settings_of(config))]
    if isinstance(config, (str, os.PathLike)):
        return os.fspath(config), []
    raise ValueError(f"config = {config!r} is not allowed; it takes a dict or the path of an INI file")


def _status(status: dict[str, Any]) -> dict[str, Any]:
    evaluations = ("last_evaluation", "best_evaluation", "final_evaluation")
    return {
        name: EvaluationSummary(**value) if name in evaluations and value is not None else value
        for name, value in status.items()
    }


class _ProgressLine:
    """A line that is rewritten, in terminals and notebooks alike."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def show(self, event: TrainEvent) -> None:
        text = f"{event.done:4.0%}  {event.steps:,} of {event.total_steps:,} steps, {event.updates:,} updates"
        text += f", return {event.recent_return:.3g}, success {event.recent_success:.0%}"
        if event.last_evaluation is not None:
            text += f" (evaluation {event.last_evaluation.success:.0%})"
        if event.seconds_left is not None and not math.isinf(event.seconds_left):
            text += f", {event.seconds_left:.0f} s left"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        if self._width > 0:
            self._stream.write("\n")
            self._stream.flush()
