"""Every kind of bad input gets exit status 2, exactly one line on stderr that contains the offending value, and nothing
is created or overwritten.  usage: bad_input.py ENGRAM"""

import os
import shutil

from program import TINY, engram, refused, scratch_folder, tiny


def expect_refusal(arguments, *mentioned):
    refused(*arguments, saying=mentioned)


def train(*more):
    return ["train", "--run", "new", *tiny(*more)]


def contradictions():
    """Two values for one thing: named, both of them."""
    for first, second in [("--seed=1", "--run.seed=2"), ("--device=cpu", "--run.device=auto"),
                          ("--on-nan=stop", "--run.on_nan=skip"), ("--on-nan=stop", "--on_nan=skip"),
                          ("--run.steps=61", "--run.steps=1k"), ("--config=a.ini", "--config=b.ini"),
                          ("--task.corridor-length=5", "--task.corridor_length=6")]:
        for pair in ((first, second), (second, first)):
            values = [f"'{word.split('=')[1]}'" for word in pair]
            expect_refusal(train(*pair), "contradict each other", *values)
    expect_refusal(train("other"), "DIR 'other'", "--run 'new'")
    expect_refusal(["train", "new", "--resume", "other"], "--resume 'other'", "'new'", "two folders")
    expect_refusal(["compare", "--run=new", "--config=c.ini", "--device=cpu", "--run.device=cuda"],
                   "--device 'cpu'", "--run.device 'cuda'")
    expect_refusal(["evaluate", "new", "--threads=1", "--threads=2"], "--threads '1'", "--threads '2'")
    expect_refusal(["bench", "env", "--num_envs=8", "--num-envs=9"], "'8'", "'9'")


def hints(folder):
    """What was meant is said."""
    (folder / "lr.ini").write_text("[run]\nseed = 1\n\n[learner]\n# the rate\nlr = 0.1\n")
    (folder / "value.ini").write_text("[learner]\ngamma = 7\n")
    (folder / "comparison.ini").write_text("[compare]\nseeds = 1\n[tasks.a]\ntask.name = tmaze\n")
    (folder / "key.ini").write_text("[tasks.a]\ntask.name = tmaze\ntask.corridor_len = 3\n")
    expect_refusal(train("--config=lr.ini"), "'lr.ini', line 6", "'learner.lr'", "'learner.learning_rate'")
    expect_refusal(train("--config=value.ini"), "'value.ini', line 2", "learner.gamma = '7'")
    expect_refusal(train("--config=comparison.ini"), "[compare]", "engram compare --config comparison.ini")
    expect_refusal(["compare", "--run=new", "--config=lr.ini"], "[tasks.LABEL]", "engram train --config lr.ini")
    expect_refusal(["compare", "--run=new", "--config=key.ini"], "line 3", "did you mean 'task.corridor_length'?")
    for word in ("--learning-rate=1", "--learning_rate=1", "--lr=1"):
        expect_refusal(train(word), word[:-2], "did you mean '--learner.learning_rate'?")
    expect_refusal(train("--steps=1"), "did you mean '--run.steps'?")
    expect_refusal(train("--every_steps=1"), "'--evaluation.every_steps' or '--checkpoint.every_steps'?")
    expect_refusal(["train", "lr.ini"], "'lr.ini' is a file", "--config lr.ini")
    expect_refusal(["train", "new", "more", *TINY], "engram train takes one argument, DIR; 'more' is one too many")
    expect_refusal(["train", "seed=3", *TINY], "'seed=3' is not allowed as DIR; did you mean '--seed=3'?")
    expect_refusal(["train", "-seed", "3", *TINY], "unknown option '-seed'", "'--seed'")
    expect_refusal(["compare", "new"], "engram compare takes no argument without dashes; 'new' is one too many")
    expect_refusal(["evaluate", "new", "json"], "takes one argument, DIR; 'json' is one too many", "'--json'")
    expect_refusal(["inspect", "lr.ini"], "'lr.ini' is no safetensors file")


