"""Reports on comparisons of tiny runs: finished, unfinished, failed, missing and of another comparison.
usage: compare_report.py ENGRAM"""

import csv
import fcntl
import functools
import html.parser
import json
import os
import shutil

import program
from program import ENGRAM, call, comparison, engram_json, metrics, scratch_folder

CONFIG = comparison(
    '--compare.question=Which of <these> & "those" remembers?', "--compare.seeds=1-2", "--compare.controls=none",
    "--network.hidden_width=8", "--run.steps=300", "--run.random_episodes=4", "--replay.batch_episodes=4",
    "--evaluation.every_steps=100", "--evaluation.episodes=5", "--evaluation.final_episodes=10",
    tasks={"length_4": 4, "length_8": 8}, backbones=("gru", "lstm"))
engram = functools.partial(program.engram, timeout=500)
refused = functools.partial(program.refused, "compare", "report")


def report(run, output):
    return engram("compare", "report", run, "--output", output, "--resamples=1000")


class Page(html.parser.HTMLParser):
    """Collects what the page is made of, and checks that nothing is outside of it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.images, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert name not in ("href", "srcset", "action") and not name.startswith("on"), (tag, name, value)
            if name == "src":
                assert tag == "img" and value.startswith("data:image/"), (tag, value[:50])
                self.images.append(value)

    def handle_data(self, data):
        self.text += data


def scores_of_evaluations(run):
    return [row["success"] for row in metrics(run, "evaluation")]


def scores(run):
    evaluations = scores_of_evaluations(run)
    (final,) = metrics(run, "final")
    return {"final_success": final["success"], "sampled_success": final["sampled_success"],
            "best_evaluation": max(evaluations), "last_evaluation": evaluations[-1]}


def check_whole(run, folder):
    said = report(run, folder / "a.html")
    assert "12 of 12 runs are finished" in said and str(folder / "a.html") in said, said
    page = Page((folder / "a.html").read_text())
    assert {"script", "iframe", "link"}.isdisjoint(page.tags)
    for words in ('Which of <these> & "those" remembers?', "length_4", "lstm", "control: memoryless", "random play",
                  "chance", "Probability of improvement", "Wall time", "Peak memory", "success of 67%",
                  "Updates a second", "engram compare report", "corridor_length = 8", "Nothing: every run is finished",
                  "LibTorch", "gnuplot 5."):
        assert words in page.text, words
    assert sum(image.startswith("data:image/svg+xml") for image in page.images) == 4, len(page.images)

    markdown = (folder / "a.md").read_text()
    for name in ("sweep", "curves", "over_tasks", "profiles"):
        assert f"](<a_figures/{name}.svg>)" in markdown, name
        assert (folder / f"a_figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"a_figures/{name}.gp").exists() and (folder / f"a_figures/{name}.dat").exists()
    assert "| lstm |" in markdown and "&lt;these&gt; &amp;" in markdown

    found = json.loads((folder / "a.json").read_text())
    rows = list(csv.DictReader(open(folder / "a.csv", newline="")))
    assert len(found["runs"]) == len(rows) == 12
    for row, item in zip(rows, found["runs"]):
        expected = scores(run / "runs" / row["task"] / row["backbone"] / row["seed"])
        for key, value in expected.items():
            assert float(row[key]) == item[key] == value, (row, key)
        assert row["state"] == "finished" and float(row["wall_seconds"]) > 0 and float(row["peak_memory_mb"]) > 10, row
        assert float(row["updates_per_second"]) > 0 and item["updates_per_second"] > 0, row
    table = found["scores"]["final_success"]
    own = [item["final_success"] for item in found["runs"] if item["backbone"] == "gru"]
    assert abs(table["methods"]["gru"]["mean"]["value"] - sum(own) / 4) < 1e-12
    assert table["methods"]["gru"]["mean"]["interval"] is not None and table["left_out"] == []

    # The yardsticks are explained before they stand in a table, plots come before the protocol.
    text = page.text
    assert text.index("guesses what it should have remembered") < text.index("Final success in percent") < \
        text.index("Success of the greedy policy") < text.index("Protocol"), text
    assert "none: what can be had without memory" in text and "MLP, %" in text
    # Two seeds give no interval that could be trusted; of random play there is Wilson's.
    assert "With fewer than 5 seeds intervals are not to be trusted" in text and "rest on 2 runs" in text
    rows = [line for line in markdown.splitlines() if line.startswith(("| gru |", "| lstm |", "| none |"))]
    assert len(rows) > 5 and not any(" to " in row for row in rows), rows
    assert "(0.0 to 0.0)" not in text and "(100.0 to 100.0)" not in text
    # So each run's own figure stands beside the mean.
    first = next(line for line in rows if line.startswith("| gru |"))
    for task, cell in zip(("length_4", "length_8"), first.split(" | ")[1:]):
        both = [100 * scores(run / f"runs/{task}/gru/{seed}")["final_success"] for seed in (1, 2)]
        assert cell.startswith(f"{sum(both) / 2:.1f} runs {both[0]:.1f}, {both[1]:.1f}"), (first, both)
    assert "2 tasks x 3 backbones x 2 seeds (1-2): 12 runs, of them 12 finished." in text, text

    # The same again: nothing depends on the clock or on the number of threads.
    report(run, folder / "b.html")
    assert (folder / "b.json").read_text() == (folder / "a.json").read_text()
    assert (folder / "b.html").read_text() == (folder / "a.html").read_text()
    engram("compare", "report", run, "--resamples=1000")
    assert (run / "report/report.html").read_text() == (folder / "a.html").read_text()

    # What is there is replaced by force alone, each part of it.
    before = (folder / "b.md").read_bytes()
    refused(run, "--output", folder / "b.html", saying=[f"--output would overwrite '{folder}/b.html'", "--force"])
    for part in ("z.csv", "z.md", "z.json", "z_figures"):
        (folder / part).write_text("mine")
        refused(run, "--output", folder / "z.html", saying=[f"overwrite '{folder}/{part}'", "--force"])
        assert (folder / part).read_text() == "mine"
        (folder / part).unlink()
    (folder / "b.md").write_text("old")
    engram("compare", "report", run, "--output", folder / "b.html", "--resamples=1000", "--force")
    assert (folder / "b.md").read_bytes() == before


def check_without_gnuplot(source, whole, pictures):
    """All of `whole`, the same report with gnuplot, but its pictures, and a line that says what to install."""
    folder, page = whole.parent, whole.parent / "no_gnuplot.html"
    result = call(ENGRAM, "compare", "report", source, "--output", page, "--resamples=1000", "--force",
                  saying="no figures", env={**os.environ, "PATH": str(folder)}, timeout=500)
    assert result.stderr.count("\n") == 1, result
    assert "gnuplot-nox" in result.stderr and f"The report is {page}" in result.stdout, result
    found = Page(page.read_text())
    assert found.text.count("This figure is left out: plots are drawn by gnuplot") == pictures, found.text
    assert "figures: plots are drawn by gnuplot" in found.text
    assert not any(image.startswith("data:image/svg") for image in found.images)
    assert "left out: plots are drawn" in page.with_suffix(".md").read_text()
    assert len(list((folder / "no_gnuplot_figures").glob("*.gp"))) >= pictures
    for ending in (".csv", ".json"):
        assert page.with_suffix(ending).read_bytes() == whole.with_suffix(ending).read_bytes(), ending


def check_running(run, folder):
    """What a program trains in now is shown with how far it is."""
    with open(run / "runs/length_4/gru/1/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = report(run, folder / "r.html")
        assert "9 of 12 runs are finished, 1 is running. The report" in said, said
        page = (folder / "r.md").read_text()
        row = next(line for line in page.splitlines() if line.startswith("| length\\_4/gru/1 |"))
        evaluated = 100 * scores_of_evaluations(run / "runs/length_4/gru/1")[-1]
        assert row == f"| length\\_4/gru/1 | cpu | 300 of 300 steps | 100 | {evaluated:.1f} |", row
        assert "9 finished, 1 not begun, 1 running" in page, page
        assert "length_4/gru/1: 300 of 300 steps" in engram("inspect", run)
        found = engram_json("inspect", run)
        assert found["in_progress"] == [{"run": "length_4/gru/1", "environment_steps": 300, "total_steps": 300}], found
    report(run, folder / "q.html")
    assert "training now" not in (folder / "q.md").read_text()


def check_parts(run, folder):
    """A missing, an unfinished and a failed run are named; one run of a task gives no interval."""
    shutil.rmtree(run / "runs/length_8/lstm/2")
    log = run / "runs/length_4/gru/1/metrics.jsonl"
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"final"' not in line))
    shutil.rmtree(run / "runs/length_4/none/2")
    (run / "failures/length_4/none").mkdir(parents=True)
    (run / "failures/length_4/none/2.txt").write_text("no <memory> left\n")
    check_running(run, folder)
    assert "9 of 12 runs are finished. The report" in report(run, folder / "c.html")
    page = Page((folder / "c.html").read_text())
    for words in ("length_4/gru: unfinished, 300 of 300 steps (seed 1)",
                  "length_4/none: failed: no <memory> left (seed 2)",
                  "lstm on length_8: 1 of 2 runs has a score, not seed 2; one run gives no interval", "n=1",
                  "9 finished, 1 not begun, 1 unfinished"):
        assert words in page.text, words
    found = json.loads((folder / "c.json").read_text())
    assert found["scores"]["final_success"]["cells"]["length_8"]["lstm"]["interval"] is None
    assert found["scores"]["final_success"]["methods"]["lstm"]["mean"]["interval"] is None

    for backbone in ("gru", "lstm", "none"):
        shutil.rmtree(run / "runs/length_4" / backbone)
    report(run, folder / "d.html")
    page = Page((folder / "d.html").read_text())
    assert "length_4 is left out of the figures over tasks" in page.text or "There is no task" in page.text


def check_scores(folder):
    """The statistics of a table of scores, as JSON or as CSV."""
    table = json.loads((folder / "a.json").read_text())["scores"]["final_success"]["table"]
    table["methods"][0] = "<b>"
    (folder / "s.json").write_text(json.dumps(table))
    engram("compare", "report", folder / "s.json", "--output", folder / "e.html", "--resamples=1000")
    page = Page((folder / "e.html").read_text())
    for words in ("<b>", "length_8", "optimality gap", "probability of improvement", "rliable"):
        assert words in page.text, words
    assert len(page.images) == 2 and "b" not in page.tags
    engram("compare", "report", folder / "e.csv", "--output", folder / "f.html", "--resamples=1000")
    assert (folder / "f.json").read_text() == (folder / "e.json").read_text()
    check_without_gnuplot(folder / "s.json", folder / "e.html", 2)
    refused(folder / "s.json", saying=["--output"])
    (folder / "s.json").write_text("{}")
    refused(folder / "s.json", "--output", folder / "x.html", saying=["s.json", "seeds"])
    assert not (folder / "x.html").exists()


def check_plain(run, folder):
    """Runs by their own folders are the same runs."""
    runs = [run / f"runs/length_8/{backbone}/{seed}" for backbone in ("gru", "lstm") for seed in (1, 2)]
    said = engram("compare", "report", *runs, "--output", folder / "p.html", "--resamples=1000")
    assert "4 of 4 runs are finished" in said, said
    page = Page((folder / "p.html").read_text())
    for words in ("4 runs", "1 task x 2 backbones x 2 seeds", f"engram train --config {runs[3]}/config.ini",
                  "corridor_length"):
        assert words in page.text, words
    assert "experiment.ini" not in page.text
    whole, plain = (json.loads((folder / f"{name}.json").read_text()) for name in "ap")
    of_whole = {(item["backbone"], item["seed"]): item["final_success"] for item in whole["runs"]
                if item["task"] == "length_8" and item["backbone"] != "none"}
    assert {(item["backbone"], item["seed"]): item["final_success"] for item in plain["runs"]} == of_whole
    engram("compare", "report", runs[0], "--resamples=1000")
    assert (runs[0] / "report/report.html").exists()
    shutil.rmtree(runs[0] / "report")
    refused(*runs, saying=["--output FILE.html is missing"])
    refused(runs[0], runs[0], "--output", folder / "x.html", saying=["gru/1", "tmaze/gru with seed 1"])
    refused(runs[0], folder, "--output", folder / "x.html", saying=[folder])
    refused(runs[0], run, "--output", folder / "x.html", saying=[run, "comparison"])
    copy = folder / "copy"
    shutil.copytree(runs[1], copy)
    (copy / "config.ini").write_text((copy / "config.ini").read_text().replace("gamma = 0.99", "gamma = 0.5"))
    refused(runs[0], copy, "--output", folder / "x.html", saying=[runs[0], copy, "learner.gamma: 0.99 and 0.5"])
    assert not (folder / "x.html").exists()


def check_refusals(run, folder):
    refused(folder / "none", saying=["none", "not the folder of a comparison"])
    refused(saying=["DIR"])
    refused(run, "--output", folder / "x.pdf", saying=["x.pdf", ".html"])
    refused(run, "--resamples=3", saying=["resamples", "1000"])
    refused(run, "--output", "/proc/x/y.html", saying=["/proc/x"])
    assert not (folder / "x.pdf").exists()
    config = run / "runs/length_8/gru/1/config.ini"
    config.write_text(config.read_text().replace("gamma = 0.99", "gamma = 0.5"))
    refused(run, saying=["length_8/gru/1", "learner.gamma"])
    config.write_text(config.read_text().replace("gamma = 0.5", "gamma = 0.99"))
    for log in run.glob("runs/*/*/*/metrics.jsonl"):
        log.write_text("".join(line for line in log.read_text().splitlines(True) if '"final"' not in line))
    with open(config.with_name("lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(run, saying=["is finished yet (of 12; running: length_8/gru/1, 300 of 300 steps)"])
    shutil.rmtree(run / "runs")
    refused(run, saying=["no run of", "is finished yet (of 12): go on with engram compare --run"])


folder = scratch_folder()
(folder / "c.ini").write_text(CONFIG)
run = folder / "run"
engram("compare", "--config", folder / "c.ini", "--run", run, "--jobs=2")
check_whole(run, folder)
check_without_gnuplot(run, folder / "a.html", 4)
check_plain(run, folder)
check_parts(run, folder)
check_scores(folder)
check_refusals(run, folder)
assert "--output" in engram("compare", "report", "--help")
