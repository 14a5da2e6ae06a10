"""Trains for a moment and reads everything that the run leaves behind, with the official readers of each format.
usage: train.py ENGRAM"""

import json
import math
import os
import pathlib
import struct

import numpy
import safetensors.numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from program import config_text, engram, engram_json, json_lines, metrics, refused, scratch_folder, start, stop, weights


def check_kernels_required(folder):
    refused("train", "runs/required", "--device", "cpu", "--task.name", "tmaze", "--run.kernels", "require",
            saying="run.kernels require: backbone would be computed by LibTorch and own loops in float32, because ")
    assert not (folder / "runs/required").exists()


def check_run_directory(folder):
    run = folder / "runs/a"
    config = (run / "config.ini").read_text()
    for line in ("format = 2", "seed = 7", "name = tmaze", "corridor_length = 9", "name = lstm", "width = 12",
                 "gamma = 0.99", "capacity_steps = 250000"):
        assert line in config.splitlines(), line
    about = json.loads((run / "about.json").read_text())
    assert about["command_line"][:2] == ["engram", "train"] and about["device"] == "cpu", about
    assert [road["part"] for road in about["roads"]] == ["backbone", "heads", "encoder", "loss", "acting"], about
    assert all(road["road"] and road["reason"] for road in about["roads"]), about
    rows, train, evaluations = metrics(run), metrics(run, "train"), metrics(run, "evaluation")
    for key in ("environment_steps", "updates", "episodes", "return", "success", "critic_loss",
                "actor_loss", "entropy", "alpha"):
        assert math.isfinite(train[-1][key]), key
    timings = json_lines(run / "timings.jsonl")
    assert [(row["kind"], row["environment_steps"]) for row in timings] == [
        (row["kind"], row["environment_steps"]) for row in rows]
    for key in ("wall_seconds", "steps_per_second", "updates_per_second"):
        assert math.isfinite(next(row for row in reversed(timings) if row["kind"] == "train")[key]), key
    final = rows[-1]
    assert final["kind"] == "final" and final["episodes"] == 100, final
    for kind in ("", "sampled_"):
        success, low, high = (final[kind + key] for key in ("success", "success_low", "success_high"))
        assert 0 <= low <= success <= high <= 1 and low < high, final
    # Counted and divided once.
    for row in (*evaluations, final):
        for key in ("success", "sampled_success"):
            assert row[key] == round(row[key] * row["episodes"]) / row["episodes"], row
    for row in train:
        episodes = min(row["episodes"], 50)
        assert row["success"] == round(row["success"] * episodes) / episodes, row
    assert any(row["sampled_return"] != row["return"] for row in evaluations), evaluations
    # A T-maze's goal is its decision: what succeeds was decided, and rightly.
    for row in (*evaluations, final):
        for kind in ("", "sampled_"):
            decided, right = row[f"{kind}decided"], row.get(f"{kind}right_of_decided")
            assert decided == round(decided * row["episodes"]) / row["episodes"], row
            assert (right is None) == (decided == 0), row
            assert abs(decided * (right or 0) - row[f"{kind}success"]) < 1e-12, row
    for row in evaluations:
        losses = {key: value for key, value in row.items() if key.startswith("critic_loss_")}
        assert {"critic_loss_oracle", "critic_loss_corridor"} <= set(losses), row  # few come to the junction
        assert all(loss >= 0 for loss in losses.values()), row
    assert train[-1]["environment_steps"] == 400 and train[-1]["updates"] == 120, train[-1]
    assert [row["environment_steps"] for row in evaluations] == [150, 300, 400], evaluations

    # TensorBoard's reader sees the same numbers, in float32.
    events = EventAccumulator(str(run)).Reload()
    for kind, expected in (("train", train), ("evaluation", evaluations)):
        sampled = ("sampled_return", "sampled_success") if kind == "evaluation" else ()
        decisions = ("decided", "sampled_decided", "critic_loss_corridor") if kind == "evaluation" else ()
        for tag in ("return", "success", "updates", *sampled, *decisions):
            seen = [(event.step, event.value) for event in events.Scalars(f"{kind}/{tag}")]
            assert seen == [(row["environment_steps"], struct.unpack("f", struct.pack("f", row[tag]))[0])
                            for row in expected], (kind, tag)

    for which in ("best", "last"):
        assert all(numpy.isfinite(tensor).all() for tensor in weights(run, which).values())
        with safetensors.safe_open(run / f"weights/{which}.safetensors", "numpy") as opened:
            assert opened.metadata()["config"] == config
    assert not list(run.rglob("*.partial*"))


def check_preset(folder):
    """The command line's preset wins over the file, says so, and a run that goes on has it, too."""
    command = ["train", "runs/preset", "--config", "c.ini", "--resume", "auto", "--device", "cpu",
               "--run.random_episodes", "1", "--run.updates_per_step", "0", "--evaluation.final_episodes", "0",
               "--task.preset", "tmaze_passive_50"]
    said = ("task.preset 'tmaze_passive_50' of the command line overrides config file 'c.ini': "
            "task.corridor_length = 50, not 8")
    assert said in engram(*command, "--run.steps", "60")
    assert "corridor_length = 50\n" in (folder / "runs/preset/config.ini").read_text()
    output = engram(*command, "--run.steps", "70")
    assert output.startswith("Going on") and said in output, output
    output = engram("train", "--resume", "runs/preset", "--run.steps", "80")
    assert output.startswith("Going on") and "overrides" not in output, output


