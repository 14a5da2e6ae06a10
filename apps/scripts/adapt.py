#!/usr/bin/env python3
"""Trains agents at one size of a task, adapts them to another by LoRA, HyLoRA and full fine-tuning with other layers of
attention, and evaluates all of them: the experiment that the config describes (apps/scripts/adapt/expansion_span.ini).

    python3 apps/scripts/adapt.py --config apps/scripts/adapt/expansion_span.ini --run runs/span
    python3 apps/scripts/adapt.py --config apps/scripts/adapt/expansion_span.ini --run runs/span \
      --devices cuda:0,cuda:1 --jobs 60                     # under NVIDIA's multi-process service

Every run is a run directory of `engram train` with an evaluations.json of `engram evaluate --range`:

    RUN/base/SEED                    the agents that are adapted
    RUN/scratch/LAYER/SEED           agents from scratch
    RUN/tune/METHOD/LAYER/RATE       the rates that a method chooses from
    RUN/adapted/METHOD/LAYER/SEED    METHOD none: the agent as it was, with the layer in its new place; hylora_RANK:
                                     HyLoRA of another rank, at HyLoRA's rate
    RUN/attention/METHOD/LAYER/SEED  the same weights with the first of the config's layers put back
    RUN/output/...                   what the programs have printed

Ctrl-C, SIGTERM and SIGHUP let all runs save. The same command goes on: what is finished is not made again, and what has
failed is tried again. ENGRAM names the program where it is not build/release/engram.
"""

import argparse
import concurrent.futures
import configparser
import itertools
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

METHODS = {"lora": {"adapters.convolutions": "false"}, "hylora": {}, "full": {"adapters.rank": "0"}}
UNCHANGED = {"adapters.rank": "0", "run.updates_per_step": "0", "run.steps": "1"}
# Exit statuses of engram. Without room are a run that has used up the memory and one that the GPU does not let in.
DIVERGED, WITHOUT_ROOM = 3, (4, 5)


def leave(what, status=2):
    print(f"adapt.py: {what}", file=sys.stderr)
    sys.exit(status)


def parse_seeds(text):
    seeds = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


class Experiment:
    def __init__(self, file):
        config = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        config.optionxform = str
        try:
            if not config.read(file):
                leave(f"config '{file}' cannot be read")
            own = config["experiment"]
            self.seeds, self.scratch_seeds = parse_seeds(own["seeds"]), parse_seeds(own["scratch_seeds"])
            self.learnt, self.bases = float(own["learnt"]), int(own["bases"])
            self.rates = [rate.strip() for rate in own["rates"].split(",")]
            self.range, self.episodes = own["evaluate"], own["episodes"]
            self.values = [float(value) for value in self.range.split(":")[1].split(",")]
            self.ranks = [int(rank) for rank in own["ranks"].split(",") if rank.strip()]
            self.rank_layers = [layer.strip() for layer in own["rank_layers"].split(",") if layer.strip()]
            self.base, self.adapted, self.scratch, self.layers = (
                dict(config[section]) for section in ("base", "adapted", "scratch", "layers"))
        except (configparser.Error, KeyError, ValueError, IndexError) as error:
            leave(f"config '{file}': {' '.join(str(error).split())} is missing or not allowed")
        unknown = [layer for layer in self.rank_layers if layer not in self.layers]
        if unknown:
            leave(f"config '{file}': rank_layers names '{unknown[0]}', which is not among the layers")
        if len(self.values) < 2:
            leave(f"config '{file}': evaluate has to name the size of the bases, then that of the adapted")


class Diverged(RuntimeError):
    """It would again: no failure of the machine, but what its settings come to."""


