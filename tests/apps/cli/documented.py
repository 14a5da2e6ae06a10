"""The pages of tasks, backbones and learners have every option that the program has, with its default, and no other; the page of
commands has every command and every section of the settings.

    documented.py ENGRAM DOCS
"""

import pathlib
import re
import sys

from program import engram, engram_json

DOCS = pathlib.Path(sys.argv[2])
TABLE = re.compile(r"^\| option \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
OTHERWISE = re.compile(r"(\S+) \(([^)]*)\)")  # a default of some backbones alone


def documented(page, name=""):
    """Option -> default, by the page's tables. Of a cell `3; 1 (lstm, gru)` the default of the backbone `name`."""
    found = {}
    for table in TABLE.findall(page.read_text()):
        for row in table.splitlines():
            options, defaults = [cell.strip() for cell in row.strip("|").split("|")][:2]
            options = re.findall(r"`([\w.]+)`", options)
            common, *others = defaults.split("; ")
            for default, names in (OTHERWISE.fullmatch(other).groups() for other in others):
                if name in names.split(", "):
                    common = default
            values = common.split(", ") if len(options) > 1 else [common]
            assert len(values) == len(options), f"{page}: {row}"
            found |= zip(options, (value.strip("`") for value in values))
    return found


def check(entry, page, shared=(), linked=()):
    """`shared`: pages whose tables hold for it as far as it has the option; `linked`: where others may be explained."""
    name, defaults = entry["name"], {option["name"]: option["default"] for option in entry["options"]}
    stale = documented(page).keys() - defaults.keys()
    assert not stale, f"{page} has {sorted(stale)}, which {name} does not take"
    for table in (page, *shared):
        for option, default in documented(table, name).items():
            right = defaults.get(option, default)
            assert default == right, f"{table}: {option} of {name} is {right} by default, not {default}"
    missing = defaults.keys() - set().union(*(documented(table) for table in (page, *shared, *linked)))
    assert not missing, f"{page} lacks {sorted(missing)}"


everything = engram_json("list")
for task in everything["tasks"]:
    check(task, DOCS / "tasks" / f"{task['name']}.md")
shared = DOCS / "backbones/README.md"
for backbone in everything["backbones"]:
    page = shared.with_name(f"{backbone['name']}.md")
    linked = {shared.with_name(name) for name in re.findall(r"\]\(([\w+]+\.md)", page.read_text())} - {shared}
    check(backbone, page, [shared], linked)
for learner in everything["learners"]:
    check(learner, DOCS / "learners" / f"{learner['name']}.md", [DOCS / "learners/README.md"])

commands = (DOCS / "use/commands.md").read_text()
names = re.findall(r"^  ([a-z]+)  ", engram("--help"), re.MULTILINE)
assert len(names) > 9, names
for name in names:
    assert f"| [`{name}`](#{name}) |" in commands and f"\n## {name}\n" in commands, name
said = re.search(r"in the sections ([^.]+)\.", commands)[1]
sections = set(re.findall(r"^  --(\w+)\.", engram("train", "--help"), re.MULTILINE))
assert set(re.findall(r"`(\w+)`", said)) == sections, (said, sections)