def check_drawn_for_the_run(folder):
    agreed = []
    for colours, seed in ("episode", 0), ("fixed", 0), ("reference", 0), ("reference", 12):
        run = f"runs/{colours}{seed}"
        output = engram("train", run, "--device", "cpu", "--seed", str(seed), "--task.colours", colours,
                        "--task.distractor_steps", "0", "--memory.name", "none", "--memory.width", "4",
                        "--network.hidden_width", "4", "--run.steps", "30", "--run.random_episodes", "1",
                        "--evaluation.final_episodes", "0")
        about = json.loads((folder / run / "about.json").read_text())
        lines = [line for line in output.splitlines() if line.startswith("  drawn once for the run: ")]
        if colours == "episode":
            assert "drawn_for_the_run" not in about and not lines, (about, output)
            continue
        drawn = about["drawn_for_the_run"]
        assert lines == ["  drawn once for the run: " + "; ".join(f"{k} = {v}" for k, v in drawn.items())], output
        for name in ("colours",) if colours == "fixed" else ("training_colours", "evaluation_colours"):
            assert sorted(drawn[name].split(", ")) == ["blue", "green", "red"], drawn
        if colours == "reference":
            agree = drawn["training_colours"] == drawn["evaluation_colours"]
            assert drawn["colours_agree"] == ("yes" if agree else "no"), drawn
            agreed.append(drawn["colours_agree"])
    assert agreed == ["no", "yes"], agreed


def check_evaluate(folder):
    result = engram_json("evaluate", "runs/a", "--episodes=40")
    for kind in ("greedy", "sampled"):
        low, high = result[kind]["success_interval"]
        assert 0 <= low <= result[kind]["success"] <= high <= 1 and low < high, result
    assert result["chance_success"] == 0.5 and result["episodes"] == 40
    assert result == engram_json("evaluate", "runs/a", "--episodes=40", "--weights=best")
    text = engram("evaluate", "runs/a", "--episodes=40", "--weights=last")
    assert "greedy" in text and "chance" in text and "last weights" in text, text

    engram("evaluate", "runs/a", "--episodes=5", "--trace=t.safetensors")
    trace = safetensors.numpy.load_file(folder / "t.safetensors")
    shapes = {name: tensor.shape for name, tensor in trace.items()}
    assert shapes == {"observations": (50, 2), "features": (50, 12), "action_probabilities": (50, 4),
                      "q_values": (50, 4), "actions": (50,), "rewards": (50,), "episode_starts": (5,),
                      "final_observations": (5, 2), "episode_ends": (5,), "successes": (5,)}, shapes
    assert (trace["actions"] == trace["action_probabilities"].argmax(1)).all()
    last_rewards = trace["rewards"].reshape(5, 10)[:, -1]
    assert ((last_rewards > 0) == (trace["successes"] == 1)).all()


def check_threads():
    """The published size gets every processor, and threads that leave theirs to others while they wait."""
    environment = {key: value for key, value in os.environ.items() if key not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    process = start("train", "--run", "runs/large", "--device", "cpu", env=environment)
    first = process.stdout.readline()
    process.stdout.readline()  # its first checkpoint: it listens to signals
    own = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    stop(process)
    if "CPU threads (large network)" in first:
        assert b"OMP_WAIT_POLICY=passive" in own, own
    else:
        assert "1 CPU thread (one processor)" in first, first
    # One of many runs never has more than it was given: this memory's first values are computed before it trains.
    process = start("train", "--run", "runs/one", "--device", "cpu", "--task.name", "tmaze", "--memory.name", "s5",
                    "--run.threads", "1", "--run.steps", "100000000", env=environment)
    for _ in range(2):
        process.stdout.readline()
    threads = os.listdir(f"/proc/{process.pid}/task")
    stop(process)
    assert len(threads) <= 2, threads  # itself and the one that waits for signals


def check_help():
    assert "train" in engram("--help")
    assert "LibTorch" in engram("--version")
    text = engram("train", "--help")
    for option in ("--run.seed", "--task.distractor_steps", "--memory.window", "--learner.gamma",
                   "--replay.capacity_steps"):
        assert option in text, option
    assert "--task.corridor_length" in engram("train", "--help", "--task.name=tmaze")
    assert "features [M, D]" in engram("evaluate", "--help")
    listed = engram_json("list")
    assert {task["name"] for task in listed["tasks"]} >= {"visual_match", "key_to_door", "tmaze"}
    assert {item["name"] for item in listed["backbones"]} >= {"transformer", "deltanet", "hqlt", "lstm", "gru", "none"}
    text = engram("list", "presets")
    for preset in listed["presets"]:
        assert preset["name"] in text, preset
    assert max(map(len, engram("train", "--help").splitlines())) <= 110


folder = scratch_folder()
(folder / "c.ini").write_text(config_text(
    "--task.name=tmaze", "--task.corridor_length=8", "--memory.name=lstm", "--memory.width=12",
    "--network.hidden_width=16", "--run.steps=400", "--run.random_episodes=4", "--run.threads=1",
    "--run.report_seconds=0.05", "--run.metrics_every_steps=50", "--evaluation.every_steps=150",
    "--evaluation.episodes=5", "--replay.batch_episodes=8"))
output = engram("train", "runs/a", "--config", "c.ini", "--seed", "7", "--task.corridor-length", "9",
                "--device", "cpu", "--run.device=cpu", "--replay.capacity_steps=2.5e5")
assert "engram evaluate runs/a" in output, output
check_run_directory(folder)
check_kernels_required(folder)
check_drawn_for_the_run(folder)
check_preset(folder)
check_evaluate(folder)
check_threads()
check_help()
