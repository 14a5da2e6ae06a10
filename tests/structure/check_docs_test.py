"""check_docs.py finds each kind of problem in a made-up tree, and none in a tree without."""

import pathlib
import tempfile

import check_docs

REGISTRIES = {
    "envs/all_tasks.h": "using AllTasks = TypeList<Maze, Match>;\n",
    "envs/tasks/maze.h": 'struct Maze {\n  static constexpr const char* kName = "maze";\n',
    "envs/tasks/boards/match.h": 'struct Match : Board {\n  static constexpr const char* kName = "match";\nEnd::kTruncated',
    "memory/core/backbone_options.h": 'struct GruOptions {\n  static constexpr const char* kName = "gru";\n};\n'
    'struct NoneOptions {\n  static constexpr const char* kName = "none";\n};\n',
    "memory/core/all_backbones.h": "using AllBackbones = TypeList<GruOptions,\n                               NoneOptions>;\n",
    "agents/learn/td/options.h": 'struct TdOptions {\n  static constexpr const char* kName = "td";\n};\n',
    "agents/learn/registry.cpp": "using AllLearners = TypeList<TdOptions>;\n",
    "docs/tasks/maze.md": "",
    "docs/tasks/match.md": "",
    "docs/backbones/gru.md": "",
    "docs/backbones/none.md": "",
    "docs/learners/td.md": "",
    "agents/run/config/config.cpp": 'bool may_change_on_resume(const std::string& key) {\n  return key == "run.steps" ||\n'
    '         key.starts_with("checkpoint.");\n}\n\nstd::string other() { return "run.seed"; }\n',
    "docs/use/guarantees.md": "A resumed run may change `run.steps`,\nand `[checkpoint]`.\n\nNot `run.seed`.\n",
    "docs/learners/README.md": "Truncated episodes bootstrap: `match`.\n\nAnd `maze`.\n",
    "kernels/rule/README.md": "",
    "docs/compare/published.md": "| task | GRU, easy | GRU, medium | GRU, hard | best |\n|---|---|---|---|---|\n"
    "| maze | 1.000 ± 0.000 | 0.5 ± 0.1 | -1 ± 0 | 1.000, 0.6 (LMU), -1 |\n\n| match | 2 ± 0 |\n",
    "experiments/report/published_popgym.csv": "# from where\ntask,gru_mean,gru_deviation,best,best_memory\n"
    "maze_easy,1.000,0.000,1.000,\nmaze_medium,0.5,0.1,0.6,LMU\nmaze_hard,-1,0,-1,\n",
    "docs/develop/developing.md": "Derivations, and how: [rule](../../kernels/rule/README.md).\n",
}


def found(files, without=()):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in {**REGISTRIES, **files}.items():
            if name not in without:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
        return list(check_docs.problems(root))


TARGET = "# A page\n\n## On a `GPU`, and `task.full_state`\n\n## Twice\n\n## Twice\n\n```\n## In code\n```\n"
WIDE = "x " * 60 + "x"
FINE = [
    "[page](docs/page.md) and [itself](#heading)\n# Heading\n",
    "[anchor](docs/page.md#on-a-gpu-and-taskfull_state) [second](docs/page.md#twice-1)",
    "[elsewhere](https://example.org/missing.md) [folder](docs) [mail](mailto:a@b.c)",
    "`[code](missing.md)`\n\n```\n[code](missing.md)\n```\n",
    "[![picture](docs/page.md)](docs/page.md)",
]
BROKEN = [
    "[page](docs/missing.md)",
    "[anchor](docs/page.md#missing)",
    "[anchor](docs/page.md#in-code)",
    "[anchor](docs/page.md#twice-2)",
    "[anchor](#missing)",
    "![picture](missing.png)",
    "[![picture](missing.png)](docs/page.md)",
    "[outside](../../etc/passwd)",
    "[anchor of a file that is no page](envs/all_tasks.h#missing)",
]

assert found({}) == []
for text in FINE:
    assert found({"README.md": text, "docs/page.md": TARGET}) == [], text
for text in BROKEN:
    assert len(found({"README.md": "\n" + text, "docs/page.md": TARGET})) == 1, text
    assert found({"README.md": "\n" + text, "docs/page.md": TARGET})[0].startswith("README.md:2: link to "), text
assert found({"build/a.md": BROKEN[0], ".hidden/a.md": BROKEN[0]}) == []

assert found({"docs/page.md": WIDE + "\n"})[0].startswith("docs/page.md:1: 121 columns")
for text in (WIDE[:-1], "| " + WIDE, "```\n" + WIDE + "\n```", "x" * 100 + " https://example.org/" + "x" * 30):
    assert found({"docs/page.md": text + "\n", "docs/figures/reports/a.md": WIDE, "kernels/README.md": WIDE}) == [], text

for page in ("docs/tasks/maze.md", "docs/tasks/match.md", "docs/backbones/gru.md", "docs/backbones/none.md",
             "docs/learners/td.md"):
    assert len(found({}, without=[page])) == 1 and page in found({}, without=[page])[0], page
assert len(found({"envs/all_tasks.h": "using AllTasks = TypeList<Maze, Lost>;\n"})) == 1
assert len(found({"envs/all_tasks.h": "\n"})) == 1

LISTS = [
    ("docs/use/guarantees.md", "run.steps", "A resumed run may change `run.threads`.\n"),
    ("docs/learners/README.md", "match", "Truncated episodes bootstrap.\n\n`match`\n"),
    ("docs/develop/developing.md", "rule", "[rule](../../kernels/rule/README.md)\n"),
]
for page, name, text in LISTS:
    problems = found({page: text})
    assert len(problems) == 1 and problems[0].startswith(page) and f"lacks ['{name}']" in problems[0], (page, problems)
assert "['run.threads'] beside" in found({LISTS[0][0]: LISTS[0][2]})[0]

data = REGISTRIES["experiments/report/published_popgym.csv"]
for wrong in (data.replace("0.5,0.1", "0.5,0.2"), data.replace("LMU", "TCN"), data + "match_easy,2,0,2,\n"):
    problems = found({"experiments/report/published_popgym.csv": wrong})
    assert problems and all("docs/compare/published.md has" in problem for problem in problems), problems
print("every problem was found")
