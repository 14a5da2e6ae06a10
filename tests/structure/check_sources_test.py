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
]

for name, line in ALLOWED:
    assert found({name: line + "\n"}) == [], (name, line)
for name, line in REFUSED:
    assert len(found({name: "\n" + line + "\n"})) == 1, (name, line)
    assert found({name: "\n" + line + "\n"})[0].startswith(f"{name}:2: "), (name, line)

assert len(found({"envs/tasks/tmaze.h": '#include "maze.h"\n', "envs/tasks/maze.h": ""})) == 1
assert found({"envs/long.h": "\n" * check_sources.MAX_LINES}) == []
assert len(found({"envs/long.h": "\n" * (check_sources.MAX_LINES + 1)})) == 1
print("every problem was found")
