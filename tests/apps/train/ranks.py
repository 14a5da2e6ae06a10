"""One run by several ranks: engram train as torchrun starts it, or by the same variables set by hand; ranks that are
killed, stopped, resumed and dealt anew.  usage: ranks.py ENGRAM [--device DEVICE] [--kills KILLS]

With --device cuda each rank has a GPU; exit status 77 (skipped) where there are not two."""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from safetensors import safe_open


def count_gpus():
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return listed.stdout.count("GPU ") if listed.returncode == 0 else 0


parser = argparse.ArgumentParser()
parser.add_argument("engram")
parser.add_argument("--device", default="cpu")
parser.add_argument("--kills", type=int, default=50)
arguments = parser.parse_args()
ENGRAM, DEVICE, KILLS = arguments.engram, arguments.device, arguments.kills
ON_GPUS = DEVICE != "cpu"
MOST_RANKS = count_gpus() if ON_GPUS else 4
if MOST_RANKS < 2:
    print(f"skipped: 2 GPUs are needed, {MOST_RANKS} found")
    sys.exit(77)
SECONDS_OF_A_HANG = 300  # nothing here takes so long on a machine that does much else
MOST_CHECKPOINTS_TO_A_KILL = 3  # counted, not timed: a run comes as far on a slow machine
SETTINGS = {"task.name": "tmaze", "task.corridor_length": 5, "memory.name": "lstm", "memory.width": 8,
            "network.hidden_width": 16, "run.num_envs": 4, "run.steps": 2400, "run.threads": 1, "run.device": DEVICE,
            "run.metrics_every_steps": 200, "replay.batch_episodes": 4, "evaluation.every_steps": 800,
            "evaluation.episodes": 6, "evaluation.final_episodes": 7, "checkpoint.every_steps": 150}
if ON_GPUS:  # engram's own kernels, in longer runs than those of a CPU, which would be over before a kill
    SETTINGS |= {"memory.name": "deltanet", "memory.width": 32, "network.hidden_width": 32, "run.steps": 12_000,
                 "evaluation.every_steps": 4000}

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


def command(folder, *arguments, **settings):
    values = {**SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    return [ENGRAM, "train", str(folder), *map(str, arguments), *(f"--{name}={value}" for name, value in values.items())]


def start(ranks, words):
    port = free_port()
    return [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(
        WORLD_SIZE=ranks, RANK=rank, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)) for rank in range(ranks)]


def finish(processes, seconds=SECONDS_OF_A_HANG):
    """Status, output and errors of each."""
    texts = [process.communicate(timeout=seconds) for process in processes]
    return [(process.returncode, *text) for process, text in zip(processes, texts)]


def train(ranks, folder, *arguments, **settings):
    ended = finish(start(ranks, command(folder, *arguments, **settings)))
    assert all(status == 0 and errors == "" for status, _, errors in ended), ended
    assert all(output == "" for _, output, _ in ended[1:]), ended
    return ended[0][1]


def results(folder):
    """What must be the same bytes. The metadata of weights holds the run's whole config."""
    files = [*folder.glob("weights/*.safetensors"), folder / "metrics.jsonl"]
    return {file.name: file.read_bytes() for file in files}


def newest_state(folder):
    newest = max((folder / "checkpoints").glob("*.safetensors"))
    with safe_open(newest, "np") as file:
        return file.metadata()


def check_one_run(folder):
    output = train(2, folder / "by_hand")
    assert "2 ranks, each 1 CPU thread" in output, output
    assert newest_state(folder / "by_hand")["state.ranks"] == "2"
    assert json.loads((folder / "by_hand/about.json").read_text())["ranks"] == 2
    subprocess.run([ENGRAM, "evaluate", folder / "by_hand", "--episodes=3", f"--device={DEVICE}"], check=True,
                   capture_output=True)
    if not TORCHRUN:
        return results(folder / "by_hand")
    torchrun = [*TORCHRUN, "--nproc-per-node=2", f"--master-port={free_port()}", "--no-python"]
    subprocess.run([*torchrun, *command(folder / "torchrun")], check=True, capture_output=True, env=environment())
    assert results(folder / "torchrun") == results(folder / "by_hand")
    return results(folder / "by_hand")


def newest_checkpoint(folder):
    return max((file.name for file in (folder / "checkpoints").glob("*.safetensors")), default="")


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
        train(2, folder / f"whole_{seed}", run__seed=seed)
        run = folder / f"killed_{seed}"
        words = command(run, "--resume=auto", run__seed=seed)
        while kills < KILLS:
            processes = start(2, words)
            processes[0].stdout.readline()  # before it, one that does not come is waited for
            wait_for_checkpoints(run, draw.randrange(MOST_CHECKPOINTS_TO_A_KILL + 1), processes)
            killed = draw.randrange(2)
            processes[killed].kill()
            ended = finish(processes)
            status, _, errors = ended[1 - killed]
            if status == 0:
                break
            kills += 1
            assert status == 1 and errors.count("\n") == 1, ended
            assert errors.startswith(f"engram: rank {killed} of 2 is lost"), ended
        train(2, run, "--resume=auto", run__seed=seed)  # the first rank may have been killed with its last words
        assert results(run) == results(folder / f"whole_{seed}"), seed
    print(f"{kills} ranks killed in {seed} runs")


