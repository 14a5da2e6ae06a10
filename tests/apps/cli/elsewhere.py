"""Agents in tasks other than those that they were trained in: engram evaluate with options of the task and over a
range, and comparisons that ask for a range.  usage: elsewhere.py ENGRAM"""

import functools
import json

import safetensors.numpy

import program
from program import comparison, config_text, contents, engram_json, kill, refused, scratch_folder, start, tiny, wait_for

TINY = ["--network.hidden_width=8", "--run.steps=200", "--run.random_episodes=4", "--replay.batch_episodes=4",
        "--evaluation.every_steps=100", "--evaluation.episodes=5", "--evaluation.final_episodes=6"]
COMPARISON = comparison("--compare.seeds=1-2", "--compare.controls=full_state",
                        "--compare.evaluate=task.corridor_length: 4, 6,20", *TINY, tasks={"length_4": 4, "length_6": 6})
RUNS = [f"{task}/{backbone}/{seed}" for task in ("length_4", "length_6") for backbone in ("gru", "full_state")
        for seed in (1, 2)]
engram = functools.partial(program.engram, timeout=300)


def evaluate(run, *arguments):
    return engram_json("evaluate", run, "--device=cpu", "--episodes=6", *arguments, timeout=300)


def check_elsewhere(run, folder):
    before = contents(run)
    home, longer = evaluate(run), evaluate(run, "--task.corridor_length=60")
    assert home["differs"] == {} and home["task"] == "tmaze", home
    assert longer["differs"] == {"task.corridor_length": {"trained": 4, "evaluated": 60}}, longer
    assert longer["sampled"] != home["sampled"], (home, longer)
    assert evaluate(run, "--task.corridor_length=4", "--task.name=tmaze") == home
    preset = evaluate(run, "--task.preset", "tmaze_active_20")
    assert preset["differs"] == {"task.active": {"trained": False, "evaluated": True},
                                 "task.corridor_length": {"trained": 4, "evaluated": 20}}, preset

    text = engram("evaluate", run, "--device=cpu", "--episodes=6", "--task.corridor_length=60")
    assert "trained with task.corridor_length 4, evaluated with 60\n" in text, text
    assert "evaluated with" not in engram("evaluate", run, "--device=cpu", "--episodes=6")
    engram("evaluate", run, "--device=cpu", "--episodes=2", "--task.corridor_length=60", "--trace", folder / "t")
    trace = safetensors.numpy.load_file(folder / "t")
    assert trace["episode_starts"].tolist() == [0, 61] and len(trace["actions"]) == 122, trace

    for arguments, words in (
            (["--task.name=key_to_door"], ["key_to_door", "trained on tmaze"]),
            (["--task.full_state=true"], ["task.full_state = true", "float32 vector 5", "float32 vector 2"]),
            (["--task.corridor_length=0"], ["task.corridor_length", "'0'"]),
            (["--task.distractor_steps=3"], ["task.distractor_steps", "tmaze"]),
            (["--task.preset=visual_match_60"], ["visual_match", "trained on tmaze"]),
            (["--learner.gamma=0.5"], ["learner.gamma"])):
        refused("evaluate", run, *arguments, saying=words)
    assert contents(run) == before


