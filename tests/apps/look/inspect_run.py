"""Inspects runs that are finished, in training, stopped, damaged and no runs at all, and files of every kind.
usage: inspect_run.py ENGRAM    (a script called inspect.py would hide the module of that name)"""

import json
import pathlib
import shutil

import numpy
import safetensors.numpy

import program
from program import config_text, contents, engram, engram_json, metrics, scratch_folder, start, stop, tiny, wait_for

CONFIG = config_text(*tiny(
    "--task.corridor_length=9", "--memory.width=12", "--run.steps=400", "--run.random_episodes=4",
    "--evaluation.every_steps=150", "--evaluation.episodes=5", "--evaluation.final_episodes=10",
    "--replay.batch_episodes=8"))


def inspect(path):
    """The object of --json, after a look at the text; nothing in the folder may change."""
    before = contents(path.parent)
    text, parsed = engram("inspect", path), engram_json("inspect", path)
    assert contents(path.parent) == before
    short = [line for line in text.splitlines() if str(path) not in line]
    assert max(map(len, short)) <= 80, text
    return parsed, text


def refused(path, *words):
    line = program.refused("inspect", path, saying=words)
    assert program.refused("inspect", path, "--json", saying=words) == line


def flip_last_byte(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def check_finished(run):
    found, text = inspect(run)
    assert (found["run"], found["task"], found["backbone"], found["state"]) == (str(run), "tmaze", "lstm", "finished")
    assert found["progress"] == {"environment_steps": 400, "total_steps": 400, "updates": 120, "skipped_updates": 0,
                                 "episodes": 40}, found
    evaluations = metrics(run, "evaluation")
    best = max(reversed(evaluations), key=lambda row: (row["success"], row["return"]))
    (final,) = metrics(run, "final")
    assert found["evaluations"]["count"] == len(evaluations) == 3
    for name, row in (("last", evaluations[-1]), ("best", best), ("final", final)):
        for key in ("environment_steps", "updates", "episodes", "success", "return", "sampled_success",
                    "sampled_return"):
            assert found["evaluations"][name][key] == row[key], (name, key)
    for kind in ("", "sampled_"):
        assert found["evaluations"]["final"][f"{kind}success_interval"] == [
            final[f"{kind}success_low"], final[f"{kind}success_high"]]
        for key in ("decided", "right_of_decided", "sampled_decided", "sampled_right_of_decided"):
            assert found["evaluations"][name][key] == row.get(key), (name, key)
    words = " ".join(text.split())
    assert f", decided {100 * evaluations[-1]['decided']:.1f}%" in words, text
    assert f"sampled {100 * evaluations[-1]['sampled_success']:.1f}%" in words, text
    assert f" sampled success {100 * final['sampled_success']:.1f}% (95%: " in words, text
    assert found["config"]["run.steps"] == 400 and found["config"]["learner.gamma"] == 0.99
    assert found["config"]["run.device"] == "cpu" and found["config"]["memory.name"] == "lstm"
    assert found["damaged_metric_rows"] == 0
    saved = [(pathlib.Path(item["file"]).name, item["environment_steps"], item["updates"], item["digest"])
             for item in found["weights"]]
    assert saved == [("best.safetensors", best["environment_steps"], best["updates"], "checked"),
                     ("last.safetensors", 400, 120, "checked")], saved
    assert [(item["number"], item["environment_steps"], item["damage"]) for item in found["checkpoints"]] == [
        (1, 0, None), (2, 400, None)], found["checkpoints"]
    assert found["checkpoints"][1]["bytes"] == (run / "checkpoints/checkpoint_000002.safetensors").stat().st_size
    for words in ("finished", "400 of 400 steps", "task.corridor_length", "checkpoint_000002.safetensors", "checked",
                  f"--resume {run}"):
        assert words in text, (words, text)
    assert "learner.gamma" not in text  # has its default


def check_older(run, folder):
    """A run of a version that played greedy episodes alone."""
    shutil.copytree(run, folder / "older")
    rows = [{key: value for key, value in row.items() if not key.startswith("sampled_")} for row in metrics(run)]
    (folder / "older/metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, text = inspect(folder / "older")
    assert found["state"] == "finished" and found["damaged_metric_rows"] == 0 and "sampled" not in text, text
    final = found["evaluations"]["final"]
    assert final["success"] is not None and final["sampled_success"] is None, final
    assert final["sampled_success_interval"] is None and found["evaluations"]["best"]["sampled_return"] is None


def check_files(run, folder):
    file = run / "weights/best.safetensors"
    found, text = inspect(file)
    tensors = safetensors.numpy.load_file(file)
    assert {item["name"]: (item["shape"], item["bytes"]) for item in found["tensors"]} == {
        name: (list(tensor.shape), tensor.nbytes) for name, tensor in tensors.items()}
    assert found["kind"] == "weights" and found["digest"] == "checked" and found["backbone"] == "lstm"
    assert found["totals"] == {"tensors": len(tensors), "elements": sum(tensor.size for tensor in tensors.values()),
                               "bytes": sum(tensor.nbytes for tensor in tensors.values())}
    assert found["bytes"] == file.stat().st_size and found["config"]["task.corridor_length"] == 9
    version = engram("--version").split()[1]
    assert found["engram"] == version
    for words in ("weights of lstm on tmaze", f"engram {version}", "checked", "actor.hidden1.weight", "F32"):
        assert words in text, (words, text)

    found, text = inspect(run / "checkpoints/checkpoint_000002.safetensors")
    assert (found["kind"], found["format"], found["environment_steps"], found["updates"]) == ("checkpoint", 1, 400, 120)
    assert "checkpoint (format 1) of lstm on tmaze" in text and "400 steps, 120 updates" in text, text

    engram("evaluate", run, "--episodes=2", f"--trace={folder / 't'}", "--device=cpu")
    assert inspect(folder / "t")[0]["kind"] == "trace"

    safetensors.numpy.save_file({"half": numpy.zeros((2, 3), numpy.float16), "x\x1b[2J" + "y" * 200: numpy.zeros(())},
                                folder / "foreign", {"kind": "weights"})
    found, text = inspect(folder / "foreign")
    assert found["kind"] == "foreign" and found["digest"] == "none" and found["task"] is None
    assert {(item["dtype"], tuple(item["shape"]), item["bytes"]) for item in found["tensors"]} == {
        ("F16", (2, 3), 12), ("F64", (), 8)}, found
    assert "another program" in text and "F16" in text and "\x1b" not in text, text

    shutil.copy(file, folder / "damaged")
    flip_last_byte(folder / "damaged")
    refused(folder / "damaged", folder / "damaged", "digest")
    (folder / "damaged").write_bytes(file.read_bytes()[:-100])
    refused(folder / "damaged", folder / "damaged", "damaged")
    refused(folder / "none", folder / "none", "does not exist")
    for name, data in (("text", b"# engram\n\nA readme.\n"), ("empty", b""), ("short", b"abc"), ("film", b"\0" * 500)):
        (folder / name).write_bytes(data)
        refused(folder / name, folder / name, "is no safetensors file", "run directory")
    refused(folder, folder, "not a run directory")


def check_running_and_stopped(folder):
    run = folder / "long"
    process = start("train", "--config", folder / "c.ini", "--run", run, "--run.steps=1000000000",
                    "--checkpoint.every_steps=50")
    try:
        wait_for((run / "weights/last.safetensors").exists, process)
        for _ in range(4):  # while files come and go
            found = engram_json("inspect", run)
            assert found["state"] == "running" and found["resume"] is None, found
            assert found["progress"]["environment_steps"] >= 150 and found["progress"]["total_steps"] == 1000000000
            assert all(item["damage"] is None for item in found["checkpoints"]), found["checkpoints"]
        assert "running" in engram("inspect", run)
    finally:
        stop(process)

    found, text = inspect(run)
    newest, before = found["checkpoints"][-1], found["checkpoints"][-2]
    assert found["state"] == "can go on" and found["resume"] == f"engram train --resume {run}", found
    assert found["progress"]["environment_steps"] == newest["environment_steps"], found["progress"]
    step = newest["environment_steps"]
    assert f"can go on from step {step}\n  go on        engram train --resume {run}\n" in text, text

    # A damaged file is told, and the run goes on from the one before.
    flip_last_byte(pathlib.Path(newest["file"]))
    flip_last_byte(run / "weights/best.safetensors")
    with open(run / "metrics.jsonl", "r+b") as file:
        rows = file.read()
        file.seek(0)
        file.write(b"nonsense\n" + b"[" * 100000 + b"\n{\"kind\": \"train\", \"environment_steps\": -4}\n" + rows)
        file.write(b"{\"kind\": \"tra")
    found, text = inspect(run)
    assert "digest" in found["checkpoints"][-1]["damage"] and "digest" in found["weights"][0]["damage"], found
    assert found["damaged_metric_rows"] == 3 and found["state"] == "can go on"
    assert f"from step {before['environment_steps']}\n" in text, text
    assert text.count("is damaged: its digest does not match") == 2, text

    for item in found["checkpoints"]:
        pathlib.Path(item["file"]).unlink()
    assert inspect(run)[0]["state"] == "cannot go on"
    (folder / "fresh").mkdir()
    shutil.copy(run / "config.ini", folder / "fresh/config.ini")
    found, text = inspect(folder / "fresh")
    assert found["state"] == "not begun" and found["checkpoints"] == [] and "nothing is saved" in text, found
    (folder / "fresh/config.ini").write_text("[run]\nsteps = many\n")
    refused(folder / "fresh", "run.steps", "many")


def check_page(run, folder):
    """The page of a run has its success and the diagnosis in words, and is replaced."""
    for _ in range(2):
        assert "The page is" in engram("inspect", run, "--html", folder / "page.html")
    page = (folder / "page.html").read_text()
    for words in ('<p class="answer">Diagnosis: ', "episodes that training has not seen", '"settings":"a/config.ini"'):
        assert words in page, words
    program.refused("inspect", run, "--html", "page.txt", saying=["page.txt"])
    program.refused("inspect", run, "--html", "page.html", "--json", saying=["--json", "--html"])
    program.refused("inspect", run / "weights/best.safetensors", "--html", "page.html", saying=["best.safetensors"])


folder = scratch_folder()
(folder / "c.ini").write_text(CONFIG)
run = folder / "a"
engram("train", "--config", folder / "c.ini", "--run", run)
check_finished(run)
check_older(run, folder)
check_page(run, folder)
check_files(run, folder)
check_running_and_stopped(folder)

# Without a final evaluation a run is finished as well, and no longer once more is asked of it.
engram("train", "--config", folder / "c.ini", "--run", folder / "b", "--evaluation.final_episodes=0")
found, text = inspect(folder / "b")
assert found["state"] == "finished" and found["evaluations"]["final"] is None, found
config = folder / "b/config.ini"
config.write_text(config.read_text().replace("\nsteps = 400\n", "\nsteps = 500\n"))
assert inspect(folder / "b")[0]["state"] == "can go on"
assert "--json" in engram("inspect", "--help")
