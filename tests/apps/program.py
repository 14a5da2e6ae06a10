"""The program as its tests drive it: it is run, refuses, is started and stopped, and leaves files behind.

A script that imports this is called as `python3 SCRIPT ENGRAM [argument ...]`. What does not come as it should is an
AssertionError that shows the command and all that it said.
"""

import atexit
import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import numpy
import safetensors.numpy

ENGRAM = os.path.abspath(sys.argv[1])
SKIPPED = 77  # tests/skip.h
TINY = ("--task.name=tmaze", "--task.corridor_length=5", "--memory.name=lstm", "--memory.width=8",
        "--network.hidden_width=16", "--run.steps=60", "--run.random_episodes=2", "--run.threads=1",
        "--replay.batch_episodes=2", "--evaluation.episodes=2", "--evaluation.final_episodes=2", "--device=cpu")


# ---- Where a test runs.


def skip(reason):
    """Ends the test as one that could not run here."""
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def count_gpus():
    """Those that the program sees."""
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    there = listed.stdout.count("GPU ") if listed.returncode == 0 else 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return there if visible is None else min(there, len([name for name in visible.split(",") if name]))


def scratch_folder():
    """A new folder, which is the current one from now on, and removed when the test ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    os.chdir(folder.name)
    return pathlib.Path(folder.name).resolve()


# ---- Settings.


def with_changes(options, *changes):
    """The options, but for those that `changes` give anew."""
    names = {word.partition("=")[0] for word in changes}
    return [*(word for word in options if word.partition("=")[0] not in names), *changes]


def tiny(*changes):
    """The options of `engram train` for a run that is over in a moment: TINY with_changes(), which leave nothing of the
    T-maze's own options where they name a task."""
    names_task = any(word.startswith("--task.name=") for word in changes)
    return with_changes([word for word in TINY if not (names_task and word.startswith("--task."))], *changes)


def config_text(*options):
    """The text of a config file that says the same as options such as --run.steps=60."""
    sections = {}
    for word in options:
        name, value = word.removeprefix("--").split("=", 1)
        parts = ("run." + name if name == "device" else name).split(".")
        of_a_label = parts[0] in ("tasks", "learners", "backbones")  # [tasks.LABEL] holds task.corridor_length = 4
        section, key = ".".join(parts[:1 + of_a_label]), ".".join(parts[1 + of_a_label:])
        sections.setdefault(section, []).append(f"{key} = {value}\n")
    return "".join(f"[{section}]\n" + "".join(lines) for section, lines in sections.items())


def comparison(*changes, tasks={"short": 4}, backbones=("gru",)):
    """The text of a config for `engram compare` of tiny runs, with options of [compare] among the changes. `tasks`:
    label -> length of a T-maze's corridor; `backbones`: names, which are the labels, too."""
    options = [word for word in tiny(*with_changes(["--compare.seeds=1"], *changes))
               if not word.startswith(("--task.corridor_length=", "--memory.name="))]
    options += [f"--tasks.{label}.task.corridor_length={length}" for label, length in tasks.items()]
    options += [f"--backbones.{name}.memory.name={name}" for name in backbones]
    return config_text(*options)


# ---- A program that ends by itself.


def checked(result, status, saying):
    """`result`, a subprocess.CompletedProcess, if it ended with this exit status (None: any), and its standard error
    holds the text `saying` (None: anything may be there). Without such a text a failure, status 1 or 2, may say
    anything there, and all else says nothing."""
    assert status is None or result.returncode == status, result
    assert saying is None or saying in result.stderr, (saying, result)
    assert status in (None, 1, 2) or saying != "" or result.stderr == "", result
    return result


def call(*command, status=0, saying="", timeout=120, **options):
    """The checked() result of any command, which has nothing to read without an `input`; `options` are those of
    subprocess.run."""
    result = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=timeout,
                            **{"input": "", **options})
    return checked(result, status, saying)


def engram(*arguments, **options):
    """The standard output of the program; `options` are those of call()."""
    return call(ENGRAM, *arguments, **options).stdout


def engram_json(*arguments, **options):
    """What the program prints with --json, parsed; it has to be UTF-8."""
    return json.loads(engram(*arguments, "--json", **options).encode())


def refused(*arguments, saying, timeout=60, **options):
    """The line with which the program refuses bad input: exit status 2, nothing on standard output, and one line on
    standard error that holds `saying`, a text or several. Nothing in the current folder may change, which has to be a
    scratch_folder()."""
    def seen():  # but for what says who has held a run's lock
        return {path: data for path, data in contents(".").items() if path.name != "lock"}

    before = seen()
    result = call(ENGRAM, *arguments, status=2, timeout=timeout, **options)
    assert result.stdout == "", result
    assert result.stderr.startswith("engram: ") and result.stderr.count("\n") == 1, result
    for text in [saying] if isinstance(saying, str) else saying:
        assert str(text) in result.stderr, (text, result)
    assert seen() == before, result
    return result.stderr


