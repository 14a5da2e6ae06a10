"""The program where standard streams are closed or cannot be written, and where files may not grow.
usage: surroundings.py ENGRAM EPISODES   (tests/golden/episodes.jsonl)"""

import os
import pathlib
import resource
import shutil
import subprocess
import sys

from safetensors.numpy import load_file

from program import ENGRAM, comparison, metrics, scratch_folder, tiny, with_changes

EPISODES = pathlib.Path(sys.argv[2]).resolve()
TRAIN = tiny("--run.metrics_every_steps=10", "--run.steps=120")
FILM = ["render", "--policy=random", "--task.name=tmaze", "--task.corridor_length=9", "--episodes=2"]


def engram(*arguments, closed=(), limit=None, **options):
    """Its result, whatever it is. `closed`: standard streams; `limit`: bytes of the largest file."""
    def prepare():
        for descriptor in closed:
            os.close(descriptor)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "input": "", "timeout": 120, **options}
    return subprocess.run([ENGRAM, *arguments], text=True, preexec_fn=prepare, **options)


def commands():
    """The words of every command, and the keys that it reads; of some also how they write JSON and help."""
    listed = engram("--help").stdout.split("Commands\n")[1].split("\n\n")[0]
    names = [line.split()[0] for line in listed.splitlines() if line[2] != " "]
    words = {
        "train": (["train", "trained", *TRAIN], ""),
        "evaluate": (["evaluate", "run", "--episodes=2"], ""),
        "diagnose": (["diagnose", "run", "--episodes=4"], ""),
        "compare": (["compare", "--config=c.ini", "--run=compared", "--device=cpu"], ""),
        "sweep": (["sweep", "swept", *TRAIN, "--tune.seeds=7", "--tune.learner.learning_rate=1e-3,2e-3"], ""),
        "render": (FILM + ["--output=film.gif"], ""),
        "play": (["play", "memory_len_3"], "0000"),
        "inspect": (["inspect", "run"], ""),
        "list": (["list"], ""),
        "probe": (["probe", "--run=probed", "--preset=small", "--tasks=copy:items=2:alphabet=3:delay=4",
                   "--backbones=gru", "--seeds=0", "--steps=2", "--device=cpu", "--threads=1"], ""),
        "replay": (["replay", str(EPISODES)], ""),
        "bench": (["bench", "env", "--task=tmaze", "--seconds=0.01", "--num_envs=8"], ""),
        "completion": (["completion", "bash"], ""),
    }
    assert sorted(words) == sorted(names), names
    yield from words.values()
    yield from ((words, "") for words in (
        ["--help"], ["--version"], ["train", "--help"], ["compare", "report", "--help"],
        ["evaluate", "run", "--episodes=2", "--json"], ["inspect", "run", "--json"]))


def without_video(result):
    return result.returncode == 2 and "without video" in result.stderr


def check_closed(folder):
    for closed in ((0,), (1,), (2,), (0, 1, 2)):
        run = folder / ("closed" + "".join(map(str, closed)))
        result = engram("train", run, *TRAIN, closed=closed)
        assert result.returncode == 0 and result.stderr == "", (closed, result)
        assert len(metrics(run, "train")) >= 10, metrics(run)
        assert (run / "lock").read_text().strip().isdigit(), (run / "lock").read_bytes()
        for weights in (run / "weights").iterdir():
            load_file(weights)
    # Without keys there is nothing to play, and somebody may be told.
    result = engram("play", "tmaze", closed=(0,))
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result
    assert "standard input is empty" in result.stderr, result
    for words, _ in commands():
        remove_written(folder)
        result = engram(*words, closed=(0, 1, 2))
        assert result.returncode == 0 or words[0] in ("play", "render") and result.returncode == 2, (words, result)


def check_full_output(folder):
    for words, keys in commands():
        remove_written(folder)
        with open("/dev/full", "w") as full:
            result = engram(*words, stdout=full, input=keys)
        if without_video(result):
            continue
        last = result.stderr.splitlines()[-1:]
        assert last == ["engram: the standard output cannot be written: No space left on device"], (words, result)
        assert result.returncode == 1, (words, result)
    # A failure that has a line of its own keeps its status.
    with open("/dev/full", "w") as full:
        assert engram("evaluate", "nowhere", stdout=full).returncode == 2


def remove_written(folder):
    for name in ("trained", "compared", "swept", "probed"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "film.gif").unlink(missing_ok=True)


def check_file_size_limit(folder):
    run = folder / "limited"
    assert engram("train", run, *with_changes(TRAIN, "--run.steps=60")).returncode == 0
    result = engram("train", "--resume", run, "--run.steps=2000", limit=(run / "metrics.jsonl").stat().st_size + 500)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result
    assert "cannot be written: File too large; go on with engram train --resume" in result.stderr, result.stderr
    assert engram("train", "--resume", run, "--run.steps=120").returncode == 0
    assert metrics(run)[-1]["kind"] == "final", metrics(run)[-1]
    result = engram("evaluate", "run", "--episodes=2", "--trace=trace.safetensors", limit=1000)
    assert result.returncode == 1 and "'trace.safetensors' cannot be written: File too large" in result.stderr, result
    with open(folder / "output.txt", "w") as output:
        result = engram("list", stdout=output, limit=1000)
    assert result.returncode == 1 and "standard output cannot be written: File too large" in result.stderr, result


def check_films(folder):
    if without_video(engram(*FILM, "--output=film.gif")):
        return
    for ending in (".gif", ".mp4", ".webm", ".avi"):
        for limit in (0, 5000):  # not even a beginning; a part
            result = engram(*FILM, f"--output=limited{ending}", limit=limit)
            assert result.returncode == 1, (ending, limit, result)
            assert result.stderr == f"engram: cannot write 'limited{ending}': File too large\n", (limit, result.stderr)
            assert not list(folder.glob("*limited*.*")) and not list(folder.glob(".*")), list(folder.iterdir())


folder = scratch_folder()
(folder / "c.ini").write_text(comparison())
assert engram("train", "run", *TRAIN).returncode == 0
check_closed(folder)
check_full_output(folder)
check_file_size_limit(folder)
check_films(folder)