def empty_values(folder):
    """As an unset variable of a script leaves them: an option with an empty value is not one that was left out."""
    for option in ("--seed", "--seeds", "--device", "--config", "--resume", "--adapt", "--on-nan"):
        expect_refusal(train(option, ""), f"{option[2:]} = '' is not allowed")
    expect_refusal(["train", "--run", "", *TINY], "run = '' is not allowed")
    expect_refusal(["train", "", *TINY], "'' is not allowed as DIR")
    for key in ("run.seed", "run.device", "task.name", "task.preset", "memory.name"):
        expect_refusal(["train", "new", f"--{key}", ""], f"{key} = '' is not allowed; it takes ")
        (folder / "empty.ini").write_text(f"[{key.split('.')[0]}]\n{key.split('.')[1]} =\n")
        expect_refusal(["train", "new", "--config", "empty.ini"], "'empty.ini', line 2", f"{key} = '' is not allowed")
    for option in ("--run", "--config", "--tasks", "--backbones", "--seeds", "--match", "--reference", "--earlier",
                   "--shard"):
        expect_refusal(["compare", option, ""], f"{option[2:]} = '' is not allowed")
    expect_refusal(["evaluate", "new", "--range", ""], "range = '' is not allowed")
    expect_refusal(["render", "new", "--output", ""], "output = '' is not allowed")
    expect_refusal(["play", "tmaze", "--record", ""], "record = '' is not allowed")


def layers(folder):
    """The command line against the config file."""
    (folder / "tmaze.ini").write_text("[task]\nname = tmaze\ncorridor_length = 5\n")
    (folder / "preset.ini").write_text("[task]\npreset = tmaze_passive_50\n")
    (folder / "sections.ini").write_text("[run]\n[learnre]\n")
    (folder / "utf16.ini").write_text("[run]\nseed = 1\n", encoding="utf-16")
    expect_refusal(["train", "new", "--config=tmaze.ini", "--task.name=visual_match"], "'tmaze.ini', line 3",
                   "'task.corridor_length' for task visual_match, which the command line chooses",
                   "an option of: tmaze")
    expect_refusal(["train", "new", "--config=preset.ini", "--task.name=visual_match"], "'preset.ini', line 2",
                   "'tmaze_passive_50' is a size of task tmaze, but task.name is 'visual_match'")
    expect_refusal(["train", "new", "--config=sections.ini"], "'sections.ini', line 2", "[learnre]", "'learner'")
    expect_refusal(["train", "new", "--config=utf16.ini"], "'utf16.ini' is UTF-16")


