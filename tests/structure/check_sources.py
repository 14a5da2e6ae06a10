"""Fails on an #include against the directions that the folders may depend on each other, and on overgrown files.

    check_sources.py ROOT
"""

import pathlib
import re
import sys

# folder -> what its files may include, folders or single headers; a folder may always include itself
ALLOWED = {
    "base": set(),
    "kernels": {"base"},
    "envs": {"kernels/cuda_support.h", "kernels/early_launch.h", "base"},
    "nn": {"kernels", "base"},
    "ranks": {"base"},
    "storage": {"nn/device.h", "base"},
    "memory": {"nn", "kernels", "base"},
    "agents": {"memory", "nn", "ranks", "storage", "envs", "kernels", "base"},
    "experiments": {"agents", "memory", "nn", "storage", "envs", "base"},
    "video": {"envs", "base"},
    "apps": {"experiments", "agents", "video", "envs", "memory", "nn", "ranks", "storage", "kernels/cuda_support.h", "base"},
}
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
MAX_LINES = 600

INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')


def included_headers(text):
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield number, match.group(1)


def problems(root):
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root)
            text = path.read_text(encoding="utf-8")
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
            lines = len(text.splitlines())
            if lines > MAX_LINES:
                yield f"{name}: {lines} lines; at most {MAX_LINES} are allowed"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "sources keep their directions and sizes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
