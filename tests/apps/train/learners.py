"""Every learner trains, is killed and goes on to the very bytes of an uninterrupted run, does a run together with
another rank, and its agents are evaluated, diagnosed, traced and filmed.

    learners.py ENGRAM video|no_video
"""

import os
import sys

from program import (ENGRAM, TINY, call, checkpoints, engram, engram_json, kill, metrics, refused, same_outcome,
                     scratch_folder, start, wait_for, with_changes)

VIDEO = sys.argv[2] == "video"
SCALARS = {"sac": {"critic_loss", "actor_loss", "entropy", "alpha", "mean_q", "gradient_norm"},
           "dqn": {"critic_loss", "mean_q", "gradient_norm"},
           "ppo": {"critic_loss", "actor_loss", "entropy", "kl", "clipped", "mean_value", "gradient_norm"}}
ALL_SCALARS = set().union(*SCALARS.values())
# What a learner has beside what all runs here have; on policy there is no replay.
OWN = {"ppo": ["--learner.iteration_steps=60", "--learner.minibatches=2", "--learner.epochs=2"]}
OF_REPLAY = ("--replay.", "--run.random_episodes=", "--run.updates_per_step=")


def settings_of(name):
    own = [word for word in TINY if name != "ppo" or not word.startswith(OF_REPLAY)]
    return with_changes(own, f"--learner.name={name}", "--run.steps=600", "--run.num_envs=2",
                        "--checkpoint.every_steps=10", "--run.metrics_every_steps=100", *OWN.get(name, []))


def check(name, folder):
    whole, killed, together = (folder / run for run in ("whole", "killed", "together"))
    settings = settings_of(name)
    engram("train", whole, *settings)
    rows = metrics(whole, "train")
    assert SCALARS[name] <= rows[-1].keys() and not (ALL_SCALARS - SCALARS[name]) & rows[-1].keys(), rows[-1]
    assert f"[learner]\nname = {name}\n" in (whole / "config.ini").read_text()

    process = start("train", killed, *settings)
    wait_for(lambda: len(checkpoints(killed)) > 1 and metrics(killed, "train"), process)
    kill(process)
    engram("train", "--resume", killed)
    same_outcome(whole, killed)
    other = next(own for own in SCALARS if own != name)
    refused("train", "--resume", killed, f"--learner.name={other}",
            saying=f"made with learner.name = {name} and cannot go on with {other}")

    found = engram_json("evaluate", whole, "--episodes=20", "--device=cpu", "--trace", "trace.safetensors")
    assert 0 <= found["greedy"]["success"] <= 1 and os.path.getsize("trace.safetensors") > 0, found
    found = engram_json("diagnose", whole, "--episodes=20", "--device=cpu")
    assert found["learner"] == name and found["gamma"] == 0.99 and ("alpha" in found) == (name == "sac"), found
    assert found["greedy"]["phases"], found
    if VIDEO:
        engram("render", whole, "--output", "film.gif", "--episodes=1", saying=None)
        assert os.path.getsize("film.gif") > 0
    found = engram_json("inspect", whole)
    assert found["config"]["learner.name"] == name, found["config"]

    # Two ranks, of which each is a program.
    ranks = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + os.getpid() % 3000)}
    process = start("train", together, *settings, env={**ranks, "RANK": "1", "LOCAL_RANK": "1"})
    call(ENGRAM, "train", together, *settings, env={**ranks, "RANK": "0", "LOCAL_RANK": "0"})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    assert metrics(together, "train")[-1]["environment_steps"] >= 600


for learner in SCALARS:
    check(learner, scratch_folder())
print("ok")