class Run:
    def __init__(self, experiment, folder, settings, adapts=None):
        self.experiment, self.folder, self.diverged = experiment, folder, False
        self.arguments = [text for key, value in settings.items() for text in (f"--{key}", value)]
        if adapts:
            self.arguments += ["--adapt", adapts.folder]

    def success(self, value):
        """Of the greedy policy there; None before it is known."""
        try:
            found = json.loads((self.folder / "evaluations.json").read_text())["evaluations"]
        except FileNotFoundError:
            return None
        return next((point["greedy"]["success"] for point in found if point["value"] == value), None)

    def finished(self):
        return all(self.success(value) is not None for value in self.experiment.values)


class Jobs:
    """Several at once, each on a device that it keeps."""

    def __init__(self, program, root, devices, at_once):
        self.program, self.root = program, root
        self.pool = concurrent.futures.ThreadPoolExecutor(at_once)
        self.devices = queue.Queue()
        for device in itertools.islice(itertools.cycle(devices), at_once):
            self.devices.put(device)
        self.lock = threading.Lock()
        self.running, self.failed, self.stopped_by = set(), 0, 0
        # Runs that sleep while they wait for a GPU leave the processors to each other.
        self.waiting = ["--run.gpu_wait", "sleep"] if at_once > (os.cpu_count() or 1) else []

    def stop(self, signal_number, _):
        self.stopped_by = signal_number
        for process in list(self.running):
            process.terminate()

    def call(self, run, arguments):
        log = self.root / "output" / f"{run.folder.relative_to(self.root)}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        status = None
        while (status is None or status in WITHOUT_ROOM) and not self.stopped_by:
            with open(log, "a") as output:
                # In a session of its own, so that Ctrl-C reaches it through stop() alone.
                process = subprocess.Popen([self.program, *map(str, arguments)], stdout=output, stderr=output,
                                           env={"OMP_NUM_THREADS": "1"} | os.environ, start_new_session=True)
                self.running.add(process)
                if self.stopped_by:
                    process.terminate()
                status = process.wait()
                self.running.discard(process)
            if status in WITHOUT_ROOM:
                if not self.running:  # nobody here who would make room
                    break
                time.sleep(20)
        if status and not self.stopped_by:
            lines = log.read_text(errors="replace").strip().split("\n")
            raise (Diverged if status == DIVERGED else RuntimeError)(f"status {status}: {lines[-1]}")

    def make(self, runs):
        """One after the other, as far as they are not finished."""
        device = self.devices.get()
        try:
            for run in runs:
                if run.finished() or self.stopped_by:
                    continue
                on_device = ["--run.device", device, *(self.waiting if device != "cpu" else [])]
                self.call(run, ["train", run.folder, "--resume", "auto", *run.arguments, *on_device])
                if not self.stopped_by:
                    self.call(run, ["evaluate", run.folder, "--range", run.experiment.range, "--keep", "--episodes",
                                    run.experiment.episodes, "--device", device])
                if not self.stopped_by:
                    texts = (f"{100 * run.success(value):.1f}" for value in run.experiment.values)
                    print(f"{run.folder.relative_to(self.root)}: success {', '.join(texts)}%", flush=True)
        except (RuntimeError, OSError) as error:
            run.diverged = isinstance(error, Diverged)
            with self.lock:
                self.failed += 1
            print(f"adapt.py: {run.folder}: {error}", file=sys.stderr, flush=True)
        finally:
            self.devices.put(device)

    def submit(self, *runs):
        return self.pool.submit(self.make, runs)

    def wait(self, futures):
        for future in futures:
            future.result()
        if self.stopped_by:
            self.pool.shutdown(cancel_futures=True)
            sys.exit(128 + self.stopped_by)


