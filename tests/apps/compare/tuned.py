"""engram compare with learners and [tune], and engram sweep: they choose, are killed, go on to the same choice.
usage: tuned.py ENGRAM"""

import csv
import functools
import json
import time

import program
from program import (comparison, commands_of_processes, contents, engram, engram_json, kill, same_outcome,
                     scratch_folder, tiny, wait_for)

TUNE = ("--tune.seeds=100", "--tune.rungs=0.25,0.5,1", "--tune.learner.learning_rate=1e-4,1e-3", "--tune.memory.layers=1,2")
CONFIG = comparison(
    "--compare.seeds=0", "--compare.controls=none", "--memory.layers=1", "--run.steps=120", "--run.random_episodes=0",
    "--evaluation.every_steps=40", "--checkpoint.every_steps=20", "--learners.sac.replay.batch_episodes=2",
    "--learners.ppo.learner.iteration_steps=32", "--learners.ppo.learner.minibatches=1", *TUNE,
    tasks={"short": 3}, backbones=("gru",)).replace("[replay]\nbatch_episodes = 2\n", "")
PLACES = {f"short/{learner}/{backbone}" for learner in ("sac", "ppo") for backbone in ("gru", "none")}
start = functools.partial(program.start, "compare")
refused = functools.partial(program.refused, "compare")


def compare(*arguments, status=0, saying=""):
    return program.finish(start(*arguments, "--device=cpu"), status, saying, timeout=300).stdout


def records(tuning):
    """Place -> the record of its tuning."""
    folder = tuning / "records"
    return {str(file.relative_to(folder).with_suffix("")): json.loads(file.read_text())
            for file in folder.rglob("*.json")}


def training(folder):
    return any(words[1:2] == ["train"] and any(f"{folder.name}/" in word for word in words)
               for words in commands_of_processes().values())


def check_progress(folder):
    """What inspect says of a tuning that has begun, from the records and runs that are there."""
    tuning = engram_json("inspect", folder)["tuning"]
    assert {place["place"] for place in tuning["places"]} == PLACES, tuning
    found = records(folder / "tune")
    for place in tuning["places"]:
        record = found.get(place["place"], {"rungs": [], "chosen": None})
        assert place["chosen"] == record["chosen"], (place, record)
        assert place["chosen"] or place["rung"] == len(record["rungs"]) + 1, (place, record)
        # Four tries to 30 steps, then two to 60, of one seed.
        runs = place["runs"]
        assert place["chosen"] or place["rungs"] == 2 and runs["count"] == place["tries"] == (4, 2)[place["rung"] - 1]
        assert place["chosen"] or 0 < place["steps_ahead"] <= (4 * 30 + 2 * 30 if place["rung"] == 1 else 2 * 30), place
        assert runs["finished"] + runs["running"] <= runs["count"], place
    assert tuning["steps_ahead"] == sum(place["steps_ahead"] for place in tuning["places"])
    told = " ".join(engram("inspect", folder).split())
    assert f"{tuning['chosen']} of 4 places chosen" in told and "steps ahead" in told, told
    assert "rung 1 of 2 (to 25% of the steps): 4 tries left" in told, told


def kill_again_and_again(folder, *command):
    """Kills the program at several moments of its tuning, and leaves the folder for the same command to go on."""
    for round in range(3):
        process = program.start(*command)
        wait_for(lambda: training(folder), process)
        time.sleep(1.1 * round)
        kill(process)
        wait_for(lambda: not training(folder), seconds=30)


def check_dry_run():
    out = compare("--config", "c.ini", "--run", "dry", "--dry-run")
    flat = " ".join(out.split())
    assert "1 task x 2 learners x 2 backbones x 1 seed, in dry" in out and "4 of 4 to do" in out, out
    assert "4 tries of settings for each of 4 places" in flat and "4 to 25%, 2 to 50% of the steps" in flat, out
    # 4 tries x 30 steps and 2 x 30 more, of each of 4 places; 120 steps of each of 4 runs.
    assert "It takes 720 environment steps, the runs themselves 480." in flat, out
    assert "tuning included" in flat and max(map(len, out.splitlines())) <= 80, out


