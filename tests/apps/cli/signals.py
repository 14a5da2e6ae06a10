"""Signals at any moment: they interrupt no thread that computes, and runs stop in good order and go on.
usage: signals.py ENGRAM"""

import os
import pathlib
import random
import signal
import subprocess
import time

from program import checkpoints, comparison, engram, finish, scratch_folder, start, stop, tiny, wait_for, with_changes

TAKEN = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]
# Updates without an end, after the first episodes.
LONG = tiny("--memory.width=16", "--memory.layers=1", "--replay.batch_episodes=4", "--checkpoint.every_steps=0",
            "--run.steps=100000", "--run.updates_per_step=1000", "--run.report_seconds=0.05")


def train(run, *changes, **options):
    """A run in the middle of its updates."""
    process = start("train", run, *with_changes(LONG, *changes), **options)
    wait_for_line(process, "updates/s")
    return process


def wait_for_line(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError((text, process.wait(), process.stderr.read()))


def close_output(process):
    process.stdout.close()
    process.stdout = None  # nothing more is read


def go_on(run):
    """The run is whole: it goes on to an end that comes at once."""
    out = engram("train", "--resume", run, "--run.max_seconds=0.000001")
    assert "Going on with" in out and "run.max_seconds is over" in out, out


def state_of_threads(process):
    """Of every thread the sets of signals that it blocks, and that have a handler."""
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        sets = [{number for number in range(1, 32) if int(fields[name], 16) >> (number - 1) & 1}
                for name in ("SigBlk", "SigCgt")]
        found.append((fields["Name"], *sets))
    return found


def check_threads(process, least):
    threads = state_of_threads(process)
    assert len(threads) >= least, threads
    # Of programs with an error of their own, such as a sanitizer's, others may have handlers: none comes from outside.
    outside = {*TAKEN, signal.SIGQUIT, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM, signal.SIGCHLD, signal.SIGCONT,
               signal.SIGTSTP, signal.SIGWINCH, signal.SIGXFSZ, signal.SIGPROF}
    for name, blocked, caught in threads:
        assert blocked >= set(TAKEN), (name, blocked, threads)
        assert not caught & outside, (name, caught)


def check_no_thread_is_interrupted(_):
    """Every thread blocks what is taken, those of OpenMP and of other seeds as well, and nothing has a handler."""
    process = train("threads", "--run.threads=2")
    check_threads(process.pid, 3)  # two that compute, and the one that takes signals
    stop(process)
    process = train("seeds", "--seeds=1-2")
    check_threads(process.pid, 4)
    stop(process)
    for seed in (1, 2):
        go_on(f"seeds/{seed}")


def check_any_moment(folder):
    generator = random.Random(1)
    stops = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    for number, memory in enumerate(["lstm", "gru", "hqlt", "slstm", "mamba2", "transformer"]):
        process = train(memory, f"--memory.name={memory}")
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            process.send_signal(generator.choice([signal.SIGUSR1, signal.SIGWINCH]))
            time.sleep(generator.uniform(0, 0.004))
        request = stops[number % len(stops)]
        out = stop(process, request).stdout
        assert f"Stopped by {request.name}. To go on:\n  engram train --resume {memory}\n" in out, out
        assert len(checkpoints(folder / memory)) == 2, checkpoints(folder / memory)  # the newest two stay
        go_on(memory)


def together(process, *events):
    """All before the program looks: of signals it takes that of the least number first."""
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    for event in events:
        event()
    process.send_signal(signal.SIGCONT)


def check_second_requests(_):
    def sends(number):
        return lambda: process.send_signal(number)

    def another_sends(number):
        return lambda: subprocess.run(["sh", "-c", f"kill -{number} {process.pid}"], check=True)

    # The second request of a sender ends the program at once; what was saved before goes on.
    process = train("second")
    together(process, sends(signal.SIGINT), sends(signal.SIGTERM))
    finish(process, -signal.SIGTERM)
    go_on("second")
    # The same from two senders is one request, as from a batch system and from engram compare.
    process = train("two")
    together(process, sends(signal.SIGINT), another_sends(signal.SIGTERM))
    assert "Stopped by SIGINT" in finish(process, 130).stdout
    # A terminal that goes away says so in several ways.
    process = train("hangup")
    together(process, lambda: close_output(process), sends(signal.SIGHUP), another_sends(signal.SIGHUP),
             sends(signal.SIGTERM))
    finish(process, 129)
    go_on("hangup")


def check_nohup(folder):
    process = train("nohup", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: len(checkpoints(folder / "nohup")) == 2, process)
    assert "Stopped by SIGTERM" in stop(process).stdout


def check_closed_pipe(folder):
    process = train("piped")
    close_output(process)
    finish(process, 141)
    assert len(checkpoints(folder / "piped")) == 2, checkpoints(folder / "piped")
    go_on("piped")
    # What a person has played is kept.
    player = start("play", "tmaze", "--record=played.jsonl", stdin=subprocess.PIPE)
    player.stdin.write("ll")
    player.stdin.flush()
    wait_for_line(player, "step 2")
    close_output(player)
    assert player.wait(60) == 141 and player.stderr.read() == "", player.returncode
    assert '"actions":[0,0]' in (folder / "played.jsonl").read_text().replace(" ", ""), "nothing was kept"
    # Where there is nothing to save, the signal of the pipe ends it, as it does everywhere; or the error, quietly.
    for prepare, status in ((None, -signal.SIGPIPE), (lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN), 141)):
        source, output = os.pipe()
        os.close(source)
        process = start("list", stdout=output, preexec_fn=prepare)
        os.close(output)
        assert process.wait(60) == status and process.stderr.read() == "", process.returncode


def check_compare(folder):
    (folder / "c.ini").write_text(comparison(*LONG, backbones=["lstm"]))
    for name, request, status in (("hung_up", signal.SIGHUP, 129), ("unread", None, 141)):
        process = start("compare", "--config=c.ini", "--run", name, "--jobs=1", "--device=cpu")
        run, output = (folder / name / part for part in ("runs/short/lstm/1", "output/short/lstm/1.txt"))
        wait_for(lambda: checkpoints(run) and "updates/s" in output.read_text(), process)
        check_threads(process.pid, 1)
        job, = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        check_threads(job, 2)
        if request is None:
            close_output(process)
        else:
            process.send_signal(request)
        finish(process, status)
        assert not pathlib.Path(f"/proc/{job}").exists() and not (folder / name / "failures").exists()
        assert len(checkpoints(run)) == 2, checkpoints(run)
        go_on(run)


folder = scratch_folder()
for check in (check_no_thread_is_interrupted, check_any_moment, check_second_requests, check_nohup, check_closed_pipe,
              check_compare):
    begin = time.monotonic()
    check(folder)
    print(f"{check.__name__}: {time.monotonic() - begin:.1f} s")
