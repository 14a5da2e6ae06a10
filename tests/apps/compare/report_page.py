"""The page of a report in a browser: it sorts, filters, tells, fits and runs nothing that a label says.
usage: report_page.py ENGRAM"""

import functools
import json

import program
from browser import Browser, find_chromium
from program import scratch_folder, skip

engram = functools.partial(program.engram, timeout=500)
refused = functools.partial(program.refused, "compare", "report")

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
# By task and memory the success of each of five seeds. repeat_first_easy tells memories apart, tmaze_10 does not.
RUNS = {"repeat_first_easy": {"gru": [1, 1, 0.98, 1, 0.95], HOSTILE: [0.9, 0.7, 0.8, 0.75, 0.85],
                              "lstm": [0.3, 0.2, 0.25, 0.3, 0.35], "none": [0.2, 0.25, 0.3, 0.2, 0.25],
                              "full_state": [1, 1, 1, 1, 1]},
        "tmaze_10": {"gru": [0.5, 0.6, 0.4, 0.5, 0.5], HOSTILE: [0.5, 0.4, 0.6, 0.45, 0.55],
                     "lstm": [0.55, 0.45, 0.5, 0.5, 0.5], "none": [0.5, 0.4, 0.3, 0.5, 0.6],
                     "full_state": [1, 1, 1, 1, 1]},
        "memory_len_30": {"gru": [0.9, 1, 1, 1, 1], HOSTILE: [0.5, 0.45, 0.5, 0.55, 0.5], "lstm": [1, 1, 1, 1, 0.98],
                          "none": [0.5, 0.5, 0.45, 0.5, 0.55], "full_state": [1, 1, 1, 1, 1]}}
CONTROLS = {"none": "memoryless", "full_state": "full_state"}
BUDGET = "width,parameters,state_bytes,flops_per_step,mlp_width,mlp_parameters,mlp_flops_per_step"


def table_of_runs():
    rows = ["task,backbone,seed,control,state,final_success,best_evaluation,environment_steps,evaluations," + BUDGET]
    for task, memories in RUNS.items():
        for memory, scores in memories.items():
            for seed, score in enumerate(scores):
                curve = " ".join(f"{1000 * i}:{score * i / 10:.3g}" for i in range(1, 11))
                rows.append(f'{task},"{memory}",{seed},{CONTROLS.get(memory, "none")},finished,{score},{score},10000,'
                            f"{curve},8,100,64,200,0,0,0")
    return "\n".join(rows) + "\n"


def texts(page, selector):
    return page.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.innerText.trim())")


def check_matrix(page):
    assert texts(page, ".matrix .groups th") == ["tell memories apart", "tell none apart"], texts(page, ".groups th")
    columns = texts(page, ".matrix thead tr:last-child th")
    assert columns[2:] == ["repeat_first_easy", "memory_len_30", "tmaze_10"], columns
    rows = texts(page, ".matrix tbody th")
    assert rows == ["gru", HOSTILE, "lstm", "full_state", "none"], rows
    # Coloured from chance, which is 25%, to the top: 80% is 73 hundredths of the way; below chance there is no colour.
    heat = 'getComputedStyle(document.querySelectorAll(".matrix tbody tr")[%d].querySelectorAll(".cell")[0])' \
           '.getPropertyValue("--heat")'
    assert page.js(heat % 1) == "73.3%" and page.js(heat % 4) == "0.0%", (page.js(heat % 1), page.js(heat % 4))
    page.click(".matrix thead th[title] + th + th button")  # memory_len_30
    assert texts(page, ".matrix tbody th")[:3] == ["lstm", "gru", HOSTILE], texts(page, ".matrix tbody th")
    page.click(".matrix th.mean button")
    assert texts(page, ".matrix tbody th")[:3] == ["gru", HOSTILE, "lstm"]

    page.point(".matrix tbody tr:nth-child(2) .cell")
    shown = texts(page, "#tooltip")[0]
    for words in (HOSTILE, "repeat_first_easy", "80.0%", "5 runs: 90, 70, 80, 75, 85", "chance 25.0%"):
        assert words in shown, (words, shown)
    page.point(at=(2, 2))
    assert page.js('document.querySelector("#tooltip").hidden')

    page.js('document.querySelector(".matrix .cell[tabindex=\\"0\\"]").focus()')
    for key in ("ArrowDown", "ArrowRight"):
        page.key(key)
    focused = page.js("document.activeElement.dataset.memory + document.activeElement.dataset.task")
    assert focused == HOSTILE + "memory_len_30", focused
    assert "50.0%" in texts(page, "#tooltip")[0]
    page.key("Enter")
    assert texts(page, "#task h2") == ["Task memory_len_30"]


