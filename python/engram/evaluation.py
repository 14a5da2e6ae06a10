"""Evaluating, diagnosing and filming the agent of a run directory, as the program's commands do."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, NamedTuple

import numpy as np
import torch

from engram import _native
from engram.agent import task_settings_text
from engram.options import option_texts


class Interval(NamedTuple):
    """An estimate with its 95% interval."""

    estimate: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, eq=False)
class PlayedEpisodes:
    """Episodes that were played alike, in the order of their numbers."""

    success: Interval
    """Fraction of the episodes that were solved, with Wilson's interval."""
    mean_return: Interval
    """Mean of the undiscounted returns, with Student's interval, which is infinite for a single episode."""
    returns: np.ndarray
    """float64 [episodes]"""
    successes: np.ndarray
    """bool [episodes]"""
    lengths: np.ndarray
    """int64 [episodes], steps"""


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """What :func:`evaluate` found."""

    greedy: PlayedEpisodes
    """With the most probable actions."""
    sampled: PlayedEpisodes
    """With actions drawn from the policy."""
    chance_success: float | None
    """Success of guessing without memory, where there is such a figure."""
    differs: dict[str, dict[str, Any]]
    """Options of the task in which it is not the one of training: {"task.KEY": {"trained": ..., "evaluated": ...}}."""
    trace: dict[str, torch.Tensor] | None
    """Every step of the greedy episodes, as ``engram evaluate --trace`` writes it."""


def evaluate(
    run: str | os.PathLike[str],
    episodes: int = 100,
    *,
    weights: str = "best",
    device: str | torch.device = "auto",
    trace: bool = False,
    **task_settings: Any,
) -> Evaluation:
    """Plays episodes that training never used, greedily and again with sampled actions: ``engram evaluate``.

    Args:
        run: The run directory.
        episodes: How many, 1 .. 10,000,000.
        weights: "best" or "last".
        device: "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:N".
        trace: Whether to keep every step of the greedy episodes.
        **task_settings: Options of the task to play instead of those that the agent was trained with.

    Raises:
        ValueError: If there is no such run, its files are damaged, the agent cannot play that task, or `episodes` is
            out of range.
    """
    _check_episodes(episodes, 10_000_000)
    agent = _native.TrainedAgent(os.fspath(run), weights, str(device), task_settings_text(task_settings))
    found = agent.evaluate(episodes, trace)
    return Evaluation(
        greedy=_played(found["greedy"]),
        sampled=_played(found["sampled"]),
        chance_success=agent.task.chance_success,
        differs=json.loads(agent.differs),
        trace=found["trace"],
    )


def diagnose(
    run: str | os.PathLike[str],
    episodes: int = 100,
    *,
    weights: str = "best",
    device: str | torch.device = "auto",
    **task_settings: Any,
) -> dict[str, Any]:
    """Why an agent does not solve its task: what ``engram diagnose --json`` prints.

    Args:
        run: The run directory.
        episodes: How many to play greedily, to play with sampled actions, and to take from the replay; 1 .. 100,000.
        weights: "best" or "last".
        device: "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:N".
        **task_settings: Options of the task to play instead of those that the agent was trained with.

    Raises:
        ValueError: As :func:`evaluate` does.
    """
    _check_episodes(episodes, 100_000)
    agent = _native.TrainedAgent(os.fspath(run), weights, str(device), task_settings_text(task_settings))
    return json.loads(agent.diagnose(os.fspath(run), episodes))


def render(
    run: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    episodes: int = 1,
    weights: str = "best",
    greedy: bool = True,
    show_memory: bool = False,
    only: str = "all",
    fps: float = 10,
    seconds: float = 20,
    skip_to: str = "start",
    scale: int = 1,
    first_episode: int = 0,
    overwrite: bool = False,
    **task_settings: Any,
) -> np.ndarray | str:
    """Films episodes that training never used, on the CPU: ``engram render``.

    Args:
        run: The run directory.
        output: The film, .mp4, .webm, .avi or .gif; None: its frames are returned.
        episodes: How many to film, one after the other.
        weights: "best" or "last".
        greedy: The most probable actions, or else ones drawn from the policy.
        show_memory: Also show, layer by layer, what the memory does.
        only: "all", "failures" or "successes".
        fps: Frames per second.
        seconds: The longest that an episode lasts in the film.
        skip_to: "start", or "reward": 10 steps before the episode's decision.
        scale: Size of the picture, 1 .. 4.
        first_episode: Where in the sequence of evaluation episodes to begin.
        overwrite: Replace the file if it is there.
        **task_settings: Options of the task to play instead of those that the agent was trained with.

    Returns:
        The path of the film, or its frames, uint8 [frames, height, width, 3].

    Raises:
        ValueError: As :func:`evaluate` does; if a value is out of range, no episode has the wanted outcome, the file
            is there, or engram was built without video.
    """
    path = None if output is None else os.fspath(output)
    if path is not None and not overwrite and os.path.lexists(path):
        raise ValueError(f"output '{path}' is there; overwrite=True replaces it")
    options = {
        "episodes": episodes,
        "only": only,
        "fps": fps,
        "seconds": seconds,
        "skip-to": skip_to,
        "scale": scale,
        "first_episode": first_episode,
    }
    settings = task_settings_text(task_settings)
    frames = _native.render(os.fspath(run), weights, settings, path, option_texts(options), greedy, show_memory)
    return frames.numpy() if path is None else path


def _check_episodes(episodes: int, most: int) -> None:
    if not 1 <= episodes <= most:
        raise ValueError(f"episodes is {episodes}; it is one of 1 .. {most:,}")


def _played(found: dict[str, Any]) -> PlayedEpisodes:
    return PlayedEpisodes(
        success=Interval(*found["success"]),
        mean_return=Interval(*found["mean_return"]),
        returns=found["returns"].numpy(),
        successes=found["successes"].numpy(),
        lengths=found["lengths"].numpy(),
    )
