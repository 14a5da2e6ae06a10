"""check_sources.py finds each kind of problem in a made-up tree, and none in a tree without."""

import contextlib
import pathlib
import tempfile

import check_sources


@contextlib.contextmanager
def tree(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        yield root


def found(files):
    with tree(files) as root:
        return list(check_sources.problems(root))


ALLOWED = [
    ("apps/train.cpp", '#include "agents/policy.h"'),
    ("apps/commands/train.cpp", '#include "apps/train.h"'),
    ("agents/policy.h", '#include <memory>'),
    ("memory/ops.cpp", '#include "kernels/delta_rule/delta_rule.h"'),
    ("envs/cuda_vec_env.cu", '#include "kernels/cuda_support.h"'),
    ("envs/tasks/tmaze.h", '#include "base/rng.h"'),
    ("base/json_text.h", 'return json.dump(2);'),
]
REFUSED = [
    ("base/rng.h", '#include "envs/task.h"'),
    ("agents/policy.h", '#include "experiments/experiment.h"'),
    ("envs/task.h", '#include "memory/sequence_model.h"'),
    ("envs/cuda_vec_env.cu", '#include "kernels/delta_rule/delta_rule.h"'),
    ("envs/tasks/tmaze.h", '  #  include <agents/policy.h>'),
    ("kernels/cuda_support.h", '#include "envs/task.h"'),
    ("memory/ops.cpp", '#include "agents/policy.h"'),
    ("agents/policy.h", '#include "apps/train.h"'),
    ("agents/policy.h", '#include "video/film.h"'),
    ("video/film.h", '#include "agents/policy.h"'),
    ("envs/tasks/tmaze.h", '#include "../task.h"'),
    ("nn/cpu/kernels.inc", '#include "memory/ops.h"'),
    ("apps/list.cpp", 'std::cout << json.dump(2);'),
]

for name, line in ALLOWED:
    assert found({name: line + "\n"}) == [], (name, line)
for name, line in REFUSED:
    assert len(found({name: "\n" + line + "\n"})) == 1, (name, line)
    assert found({name: "\n" + line + "\n"})[0].startswith(f"{name}:2: "), (name, line)

assert len(found({"envs/tasks/tmaze.h": '#include "maze.h"\n', "envs/tasks/maze.h": ""})) == 1
assert found({"envs/long.h": "\n" * check_sources.MAX_LINES}) == []
assert len(found({"envs/long.h": "\n" * (check_sources.MAX_LINES + 1)})) == 1

# A line that ends early, in the middle of a sentence.
FULL = "  // " + "word " * 23
WHOLE = [
    FULL + "\n  // goes on and ends\n  // Another one begins, and then\n  int code;\n",
    FULL + "\n  // " + "x" * 20 + "\n",  # does not fit above
    "// An item:\n// what follows is a list,\n//   of items\n// and so on.\n",
    "// It ends.\n// another begins\n",
]
BROKEN = FULL + "\n  // has been\n  // broken here, and goes on.\n"
for text in WHOLE:
    assert found({"tests/envs/long.cpp": text}) == [], text
for name in ("tests/envs/long.cpp", "envs/long.cu", "nn/cpu/kernels.inc", "examples/own_program/task.h"):
    problems = found({name: BROKEN})
    assert len(problems) == 1 and problems[0].startswith(f"{name}:2: the comment's sentence goes on below"), problems
print("every problem was found")