def check_filters(page):
    page.write(".toolbar input", "gru, lst")
    assert texts(page, ".matrix tbody th") == ["gru", "lstm"]
    assert set(texts(page, "#runs tbody td:nth-child(2)")) == {"gru", "lstm"}
    assert set(texts(page, "#over-tasks tbody th")) == {"gru", "lstm"}
    page.write(".toolbar select", "memory_chain")
    assert texts(page, ".matrix thead tr:last-child th")[2:] == ["memory_len_30"]
    assert set(texts(page, "#runs tbody th")) == {"memory_len_30"}
    kept = page.js("location.href")
    page.open(kept)  # a reload shows the same
    assert texts(page, ".matrix tbody th") == ["lstm", "gru"]  # the better first
    page.write(".toolbar input", "zzz")
    assert "Nothing matches." in texts(page, "#matrix")[0]
    page.write(".toolbar input", "")
    page.write(".toolbar select", "")
    assert len(texts(page, ".matrix tbody th")) == 5


def check_tables(page):
    score = "#runs tbody td:nth-child(5)"
    page.click("#runs thead th:nth-child(5) button")
    found = [float(text) for text in texts(page, score)]
    assert found == sorted(found, reverse=True) and found[0] == 100, found
    page.click("#runs thead th:nth-child(5) button")
    found = [float(text) for text in texts(page, score)]
    assert found == sorted(found) and found[0] == 20, found
    assert page.js('document.querySelector("#runs thead th:nth-child(5)").getAttribute("aria-sort")') == "ascending"
    shown = len(texts(page, "#runs tbody tr"))
    page.click("#runs button.more")
    assert shown < len(texts(page, "#runs tbody tr")) == 75
    page.click("#runs button.open")
    assert "parameters" in texts(page, "#runs tr.details")[0]
    # Heads stay in sight where the list is scrolled.
    page.js('document.querySelector("#runs .scroll").scrollTop = 400')
    page.frame()
    apart = page.js('document.querySelector("#runs thead th").getBoundingClientRect().top - '
                    'document.querySelector("#runs .scroll").getBoundingClientRect().top')
    assert abs(apart) < 2, apart
    # The tables below, which need no JavaScript, can be sorted, too.
    assert page.js('document.querySelectorAll("#rest table button.sort").length') > 10


def check_curves(page):
    page.write("#task select", "repeat_first_easy")
    assert len(texts(page, ".strip li")) == 5 and page.js('document.querySelectorAll(".strip .run").length') == 25
    drawn = 'document.querySelector("#task canvas").toDataURL()'
    before = page.js(drawn)
    page.point(".strip li:nth-child(2)")
    assert page.js(drawn) != before  # its single seeds
    page.point(at=(2, 2))
    page.frame()
    x, y = page.place("#task .u-over")
    for move in range(-40, 40):  # up and down until a curve is near
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y + 4 * move)
        if not page.js('document.querySelector("#tooltip").hidden'):
            break
    assert "single seeds" in texts(page, "#tooltip")[0], texts(page, "#tooltip")
    assert page.js('document.querySelectorAll(".strip .pointed").length') == 1


# Of two learners: by PPO the LSTM has no run of memory_len_30.
PAIRS = {"repeat_first_easy": {("gru", "sac"): [1, 1, 0.98, 1, 0.95], ("lstm", "sac"): [0.3, 0.2, 0.25, 0.3, 0.35],
                               ("none", "sac"): [0.2, 0.25, 0.3, 0.2, 0.25], ("gru", "ppo"): [0.5, 0.6, 0.55, 0.5, 0.5],
                               ("lstm", "ppo"): [0.7, 0.8, 0.7, 0.75, 0.7], ("none", "ppo"): [0.25] * 5},
         "memory_len_30": {("gru", "sac"): [0.9, 1, 1, 1, 1], ("lstm", "sac"): [0.8, 0.9, 0.8, 0.85, 0.9],
                           ("none", "sac"): [0.5] * 5, ("gru", "ppo"): [0.6, 0.7, 0.6, 0.65, 0.7],
                           ("none", "ppo"): [0.5] * 5}}
