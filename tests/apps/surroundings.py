"""The program where files may not grow.  usage: surroundings.py ENGRAM"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile

ENGRAM = sys.argv[1]
TINY = ["--task.name=tmaze", "--task.corridor_length=5", "--memory.name=lstm", "--memory.width=8",
        "--network.hidden_width=16", "--run.random_episodes=2", "--replay.batch_episodes=2",
        "--run.metrics_every_steps=10", "--evaluation.episodes=2", "--evaluation.final_episodes=2", "--run.threads=1",
        "--device=cpu"]
FILM = ["render", "--policy=random", "--task.name=tmaze", "--task.corridor_length=9", "--episodes=2"]


def engram(folder, *arguments, limit=None):
    def prepare():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run([ENGRAM, *arguments], cwd=folder, text=True, preexec_fn=prepare, capture_output=True, timeout=120)


def without_video(result):
    return result.returncode == 2 and "without video" in result.stderr


def check_file_size_limit(folder):
    run = folder / "limited"
    assert engram(folder, "train", run, *TINY, "--run.steps=60").returncode == 0
    result = engram(folder, "train", "--resume", run, "--run.steps=2000", limit=(run / "metrics.jsonl").stat().st_size + 500)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result
    assert "cannot be written: File too large; go on with engram train --resume" in result.stderr, result.stderr
    assert engram(folder, "train", "--resume", run, "--run.steps=120").returncode == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["kind"] == "final", rows[-1]
    result = engram(folder, "evaluate", "run", "--episodes=2", "--trace=trace.safetensors", limit=1000)
    assert result.returncode == 1 and "'trace.safetensors' cannot be written: File too large" in result.stderr, result


def check_films(folder):
    if without_video(engram(folder, *FILM, "--output=film.gif")):
        return
    for ending in (".gif", ".mp4", ".webm", ".avi"):
        for limit in (0, 5000):  # not even a beginning; a part
            result = engram(folder, *FILM, f"--output=limited{ending}", limit=limit)
            assert result.returncode == 1, (ending, limit, result)
            assert result.stderr == f"engram: cannot write 'limited{ending}': File too large\n", (limit, result.stderr)
            assert not list(folder.glob("*limited*.*")) and not list(folder.glob(".*")), list(folder.iterdir())


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    assert engram(folder, "train", "run", *TINY, "--run.steps=120").returncode == 0
    check_file_size_limit(folder)
    check_films(folder)
print("ok")
