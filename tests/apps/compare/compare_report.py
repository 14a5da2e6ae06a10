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
        self.tags, self.images, self.text, self.data = [], [], "", ""
        self.feed(text)
        self.data = json.loads(self.data)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert name not in ("href", "srcset", "action") and not name.startswith("on"), (tag, name, value)
            if name == "src":
                assert tag == "img" and value.startswith("data:image/"), (tag, value[:50])
                self.images.append(value)

    def handle_data(self, data):
        if self.tags and self.tags[-1] in ("script", "style"):
            self.data += data if data.startswith("{") else ""
        else:
            self.text += data

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.tags.append("/" + tag)


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
    assert {"iframe", "link", "form"}.isdisjoint(page.tags) and page.tags.count("script") == 2
    for words in ('Which of <these> & "those" remembers?', "length_4", "lstm", "control: memoryless", "random play",
                  "chance", "tells memories apart", "Wall time", "Peak memory", "success of 67%",
                  "Updates a second", "adds at first", "engram compare report", "corridor_length = 8",
                  "LibTorch"):
        assert words in page.text, words
    assert not any(image.startswith("data:image/svg") for image in page.images)
    # Each run's settings and log are a click away, from where the page is.
    columns = page.data["runs"]["packed_columns"]
    for row in page.data["runs"]["rows"]:
        links = row[columns.index("links")]
        assert "[compare]" not in (folder / links["settings"]).read_text() and (folder / links["log"]).exists(), links

    markdown = (folder / "a.md").read_text()
    assert ".svg" not in markdown and not list(folder.glob("a_figures/*.gp"))
    assert max(line.count(" | ") for line in markdown.splitlines() if line.startswith("| ")) < 8, "wider than 8 columns"
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
    assert set(table["cells"]) == {"length_4", "length_8"} and set(table["cells"]["length_4"]) == {"gru", "lstm", "none"}
    apart = [task["label"] for task in found["tasks"] if task["separation"]["tells_apart"] is False]
    assert not set(apart) & set(table["tasks"]) and len(apart) + len(table["tasks"]) == 2, (apart, table["tasks"])
    assert len([text for text in table["left_out"] if "left out of the figures over tasks" in text]) == len(apart)
    assert found["answer"] and all(sentence in page.text for sentence in found["answer"]), found["answer"]

    # The yardsticks are explained before they stand in a table, plots come before the protocol.
    text = page.text
    assert text.index("guesses what it should have remembered") < text.index("Final success in percent") < \
        text.index("Protocol"), text
    assert "none: what can be had without memory" in text and "parameters (MLP)" in text
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
    assert (run / "report/report.md").read_text().replace("report_figures", "a_figures") == (folder / "a.md").read_text()
    beside = Page((run / "report/report.html").read_text()).data["runs"]  # links begin where the page is
    assert all((run / "report" / row[columns.index("links")]["settings"]).exists() for row in beside["rows"])

    # What is there is replaced by force alone, each part of it.
    before = (folder / "b.md").read_bytes()
    refused(run, "--output", folder / "b.html", saying=[f"--output would overwrite '{folder}/b.html'", "--force"])
    for part in ("z.csv", "z.md", "z.json", "z.tex", "z_figures"):
        (folder / part).write_text("mine")
        refused(run, "--output", folder / "z.html", saying=[f"overwrite '{folder}/{part}'", "--force"])
        assert (folder / part).read_text() == "mine"
        (folder / part).unlink()
    (folder / "b.md").write_text("old")
    engram("compare", "report", run, "--output", folder / "b.html", "--resamples=1000", "--force")
    assert (folder / "b.md").read_bytes() == before


def check_for_papers(run, folder):
    """Plots and tables for a paper, and what is said without gnuplot."""
    page = folder / "paper.html"
    command = ("compare", "report", run, "--output", page, "--resamples=1000", "--figures=pdf", "--latex")
    engram(*command)
    markdown = page.with_suffix(".md").read_text()
    for name in ("sweep", "curves"):
        assert f"](<paper_figures/{name}.svg>)" in markdown, name
        assert (folder / f"paper_figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"paper_figures/{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (folder / f"paper_figures/{name}.gp").exists() and (folder / f"paper_figures/{name}.dat").exists()
    assert "gnuplot 5." in markdown
    latex = page.with_suffix(".tex").read_text()
    for words in ("\\toprule", "length\\_4", "lstm & ", "\\paragraph{Protocol.}", "@misc{task_tmaze,", "@misc{memory_lstm,"):
        assert words in latex, words
    for opened in ("{", "\\begin{"):
        assert latex.count(opened) == latex.count({"{": "}", "\\begin{": "\\end{"}[opened]), opened

    result = call(ENGRAM, *command, "--force", saying="no plots", env={**os.environ, "PATH": str(folder)}, timeout=500)
    assert result.stderr.count("\n") == 1, result
    assert "gnuplot-nox" in result.stderr and f"The report is {page}" in result.stdout, result
    markdown = page.with_suffix(".md").read_text()
    assert "left out: plots are drawn by gnuplot" in markdown and ".svg" not in markdown
    assert not (folder / "paper_figures/curves.svg").exists() and not (folder / "paper_figures/curves.pdf").exists()
    refused(run, "--output", folder / "x.html", "--figures=jpg", saying=["figures", "jpg", "svg"])


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
    (run / "failures/length_4/none/2.txt").write_text(json.dumps({"kind": "out of memory", "reason": "no <memory> left"}))
    check_running(run, folder)
    assert "9 of 12 runs are finished. The report" in report(run, folder / "c.html")
    page = Page((folder / "c.html").read_text())
    for words in ("length_4/gru: unfinished, 300 of 300 steps (seed 1)",
                  "length_4/none: failed: out of memory: no <memory> left (seed 2)",
                  "lstm on length_8: 1 of 2 runs has a score, not seed 2; one run gives no interval", "n=1",
                  "9 finished, 1 not begun, 1 unfinished"):
        assert words in page.text, words
    found = json.loads((folder / "c.json").read_text())
    assert found["scores"]["final_success"]["cells"]["length_8"]["lstm"]["interval"] is None
    for method in found["scores"]["final_success"]["methods"].values():  # none where no task tells memories apart
        assert method["mean"]["interval"] is None or "length_8" not in found["scores"]["final_success"]["tasks"], method

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
    assert not page.images and "b" not in page.tags
    engram("compare", "report", folder / "e.csv", "--output", folder / "f.html", "--resamples=1000")
    assert (folder / "f.json").read_text() == (folder / "e.json").read_text()
    engram("compare", "report", folder / "s.json", "--output", folder / "g.html", "--resamples=1000", "--figures=svg")
    assert (folder / "g_figures/profiles.svg").exists() and not (folder / "g_figures/profiles.pdf").exists()
    refused(folder / "s.json", saying=["--output"])
    refused(folder / "s.json", "--output", folder / "x.html", "--latex", saying=["--latex", "table of scores"])
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
check_for_papers(run, folder)
check_plain(run, folder)
check_parts(run, folder)
check_scores(folder)
check_refusals(run, folder)
assert "--output" in engram("compare", "report", "--help")
