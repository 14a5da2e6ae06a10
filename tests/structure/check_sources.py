"""Fails on an #include against the directions that the folders may depend on each other, on a name of the standard
library whose header is not included, on a comment that a reformatting has broken, on overgrown files, on what only one
file may do, and on names that two files would define where they are compiled together.

    check_sources.py ROOT
"""

import pathlib
import re
import sys

import anonymous_names
import standard_headers

# folder -> what its files may include, folders or single headers; a folder may always include itself
ALLOWED = {
    "base": set(),
    "kernels": {"base"},
    "envs": {"kernels/common/cuda_support.h", "kernels/common/early_launch.h", "base"},
    "nn": {"kernels", "base"},
    "ranks": {"base"},
    "storage": {"nn/device/device.h", "base"},
    "memory": {"nn", "kernels", "base"},
    "agents": {"memory", "nn", "ranks", "storage", "envs", "kernels", "base"},
    "experiments": {"agents", "memory", "nn", "storage", "envs", "base"},
    "video": {"envs", "base"},
    "films": {"agents", "memory", "video", "envs", "base"},
    "apps": {"experiments", "agents", "films", "video", "envs", "memory", "nn", "ranks", "storage", "kernels/common/cuda_support.h", "base"},
    "python": {"experiments", "agents", "films", "video", "envs", "memory", "nn", "ranks", "storage", "kernels/common/cuda_support.h", "base"},
}
# Held to all but the directions.
OTHER_FOLDERS = ("examples", "tests")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".inc"}
MAX_LINES = 600
MAX_COLUMNS = 120
# A line of a comment has been broken where its sentence goes on below and the next word would have fitted this well.
SPARE_COLUMNS = 12

# what only one file may do -> that file, and why
ONLY_IN = {
    re.compile(r"\.dump\("): ("base/text/json_text.h", "json_text() takes any bytes, where dump() throws"),
}

INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')
PART = re.compile(r'^#include "([^"]+\.inc)"$', re.MULTILINE)
COMMENT = re.compile(r"(\s*// )(\S.*)")


def included_headers(text):
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield number, match.group(1)


def sources(root, folder):
    """Path, name and text of each."""
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in SUFFIXES:
            yield path, path.relative_to(root), path.read_text(encoding="utf-8")


def direction_problems(root, folder, path, name, text):
    allowed = ALLOWED[folder]
    for number, header in included_headers(text):
        if header.startswith("."):
            yield f"{name}:{number}: includes {header}: headers are named from the root folder"
            continue
        target = header.partition("/")[0] if "/" in header else folder
        if target in ALLOWED and target != folder and not {target, header} & allowed:
            may = ", ".join(sorted(allowed)) or "no other folder"
            yield f"{name}:{number}: includes {header}, but {folder} may include {may}"
        elif (path.parent / header).exists() and not (root / header).exists():
            yield f"{name}:{number}: includes {header}: headers are named from the root folder"


def with_parts(root, text):
    """The text with that of the .inc files that it includes in their place."""
    return PART.sub(lambda match: with_parts(root, (root / match.group(1)).read_text(encoding="utf-8")), text)


def standard_header_problems(root, path, name, text):
    if path.suffix == ".inc":  # a part of the files that include it
        return
    text = with_parts(root, text)
    headers = standard_headers.included(text)
    own = path.with_suffix(".h")
    if path != own and own.exists():
        headers |= standard_headers.included(own.read_text(encoding="utf-8"))
    for header, used in standard_headers.missing(text, headers):
        yield f"{name}: uses {used} without #include <{header}>"


def comment_problems(name, text):
    lines = text.splitlines()
    for number, (line, following) in enumerate(zip(lines, lines[1:]), start=1):
        here, below = COMMENT.fullmatch(line), COMMENT.fullmatch(following)
        if not here or not below or here.group(1) != below.group(1):
            continue
        goes_on = not re.search(r"[.:;!?]\)?$", line) and not below.group(2)[0].isupper()
        if goes_on and len(line) + 1 + len(below.group(2).split()[0]) <= MAX_COLUMNS - SPARE_COLUMNS:
            yield f"{name}:{number}: the comment's sentence goes on below, where this line has room for more of it"


def only_in_problems(name, text):
    for pattern, (only, why) in ONLY_IN.items():
        if str(name) != only:
            for number, line in enumerate(text.splitlines(), start=1):
                if pattern.search(line):
                    yield f"{name}:{number}: is for {only} alone: {why}"


def size_problems(name, text):
    lines = len(text.splitlines())
    if lines > MAX_LINES:
        yield f"{name}: {lines} lines; at most {MAX_LINES} are allowed"


def problems(root):
    for folder in (*ALLOWED, *OTHER_FOLDERS):
        for path, name, text in sources(root, folder):
            if folder in ALLOWED:
                yield from direction_problems(root, folder, path, name, text)
                yield from only_in_problems(name, text)
            yield from standard_header_problems(root, path, name, text)
            yield from comment_problems(name, text)
            yield from size_problems(name, text)
    yield from anonymous_names.problems(root)


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "sources keep their directions and sizes, include what they use, and have whole comments")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