def run_experiment(experiment, root, jobs):
    trained_at, adapted_to = experiment.values[:2]
    first_layer = next(iter(experiment.layers))

    def stack(layer):
        return {"memory.stack": experiment.layers[layer]}

    def beginner(folder, layer, seed, settings):
        return Run(experiment, root / folder, experiment.base | settings | stack(layer) | {"run.seed": str(seed)})

    def adapted(folder, layer, agent, settings):
        return Run(experiment, root / folder, experiment.adapted | stack(layer) | settings, agent)

    def require(runs, what):
        """What follows is chosen by all of these runs. One that has diverged counts, as without success."""
        missing = sum(not (run.finished() or run.diverged) for run in runs.values())
        if missing:
            jobs.wait(others)
            leave(f"{missing} of {len(runs)} {what} have failed; the same command tries them again and goes on", 1)

    bases = {seed: beginner(f"base/{seed}", first_layer, seed, {}) for seed in experiment.seeds}
    training = [jobs.submit(base) for base in bases.values()]
    others = [jobs.submit(beginner(f"scratch/{layer}/{seed}", layer, seed, experiment.scratch))
              for layer in experiment.layers for seed in experiment.scratch_seeds]
    jobs.wait(training)
    require(bases, "bases")
    learnt = [seed for seed, base in bases.items() if (base.success(trained_at) or 0) >= experiment.learnt]
    needed = experiment.bases + (len(experiment.rates) > 1)
    if len(learnt) < needed:
        jobs.wait(others)
        leave(f"{len(learnt)} of {len(bases)} bases have learnt the task, {needed} are needed; give more seeds", 1)

    rates = {method: experiment.rates[0] for method in METHODS}
    if len(experiment.rates) > 1:
        base = bases[learnt.pop(0)]
        tries = {(method, layer, rate): adapted(f"tune/{method}/{layer}/{rate}", layer, base,
                                                METHODS[method] | {"learner.learning_rate": rate})
                 for method in METHODS for layer in experiment.layers for rate in experiment.rates}
        jobs.wait([jobs.submit(one) for one in tries.values()])
        require(tries, "tries of a rate")

        def total(method, rate):
            return sum(tries[method, layer, rate].success(adapted_to) or 0 for layer in experiment.layers)

        rates = {method: max(experiment.rates, key=lambda rate: total(method, rate)) for method in METHODS}
        print("rates: " + ", ".join(f"{method} {rate}" for method, rate in rates.items()), flush=True)

    of_rank = {f"hylora_{rank}": METHODS["hylora"] | {"adapters.rank": str(rank), "adapters.alpha": str(2 * rank)}
               for rank in experiment.ranks}
    for seed, layer in itertools.product(learnt[:experiment.bases], experiment.layers):
        others.append(jobs.submit(adapted(f"adapted/none/{layer}/{seed}", layer, bases[seed], UNCHANGED)))
        for method in METHODS:
            agent = adapted(f"adapted/{method}/{layer}/{seed}", layer, bases[seed],
                            METHODS[method] | {"learner.learning_rate": rates[method]})
            put_back = adapted(f"attention/{method}/{layer}/{seed}", first_layer, agent, UNCHANGED)
            others.append(jobs.submit(agent, put_back) if layer != first_layer else jobs.submit(agent))
        for name, settings in of_rank.items() if layer in experiment.rank_layers else ():
            others.append(jobs.submit(adapted(f"adapted/{name}/{layer}/{seed}", layer, bases[seed],
                                              settings | {"learner.learning_rate": rates["hylora"]})))
    jobs.wait(others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, metavar="FILE")
    parser.add_argument("--run", required=True, metavar="DIR", type=pathlib.Path)
    parser.add_argument("--devices", default="cpu", help="as in cuda:0,cuda:1; default cpu")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, dealt to the devices; default 1")
    arguments = parser.parse_args()
    program = os.environ.get("ENGRAM", "build/release/engram")
    if not shutil.which(program):
        leave(f"the program '{program}' was not found; ENGRAM=FILE names another")
    if arguments.jobs < 1:
        leave(f"--jobs {arguments.jobs} is not allowed; it takes 1 or more")
    experiment = Experiment(arguments.config)
    jobs = Jobs(program, arguments.run, arguments.devices.split(","), arguments.jobs)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, jobs.stop)
    run_experiment(experiment, arguments.run, jobs)
    if jobs.failed:
        leave(f"{jobs.failed} runs have failed; the same command tries them again", 1)


if __name__ == "__main__":
    main()
