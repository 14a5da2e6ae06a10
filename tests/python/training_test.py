"""engram.train: runs as the program makes them, and what they leave of the caller's process."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import engram
from engram.program import environment, program

TINY = {
    "task": {"name": "tmaze", "corridor_length": 4},
    "memory": {"name": "gru", "width": 8, "layers": 1},
    "network.hidden_width": 8,
    "replay.batch_episodes": 4,
    "run": {"steps": 300, "random_episodes": 4, "num_envs": 4, "threads": 1, "metrics_every_steps": 100},
    "run.report_seconds": 0.01,
    "evaluation": {"every_steps": 150, "episodes": 8, "final_episodes": 8},
}


def settings(config, prefix=""):
    for key, value in config.items():
        if isinstance(value, dict):
            yield from settings(value, f"{prefix}{key}.")
        else:
            yield f"--{prefix}{key}"
            yield str(value).lower() if isinstance(value, bool) else str(value)


def run_program(*arguments):
    try:
        path = program()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    subprocess.run([path, *map(str, arguments)], env=environment(), check=True, stdout=subprocess.DEVNULL)


def weights(run, which="last"):
    return (Path(run) / "weights" / f"{which}.safetensors").read_bytes()


def test_a_run_is_the_programs(tmp_path):
    result = engram.train(TINY, run=tmp_path / "python", device="cpu")
    run_program("train", tmp_path / "program", *settings(TINY), "--device", "cpu")
    for which in ("best", "last"):
        assert weights(tmp_path / "python", which) == weights(tmp_path / "program", which)
    for name in ("config.ini", "metrics.jsonl"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "program" / name).read_bytes()
    assert result.run == tmp_path / "python" and result.stopped == "steps" and result.steps >= 300
    assert result.final_evaluation.episodes == 8
    final = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()][-1]
    assert final["kind"] == "final" and final["return"] == result.final_evaluation.mean_return
    assert result.best_evaluation.steps == final["environment_steps"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_run_on_a_gpu_leaves_the_current_device_alone(tmp_path):
    before = torch.cuda.current_device()
    assert engram.train(TINY, run=tmp_path / "a", device="cuda").stopped == "steps"
    assert torch.cuda.current_device() == before


def test_a_config_is_a_file_or_a_dict(tmp_path):
    engram.train(TINY, run=tmp_path / "dict", device="cpu")
    engram.train(tmp_path / "dict" / "config.ini", run=tmp_path / "file")
    engram.train(str(tmp_path / "dict" / "config.ini"), run=str(tmp_path / "text"))
    assert weights(tmp_path / "dict") == weights(tmp_path / "file") == weights(tmp_path / "text")


def test_what_is_the_callers_stays(tmp_path):
    torch.manual_seed(17)
    torch.set_num_threads(2)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]
    seed, state = torch.initial_seed(), torch.get_rng_state()
    with torch.no_grad():
        engram.train(TINY, run=tmp_path / "a", device="cpu")
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == 2
    assert torch.initial_seed() == seed and torch.equal(torch.get_rng_state(), state)
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]
    assert after == handlers


def test_the_callback_is_told_and_stops_the_run(tmp_path):
    events = []

    def stop(event):
        events.append(event)
        return event.kind != "evaluation"

    result = engram.train(TINY, run=tmp_path / "a", device="cpu", callback=stop)
    assert result.stopped == "request" and result.steps < 300 and result.final_evaluation is None
    assert {event.kind for event in events} >= {"measurement", "evaluation", "end"}
    evaluation = next(event for event in events if event.kind == "evaluation")
    assert evaluation.last_evaluation.episodes == 8 and "critic_loss" in evaluation.losses
    assert evaluation.total_steps == 300 and evaluation.updates > 0

    resumed = engram.train({}, run=tmp_path / "a", resume=True)
    engram.train(TINY, run=tmp_path / "whole", device="cpu")
    assert resumed.stopped == "steps"
    assert weights(tmp_path / "a") == weights(tmp_path / "whole")


def test_what_the_callback_raises_comes_after_a_save(tmp_path):
    def fail(event):
        if event.steps >= 150:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        engram.train(TINY, run=tmp_path / "a", device="cpu", callback=fail)
    engram.train(TINY, run=tmp_path / "whole", device="cpu")
    engram.train(TINY, run=tmp_path / "a", resume=True)
    assert weights(tmp_path / "a") == weights(tmp_path / "whole")


def test_ctrl_c_saves(tmp_path):
    long = {**TINY, "run": {**TINY["run"], "steps": 100_000_000}}
    timer = threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engram.train(long, run=tmp_path / "a", device="cpu")
    timer.join()
    steps = []
    result = engram.train({}, run=tmp_path / "a", resume=True, callback=lambda event: bool(steps.append(event.steps)))
    assert result.stopped == "request" and steps[0] > 0


def test_ctrl_c_ends_an_evaluation(tmp_path):
    config = {**TINY, "evaluation": {"every_steps": 10, "episodes": 1_000_000, "final_episodes": 0}}
    timer = threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engram.train(config, run=tmp_path / "a", device="cpu")
    timer.join()
    assert time.monotonic() - began < 20


def test_a_run_that_was_not_begun_is_begun_by_resume(tmp_path):
    assert engram.train(TINY, run=tmp_path / "a", device="cpu", resume=True).steps >= 300
    longer = {"run.steps": 600}
    assert engram.train(longer, run=tmp_path / "a", resume=True).steps >= 600


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"task.name": "tmase"}, "tmaze"),
        ({"task": {"name": "tmaze"}, "task.name": "tmaze"}, "task.name is given twice"),
        ({"run.steps": None}, "run.steps = None"),
        ({"run.steps": -1}, "run.steps"),
        ({3: 4}, "the key 3"),
        ({"run.precision": "bfloat16", "run.device": "cpu"}, "bfloat16"),
        ({"task.name": "external"}, "env="),
        (7, "config = 7"),
    ],
)
def test_bad_input_is_a_value_error(tmp_path, config, message):
    with pytest.raises(ValueError, match=message) as raised:
        engram.train(config, run=tmp_path / "a")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "a").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not empty"):
        engram.train(TINY, run=tmp_path)


def test_a_run_goes_on_with_what_it_was_made_with(tmp_path):
    engram.train(TINY, run=tmp_path / "a", device="cpu")
    with pytest.raises(ValueError, match="memory.width"):
        engram.train({"memory.width": 16}, run=tmp_path / "a", resume=True)


def test_progress_is_a_line_that_is_rewritten(tmp_path, capfd):
    engram.train(TINY, run=tmp_path / "silent", device="cpu")
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
    engram.train(TINY, run=tmp_path / "a", device="cpu", progress=True)
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and "\r" in captured.err


def test_the_module_is_the_program():
    run_program("--version")
    refused = subprocess.run([sys.executable, "-m", "engram", "nonsense"], capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.startswith("engram: ") and "nonsense" in refused.stderr


def test_a_comparison(tmp_path):
    experiment = {
        "compare": {"seeds": "0-1", "match": "none", "controls": ""},
        "tasks": {"short": {f"task.{key}": value for key, value in TINY["task"].items()}},
        "run": {**TINY["run"], "steps": 120},
        "evaluation": {"every_steps": 100, "episodes": 4, "final_episodes": 4},
        "memory": {"width": 8, "layers": 1},
        "backbones": {"gru": {}, "lstm": {"memory.width": 4}},
    }
    run_program("--version")
    result = engram.compare(experiment, tmp_path / "a", jobs=2, device="cpu")
    assert result.page.is_file() and len(result.runs) == 4
    with pytest.raises(ValueError, match="grv"):
        engram.compare({**experiment, "backbones": {"a": {"memory.name": "grv"}}}, tmp_path / "b")
    with pytest.raises(ValueError, match="seeds = 3 stands in no section"):
        engram.compare({"seeds": 3}, tmp_path / "b")


EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def run_example(name, *arguments, **variables):
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_example_of_optuna(tmp_path):
    pytest.importorskip("optuna")
    assert "best" in run_example("optuna_search.py", tmp_path, "--trials", 2, "--steps", 200)


def test_example_of_cartpole(tmp_path):
    assert "mean return of 50 episodes" in run_example("cartpole_without_speeds.py", tmp_path / "a", "--steps", 2000)


def test_example_of_weights_and_biases(tmp_path):
    pytest.importorskip("wandb")
    run_example("weights_and_biases.py", tmp_path, "--steps", 300, WANDB_MODE="offline")
    assert list(tmp_path.glob("wandb/offline-run-*"))
