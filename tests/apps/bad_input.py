"""Every kind of bad input gets exit status 2, exactly one line on stderr that contains the offending value, and nothing
is created or overwritten.  usage: bad_input.py ENGRAM"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ENGRAM = sys.argv[1]
TINY = [
    "--task.name=tmaze", "--task.corridor_length=5", "--memory.name=lstm", "--memory.width=8", "--network.hidden_width=16",
    "--run.steps=60", "--run.random_episodes=2", "--replay.batch_episodes=2", "--evaluation.episodes=2",
    "--run.threads=1", "--device=cpu",
]
failures = []


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
            for path in sorted(folder.rglob("*"))}


def expect_refusal(folder, arguments, *mentioned):
    """Runs engram in `folder` and checks all that bad input promises."""
    before = contents(folder)
    result = subprocess.run([ENGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    wrong = []
    if result.returncode != 2:
        wrong.append(f"exit status {result.returncode}")
    lines = result.stderr.splitlines()
    if len(lines) != 1 or not lines[0].startswith("engram: "):
        wrong.append(f"stderr is not one line of engram's: {result.stderr!r}")
    wrong += [f"{text!r} is not mentioned" for text in mentioned if text not in result.stderr]
    if contents(folder) != before:
        wrong.append("files were changed")
    label = " ".join(arguments)
    print(("FAIL " if wrong else "ok   ") + label + " -> " + result.stderr.strip())
    if wrong:
        failures.append(label + ": " + "; ".join(wrong))


def train(*more):
    return ["train", "--run", "new", *TINY, *more]


def main(folder):
    expect_refusal(folder, ["trian"], "trian", "train")
    expect_refusal(folder, ["train", *TINY], "--run")
    expect_refusal(folder, train("--bogus=1"), "bogus")
    expect_refusal(folder, train("--run.stepz=1"), "run.stepz", "run.steps")
    expect_refusal(folder, train("--run.steps"), "run.steps")
    expect_refusal(folder, train("stray"), "stray")
    expect_refusal(folder, train("--task.name=tmase"), "tmase", "tmaze")
    expect_refusal(folder, train("--task.preset=nowhere"), "nowhere")
    expect_refusal(folder, train("--memory.name=lsmt"), "lsmt", "lstm")
    expect_refusal(folder, train("--memory.window=8"), "memory.window", "lstm", "hqlt")
    expect_refusal(folder, train("--task.distractor_steps=8"), "task.distractor_steps", "tmaze")
    expect_refusal(folder, train("--run.steps=many"), "many", "integer")
    expect_refusal(folder, train("--run.steps=1.5"), "1.5", "integer")
    expect_refusal(folder, train("--seed=-1"), "-1", "integer")
    expect_refusal(folder, train("--learner.gamma=1.5"), "1.5", "0..1")
    expect_refusal(folder, train("--learner.gamma=nan"), "nan", "0..1")
    expect_refusal(folder, train("--memory.name=hqlt", "--memory.width=30", "--memory.heads=4"), "30", "4")
    expect_refusal(folder, train("--device=gpu"), "gpu", "cuda")
    expect_refusal(folder, train("--device=cuda:77"), "cuda:77")
    expect_refusal(folder, ["bench", "env", "--device=cuda:77"], "cuda:77")
    expect_refusal(folder, ["bench", "env", "--num_envs=0"], "num_envs", "1..")
    for name in ("%value%", "%option%", "%canonical_option%", "%prefix%"):  # of Boost's messages
        expect_refusal(folder, ["bench", "env", f"--num_envs={name}"], "num_envs", name)
        expect_refusal(folder, ["bench", "env", f"--{name}=1"], name)
        expect_refusal(folder, train(f"--run.steps={name}"), "run.steps", name)
        expect_refusal(folder, train(f"--{name}"), name)
    expect_refusal(folder, ["bench"], "env", "run")
    expect_refusal(folder, ["bench", "kernelz"], "kernelz", "kernels")
    if not shutil.which("nvidia-smi"):
        for subject in ("kernels", "act", "update", "run"):
            expect_refusal(folder, ["bench", subject], f"bench {subject}", "GPU")
        expect_refusal(folder, train("--device=cuda"), "cuda", "cpu")
        expect_refusal(folder, ["bench", "env", "--device=cuda"], "cuda", "cpu")

    (folder / "version.ini").write_text("format = 99\n[run]\nseed = 1\n")
    (folder / "twice.ini").write_text("[run]\nseed = 1\nseed = 2\n")
    (folder / "malformed.ini").write_text("[run]\nseed\n")
    (folder / "unknown.ini").write_text("[run]\nsede = 1\n")
    (folder / "range.ini").write_text("[learner]\ngamma = 7\n")
    expect_refusal(folder, train("--config=none.ini"), "none.ini")
    expect_refusal(folder, train("--config=version.ini"), "99", "version")
    expect_refusal(folder, train("--config=twice.ini"), "run.seed", "twice")
    expect_refusal(folder, train("--config=malformed.ini"), "malformed.ini")
    expect_refusal(folder, train("--config=unknown.ini"), "run.sede", "run.seed")
    expect_refusal(folder, train("--config=range.ini"), "learner.gamma", "7")

    subprocess.run([ENGRAM, "train", "--run", "trained", *TINY], cwd=folder, check=True, capture_output=True)
    expect_refusal(folder, ["train", "--run", "trained", *TINY], "trained", "evaluate", "--run", "remove")
    expect_refusal(folder, ["train", "--run", "trained/config.ini", *TINY], "trained/config.ini")
    expect_refusal(folder, ["train", "--run", "trained/config.ini/x", *TINY], "trained/config.ini/x")
    if os.geteuid() != 0:
        (folder / "locked").mkdir(mode=0o500)
        expect_refusal(folder, ["train", "--run", "locked/new", *TINY], "locked/new")
    expect_refusal(folder, ["train", "--run", "/proc/new", *TINY], "/proc/new")

    expect_refusal(folder, ["evaluate"], "DIR")
    expect_refusal(folder, ["evaluate", "nowhere"], "nowhere")
    expect_refusal(folder, ["evaluate", "."], "config.ini")
    expect_refusal(folder, ["evaluate", "trained", "more"], "more")
    expect_refusal(folder, ["evaluate", "trained", "--episodes=0"], "0", "integer")
    expect_refusal(folder, ["evaluate", "trained", "--weights=worst"], "worst", "best")
    expect_refusal(folder, ["evaluate", "trained", "--trace=no/such/trace"], "no/such/trace")
    expect_refusal(folder, ["evaluate", "trained", "--device=cuda:77"], "cuda:77")
    expect_refusal(folder, ["list", "--jason"], "jason", "json")

    weights = folder / "trained/weights/best.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", b"\xff" * 64, whole + b"x"):
        weights.write_bytes(damaged)
        expect_refusal(folder, ["evaluate", "trained"], "best.safetensors", "damaged")
    weights.unlink()
    expect_refusal(folder, ["evaluate", "trained"], "best.safetensors", "does not exist")
    config = folder / "trained/config.ini"
    text = config.read_text()
    config.write_text(text.replace("width = 8", "width = 9"))
    expect_refusal(folder, ["evaluate", "trained", "--weights=last"], "last.safetensors", "8")
    config.write_text(text.replace("format = 1", "format = 2"))
    expect_refusal(folder, ["evaluate", "trained", "--weights=last"], "format", "2")


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
if failures:
    sys.exit("\n".join(["", f"{len(failures)} failures:", *failures]))