PAIRS["repeat_first_medium"] = PAIRS["repeat_first_easy"]


def table_of_pairs():
    rows = ["task,backbone,learner,seed,control,state,final_success,environment_steps,evaluations," + BUDGET]
    rows += [f"{task},{memory},{learner},{seed},{CONTROLS.get(memory, 'none')},finished,{score},1000,500:{score},"
             "8,100,64,200,0,0,0"
             for task, pairs in PAIRS.items() for (memory, learner), scores in pairs.items()
             for seed, score in enumerate(scores)]
    return "\n".join(rows) + "\n"


def check_learners(page, file):
    """Memory and learner are columns and filters of their own; rows stand under the learner, the memory, or nothing."""
    page.open(file)
    rows = lambda: list(zip(texts(page, ".matrix tbody tr:not(.group) th"), texts(page, ".matrix tbody td.learner")))
    heads = lambda: texts(page, ".matrix tbody tr.group th")
    assert texts(page, ".matrix thead tr:last-child th")[:3] == ["memory", "learner", "mean"]
    # A group stands where its best row would; controls are the last of each.
    assert heads() == ["sac", "ppo"], heads()
    assert rows() == [("gru", "sac"), ("lstm", "sac"), ("none", "sac"),
                      ("gru", "ppo"), ("lstm", "ppo"), ("none", "ppo")], rows()
    # A mean over some of the tasks alone says so, and stands behind whole ones.
    means = texts(page, ".matrix tbody td.mean")
    assert [mean.endswith("*") for mean in means] == [False, False, False, False, True, False], means
    assert "A mean with a star lacks some tasks." in texts(page, "#matrix .about")[0]
    assert page.js('document.querySelector(".matrix tbody").rows[4].className') == "group"
    # Arrows go from one group to the next.
    page.js('document.querySelector(".matrix .cell[tabindex=\\"0\\"]").focus()')
    for _ in range(3):
        page.key("ArrowDown")
    assert page.js("document.activeElement.dataset.memory") == "gru by ppo"
    group, learner = ".toolbar label:nth-of-type(4) select", ".toolbar label:nth-of-type(3) select"
    page.write(group, "memory")
    assert heads() == ["gru", "lstm", "none"] and rows()[:2] == [("gru", "sac"), ("gru", "ppo")], (heads(), rows())
    page.write(group, "none")
    assert heads() == [] and [pair for pair in rows() if pair[0] == "none"] == rows()[-2:], rows()
    page.click(".matrix thead th:nth-child(2) button")
    assert [by for _, by in rows()] == ["ppo", "ppo", "sac", "sac", "ppo", "sac"], rows()
    page.open(page.js("location.href"))  # a reload shows the same
    assert heads() == [] and [by for _, by in rows()] == ["ppo", "ppo", "sac", "sac", "ppo", "sac"], rows()
    page.write(learner, "ppo")
    page.write(".toolbar input", "gru sac")  # words are of memories alone
    assert rows() == [("gru", "ppo")], rows()
    assert set(zip(texts(page, "#runs tbody td:nth-child(2)"), texts(page, "#runs tbody td:nth-child(3)"))) == \
        {("gru", "ppo")}
    assert texts(page, "#over-tasks thead th")[:2] == ["memory", "learner"]
    assert texts(page, "#over-tasks tbody th") + texts(page, "#over-tasks tbody td:nth-child(2)") == ["gru", "ppo"]
    page.write(".toolbar input", "")
    page.write("#pairs select", "gru by sac")
    assert set(texts(page, "#pairs tbody td:nth-child(2)")) == {"ppo"}
    assert not page.problems, page.problems


def table_with_diverged():
    rows = ["task,backbone,seed,control,state,failure,reason,final_success,environment_steps," + BUDGET]
    rows += [f"tmaze_10,{memory},{seed},none,{state},{success},1000,8,100,64,200,0,0,0"
             for memory, ends in {"gru": (1, 1, None), "lstm": (0.5, 0.5, 0.5)}.items()
             for seed, success in enumerate(ends)
             for state, success in [("finished,,", success) if success is not None else ("failed,diverged,the loss", "")]]
    return "\n".join(rows) + "\n"


