"""What runs and comparisons leave behind opens as data frames, and rliable reads it as engram's own statistics do."""

import json
import re
import sys

import numpy as np
import program
import pytest

import engram

pandas = pytest.importorskip("pandas")

REPORTS = program.SOURCE / "docs/figures/reports"


def test_every_row_of_the_metrics_is_there():
    file = program.AGENTS / "tmaze/metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    frame = engram.read_metrics(file.parent)
    assert len(frame) == len(rows) and set(frame["kind"]) == {"train", "evaluation", "final"}
    assert list(frame.columns[:2]) == ["kind", "environment_steps"] and frame["environment_steps"].dtype == np.int64
    assert set(frame.columns) == set().union(*rows)
    for row, (_, read) in zip(rows, frame.iterrows()):
        for name in frame.columns:
            value = row.get(name)
            assert (np.isnan(read[name]) if value is None else read[name] == value), (name, row)


def test_damaged_metrics_are_refused_and_unfinished_ones_left_out(tmp_path):
    whole = '{"kind": "train", "environment_steps": 10, "loss": null}\n'
    (tmp_path / "metrics.jsonl").write_text(whole + '{"kind": "tra')
    frame = engram.read_metrics(tmp_path)
    assert len(frame) == 1 and np.isnan(frame["loss"][0])
    (tmp_path / "metrics.jsonl").write_text(whole + "[]\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 2 is no row"):
        engram.read_metrics(tmp_path)
    with pytest.raises(ValueError, match="nowhere"):
        engram.read_metrics(tmp_path / "nowhere")


def test_a_report_has_a_row_for_each_run(tmp_path):
    frame = engram.read_report(REPORTS / "memories.csv")
    assert len(frame) == 3394 and frame["seed"].dtype == np.int64
    assert set(frame["control"]) == {"none", "memoryless", "full_state"} and "none" in set(frame["backbone"])
    assert set(frame["reason"]) == {""} and frame["episodes_until_learnt"].isna().any()
    first = frame.iloc[0]
    assert (first["task"], first["final_success"], first["state_bytes"]) == ("tmaze_10", 0.53, 6920)
    (tmp_path / "report").mkdir()
    (tmp_path / "report/report.csv").write_bytes((REPORTS / "memories.csv").read_bytes())
    assert engram.read_report(tmp_path).equals(frame)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no report"):
        engram.read_report(tmp_path / "other.csv")
    with pytest.raises(ValueError, match="nowhere"):
        engram.read_report(tmp_path / "nowhere.csv")


def test_a_report_of_learners_that_are_tuned_has_their_labels_and_why_runs_failed(tmp_path):
    (tmp_path / "report.csv").write_text(
        "task,backbone,learner,seed,control,state,failure,reason,remark,try,tuned,final_success\n"
        "t,gru,ppo,0,none,failed,diverged,the loss,,,learner.gamma = 0.9,\n"
        "t,gru,ppo,,none,tuning,diverged,the loss,dropped after rung 1,1,learner.gamma = 0.5,\n")
    frame = engram.read_report(tmp_path / "report.csv")
    assert list(frame["learner"]) == ["ppo", "ppo"] and list(frame["failure"]) == ["diverged", "diverged"]
    assert frame["seed"][0] == 0 and np.isnan(frame["seed"][1]) and frame["tuned"][0] == "learner.gamma = 0.9"


def score_dict(frame):
    """Scores by method as rliable takes them, [runs, tasks], of methods that have every run of every task."""
    tables = {
        name: runs.pivot(index="seed", columns="task", values="final_success")
        for name, runs in frame.groupby("backbone")
    }
    return {name: table.to_numpy() for name, table in tables.items() if not table.isna().any(axis=None)}


def test_rliable_computes_the_reports_figures(tmp_path):
    try:
        from rliable import library, metrics
    except Exception as error:  # noqa: BLE001  what it depends on fails to import in many ways
        pytest.skip(f"rliable cannot be imported: {error}")
    frame = engram.read_report(REPORTS / "memories.csv")
    scores = score_dict(frame)
    assert len(scores) > 20
    names, tasks, seeds = list(scores), sorted(set(frame["task"])), sorted(set(frame["seed"]))
    table = {"metric": "success", "units": "fraction of episodes", "tasks": tasks, "methods": names,
             "seeds": list(map(int, seeds)),
             "scores": np.stack([scores[name].T for name in names], axis=1).tolist()}  # fmt: skip
    (tmp_path / "scores.json").write_text(json.dumps(table))
    program.run("compare", "report", tmp_path / "scores.json", "--output", tmp_path / "report.html")
    report = json.loads((tmp_path / "report.json").read_text())["methods"]
    figures = {
        "interquartile_mean": metrics.aggregate_iqm,
        "mean": metrics.aggregate_mean,
        "median": metrics.aggregate_median,
        "optimality_gap": metrics.aggregate_optimality_gap,
    }
    for name in names:
        for figure, function in figures.items():
            assert report[name][figure]["value"] == pytest.approx(function(scores[name]), abs=1e-12), (name, figure)
    few = {name: scores[name] for name in names[:2]}
    _, intervals = library.get_interval_estimates(
        few, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=2000, random_state=np.random.RandomState(0)
    )
    for name in few:
        # Percentiles of 2,000 resamples vary by some thousandths.
        assert intervals[name][:, 0] == pytest.approx(report[name]["interquartile_mean"]["interval"], abs=0.006)


def test_the_frame_has_what_the_printed_report_is_of():
    text = (REPORTS / "memories.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Interquartile mean"))
    found = re.findall(r"([\w+\\]+) ([\d.]+)(?: \(|,|\.)", line)
    printed = {name.replace("\\", ""): float(mean) for name, mean in found}
    for name, table in score_dict(engram.read_report(REPORTS / "memories.csv")).items():
        scores = np.sort(table, axis=None)
        quarter = len(scores) // 4
        assert 100 * scores[quarter:-quarter].mean() == pytest.approx(printed[name], abs=0.051), name


def test_without_pandas_its_name_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        engram.read_metrics(program.AGENTS / "tmaze")
