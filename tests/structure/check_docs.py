"""Fails on a relative link of a Markdown page that leads nowhere, on prose wider than 120 columns in README.md and docs/,
on a task or backbone that has no page, where a page lists other names than the sources, and where the page of published
figures has others than the data that reports read.

    check_docs.py ROOT
"""

import csv
import pathlib
import re
import sys
import urllib.parse

MAX_COLUMNS = 120
# Not held to the width: pages that a program writes.
UNWRAPPED = ("docs/figures/reports/",)
SKIPPED_FOLDERS = {"build", "runs"}

FENCE = re.compile(r"\s*(```|~~~)")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(<?([^()<>\s]+)>?\)")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
LISTED = r"using {} =\s*(?:std::)?\w+<([^>]*)>"
NAMED = re.compile(r"struct (\w+)(?:\s*:\s*[\w:<>]+)?\s*\{\s*static constexpr const char\* kName = \"([^\"]+)\"")


def markdown_files(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part in SKIPPED_FOLDERS or part.startswith(".") for part in parts[:-1]):
            yield path


def prose(text):
    """The lines outside of fenced code, with their numbers."""
    fence = None
    for number, line in enumerate(text.splitlines(), start=1):
        if match := FENCE.match(line):
            if fence is None:
                fence = match.group(1)
            elif fence == match.group(1):
                fence = None
        elif fence is None:
            yield number, line


def anchors(text):
    """The names that GitHub gives the headings of a page."""
    found = set()
    for _, line in prose(text):
        if match := HEADING.match(line):
            title = LINK.sub(r"\1", match.group(1)).replace("`", "").replace("*", "")
            name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            count = 0
            unique = name
            while unique in found:
                count += 1
                unique = f"{name}-{count}"
            found.add(unique)
    return found


def targets(line):
    """What the links of a line lead to, that of a picture inside of a link included."""
    for match in LINK.finditer(line):
        yield match.group(2)
        yield from targets(match.group(1))


def link_problems(root, path, text):
    for number, line in prose(text):
        for target in targets(CODE.sub("``", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, anchor = target.partition("#")
            place = (path.parent / urllib.parse.unquote(file)).resolve() if file else path.resolve()
            where = f"{path.relative_to(root)}:{number}: link to {target}"
            if root.resolve() not in (place, *place.parents) or not place.exists():
                yield f"{where}: there is no such file"
            elif anchor and (place.suffix != ".md" or anchor not in anchors(place.read_text(encoding="utf-8"))):
                yield f"{where}: there is no such heading"


def width_problems(root, path, text):
    name = path.relative_to(root).as_posix()
    if not (name == "README.md" or name.startswith("docs/")) or name.startswith(UNWRAPPED):
        return
    for number, line in prose(text):
        unbroken = "](http" in line or "http" in line.strip().split(" ")[-1]
        if len(line) > MAX_COLUMNS and not line.lstrip().startswith("|") and not unbroken:
            yield f"{name}:{number}: {len(line)} columns; at most {MAX_COLUMNS} are allowed"


def registered_names(root, registry, alias, headers):
    """The names of a registry's entries, from the list called `alias` and the structs that it names."""
    listed = re.search(LISTED.format(alias), (root / registry).read_text(encoding="utf-8"))
    entries = re.findall(r"\w+", listed.group(1)) if listed else []
    names = dict(NAMED.findall("".join(path.read_text(encoding="utf-8") for path in sorted(root.glob(headers)))))
    return entries, names


def page_problems(root):
    for registry, alias, headers, folder in (
        ("envs/all_tasks.h", "AllTasks", "envs/tasks/**/*.h", "docs/tasks"),
        ("memory/core/all_backbones.h", "AllBackbones", "memory/**/*.h", "docs/backbones"),
        ("agents/learn/registry.cpp", "AllLearners", "agents/learn/**/*.h", "docs/learners"),
    ):
        entries, names = registered_names(root, registry, alias, headers)
        if not entries:
            yield f"{registry}: the list {alias} was not found"
        for entry in entries:
            if entry not in names:
                yield f"{registry}: the name of {entry} was not found in {headers}"
            elif not (root / folder / f"{names[entry]}.md").exists():
                yield f"{registry}: {names[entry]} has no page {folder}/{names[entry]}.md"


def free_on_resume(root):
    function = re.search(r"^bool may_change_on_resume\(.*?^\}", (root / "agents/run/config/config.cpp").read_text(), re.M | re.S)[0]
    return {key for key in re.findall(r'"([\w.]+)"', function) if not key.endswith(".")}


def truncating_tasks(root):
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "envs/tasks").rglob("*.h"))]
    return {name for text in texts if "End::kTruncated" in text for _, name in NAMED.findall(text)}


def derived_kernels(root):
    return {path.parent.name for path in (root / "kernels").glob("**/*/README.md")}


# Page, words of the paragraph that lists the names, how they stand there, and what they are by the sources.
LISTS = (
    ("docs/use/guarantees.md", "A resumed run may change", r"`(\w+\.\w+)`", free_on_resume),
    ("docs/learners/README.md", "Truncated episodes bootstrap", r"`(\w+)`", truncating_tasks),
    ("docs/develop/developing.md", "Derivations, and how", r"\[(\w+)\]\(\.\./\.\./kernels/", derived_kernels),
)


def list_problems(root):
    for page, words, name, of_sources in LISTS:
        paragraphs = (root / page).read_text(encoding="utf-8").split("\n\n")
        listed = {found for paragraph in paragraphs if words in paragraph for found in re.findall(name, paragraph)}
        known = of_sources(root)
        if listed != known:
            yield (f"{page}: where it says '{words}' it lacks {sorted(known - listed)} of the sources' names and has "
                   f"{sorted(listed - known)} beside them")


PUBLISHED = ("docs/compare/published.md", "experiments/report/published_popgym.csv")


def published_problems(root):
    """The table of the page, a row for each task and three sizes in it, holds what the data has."""
    page, data = ((root / name).read_text(encoding="utf-8") for name in PUBLISHED)
    cells = {}
    for row in csv.DictReader(line for line in data.splitlines() if not line.startswith("#")):
        task, size = row["task"].rsplit("_", 1)
        name = f" ({row['best_memory']})" if row["best_memory"] else ""
        cells.setdefault(task, {})[size] = (f"{row['gru_mean']} ± {row['gru_deviation']}", row["best"] + name)
    expected = {f"| {task} | {' | '.join(gru for gru, _ in sizes.values())} | "
                f"{', '.join(best for _, best in sizes.values())} |" for task, sizes in cells.items()}
    table = page.split("| task | GRU, easy | GRU, medium | GRU, hard |", 1)[-1].split("\n\n")[0]
    found = set(table.splitlines()[2:])
    for line in sorted(expected ^ found):
        here, lacking = (PUBLISHED[0], PUBLISHED[1]) if line in found else (PUBLISHED[1], PUBLISHED[0])
        yield f"{here} has '{line}', {lacking} has not"


def problems(root):
    for path in markdown_files(root):
        text = path.read_text(encoding="utf-8")
        yield from link_problems(root, path, text)
        yield from width_problems(root, path, text)
    yield from page_problems(root)
    yield from list_problems(root)
    yield from published_problems(root)


def main():
    found = list(problems(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "every link leads somewhere, every line fits, every task and backbone has its page, and lists "
          "are those of the sources")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
