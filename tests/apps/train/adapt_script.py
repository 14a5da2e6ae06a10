"""Runs apps/scripts/adapt.py with the program as it is and the published experiment made tiny: every run that it is
said to make, tables of them, that a second call makes nothing anew and one after a stop the rest, and what is refused.
usage: adapt_script.py ENGRAM SOURCES"""

import configparser
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from program import ENGRAM, call, scratch_folder, wait_for

SOURCES = pathlib.Path(sys.argv[2]).resolve()
SCRIPT = SOURCES / "apps/scripts/adapt.py"
TINY = {
    "experiment": {"seeds": "1-2", "learnt": "0", "bases": "1", "rates": "1e-3, 3e-3", "scratch_seeds": "1",
                   "ranks": "16", "rank_layers": "window", "evaluate": "task.distractor_steps: 2,4,8", "episodes": "2"},
    "base": {"task.distractor_steps": "2", "network.hidden_width": "16", "memory.width": "16", "memory.mlp_width": "16",
             "replay.batch_episodes": "2", "run.num_envs": "2", "run.random_episodes": "2", "run.steps": "80",
             "evaluation.every_steps": "60", "evaluation.episodes": "2"},
    "adapted": {"task.distractor_steps": "4", "run.updates_per_step": "0.1", "run.steps": "80",
                "evaluation.every_steps": "60"},
    "scratch": {"task.distractor_steps": "4", "run.updates_per_step": "0.1", "run.steps": "80"},
    "layers": {"attention": "mamba2,attention", "window": "mamba2,window:window=4"},
}


def write_config(file, **changes):
    config = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    config.optionxform = str
    config.read(SOURCES / "apps/scripts/adapt/expansion_span.ini")
    config.remove_section("layers")
    config.read_dict(TINY)
    config.read_dict(changes)
    with open(file, "w") as out:
        config.write(out)


def command(*arguments):
    return [sys.executable, SCRIPT, *arguments]


def adapt(*arguments, status=0, saying="", program=ENGRAM):
    return call(*command(*arguments), status=status, saying=saying, timeout=600,
                env=os.environ | {"ENGRAM": program}).stdout


def made(folder):
    return {str(file.parent.relative_to(folder)) for file in folder.rglob("evaluations.json")}


def expected():
    places = {"base/1", "base/2", "adapted/none/attention/2", "adapted/none/window/2", "adapted/hylora_16/window/2"}
    places |= {f"scratch/{layer}/1" for layer in ("attention", "window")}
    for method in ("lora", "hylora", "full"):
        places.add(f"attention/{method}/window/2")
        for layer in ("attention", "window"):
            places |= {f"adapted/{method}/{layer}/2", *(f"tune/{method}/{layer}/{rate}" for rate in ("1e-3", "3e-3"))}
    return places


def check_settings(run):
    def setting(folder, line):
        return re.search(f"^{line}$", (run / folder / "config.ini").read_text(), re.MULTILINE)

    assert setting("adapted/lora/window/2", "convolutions = false")
    assert setting("adapted/hylora/window/2", "convolutions = true")
    assert setting("adapted/hylora/window/2", "rank = 8") and setting("adapted/full/window/2", "rank = 0")
    assert setting("adapted/hylora_16/window/2", "rank = 16") and setting("adapted/hylora_16/window/2", "alpha = 32")
    assert setting("adapted/full/window/2", "stack = mamba2,window:window=4")
    assert setting("attention/full/window/2", "stack = mamba2,attention")


def check_tables(run, folder):
    """With the page's empty tables made those of the tiny delays."""
    shutil.copytree(SOURCES / "docs/figures/reports", folder / "reports", ignore=shutil.ignore_patterns("*_figures"))
    page = folder / "expansion_span.md"
    lines = (SOURCES / "docs/figures/expansion_span.md").read_text().split("\n")
    for old, new in (("| layer | adapted |", "| layer | adapted | 2 | 4 | 4, attention put back | 8 |"),
                     ("| layer | rank |", "| layer | rank | 2 | 4 | 8 |")):
        lines[next(i for i, line in enumerate(lines) if line.startswith(old))] = new
    page.write_text("\n".join(lines))
    tables = folder / "reports/expansion_span_tables.py"
    call(sys.executable, tables, "--from", run)
    call(sys.executable, tables)
    call(sys.executable, tables, "--check")
    text = page.read_text()
    assert re.search(r"^\| `window` \| HyLoRA \| \d+ \| \d+ \| \d+ \| \d+ \|$", text, re.MULTILINE), text
    assert re.search(r"^\| `attention` \| from scratch \| \d+ \| \d+ \|  \| \d+ \|$", text, re.MULTILINE), text
    assert re.search(r"^\| `window` \| 16 \| \d+ \| \d+ \| \d+ \|$", text, re.MULTILINE), text
    assert re.search(r"^\| HyLoRA is better than LoRA, attention \| [+-]\d+ \|$", text, re.MULTILINE), text


