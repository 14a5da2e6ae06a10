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
    ("apps/train/train.cpp", '#include "agents/act/policy.h"'),
    ("apps/commands/train.cpp", '#include "apps/train.h"'),
    ("agents/act/policy.h", '#include <memory>'),
    ("memory/ops/ops.cpp", '#include "kernels/fast_weights/delta_rule/delta_rule.h"'),
    ("envs/cuda_vec_env.cu", '#include "kernels/common/cuda_support.h"'),
    ("envs/tasks/tmaze.h", '#include "base/rng.h"'),
    ("base/text/json_text.h", 'return json.dump(2);'),
]
REFUSED = [
    ("base/rng.h", '#include "envs/task.h"'),
    ("agents/act/policy.h", '#include "experiments/plan/experiment.h"'),
    ("envs/task.h", '#include "memory/core/sequence_model.h"'),
    ("envs/cuda_vec_env.cu", '#include "kernels/fast_weights/delta_rule/delta_rule.h"'),
    ("envs/tasks/tmaze.h", '  #  include <agents/act/policy.h>'),
    ("kernels/common/cuda_support.h", '#include "envs/task.h"'),
    ("memory/ops/ops.cpp", '#include "agents/act/policy.h"'),
    ("agents/act/policy.h", '#include "apps/train.h"'),
    ("agents/act/policy.h", '#include "video/film.h"'),
    ("video/film.h", '#include "agents/act/policy.h"'),
    ("envs/tasks/tmaze.h", '#include "../task.h"'),
    ("nn/cpu/kernels.inc", '#include "memory/ops/ops.h"'),
    ("apps/list/list.cpp", 'print(json.dump(2));'),
]

for name, line in ALLOWED:
    assert found({name: line + "\n"}) == [], (name, line)
for name, line in REFUSED:
    assert len(found({name: "\n" + line + "\n"})) == 1, (name, line)
    assert found({name: "\n" + line + "\n"})[0].startswith(f"{name}:2: "), (name, line)

assert len(found({"envs/tasks/tmaze.h": '#include "maze.h"\n', "envs/tasks/maze.h": ""})) == 1
assert found({"envs/long.h": "\n" * check_sources.MAX_LINES}) == []
assert len(found({"envs/long.h": "\n" * (check_sources.MAX_LINES + 1)})) == 1

# Names of the standard library, and the headers that declare them.
INCLUDED = [
    {"nn/a.cpp": "#include <cstdint>\n#include <string>\nstd::uint32_t a; std::string b;\n"},
    {"nn/a.cpp": '#include "nn/a.h"\nstd::vector<int> a;\n', "nn/a.h": "#include <vector>\n"},  # its own header
    {"nn/a.cpp": "#include <stdint.h>\nuint32_t a;\n"},
    {"nn/a.cpp": "#include <cstring>\nstd::size_t a;\n"},  # by the standard
    {"nn/a.cpp": "// std::vector\nconst char* a = \"std::vector\"; /* std::vector\n */ char b = '\"'; int c = 1'000;\n"},
    {"nn/a.cpp": "auto a = x.errno; auto b = torch::size_t();\n"},
    {"nn/a.cpp": '#include "nn/a.inc"\n', "nn/a.inc": "#include <array>\nstd::array<int, 2> a;\n"},
    {"nn/a.cpp": '#include <array>\n#include "nn/a.inc"\n', "nn/a.inc": "std::array<int, 2> a;\n"},
]
MISSING = [
    ("nn/a.h", "std::uint32_t a;", "uint32_t without #include <cstdint>"),
    ("kernels/a.cu", "uint32_t a;", "uint32_t without #include <cstdint>"),
    ("kernels/a.cuh", "memcpy(a, b, 4);", "memcpy without #include <cstring>"),
    ("tests/nn/a.cpp", "#include <map>\nstd::ranges::sort(a);", "sort without #include <algorithm>"),
    ("nn/a.cpp", '#include "nn/b.h"\nstd::move(a);', "move without #include <utility>"),
    ("nn/a.cpp", '"" std::optional<int> a; // #include <optional>', "optional without #include <optional>"),
    ("examples/a/a.h", "float a = NAN;", "NAN without #include <cmath>"),
]
for files in INCLUDED:
    assert found(files) == [], files
for name, text, problem in MISSING:
    assert found({name: text + "\n", "nn/b.h": "#include <utility>\n"}) == [f"{name}: uses {problem}"], (name, text)
part = found({"nn/a.cpp": '#include "nn/a.inc"\n', "nn/a.inc": "std::array<int, 2> a;\n"})
assert part == ["nn/a.cpp: uses array without #include <array>"], part

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

# Names in the anonymous namespaces of sources that CMake may compile together.
LIST = "set(more b.cpp)\nengram_sources(target LIBTORCH a.cpp ${more} PLAIN c.cpp)\n"
A = """namespace engram {
namespace {
constexpr int kFirst = 1, kSecond = 2;
struct Point { int x; };
template <class T> int twice(const std::vector<T>& values, int n = 2) { return n; }
}  // namespace
int outside() { return 0; }
}  // namespace engram
"""
APART = [
    "namespace {\nint kSecond = 2;\n}\n",  # in another namespace
    "namespace engram {\nnamespace {\nstruct Point;\nint twice(int n) { int kFirst = n; return kFirst; }\n}\n}\n",
    "namespace engram {\nint outside(int) { return 0; }  // struct Point {}\n}\n",
]
TWICE = [
    ("constexpr int kSecond = 3;", "kSecond"),
    ("class Point {};", "Point"),
    ("template <class T>\nint twice(const std::vector<T>& x, int) {\n  return 0;\n}", "twice(const std::vector<T>&, int)"),
]
for text in APART:
    assert found({"nn/CMakeLists.txt": LIST, "nn/a.cpp": "#include <vector>\n" + A, "nn/b.cpp": text}) == [], text
for text, name in TWICE:
    text = f"#include <vector>\nnamespace engram {{\nnamespace {{\n{text}\n}}\n}}\n"
    files = {"nn/CMakeLists.txt": LIST, "nn/a.cpp": "#include <vector>\n" + A}
    assert found({**files, "nn/c.cpp": text}) == [], text  # of another list
    assert found({**files, "nn/b.cpp": text}) == [
        f"nn/b.cpp: the anonymous namespace of nn/a.cpp defines {name}, too"], (text, found({**files, "nn/b.cpp": text}))
print("every problem was found")
