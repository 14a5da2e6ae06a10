"""engram diagnose, on tiny trained runs: what it says agrees with engram evaluate and with itself, and nothing is
written.  usage: diagnose.py ENGRAM"""

import functools
import shutil

import program
from program import contents, engram_json, metrics, refused, scratch_folder, tiny

engram = functools.partial(program.engram, timeout=300)


def diagnose(run, *arguments, **expected):
    return engram_json("diagnose", run, "--device=cpu", *arguments, timeout=300, **expected)


def check_consistent(found):
    assert abs(sum(phase["critic_loss_share"] for phase in found["phases"]) - 1) < 1e-9, found
    losses = [phase["critic_loss"] * phase["steps"] for phase in found["phases"]]
    for phase, loss in zip(found["phases"], losses):
        assert abs(phase["critic_loss_share"] - loss / sum(losses)) < 1e-9, found
    decisions = found["decisions"]
    taken = decisions["right"] + decisions["wrong"]
    assert abs(decisions["decided"]["estimate"] - taken / found["episodes"]) < 1e-12, found
    assert (decisions["q_auc"] is None) == (decisions["right"] == 0 or decisions["wrong"] == 0), found


def check_run(run):
    before = contents(run)
    found = diagnose(run, "--episodes=40")
    evaluated = engram_json("evaluate", run, "--device=cpu", "--episodes=40", timeout=300)
    for kind in ("greedy", "sampled"):
        assert found[kind]["success"]["estimate"] == evaluated[kind]["success"], (found, evaluated)
        assert found[kind]["success"]["interval"] == evaluated[kind]["success_interval"], (found, evaluated)
    for kind in ("greedy", "sampled", "replayed"):
        assert found[kind]["episodes"] == 40
        check_consistent(found[kind])
    assert found["differs"] == {} and found["gamma"] == 0.99 and found["environment_steps"] > 0, found
    lags = [read["lag"] for read in found["sampled"]["cue"] if read["lag"] is not None]
    assert lags == [0, 1, 4], lags  # of an episode of 6 steps
    assert found["sampled"]["cue"][0]["read"]["estimate"] == 1, found  # it is seen
    assert diagnose(run, "--episodes=40") == found
    last = diagnose(run, "--episodes=40", "--weights=last")
    assert last["weights"] == "last" and last["environment_steps"] >= found["environment_steps"], last

    text = engram("diagnose", run, "--device=cpu", "--episodes=40")
    assert max(map(len, text.splitlines())) <= 100, text
    for words in ("greedy", "sampled", "replayed", "oracle", "junction", "area under the curve", "read rightly"):
        assert words in text, (words, text)

    assert " ".join(text.split()).endswith(f"What it means: {found['meaning']}"), text
    assert any(words in found["meaning"] for words in ("decides", "decisions", "solves")), found["meaning"]
    assert "too few episodes" in engram("diagnose", run, "--device=cpu", "--episodes=2")

    # Elsewhere than in training.
    longer = diagnose(run, "--episodes=20", "--task.corridor_length=20")
    assert longer["differs"] == {"task.corridor_length": {"trained": 5, "evaluated": 20}}, longer
    assert "as it was in training" in longer["replayed"]["missing"], longer
    assert [read["lag"] for read in longer["sampled"]["cue"] if read["lag"] is not None] == [0, 1, 4, 16], longer
    text = engram("diagnose", run, "--device=cpu", "--episodes=2", "--task.corridor_length=20")
    assert "trained with task.corridor_length 5, diagnosed with 20\n" in text and "none: a read-out takes 10" in text
    assert contents(run) == before
    return found


def check_temperature(run, found):
    """The alpha of soft targets is the one of the weights' time."""
    rows = [row for row in metrics(run, "train") if row["environment_steps"] <= found["environment_steps"]]
    assert found["alpha"] == rows[-1]["alpha"] != 0.1, (found["alpha"], rows[-1])
    assert found["alpha_source"] == f"learnt, at step {rows[-1]['environment_steps']}", found


def check_checkpoints(run, folder):
    copy = folder / "copy"
    shutil.copytree(run, copy)
    files = sorted((copy / "checkpoints").iterdir())
    assert len(files) == 2, files  # of the beginning, which holds no episode, and of the end
    files[1].write_bytes(files[1].read_bytes()[:-1])
    assert "missing" in diagnose(copy, "--episodes=5", saying=files[1].name)["replayed"]
    files[0].write_bytes(b"{}")
    refused("diagnose", copy, "--device=cpu", "--episodes=5", saying="checkpoint")
    shutil.rmtree(copy / "checkpoints")
    assert "no checkpoint" in diagnose(copy, "--episodes=5")["replayed"]["missing"]


def check_refusals(run, folder):
    before = contents(folder)
    for arguments, words in (([], ["DIR"]), ([folder / "nowhere"], ["nowhere"]), ([folder], ["config.ini"]),
                             ([run, "more"], ["more"]), ([run, "--episodes=0"], ["episodes", "'0'"]),
                             ([run, "--weights=worst"], ["worst", "best"]), ([run, "--device=cuda:77"], ["cuda:77"]),
                             ([run, "--task.corridor_length=0"], ["task.corridor_length", "'0'"]),
                             ([run, "--task.name=key_to_door"], ["key_to_door", "trained on tmaze"]),
                             ([run, "--trace=x"], ["--trace"])):
        refused("diagnose", *arguments, saying=words)
    assert contents(folder) == before


folder = scratch_folder()
run = folder / "run"
engram("train", run, *tiny(
    "--memory.name=deltanet", "--memory.layers=1", "--memory.heads=2", "--run.steps=600", "--run.random_episodes=4",
    "--run.metrics_every_steps=60", "--replay.batch_episodes=4", "--learner.temperature=learnt",
    "--evaluation.every_steps=300", "--evaluation.episodes=5", "--evaluation.final_episodes=5"))
check_temperature(run, check_run(run))
check_checkpoints(run, folder)
check_refusals(run, folder)
