"""One run by several ranks: engram train as torchrun starts it, or by the same variables set by hand; ranks that are
killed, stopped, resumed and dealt anew.  usage: ranks.py ENGRAM [--device DEVICE] [--kills KILLS]

With --device cuda each rank has a GPU; exit status 77 (skipped) where there are not two."""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

from safetensors import safe_open

from program import (ENGRAM, call, checkpoints, commands_of_processes, comparison, count_gpus, engram, finish, metrics,
                     results, scratch_folder, skip, start, tiny, with_changes)

parser = argparse.ArgumentParser()
parser.add_argument("engram")
parser.add_argument("--device", default="cpu")
parser.add_argument("--kills", type=int, default=50)
arguments = parser.parse_args()
DEVICE, KILLS = arguments.device, arguments.kills
ON_GPUS = DEVICE != "cpu"
MOST_RANKS = count_gpus() if ON_GPUS else 4
if MOST_RANKS < 2:
    skip(f"2 GPUs are needed, {MOST_RANKS} found")
SECONDS_OF_A_HANG = 300  # nothing here takes so long on a machine that does much else
MOST_CHECKPOINTS_TO_A_KILL = 3  # counted, not timed: a run comes as far on a slow machine
OPTIONS = tiny("--run.num_envs=4", "--run.steps=2400", "--run.random_episodes=10", "--run.metrics_every_steps=200",
               "--replay.batch_episodes=4", "--evaluation.every_steps=800", "--evaluation.episodes=6",
               "--evaluation.final_episodes=7", "--checkpoint.every_steps=150", f"--device={DEVICE}")
if ON_GPUS:  # engram's own kernels, in longer runs than those of a CPU, which would be over before a kill
    OPTIONS = with_changes(OPTIONS, "--memory.name=deltanet", "--memory.width=32", "--network.hidden_width=32",
                           "--run.steps=12000", "--evaluation.every_steps=4000")

# Where LibTorch was installed for a CPU alone its Python package cannot be imported.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
    TORCHRUN = []


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def environment(**variables):
    inherited = {name: value for name, value in os.environ.items()
                 if name not in ("RANK", "WORLD_SIZE") and not name.startswith(("MASTER_", "SLURM_", "TORCHELASTIC_"))}
    return {**inherited, **{name: str(value) for name, value in variables.items()}}


def command(folder, *changes):
    return ["train", str(folder), *with_changes(OPTIONS, *changes)]


def start_ranks(count, words):
    at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    return [start(*words, env=environment(WORLD_SIZE=count, RANK=rank, **at)) for rank in range(count)]


def finish_ranks(processes):
    """The results of each."""
    return [finish(process, status=None, saying=None, timeout=SECONDS_OF_A_HANG) for process in processes]


def train(count, folder, *changes):
    ended = finish_ranks(start_ranks(count, command(folder, *changes)))
    assert all(result.returncode == 0 and result.stderr == "" for result in ended), ended
    assert all(result.stdout == "" for result in ended[1:]), ended
    return ended[0].stdout


def newest_state(folder):
    newest = checkpoints(folder)[-1]
    with safe_open(newest, "np") as file:
        return file.metadata()


def check_one_run(folder):
    output = train(2, folder / "by_hand")
    assert "2 ranks, each 1 CPU thread" in output, output
    assert newest_state(folder / "by_hand")["state.ranks"] == "2"
    assert json.loads((folder / "by_hand/about.json").read_text())["ranks"] == 2
    engram("evaluate", folder / "by_hand", "--episodes=3", f"--device={DEVICE}", saying=None)
    if not TORCHRUN:
        return results(folder / "by_hand")
    torchrun = [*TORCHRUN, "--nproc-per-node=2", f"--master-port={free_port()}", "--no-python"]
    call(*torchrun, ENGRAM, *command(folder / "torchrun"), saying=None, timeout=SECONDS_OF_A_HANG, env=environment())
    assert results(folder / "torchrun") == results(folder / "by_hand")
    return results(folder / "by_hand")


def newest_checkpoint(folder):
    return max(checkpoints(folder), default=None)


def wait_for_checkpoints(folder, number=1, processes=()):
    """Returns once so many have been written from now on, or a process has ended."""
    until = time.monotonic() + SECONDS_OF_A_HANG
    last = newest_checkpoint(folder)
    while number > 0 and all(process.poll() is None for process in processes):
        if newest_checkpoint(folder) != last:
            last = newest_checkpoint(folder)
            number -= 1
        assert time.monotonic() < until, "no checkpoint"
        time.sleep(0.005)


def check_kills(folder):
    """Runs of which a rank is killed again and again until they are over, by chance, and what they come to."""
    draw = random.Random(5)
    kills = seed = 0
    while kills < KILLS:
        seed += 1
        train(2, folder / f"whole_{seed}", f"--run.seed={seed}")
        run = folder / f"killed_{seed}"
        words = command(run, "--resume=auto", f"--run.seed={seed}")
        while kills < KILLS:
            processes = start_ranks(2, words)
            processes[0].stdout.readline()  # before it, one that does not come is waited for
            wait_for_checkpoints(run, draw.randrange(MOST_CHECKPOINTS_TO_A_KILL + 1), processes)
            killed = draw.randrange(2)
            processes[killed].kill()
            ended = finish_ranks(processes)
            other = ended[1 - killed]
            if other.returncode == 0:
                break
            kills += 1
            assert other.returncode == 1 and other.stderr.count("\n") == 1, ended
            assert other.stderr.startswith(f"engram: rank {killed} of 2 is lost"), ended
        train(2, run, "--resume=auto", f"--run.seed={seed}")  # the first rank may have been killed with its last words
        assert results(run) == results(folder / f"whole_{seed}"), seed
    print(f"{kills} ranks killed in {seed} runs")