# ---- A program in the background.


def start(*arguments, **options):
    """The program as a subprocess.Popen that reads nothing and whose outputs are pipes of text, unless `options` say
    otherwise."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([ENGRAM, *arguments], text=True, **{**pipes, **options})


def finish(process, status=0, saying="", timeout=120):
    """The checked() result of a process that ends by itself."""
    out, err = process.communicate(timeout=timeout)
    return checked(subprocess.CompletedProcess(process.args, process.returncode, out, err), status, saying)


def stop(process, number=signal.SIGTERM):
    """The result of a process that is asked to end by a signal, and does so in good order."""
    process.send_signal(number)
    return finish(process, 128 + number, timeout=60)


def kill(process):
    """Ends a process that cannot do anything about it."""
    process.kill()
    process.communicate()


def wait_for(condition, *processes, seconds=60):
    """What the condition returns, once it is true. AssertionError when the time is over, or one of the processes is."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert all(process.poll() is None for process in processes), [last_words(process) for process in processes]
        assert time.monotonic() < end, (f"not in {seconds} s", [last_words(process) for process in processes])
        time.sleep(0.005)
    return found


def last_words(process):
    """Of a process that a test ends since it has failed: its command, its exit status if it had one, what it said."""
    status = process.poll()
    process.kill()
    return process.args, status, process.communicate()


def commands_of_processes():
    """Number -> words of the command, of every process that can be looked at."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")[:-1]
            found[int(process.name)] = [os.fsdecode(word) for word in words]
    return found


# ---- A program on a terminal.


class OnTerminal:
    """The program on a pseudo-terminal, which stays when it ends. `raw`: all that it has written."""

    def __init__(self, *arguments, columns=80, rows=24, prepare=lambda: None, **environment):
        self.master, self.slave = os.openpty()
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.raw = ""

        def begin():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            prepare()

        self.process = subprocess.Popen([ENGRAM, *arguments], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        preexec_fn=begin, env={**os.environ, **environment})

    def set_size(self, columns, rows=24):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """The text that comes in this time, "" where none does."""
        if not select.select([self.master], [], [], seconds)[0]:
            return ""
        text = os.read(self.master, 65536).decode()
        self.raw += text
        return text

    def wait_for(self, pattern, seconds=60):
        """Until what is written from now on matches."""
        begin, end = len(self.raw), time.monotonic() + seconds
        while not re.search(pattern, self.raw[begin:], re.DOTALL):
            ended = self.process.poll() is not None
            assert self.read(0.2) or not ended and time.monotonic() < end, f"{pattern} never came: {self.raw!r}"

    def finish(self, status=0):
        """Reads to the end of the program, which says something every minute and leaves the terminal as it was."""
        end = time.monotonic() + 60
        while self.process.poll() is None:
            if self.read(0.02):
                end = time.monotonic() + 60
            assert time.monotonic() < end, self.raw
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.slave)
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while self.read(60):
                pass
        os.close(self.master)
        assert self.process.returncode == status, (self.process.returncode, self.raw)


# ---- Files.


def contents(folder):
    """Path -> bytes of a file, None of a folder, of all within it."""
    return {path: path.read_bytes() if path.is_file() else None for path in pathlib.Path(folder).rglob("*")}


def json_lines(file):
    """The values of a file that has one a line."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def metrics(run, kind=None):
    """The rows of a run's metrics.jsonl: all, or those of one kind."""
    return [row for row in json_lines(run / "metrics.jsonl") if kind in (None, row["kind"])]


def checkpoints(run):
    """The files, the oldest first."""
    return sorted((run / "checkpoints").glob("checkpoint_*.safetensors"))


def weights(run, which="last"):
    """Name -> tensor."""
    return safetensors.numpy.load_file(run / f"weights/{which}.safetensors")


def finished(directory):
    """The finished runs of a comparison, as TASK/BACKBONE/SEED."""
    names = set()
    for file in directory.glob("runs/*/*/*/metrics.jsonl"):
        lines = file.read_text().split("\n")[:-1]  # what follows the last newline is still being written
        if lines and json.loads(lines[-1])["kind"] == "final":
            names.add(str(file.parent.relative_to(directory / "runs")))
    return names


def results(run):
    """Name -> bytes of the files that are a function of config and seed alone."""
    names = ("config.ini", "metrics.jsonl", "weights/best.safetensors", "weights/last.safetensors")
    return {name: (run / name).read_bytes() for name in names}


def same_outcome(run, other):
    """AssertionError unless both have measured and learnt the same, whatever their configs say, and nothing of the
    other one is half-written."""
    assert (run / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes(), (run, other)
    for which in ("best", "last"):
        one, two = weights(run, which), weights(other, which)
        assert one.keys() == two.keys() and all(numpy.array_equal(one[name], two[name]) for name in one), (other, which)
    assert not list(other.rglob("*.partial*")), other