def processes_of(folder):
    """By rank."""
    found = {}
    for process in pathlib.Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = dict(entry.split(b"=", 1) for entry in (process / "environ").read_bytes().split(b"\0") if entry)
        except (OSError, ValueError):
            continue
        if words[:2] == [ENGRAM.encode(), b"train"] and str(folder).encode() in words:
            found[int(variables[b"RANK"])] = int(process.name)
    return found


def check_restarts(folder, expected):
    run = folder / "restarted"
    torchrun = [*TORCHRUN, "--nproc-per-node=2", f"--master-port={free_port()}", "--max-restarts=3", "--no-python"]
    process = subprocess.Popen([*torchrun, *command(run, "--resume=auto")], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
    wait_for_checkpoints(run)
    os.kill(processes_of(run)[1], signal.SIGKILL)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, (output, errors)
    assert "engram: rank 1 of 2 is lost" in errors and "Going on with" in output, (output, errors)
    assert results(run) == expected


def check_stopping(folder, expected):
    run = folder / "stopped"
    processes = start(2, command(run))
    wait_for_checkpoints(run)
    processes[1].terminate()  # the other is told by it
    ended = finish(processes)
    assert [status for status, *_ in ended] == [143, 143], ended
    assert "Stopped by a signal to another rank" in ended[0][1] and ended[0][2] == "", ended
    train(2, run, "--resume=auto")
    assert results(run) == expected


def check_other_numbers(folder):
    run = folder / "dealt"
    train(2, run, run__steps=900)
    before, last = 2, 2700
    for ranks, steps in ((3, 1500), (1, 2100), (4, last)) if MOST_RANKS >= 4 else ((1, 1500), (2, last)):
        words = command(run, "--resume=auto", run__steps=steps)
        ended = finish(start(ranks, words))
        assert all(status == 0 for status, *_ in ended), ended
        plural = {1: "1 rank", 3: "3 ranks", 4: "4 ranks", 2: "2 ranks"}
        assert (f"saved by {plural[before]}: replay and environments are dealt anew to {plural[ranks]}"
                in ended[0][1]), ended
        assert newest_state(run).get("state.ranks", "1") == str(ranks)
        before = ranks
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [row["environment_steps"] for row in rows if row["kind"] == "train"]
    assert steps == sorted(steps) and steps[-1] >= last, steps


def check_refusals(folder):
    def refused(words, **variables):
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment(**variables))
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended
        return ended.stderr

    none = folder / "none"
    assert "WORLD_SIZE 'two'" in refused(command(none), WORLD_SIZE="two")
    assert "RANK '2'" in refused(command(none), WORLD_SIZE=2, RANK=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=1)
    assert "no MASTER_ADDR" in refused(command(none), WORLD_SIZE=2, RANK=0)

    first, second = finish(start(2, command(none, run__num_envs=1)))
    assert first[0] == 2 and first[2] == ("engram: rank 0 of 2: run.num_envs 1 is of the whole run and cannot be dealt "
                                          "to 2 ranks; it takes 2 or more\n"), first
    assert second == (2, "", ""), second
    (folder / "full").mkdir()
    (folder / "full/of").write_text("something")
    first, second = finish(start(2, command(folder / "full")))
    assert first[0] == 2 and "rank 0 of 2" in first[2] and "full" in first[2], first
    assert second == (1, "", ""), second
    if ON_GPUS:
        ended = finish(start(2, command(none, run__device="cuda:0")))
        assert ended[0][0] == 2 and "rank 0 and rank 1 would share a GPU" in ended[0][2], ended
        assert ended[1] == (2, "", ""), ended
        many = MOST_RANKS + 1
        ended = finish(start(many, command(none, run__num_envs=many, replay__batch_episodes=many)))
        assert ended[0][0] == 2 and f"rank {MOST_RANKS} has no device: device 'cuda:{MOST_RANKS}'" in ended[0][2], ended
    assert not none.exists()


def check_comparison(folder):
    """Its runs are none of the ranks that its own environment may speak of."""
    config = folder / "comparison.ini"
    config.write_text("[compare]\nseeds = 1\nmatch = none\ncontrols =\nreference = gru\n[tasks.maze]\ntask.name = tmaze\n"
                      "[backbones.gru]\nmemory.name = gru\n[run]\nsteps = 60\nrandom_episodes = 2\nthreads = 1\n"
        "device = cpu\n[memory]\nwidth = 8\n[replay]\nbatch_episodes = 2\n"
        "[evaluation]\nepisodes = 2\nfinal_episodes = 2\n")
    ended = subprocess.run([ENGRAM, "compare", "--run", folder / "comparison", "--config", config], capture_output=True,
                           text=True, timeout=120, env=environment(WORLD_SIZE=2, RANK=0, MASTER_ADDR="127.0.0.1",
                                                                   MASTER_PORT=free_port()))
    assert ended.returncode == 0, ended


def main():
    begin = time.monotonic()

    def passed(check):  # at once: a test that is cut off has said how far it came
        print(f"{time.monotonic() - begin:5.0f} s: {check} passed", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
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


main()