def check_whole(folder):
    whole = folder / "whole"
    out = compare("--config", "c.ini", "--run", "whole", "--tune-only")
    assert "Tuning: 4 places, 16 tries on 1 seed." in out and "All settings are chosen" in out, out
    # All tries to the first rung, half of them to the second, where those of ppo are already by their iterations' ends;
    # the third rung has one left and is not needed.
    assert out.count("/100: success") == 16 + 4 and not (whole / "runs").exists(), out
    chosen = records(whole / "tune")
    assert chosen.keys() == PLACES, chosen.keys()
    for place, record in chosen.items():
        assert [len(rung["tries"]) for rung in record["rungs"]] == [4, 2], record
        assert record["chosen"] == record["rungs"][-1]["tries"][0]["settings"], record
        assert f"Chosen for {place}: " in out, out
    before = contents(whole / "tune")
    dry = compare("--run", "whole", "--dry-run")
    assert "chosen for short/ppo/gru: learner.learning_rate = " in " ".join(dry.split()), dry
    compare("--run", "whole", "--shard", "1/1")
    assert contents(whole / "tune") == before  # frozen
    plan = json.loads((whole / "plan.json").read_text())["runs"]
    assert {run["folder"] for run in plan} == {f"runs/{place}/0" for place in PLACES}
    for run in plan:
        place = f"{run['task']}/{run['learner']}/{run['backbone']}"
        assert run["tuned"] == chosen[place]["chosen"], run
        text = (whole / "runs" / place / "0/config.ini").read_text()
        assert f"layers = {run['tuned']['memory.layers']}\n" in text and "seed = 0\n" in text, text
    return whole


def check_killed(folder, whole):
    killed = ("compare", "--config", "c.ini", "--run", "killed", "--device=cpu")
    process = program.start(*killed)
    wait_for(lambda: training(folder / "killed"), process)
    kill(process)
    wait_for(lambda: not training(folder / "killed"), seconds=30)
    check_progress(folder / "killed")
    kill_again_and_again(folder / "killed", *killed)
    compare("--run", "killed")
    tuning = engram_json("inspect", "killed")["tuning"]
    assert tuning["chosen"] == 4 and tuning["steps_ahead"] == 0, tuning
    assert records(folder / "killed/tune") == records(whole / "tune")
    for run in sorted((whole / "runs").glob("*/*/*/0")) + sorted((whole / "tune/runs").glob("*/*/*/*/100")):
        same_outcome(run, folder / "killed" / run.relative_to(whole))


def check_failing(folder):
    """A place whose tuning fails stops no other: their runs are made, and the same command tries the place again."""
    compare("--config", "c.ini", "--run", "failing", "--backbones", "none", "--tune-only")
    blocked = folder / "failing/tune/runs/short/sac/gru/try1/100"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way")
    compare("--config", "c.ini", "--run", "failing", status=1, saying="1 run of the tuning failed: short/sac/gru/try1/100 (")
    made = {str(run.parent.relative_to(folder / "failing/runs")) for run in (folder / "failing/runs").glob("*/*/*/0")}
    assert made == PLACES - {"short/sac/gru"}, made
    assert records(folder / "failing/tune").keys() == made
    blocked.unlink()
    assert "All 4 runs are finished" in compare("--run", "failing")


