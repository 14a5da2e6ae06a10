"""engram diagnose, on tiny trained runs: what it says agrees with engram evaluate and with itself, and nothing is
written.  usage: diagnose.py ENGRAM"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ENGRAM = sys.argv[1]
TINY = ["--network.hidden_width=16", "--memory.width=8", "--memory.layers=1", "--run.random_episodes=4",
        "--replay.batch_episodes=4", "--evaluation.episodes=5", "--evaluation.final_episodes=5", "--run.threads=1",
        "--device=cpu"]


def engram(*arguments, status=0, stderr=""):
    result = subprocess.run([ENGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert result.returncode == status, (arguments, result.returncode, result.stdout, result.stderr)
    assert status != 0 or stderr in result.stderr and (stderr or not result.stderr), result.stderr
    return result


def refused(*arguments, words):
    result = engram("diagnose", *arguments, status=2)
    assert result.stdout == "" and result.stderr.count("\n") == 1, result
    assert all(word in result.stderr for word in words), (result.stderr, words)


def diagnose(run, *arguments, **expected):
    return json.loads(engram("diagnose", run, "--device=cpu", "--json", *arguments, **expected).stdout)


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


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
    evaluated = json.loads(engram("evaluate", run, "--device=cpu", "--episodes=40", "--json").stdout)
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

    text = engram("diagnose", run, "--device=cpu", "--episodes=40").stdout
    assert max(map(len, text.splitlines())) <= 100, text
    for words in ("greedy", "sampled", "replayed", "oracle", "junction", "area under the curve", "read rightly"):
        assert words in text, (words, text)

    assert " ".join(text.split()).endswith(f"What it means: {found['meaning']}"), text
    assert any(words in found["meaning"] for words in ("decides", "decisions", "solves")), found["meaning"]
    assert "too few episodes" in engram("diagnose", run, "--device=cpu", "--episodes=2").stdout

    # Elsewhere than in training.
    longer = diagnose(run, "--episodes=20", "--task.corridor_length=20")
    assert longer["differs"] == {"task.corridor_length": {"trained": 5, "evaluated": 20}}, longer
    assert "as it was in training" in longer["replayed"]["missing"], longer
    assert [read["lag"] for read in longer["sampled"]["cue"] if read["lag"] is not None] == [0, 1, 4, 16], longer
    text = engram("diagnose", run, "--device=cpu", "--episodes=2", "--task.corridor_length=20").stdout
    assert "trained with task.corridor_length 5, diagnosed with 20\n" in text and "none: a read-out takes 10" in text
    assert contents(run) == before
    return found


def check_temperature(run, found):
    """The alpha of soft targets is the one of the weights' time."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "train" and row["environment_steps"] <= found["environment_steps"]]
    assert found["alpha"] == rows[-1]["alpha"] != 0.1, (found["alpha"], rows[-1])
    assert found["alpha_source"] == f"learnt, at step {rows[-1]['environment_steps']}", found


def check_checkpoints(run, folder):
    copy = folder / "copy"
    shutil.copytree(run, copy)
    files = sorted((copy / "checkpoints").iterdir())
    assert len(files) == 2, files  # of the beginning, which holds no episode, and of the end
    files[1].write_bytes(files[1].read_bytes()[:-1])
    assert "missing" in diagnose(copy, "--episodes=5", stderr=files[1].name)["replayed"]
    files[0].write_bytes(b"{}")
    assert "checkpoint" in engram("diagnose", copy, "--device=cpu", "--episodes=5", status=2).stderr
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
        refused(*arguments, words=words)
    assert contents(folder) == before


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    run = folder / "run"
    engram("train", run, *TINY, "--task.name=tmaze", "--task.corridor_length=5", "--memory.name=deltanet",
           "--memory.heads=2", "--run.steps=600", "--learner.temperature=learnt", "--run.metrics_every_steps=60",
           "--evaluation.every_steps=300", stderr="")
    check_temperature(run, check_run(run))
    check_checkpoints(run, folder)
    check_refusals(run, folder)