folder = scratch_folder()
config, run = folder / "tiny.ini", folder / "run"
write_config(config)
arguments = ["--config", config, "--run", run, "--jobs", "2"]

process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, env=os.environ | {"ENGRAM": ENGRAM})
wait_for(lambda: "base/1" in made(run), process)
process.send_signal(signal.SIGTERM)
assert process.wait(60) == 128 + signal.SIGTERM
assert made(run) < expected()
out = adapt(*arguments)
assert made(run) == expected(), made(run) ^ expected()
assert "rates: lora" in out and "adapted/hylora/window/2: success" in out, out
check_settings(run)
check_tables(run, folder / "figures")

again = adapt(*arguments)
assert "success" not in again, again


def ending(status, folder_of_run):
    """A program that is engram but for one run, which ends so."""
    program = folder / f"ends_with_{status}"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{folder_of_run}*) exit {status} ;; esac\nexec {ENGRAM} "$@"\n')
    program.chmod(0o755)
    return str(program)


# A rate that was not tried must not lose to the others, one that diverges does; and a base is not passed over.
shutil.rmtree(run / "tune/full/window/3e-3")
without = adapt(*arguments, program=ending(1, "tune/full/window/3e-3"), status=1,
                saying="1 of 12 tries of a rate have failed")
assert "rates:" not in without, without
without = adapt(*arguments, program=ending(3, "tune/full/window/3e-3"), status=1, saying="1 runs have failed")
assert "rates:" in without, without
again = adapt(*arguments)
assert "tune/full/window/3e-3: success" in again and "rates:" in again, again
shutil.rmtree(run / "attention/full/window/2")
adapt(*arguments, program=ending(1, "attention/full/window/2"), status=1, saying="attention/full/window/2: status 1")
adapt(*arguments)
(run / "base/1/evaluations.json").rename(folder / "kept.json")
without = adapt(*arguments, program=ending(1, "base/1 "), status=1, saying="1 of 2 bases have failed")
assert "rates:" not in without, without
(folder / "kept.json").rename(run / "base/1/evaluations.json")

# Without room a run waits for others here, which give back theirs.
waits = folder / "waits"
waits.write_text(f"""#!/bin/sh
case "$*" in
*/waiting/base/1\\ *) [ -e {folder}/tried ] || {{ touch {folder}/tried; sleep 1; exit 4; }} ;;
*/waiting/base/2\\ *) sleep 4 ;;
esac
exec {ENGRAM} "$@"
""")
waits.chmod(0o755)
write_config(config, experiment={"learnt": "1.1"})
adapt("--config", config, "--run", folder / "waiting", "--jobs", "2", program=str(waits), status=1,
      saying="0 of 2 bases have learnt")
assert (folder / "tried").exists() and {"base/1", "base/2"} < made(folder / "waiting")
adapt(*arguments, status=1, saying="0 of 2 bases have learnt the task, 2 are needed; give more seeds")
write_config(config, experiment={"rank_layers": "window, wave"})
adapt(*arguments, status=2, saying="rank_layers names 'wave', which is not among the layers")
write_config(config, base={"memory.width": "-1"})
adapt("--config", config, "--run", folder / "wrong", status=1, saying="memory.width")
adapt("--config", folder / "none.ini", "--run", run, status=2, saying="none.ini' cannot be read")
(folder / "empty.ini").write_text("[experiment]\nseeds = 1\n")
adapt("--config", folder / "empty.ini", "--run", run, status=2, saying="'scratch_seeds' is missing")
adapt(*arguments[:-1], "0", status=2, saying="--jobs 0 is not allowed")
full = folder / "full"
full.write_text("#!/bin/sh\necho the GPU has no room >&2\nexit 5\n")
full.chmod(0o755)
adapt("--config", config, "--run", folder / "turned_away", program=str(full), status=1, saying="the GPU has no room")
adapt(*arguments, program="no/such/program", status=2, saying="no/such/program' was not found")