def main(folder):
    expect_refusal(["trian"], "trian", "train")
    expect_refusal(["train", *TINY], "--run")
    expect_refusal(train("--bogus=1"), "bogus")
    expect_refusal(train("--run.stepz=1"), "run.stepz", "run.steps")
    expect_refusal(train("--run.steps"), "run.steps")
    contradictions()
    hints(folder)
    empty_values(folder)
    layers(folder)
    expect_refusal(train("--task.name=tmase"), "tmase", "tmaze")
    expect_refusal(train("--task.preset=nowhere"), "nowhere")
    expect_refusal(train("--memory.name=lsmt"), "lsmt", "lstm")
    expect_refusal(train("--memory.window=8"), "memory.window", "lstm", "hqlt")
    expect_refusal(train("--task.distractor_steps=8"), "task.distractor_steps", "tmaze")
    expect_refusal(train("--run.steps=many"), "many", "integer")
    for text in ("1.5", "1e-1", "0", "1e13", "1e400", "2m", "1_000", "60 "):
        expect_refusal(train("--run.steps=" + text), f"run.steps = '{text}'", "integer 1..1000000000000")
    expect_refusal(train("--seed=-1"), "-1", "integer")
    expect_refusal(train("--learner.gamma=1.5"), "1.5", "0..1")
    expect_refusal(train("--learner.gamma=nan"), "nan", "0..1")
    expect_refusal(train("--memory.name=hqlt", "--memory.width=30", "--memory.heads=4"), "30", "4")
    expect_refusal(train("--device=gpu"), "gpu", "cuda")
    expect_refusal(train("--device=cuda:77"), "cuda:77")
    expect_refusal(["bench", "env", "--device=cuda:77"], "cuda:77")
    expect_refusal(["bench", "env", "--num_envs=0"], "num_envs", "1..")
    for name in ("%value%", "%option%", "%canonical_option%", "%prefix%"):  # of Boost's messages
        expect_refusal(["bench", "env", f"--num_envs={name}"], "num_envs", name)
        expect_refusal(["bench", "env", f"--{name}=1"], name)
        expect_refusal(train(f"--run.steps={name}"), "run.steps", name)
        expect_refusal(train(f"--{name}"), name)
    expect_refusal(["bench"], "env", "run")
    expect_refusal(["bench", "kernelz"], "kernelz", "kernels")
    if not shutil.which("nvidia-smi"):
        for subject in ("kernels", "act", "update", "run"):
            expect_refusal(["bench", subject], f"bench {subject}", "GPU")
        expect_refusal(train("--device=cuda"), "cuda", "cpu")
        expect_refusal(["bench", "env", "--device=cuda"], "cuda", "cpu")

    (folder / "version.ini").write_text("format = 99\n[run]\nseed = 1\n")
    (folder / "twice.ini").write_text("[run]\nseed = 1\nseed = 2\n")
    (folder / "malformed.ini").write_text("[run]\nseed\n")
    (folder / "unknown.ini").write_text("[run]\nsede = 1\n")
    (folder / "range.ini").write_text("[learner]\ngamma = 7\n")
    expect_refusal(train("--config=none.ini"), "none.ini")
    expect_refusal(train("--config=version.ini"), "99", "version")
    expect_refusal(train("--config=twice.ini"), "run.seed", "twice")
    expect_refusal(train("--config=malformed.ini"), "malformed.ini")
    expect_refusal(train("--config=unknown.ini"), "run.sede", "run.seed")
    expect_refusal(train("--config=range.ini"), "learner.gamma", "7")

    engram("train", "--run", "trained", *TINY, timeout=300)
    expect_refusal(["train", "--run", "trained", *TINY], "trained", "evaluate", "--run", "remove",
                   "engram train --resume trained")
    expect_refusal(["train", "--run", "trained/config.ini", *TINY], "trained/config.ini")
    expect_refusal(["train", "--run", "trained/config.ini/x", *TINY], "trained/config.ini/x")
    if os.geteuid() != 0:
        (folder / "locked").mkdir(mode=0o500)
        expect_refusal(["train", "--run", "locked/new", *TINY], "locked/new")
    expect_refusal(["train", "--run", "/proc/new", *TINY], "/proc/new")

    expect_refusal(["train", "--resume", "trained", "--task.preset=tmaze_passive_50"],
                   "'trained' was made with task.corridor_length = 5 and cannot go on with 50")
    expect_refusal(["train", "--resume", "trained", "--task.preset=visual_match_60"],
                   "'trained' was made with task.name = tmaze and cannot go on with visual_match")
    expect_refusal(["evaluate"], "DIR")
    expect_refusal(["evaluate", "nowhere"], "nowhere")
    expect_refusal(["evaluate", "."], "config.ini")
    expect_refusal(["evaluate", "trained", "more"], "more")

    # The folder of a comparison for that of a run: its runs are named, or what goes on with it.
    for seed in (1, 2, 3, 10):
        shutil.copytree(folder / "trained", folder / f"compared/runs/short/gru/{seed}")
    (folder / "compared/experiment.ini").write_text("[compare]\n")
    named = ["'compared' is not a run directory", "'compared/runs/short/gru/1', 'compared/runs/short/gru/10'",
             "'compared/runs/short/gru/2' and 1 more"]
    for arguments in (["evaluate"], ["evaluate", "--range=task.corridor_length: 6"], ["diagnose"],
                      ["render", "--output=x.gif"], ["render", "--output=x.gif", "--policy=random"],
                      ["train", "--run", "new", "--adapt"]):
        expect_refusal([*arguments, "compared"], *named)
    expect_refusal(["inspect", "compared/runs"], "'compared/runs/short/gru/1'")
    expect_refusal(["train", "--resume", "compared"], "comparison", "engram compare --run compared")
    expect_refusal(["evaluate", "compared/runs/short"], "runs within it are 'compared/runs/short/gru/1'")

    expect_refusal(["evaluate", "trained", "--episodes=0"], "0", "integer")
    expect_refusal(["evaluate", "trained", "--weights=worst"], "worst", "best")
    expect_refusal(["evaluate", "trained", "--trace=no/such/trace"], "no/such/trace")
    expect_refusal(["evaluate", "trained", "--device=cuda:77"], "cuda:77")
    (folder / "mine").write_text("kept")
    expect_refusal(["evaluate", "trained", "--trace=mine"], "--trace would overwrite 'mine'", "--force")
    expect_refusal(["list", "--jason"], "jason", "json")

    weights = folder / "trained/weights/best.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", b"\xff" * 64, whole + b"x"):
        weights.write_bytes(damaged)
        expect_refusal(["evaluate", "trained"], "best.safetensors", "damaged")
    weights.unlink()
    expect_refusal(["evaluate", "trained"], "best.safetensors", "does not exist")
    config = folder / "trained/config.ini"
    text = config.read_text()
    config.write_text(text.replace("width = 8", "width = 9"))
    expect_refusal(["evaluate", "trained", "--weights=last"], "last.safetensors", "8")
    config.write_text(text.replace("format = 2", "format = 3"))
    expect_refusal(["evaluate", "trained", "--weights=last"], "format '3'", "formats 1 to 2")


main(scratch_folder())