def check_diverged(page, file):
    """A run that diverged counts with 0, and is shown as what it is."""
    page.open(file)
    assert texts(page, ".matrix tbody tr:first-child .cell") == ["67"], texts(page, ".matrix .cell")
    page.point(".matrix tbody tr:first-child .cell")
    assert "3 runs: 100, 100, diverged" in texts(page, "#tooltip")[0], texts(page, "#tooltip")
    assert page.js('document.querySelectorAll(".strip li:first-child .run").length') == 3
    states = list(zip(texts(page, "#runs tbody td:nth-child(4)"), texts(page, "#runs tbody td:nth-child(5)")))
    assert states.count(("diverged", "-")) == 1 and states.count(("finished", "100.0")) == 2, states
    assert not page.problems, page.problems


def check_page(page, file):
    page.open(file)
    answer = texts(page, "#top")[0]
    for words in ("gru learns 2 of 2 tasks that tell memories apart", "1 task does not tell memories apart",
                  "tmaze_10 memories differ by no more than their seeds", "75 finished"):
        assert words in answer, (words, answer)
    # Labels are text: nothing of them is an element, and nothing has run.
    assert page.js('document.querySelectorAll("img[src=x]").length') == 0
    assert page.js('[...document.scripts].every((script) => !script.textContent.startsWith("alert"))')
    check_matrix(page)
    check_filters(page)
    check_tables(page)
    check_curves(page)
    for dark in (False, True):
        for width in (390, 1440):
            page.open(file, width=width, height=844, dark=dark)
            assert page.js("document.documentElement.scrollWidth") <= width, width
            light = page.js('getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)')
            assert (max(light) < 60) == dark, light
    page.click("button.theme")
    assert page.js('document.documentElement.dataset.theme') == "light"
    # On paper nothing stays behind an edge or folded away.
    page.emulate("print")
    page.js('dispatchEvent(new Event("beforeprint"))')
    page.frame()
    assert page.js('[...document.querySelectorAll(".scroll")].every((box) => getComputedStyle(box).overflow === "visible")')
    assert page.js('document.querySelectorAll("details:not([open])").length') == 0
    assert not page.problems, page.problems


folder = scratch_folder()
(folder / "runs.csv").write_text(table_of_runs())
refused(folder / "runs.csv", saying=["--output FILE.html is missing"])
engram("compare", "report", folder / "runs.csv", "--output", folder / "a.html", "--resamples=1000")
# The table of the report makes the same page again.
engram("compare", "report", folder / "a.csv", "--output", folder / "b.html", "--resamples=1000")
assert (folder / "a.html").read_text() == (folder / "b.html").read_text()
separation = {task["label"]: task["separation"] for task in json.loads((folder / "a.json").read_text())["tasks"]}
assert [separation[task]["tells_apart"] for task in RUNS] == [True, False, True], separation
found = json.loads((folder / "a.json").read_text())["scores"]["final_success"]
assert found["tasks"] == ["repeat_first_easy", "memory_len_30"] and "tmaze_10" in found["cells"]
own = RUNS["repeat_first_easy"]["gru"] + RUNS["memory_len_30"]["gru"]
assert abs(found["methods"]["gru"]["mean"]["value"] - sum(own) / len(own)) < 1e-12, found["methods"]["gru"]
assert all(low <= 1 for task in separation.values() for low in task["intraclass_correlation"]["interval"])

(folder / "pairs_of.csv").write_text(table_of_pairs())
engram("compare", "report", folder / "pairs_of.csv", "--output", folder / "pairs.html", "--resamples=1000")
found = json.loads((folder / "pairs.json").read_text())
assert [(row["label"], row["memory"], row["learner"]) for row in found["backbones"]][3] == ("gru by ppo", "gru", "ppo")
missing = [run for run in found["runs"] if run["state"] == "missing"]
assert len(missing) == 5 and {(run["backbone"], run["learner"]) for run in missing} == {("lstm by ppo", "ppo")}, missing

(folder / "wild.csv").write_text(table_with_diverged())
engram("compare", "report", folder / "wild.csv", "--output", folder / "diverged.html", "--resamples=1000")

chromium = find_chromium()
if chromium is None:
    skip("there is no chromium (Debian's package chromium) to show the page")
with Browser(chromium) as browser:
    check_page(browser, folder / "a.html")
    check_learners(browser, folder / "pairs.html")
    check_diverged(browser, folder / "diverged.html")
