"""engram list: one screen, the table of each kind, one entry of each kind, JSON, and names that are not there.
usage: list.py ENGRAM"""

import functools

from program import engram, engram_json, refused, scratch_folder

engram_list = functools.partial(engram, "list", timeout=60)
list_json = functools.partial(engram_json, "list", timeout=60)


def words(text):
    return " ".join(text.split())


scratch_folder()
everything = list_json()
kinds = ["tasks", "presets", "backbones", "learners", "learner_presets"]
assert list(everything) == [kind for kind in kinds if everything.get(kind)] and set(everything) >= set(kinds[:4])
# One screen, with a table of the tasks, a line each, and the names of the backbones; each kind of entries has its own.
screen = engram_list()
assert len(screen.splitlines()) <= 16 + len(everything["tasks"]) and max(map(len, screen.splitlines())) <= 80, screen
tables = {kind: engram_list(kind) for kind in everything}
assert all(entry["name"] in words(screen) for kind in ("tasks", "backbones", "learners") for entry in everything[kind]), screen
assert len(tables["tasks"].splitlines()) == 2 + len(everything["tasks"])  # a line each
assert tables["tasks"].strip() in screen and f" {len(everything['presets'])} published sizes " in words(screen), screen
for kind in everything:
    assert max(map(len, tables[kind].splitlines())) <= 80, tables[kind]
    assert list_json(kind) == {kind: everything[kind]}
    for entry in everything[kind]:
        assert entry["name"] in tables[kind], entry["name"]
        assert len(entry["source"]) > 10, entry
        if kind == "presets" and "_50" not in entry["name"]:  # a few are enough
            continue
        page = engram_list(entry["name"])
        assert entry["name"] in page.splitlines()[0] and words(entry["source"]) in words(page), page
        alone = list_json(entry["name"])
        assert alone == {kind: [entry]}, alone
        if kind in ("presets", "learner_presets"):
            for key, value in entry["values"].items():
                assert f"{key}={value}" in words(page), (key, page)
                assert f"default {value}]" in words(page) or kind == "learner_presets", (key, page)
            continue
        assert f"--{entry['options'][0]['name']}" in page
        for option in entry["options"]:
            assert f"--{option['name']}" in page and option["help"] in words(page), option
            assert f"default {option['default']}]" in words(page), option
for task in everything["tasks"]:
    page = words(engram_list(task["name"]))
    for text in (task["description"], task["memory_demand"], task["chance_source"], ", ".join(task["actions"])):
        assert text in page, text
    for preset in everything["presets"]:
        assert (preset["name"] in page) == (preset["task"] == task["name"]), preset
        if preset["task"] == task["name"]:
            assert all(f"{key}={value}" in page for key, value in preset["values"].items()), preset
    row = next(line for line in screen.splitlines() if line.startswith(task["name"] + " "))
    numbers = task["action_numbers"]  # of a continuous action
    actions = f"{len(numbers)} float" if numbers else str(len(task["actions"]))
    assert f" {task['max_episode_steps']} " in row and f" {actions} " in row, row
    for number in numbers or ():
        assert f"{number['name']} from {number['least']:g} to {number['most']:g}" in page, page
    if task["chance_success"]:
        assert f" {round(100 * task['chance_success'])}% " in row, row
for learner in everything["learners"]:
    page = words(engram_list(learner["name"]))
    assert all(f"{key}={value}" in page for key, value in learner["defaults_elsewhere"].items()), page
    for preset in everything.get("learner_presets", []):
        assert (f" {preset['name']} " in page) == (preset["learner"] == learner["name"]), preset
for backbone in everything["backbones"]:
    page = engram_list(backbone["name"])
    for key in ("parameters", "state_bytes", "multiply_adds_per_step"):
        assert f" {backbone[key]}" in page, (key, page)
    scale = backbone["first_scale"]
    assert ("adds to no residual stream" in words(page)) == (scale is None), page
    assert scale is None or f"at first adds {scale:.2g} to a residual stream" in words(page), (scale, page)
    assert words(backbone["summary"]) in words(page) and words(backbone["summary"]) in words(tables["backbones"])

for name, near in (("tmase", "tmaze"), ("hqtl", "hqlt"), ("tmaze_passive_5o", "tmaze_passive_50"),
                   ("nothing_like_it", "")):
    line = refused("list", name, saying=[f"'{name}'", near])
    assert ("did you mean" in line) == bool(near), line
refused("list", "", saying="''")