def check_report(folder, whole):
    engram("compare", "report", "whole", "--resamples=1000")
    with open(whole / "report/report.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    ran = [row for row in rows if row["state"] == "finished"]
    tried = [row for row in rows if row["state"] == "tuning"]
    assert {f"{row['task']}/{row['learner']}/{row['backbone']}" for row in ran} == PLACES and len(ran) == 4, rows
    assert len(tried) == 16 and {row["seed"] for row in tried} == {"100"}, tried
    assert sum(row["remark"].startswith("chosen") for row in tried) == 4, tried
    report = json.loads((whole / "report/report.json").read_text())
    assert len(report["runs"]) == 4 and len(report["tuning"]) == 4, report["tuning"]
    assert report["learner_orders"][0]["learners"] == ["sac", "ppo"], report["learner_orders"]
    markdown = (whole / "report/report.md").read_text()
    assert "### Tuning" in markdown and "across learners" in markdown and "gru by ppo" in markdown
    # Elsewhere neither the finished runs of the table are made again nor the tries, also by shards.
    table = ("--earlier", "whole/report/report.csv")
    out = engram("compare", "--config", "c.ini", "--run", "elsewhere", *table, "--dry-run", "--device=cpu")
    assert "0 of 4 to do" in out and not (folder / "elsewhere").exists(), out
    out = compare("--config", "c.ini", "--run", "elsewhere", *table, "--shard", "1/2")
    assert "0 of 2 to do" in out and "Tuning" not in out, out
    for place, record in records(folder / "elsewhere/tune").items():
        assert record["chosen"] == records(whole / "tune")[place]["chosen"], place
    assert "0 of 4 to do" in compare("--run", "elsewhere")
    assert engram_json("inspect", "elsewhere")["learners"] == ["sac", "ppo"]


def check_refusals(folder):
    for change, saying in (
            (("learning_rate = 1e-4,1e-3", "lerning_rate = 1"), "did you mean 'learner.learning_rate'?"),
            (("learning_rate = 1e-4,1e-3", "learning_rate ="), "'' is no list of values"),
            (("seeds = 100", "seeds = 0-1"), "seed 0 is in tune.seeds 0-1 and in compare.seeds 0"),
            (("[tune]", "[learners.pop]\n[tune]"), "'pop' is no learner"),
            (("rungs = 0.25,0.5,1", "rungs = 1,2"), "tune.rungs '1,2'")):
        (folder / "x.ini").write_text(CONFIG.replace(*change))
        refused("--config", "x.ini", "--run", "new", saying=saying)
    refused("--config", "c.ini", "--run", "new", "--learners", "sca", saying="did you mean 'sac'?")
    refused("--config", "c.ini", "--run", "new", "--shard", "1/2", saying="have still to choose")
    refused("--run", "whole", "--seeds", "100", saying="seed 100 is in tune.seeds 100 and in compare.seeds 100")
    (folder / "x.ini").write_text(CONFIG.replace("rungs = 0.25,0.5,1", "rungs = 0.5,1"))
    refused("--config", "x.ini", "--run", "whole", saying="rungs = 0.25,0.5,1 and cannot go on with rungs = 0.5,1")
    (folder / "y.ini").write_text(comparison())
    refused("--config", "y.ini", "--run", "new", "--tune-only", saying="a section [tune]")


def check_sweep(folder):
    arguments = [*tiny("--run.steps=120", "--run.random_episodes=0", "--checkpoint.every_steps=20"), *TUNE]
    out = engram("sweep", "swept", *arguments, "--dry-run")
    assert "4 tries x 1 seed, in swept" in out and "4 to 25%" in out and not (folder / "swept").exists(), out
    out = engram("sweep", "swept", *arguments)
    best = (folder / "swept/best.ini").read_text()
    record = records(folder / "swept")["tmaze/lstm"]
    assert "The best is swept/best.ini" in out and len(record["rungs"][0]["tries"]) == 4, out
    for key, value in record["chosen"].items():
        assert f"\n{key.split('.')[1]} = {float(value):g}\n" in best, (key, value, best)
    engram("train", "trained", "--config", "swept/best.ini", "--seed=3", "--device=cpu")
    kill_again_and_again(folder / "broken", "sweep", "broken", *arguments)
    engram("sweep", "broken")
    assert records(folder / "broken") == records(folder / "swept")
    assert (folder / "broken/best.ini").read_text() == best
    # A try that diverges is out; its weights grow ninefold with every update.
    wild = [*tiny("--run.steps=120", "--run.random_episodes=0", "--learner.weight_decay=10"), "--tune.seeds=100",
            "--tune.rungs=1", "--tune.learner.learning_rate=1,1e-3"]
    out = engram("sweep", "wild", *wild)
    assert "failed: diverged: update" in out, out
    record = records(folder / "wild")["tmaze/lstm"]
    assert record["chosen"] == {"learner.learning_rate": "1e-3"} and record["rungs"][0]["tries"][1]["failure"], record
    (failure,) = (folder / "wild/failures").rglob("*.txt")
    assert json.loads(failure.read_text())["kind"] == "diverged"
    refuse = functools.partial(program.refused, "sweep")
    refuse("new", *tiny(), saying="[tune] gives no setting to try")
    refuse("new", *tiny(), "--tune.learner.learning_rate=1,x", saying="learner.learning_rate = 'x' is not allowed")
    refuse("new", *tiny(), "--tune.learner.lerning_rate=1", saying="did you mean")
    refuse("new", "--config", "c.ini", saying="is of a comparison")
    refuse("swept", *tiny(), *TUNE, saying="'swept' was made with steps = 120 and cannot go on with steps = 60")
    refuse("whole", *arguments, saying="is not empty and holds no sweep")


folder = scratch_folder()
(folder / "c.ini").write_text(CONFIG)
check_dry_run()
whole = check_whole(folder)
check_killed(folder, whole)
check_failing(folder)
check_report(folder, whole)
check_refusals(folder)
check_sweep(folder)