def processes_of(folder):
    """By rank."""
    found = {}
    for number, words in commands_of_processes().items():
        if words[:2] == [ENGRAM, "train"] and str(folder) in words:
            with contextlib.suppress(OSError):
                variables = pathlib.Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
                rank = next(variable for variable in variables if variable.startswith(b"RANK="))
                found[int(rank.partition(b"=")[2])] = number
    return found


def check_restarts(folder, expected):
    run = folder / "restarted"
    torchrun = [*TORCHRUN, "--nproc-per-node=2", f"--master-port={free_port()}", "--max-restarts=3", "--no-python"]
    process = subprocess.Popen([*torchrun, ENGRAM, *command(run, "--resume=auto")], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
    wait_for_checkpoints(run)
    os.kill(processes_of(run)[1], signal.SIGKILL)
    ended = finish(process, saying="engram: rank 1 of 2 is lost", timeout=300)
    assert "Going on with" in ended.stdout, ended
    assert results(run) == expected


def check_stopping(folder, expected):
    run = folder / "stopped"
    processes = start_ranks(2, command(run))
    wait_for_checkpoints(run)
    processes[1].terminate()  # the other is told by it
    ended = finish_ranks(processes)
    assert [result.returncode for result in ended] == [143, 143], ended
    assert "Stopped by a signal to another rank" in ended[0].stdout and ended[0].stderr == "", ended
    train(2, run, "--resume=auto")
    assert results(run) == expected


def check_other_numbers(folder):
    run = folder / "dealt"
    train(2, run, "--run.steps=900")
    before, last = 2, 2700
    for ranks, steps in ((3, 1500), (1, 2100), (4, last)) if MOST_RANKS >= 4 else ((1, 1500), (2, last)):
        ended = finish_ranks(start_ranks(ranks, command(run, "--resume=auto", f"--run.steps={steps}")))
        assert all(result.returncode == 0 for result in ended), ended
        plural = {1: "1 rank", 3: "3 ranks", 4: "4 ranks", 2: "2 ranks"}
        assert (f"saved by {plural[before]}: replay and environments are dealt anew to {plural[ranks]}"
                in ended[0].stdout), ended
        assert newest_state(run).get("state.ranks", "1") == str(ranks)
        before = ranks
    steps = [row["environment_steps"] for row in metrics(run, "train")]
    assert steps == sorted(steps) and steps[-1] >= last, steps


def check_refusals(folder):
    def refused(words, **variables):
        ended = call(ENGRAM, *words, status=2, timeout=60, env=environment(**variables))
        assert ended.stderr.count("\n") == 1, ended
        return ended.stderr

    none = folder / "none"
    assert "WORLD_SIZE 'two'" in refused(command(none), WORLD_SIZE="two")
    assert "RANK '2'" in refused(command(none), WORLD_SIZE=2, RANK=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=1)
    assert "no MASTER_ADDR" in refused(command(none), WORLD_SIZE=2, RANK=0)

    first, second = finish_ranks(start_ranks(2, command(none, "--run.num_envs=1")))
    assert first.returncode == 2 and first.stderr == ("engram: rank 0 of 2: run.num_envs 1 is of the whole run and "
                                                      "cannot be dealt to 2 ranks; it takes 2 or more\n"), first
    assert (second.returncode, second.stdout, second.stderr) == (2, "", ""), second
    (folder / "full").mkdir()
    (folder / "full/of").write_text("something")
    first, second = finish_ranks(start_ranks(2, command(folder / "full")))
    assert first.returncode == 2 and "rank 0 of 2" in first.stderr and "full" in first.stderr, first
    assert (second.returncode, second.stdout, second.stderr) == (1, "", ""), second
    if ON_GPUS:
        first, second = finish_ranks(start_ranks(2, command(none, "--device=cuda:0")))
        assert first.returncode == 2 and "rank 0 and rank 1 would share a GPU" in first.stderr, first
        assert (second.returncode, second.stdout, second.stderr) == (2, "", ""), second
        many = MOST_RANKS + 1
        words = command(none, f"--run.num_envs={many}", f"--replay.batch_episodes={many}")
        first, *_ = finish_ranks(start_ranks(many, words))
        assert first.returncode == 2, first
        assert f"rank {MOST_RANKS} has no device: device 'cuda:{MOST_RANKS}'" in first.stderr, first
    assert not none.exists()


def check_comparison(folder):
    """Its runs are none of the ranks that its own environment may speak of."""
    config = folder / "comparison.ini"
    config.write_text(comparison("--compare.match=none", "--compare.controls=", "--compare.reference=gru"))
    engram("compare", "--run", folder / "comparison", "--config", config, saying=None,
           env=environment(WORLD_SIZE=2, RANK=0, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port()))


begin = time.monotonic()


def passed(check):  # at once: a test that is cut off has said how far it came
    print(f"{time.monotonic() - begin:5.0f} s: {check} passed", flush=True)


folder = scratch_folder()
check_refusals(folder)
passed("refusals")
expected = check_one_run(folder)
passed("one run by two ranks")
if TORCHRUN:
    check_restarts(folder, expected)
    passed("restarts")
else:
    print("not checked: torchrun, for LibTorch's Python package needs CUDA's libraries, which are not installed")
check_stopping(folder, expected)
passed("stopping")
check_other_numbers(folder)
passed("other numbers of ranks")
check_comparison(folder)
passed("comparison")
check_kills(folder)