def check_range(run, folder):
    wanted = "--range=task.corridor_length: 4,20,7"
    before = contents(run)
    found = evaluate(run, wanted)
    assert found["trained"] == {"task.corridor_length": 4}, found
    assert [(point["key"], point["value"]) for point in found["evaluations"]] == [
        ("task.corridor_length", length) for length in (4, 20, 7)]
    for point in found["evaluations"]:
        alone = evaluate(run, f"--task.corridor_length={point['value']:.0f}")
        assert point["greedy"] == alone["greedy"] and point["sampled"] == alone["sampled"], (point, alone)
    assert contents(run) == before
    text = engram("evaluate", run, "--device=cpu", "--episodes=6", wanted)
    assert "trained with task.corridor_length 4\n" in text and len(text.splitlines()) == 7, text
    assert max(map(len, text.splitlines())) <= 100, text

    # Kept, and only what is missing is made.
    file = run / "evaluations.json"
    evaluate(run, "--range=task.corridor_length: 4,20", "--keep")
    kept = json.loads(file.read_text())
    weights = safetensors.safe_open(run / "weights/best.safetensors", "numpy").metadata()
    assert kept["weights"] == {key: int(weights[key]) for key in ("environment_steps", "updates")}, kept
    kept["evaluations"][0]["greedy"]["return"] = 123.5  # as nothing would make it again
    file.write_text(json.dumps(kept))
    more = evaluate(run, wanted, "--keep")
    assert [point["greedy"]["return"] == 123.5 for point in more["evaluations"]] == [True, False, False], more
    assert more["evaluations"][1:] == found["evaluations"][1:]
    assert len(json.loads(file.read_text())["evaluations"]) == 3
    # Of other episodes, or damaged: made anew.
    engram("evaluate", run, "--device=cpu", "--episodes=5", "--range=task.corridor_length: 4", "--keep")
    assert len(json.loads(file.read_text())["evaluations"]) == 1
    file.write_text("{")
    engram("evaluate", run, "--device=cpu", "--episodes=6", wanted, "--keep", saying="evaluations.json")
    assert json.loads(file.read_text())["evaluations"] == found["evaluations"]

    for arguments, words in (([wanted + ",20"], ["20 is there twice"]), (["--range=7"], ["'7'", "10,20,50"]),
                             (["--range=task.corridor_length: 4,0"], ["'0'"]), (["--keep"], ["--range"]),
                             ([wanted, "--task.penalty=-2"], ["--task.penalty"]), ([wanted, "--trace=x"], ["--trace"]),
                             ([wanted, "--keep", "--weights=last"], ["--weights last"])):
        refused("evaluate", run, *arguments, saying=words)


def evaluations(directory):
    return {name: json.loads((directory / "runs" / name / "evaluations.json").read_text())["evaluations"]
            for name in RUNS if (directory / "runs" / name / "evaluations.json").exists()}


def check_comparison(folder):
    whole = folder / "whole"
    out = engram("compare", "--config", folder / "compare.ini", "--run", whole, "--jobs=2", "--device=cpu")
    assert "All 8 runs are finished" in out, out
    assert out.count(": evaluated at task.corridor_length: 4,6,20") == 8 and out.count(": success ") == 8, out
    found = evaluations(whole)
    assert sorted(found) == sorted(RUNS) and all(len(points) == 3 for points in found.values()), found
    for point in found["length_6/gru/2"]:
        alone = evaluate(whole / "runs/length_6/gru/2", f"--task.corridor_length={point['value']:.0f}")
        assert point["greedy"] == alone["greedy"] and point["sampled"] == alone["sampled"], (point, alone)
    before = contents(whole)
    assert "0 of 8 to do" in engram("compare", "--run", whole, "--device=cpu")
    assert contents(whole) == before
    return whole


def check_killed(folder, whole):
    """Killed again and again, among it while evaluations are made; the same command goes on."""
    directory = folder / "killed"
    process = start("compare", "--config", folder / "compare.ini", "--run", directory, "--jobs=2", "--device=cpu")
    wait_for(lambda: evaluations(directory), process, seconds=120)
    kill(process)
    trained = directory / "runs/length_4/gru/1"
    begun = evaluations(directory)
    (directory / "runs" / next(iter(begun)) / "evaluations.json").unlink()
    out = engram("compare", "--run", directory, "--jobs=2", "--device=cpu")
    assert "All 8 runs are finished" in out, out
    assert evaluations(directory) == evaluations(whole)
    assert not list(directory.rglob("*.partial*")) and trained.exists()
    # One more value of a finished comparison: no run is trained again.
    metrics = {file: file.read_bytes() for file in directory.rglob("metrics.jsonl")}
    (folder / "more.ini").write_text((folder / "compare.ini").read_text().replace("6,20", "6,20,9"))
    out = engram("compare", "--config", folder / "more.ini", "--run", directory, "--jobs=2", "--device=cpu")
    assert "8 of 8 to do" in out, out
    assert metrics == {file: file.read_bytes() for file in directory.rglob("metrics.jsonl")}
    more = evaluations(directory)
    assert all(more[name][:3] == points and more[name][3]["value"] == 9
               for name, points in evaluations(whole).items()), more


