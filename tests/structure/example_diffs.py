"""docs/develop/add_task.diff and docs/develop/add_backbone.diff, which take the headers of examples/own_program into the tree: both apply
in either order and give the same sources, neither needs the other, and a build with both passes the tests over all tasks
and all backbones.

    example_diffs.py GIT CMAKE SOURCE BUILD SCRATCH

The copy is configured like BUILD and lies in SCRATCH as BUILD lies in SOURCE, so that ccache knows what the diffs leave
alone.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

GIT, CMAKE = sys.argv[1:3]
SOURCE, BUILD, SCRATCH = (pathlib.Path(argument).resolve() for argument in sys.argv[3:])
TASK, BACKBONE = SOURCE / "docs/develop/add_task.diff", SOURCE / "docs/develop/add_backbone.diff"
WORDS = {TASK: r"flash_parity|FlashParity", BACKBONE: r"leaky_integrator|LeakyIntegrator"}  # what each is about
HEADERS = {"flash_parity.h": "envs/tasks", "leaky_integrator.h": "memory/backbones/recurrent"}
FOLDERS = ("agents", "apps", "base", "cmake", "envs", "experiments", "films", "kernels", "memory", "nn", "python",
           "ranks", "storage", "tests", "third_party", "video")
# Program -> cases to run, a call of it for each: those over task_names(), and over backbone_names().
TESTS = {"test_envs": ["--source-file=*envs/registry.cpp,*envs/tasks/full_state.cpp,*envs/vec/cpu_vec_env.cpp"],
         "test_memory": ["--source-file=*memory/core/registry.cpp",
                         "--test-case=forward equals repeated step at the width of the experiments*"]}


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"this failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def patched(folder, diffs):
    """Copies the sources to `folder` and applies the diffs in this order. Returns path -> contents."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in FOLDERS:
        shutil.copytree(SOURCE / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for header, place in HEADERS.items():
        shutil.copy2(SOURCE / "examples/own_program" / header, folder / place)
    shutil.copy2(SOURCE / "CMakeLists.txt", folder)
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}  # git: not the repository around it
    for diff in diffs:
        run(GIT, "apply", diff, cwd=folder, env=alone)
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def touched(diff):
    return set(re.findall(r"^\+\+\+ b/(.*)$", diff.read_text(), re.M))


def configure(source, build):
    """With all that is set in BUILD's cache, what has been found and tried included."""
    shutil.copytree(BUILD / "CMakeFiles", build / "CMakeFiles",
                    ignore=lambda folder, names: () if re.search(r"/CMakeFiles/\d[\d.]*", folder) else
                    [name for name in names if not re.fullmatch(r"\d[\d.]*", name)])
    cache = (BUILD / "CMakeCache.txt").read_text()
    cache = cache.replace(str(BUILD), "@build@").replace(str(SOURCE), str(source)).replace("@build@", str(build))
    (build / "CMakeCache.txt").write_text(cache)
    run(CMAKE, "-S", source, "-B", build)


both = patched(SCRATCH / "backbone_first", [BACKBONE, TASK])
assert patched(SCRATCH / "sources", [TASK, BACKBONE]) == both, "the order of the diffs matters"
shutil.rmtree(SCRATCH / "backbone_first")
for diff, other in ((TASK, BACKBONE), (BACKBONE, TASK)):
    shared = touched(diff) & touched(other)
    assert not shared, f"both diffs touch {shared}"
    assert not re.search(WORDS[other], diff.read_text()), f"{diff.name} speaks of what {other.name} adds"

sources = SCRATCH / "sources"
build = sources / (BUILD.relative_to(SOURCE) if BUILD.is_relative_to(SOURCE) else "build")
configure(sources, build)
run(CMAKE, "--build", build, "--parallel", str(len(os.sched_getaffinity(0))), "--target", *TESTS)
for program, cases in TESTS.items():
    path = build / "tests" / program.removeprefix("test_") / program
    for chosen in cases:
        print(run(path, chosen, "--minimal"), end="")
        print(f"{program}: {run(path, '--list-test-cases', chosen).splitlines()[-1]}")
shutil.rmtree(sources)
