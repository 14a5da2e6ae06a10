"""A disk that fills up or breaks while the program writes: it leaves soon, with one line that names file and reason and
an exit status that is not 0, and what was whole before is whole afterwards.
usage: faulty_disk.py ENGRAM LIBRARY   (the library of tests/faulty_io)"""

import errno
import os
import pathlib
import sys

from safetensors.numpy import load_file

from program import ENGRAM, call, scratch_folder, tiny

LIBRARY = pathlib.Path(sys.argv[2]).resolve()
TRAIN = ["train", *tiny("--evaluation.every_steps=20")]
failures = []


def broken_disk(prefix, nth, error, stays=False):
    """Variables with which the nth call on a file whose name begins so fails; if it `stays`, each later one, too."""
    return {**os.environ, "LD_PRELOAD": LIBRARY, "FAULTY_IO_PREFIX": str(prefix), "FAULTY_IO_NTH": str(nth),
            "FAULTY_IO_ERROR": str(error), "FAULTY_IO_STAYS": str(int(stays)),
            # AddressSanitizer wants to be the first library; here another one has to be.
            "ASAN_OPTIONS": "verify_asan_link_order=0"}


def engram(*arguments, environment=None):
    return call(ENGRAM, *arguments, status=None, saying=None, env=environment, timeout=60)


def expect_failure(label, result, error, folder):
    lines = result.stderr.splitlines()
    wrong = []
    if result.returncode not in (1, 2):
        wrong.append(f"exit status {result.returncode}")
    last = lines[-1] if lines else ""
    if not last.startswith("engram: ") or str(folder.name) not in last:
        wrong.append(f"the last line names no file: {result.stderr[-300:]!r}")
    if os.strerror(error) in last and result.returncode != 1:
        wrong.append(f"exit status {result.returncode} for a failure of the machine")
    left = [str(path) for path in folder.parent.rglob("*.partial*")]
    if left:
        wrong.append(f"half-written files: {left}")
    for weights in folder.rglob("*.safetensors"):
        load_file(weights)
    print(("FAIL " if wrong else "ok   ") + label + " -> " + last)
    if wrong:
        failures.append(label + ": " + "; ".join(wrong))


folder = scratch_folder()
# Every so many calls: the first ones make the folder, later ones are in training.
for error in (errno.ENOSPC, errno.EIO):
    for nth in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        run = folder / f"run{error}_{nth}"
        result = engram(*TRAIN, f"--run={run.name}", environment=broken_disk(run, nth, error, stays=True))
        if result.returncode == 0:
            if nth < 20:
                failures.append(f"train wrote fewer than {nth} times")
            break
        expect_failure(f"train, call {nth}, {os.strerror(error)}", result, error, run)

run = folder / "good"
assert engram(*TRAIN, "--run=good").returncode == 0
trace = run / "trace.safetensors"
evaluate = ["evaluate", "good", "--episodes", "2", "--trace", "good/trace.safetensors", "--force", "--device", "cpu"]
assert engram(*evaluate).returncode == 0
before = trace.read_bytes()
for nth in range(1, 20):
    result = engram(*evaluate, environment=broken_disk(run / "trace", nth, errno.ENOSPC))
    if result.returncode == 0:
        break
    expect_failure(f"evaluate --trace, call {nth}", result, errno.ENOSPC, run)
    if result.returncode != 1:
        failures.append(f"evaluate --trace, call {nth}: exit status {result.returncode}")
    if trace.read_bytes() != before:
        failures.append(f"evaluate --trace, call {nth}: the old trace is gone")
else:
    failures.append("evaluate --trace never got through")
if failures:
    sys.exit("\n".join(failures))