def check_report(folder, whole):
    engram("compare", "report", whole, "--output", folder / "r.html", "--resamples=1000", "--figures=svg")
    found = json.loads((folder / "r.json").read_text())["range"]
    assert found["key"] == "task.corridor_length" and found["values"] == [4, 6, 20], found
    points = evaluations(whole)
    assert len(found["curves"]) == 4 and len(found["runs"]) == 8
    for curve in found["curves"]:
        own = [points[f"{curve['task']}/{curve['backbone']}/{seed}"] for seed in (1, 2)]
        for kind in ("greedy", "sampled"):
            for place, estimate in enumerate(curve[kind]):
                both = [run[place][kind]["success"] for run in own]
                assert abs(estimate["value"] - sum(both) / 2) < 1e-12 and curve["runs"] == 2, (curve, both)
                assert min(both) <= estimate["interval"][0] <= estimate["interval"][1] <= max(both)
    markdown = (folder / "r.md").read_text()
    assert "](<r_figures/range.svg>)" in markdown and "Elsewhere than in training" in markdown
    assert "length_6, trained with 6" in (folder / "r_figures/range.gp").read_text()

    # A damaged file is said, and the rest shown.
    (whole / "runs/length_4/gru/1/evaluations.json").write_text("[]")
    engram("compare", "report", whole, "--output", folder / "s.html", "--resamples=1000")
    report = json.loads((folder / "s.json").read_text())
    curve = next(curve for curve in report["range"]["curves"]
                 if (curve["task"], curve["backbone"]) == ("length_4", "gru"))
    assert curve["runs"] == 1 and curve["greedy"][0]["interval"] is None, curve
    run = next(run for run in report["runs"] if (run["task"], run["backbone"], run["seed"]) == ("length_4", "gru", 1))
    assert run["final_success"] is not None and "lacks evaluations at task.corridor_length: 4,6,20" in run["remark"]

    # Reports without a range know nothing of it.
    ini = folder / "plain.ini"
    ini.write_text("\n".join(line for line in COMPARISON.splitlines() if not line.startswith("evaluate")))
    engram("compare", "--config", ini, "--run", folder / "plain", "--jobs=2", "--device=cpu", "--seeds=1",
           "--tasks=length_4", "--backbones=gru")
    assert not (folder / "plain/runs/length_4/gru/1/evaluations.json").exists()
    engram("compare", "report", folder / "plain", "--output", folder / "p.html", "--resamples=1000", "--figures=svg")
    assert "range" not in json.loads((folder / "p.json").read_text())
    assert "Elsewhere" not in (folder / "p.md").read_text() and not (folder / "p_figures/range.svg").exists()


def check_refused_comparisons(folder):
    for line, words in (("evaluate = 5", ["compare.evaluate", "'5'"]),
                        ("evaluate = task.corridor_length: 4,0", ["length_4/gru", "task.corridor_length", "'0'"]),
                        ("evaluate = task.distractor_steps: 4", ["task.distractor_steps", "tmaze"]),
                        ("evaluate = task.corridor_length: 4,4", ["4 is there twice"])):
        text = "\n".join(line if old.startswith("evaluate") else old for old in COMPARISON.splitlines())
        (folder / "bad.ini").write_text(text)
        refused("compare", "--config", folder / "bad.ini", "--run", folder / "new", saying=words)
        assert not (folder / "new").exists()


folder = scratch_folder()
(folder / "run.ini").write_text(config_text(*tiny(
    "--task.corridor_length=4", "--memory.name=transformer", "--memory.heads=2", *TINY)))
(folder / "compare.ini").write_text(COMPARISON)
engram("train", "--config", folder / "run.ini", "--run", folder / "run")
check_elsewhere(folder / "run", folder)
check_range(folder / "run", folder)
check_refused_comparisons(folder)
whole = check_comparison(folder)
check_killed(folder, whole)
check_report(folder, whole)
