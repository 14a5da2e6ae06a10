"""Makes C++ of kernels' sources, for tests without a GPU (cuda_on_cpu.h).

    translate.py ROOT FOLDER    writes ROOT/kernels with its folders into FOLDER, each .cu as .cpp

Launches become calls, dynamic shared memory a pointer, and code is that of a GPU of compute capability 9.0 where it
asks. Files that have not changed are left as they are.
"""

import pathlib
import re
import sys

AS_THEY_ARE = ("common/fast_math.h",)  # chooses between a GPU's instructions and the standard library
REPLACED = ("common/instructions.cuh", "common/early_launch.h")  # by those of include/
LAUNCH = re.compile(r"([\w:]+(?:<[^;{}=]*?>)?)\s*<<<(.*?)>>>\(", re.DOTALL)
DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?([\w:]+(?: char)?) (\w+)\[\];")


def end_of_call(text, begin):
    """The place behind the parenthesis that closes the one before `begin`."""
    depth = 1
    while depth > 0:
        depth += {"(": 1, ")": -1}.get(text[begin], 0)
        begin += 1
    return begin


def with_calls(text):
    """kernel<<<grid, ...>>>(arguments) as Start(grid, ...)([&] { kernel(arguments); })"""
    while launch := LAUNCH.search(text):
        end = end_of_call(text, launch.end())
        arguments = text[launch.end():end]
        text = (text[:launch.start()] + f"::engram::on_cpu::Start({launch[2]})([&] {{ {launch[1]}({arguments}; }})" +
                text[end:])
    return text


def translated(text):
    text = DYNAMIC.sub(r"auto* const \2 = reinterpret_cast<\1*>(::engram::on_cpu::shared_memory());", text)
    return with_calls(text).replace("defined(__CUDA_ARCH__)", "1").replace("__CUDA_ARCH__", "900")


def main():
    root, folder = pathlib.Path(sys.argv[1]) / "kernels", pathlib.Path(sys.argv[2])
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cuh", ".cu") or name in REPLACED:
            continue
        text = path.read_text()
        if name not in AS_THEY_ARE:
            text = translated(text)
        target = folder / "kernels" / name
        if path.suffix == ".cu":
            target = target.with_suffix(".cpp")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


if __name__ == "__main__":
    main()
