"""Types what docs/start/tutorial.md and then docs/use/weights.md say to type, with fewer steps and seeds. It works, and
prints what stands there but for the figures; budgets are the very ones. What the quickstart does is another test's.

    tutorial.py ENGRAM DOCS
"""

import json
import os
import pathlib
import re
import sys

from program import ENGRAM, call, scratch_folder

DOCS = pathlib.Path(sys.argv[2]).resolve()
FEWER = 25  # times fewer steps of training, and between evaluations
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(\d+[dhms])+\b|-?\d+([.,]\d+)*[kM]?")
STEPS = re.compile(r"(?<![a-z_])((?:every_)?steps(?: = | ))(\d+)")


def shortened(text):
    text = STEPS.sub(lambda match: match[1] + str(int(match[2]) // FEWER), text)
    return text.replace("seeds = 1-5\n", "seeds = 1-2\n")


def fixed_parts(text):
    """Of every line what does not depend on how far an agent has learnt, nor on the machine."""
    return [" ".join(NUMBER.sub("#", line.removesuffix(" (best)")).split()) for line in text.splitlines()]


def cells(text):
    return [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (.*) \|$", text, re.MULTILINE)]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/usr/bin/env bash\n" + text)
    path.chmod(0o755)


class Reader:
    """Sits in the root folder of a clone that has nothing in it."""

    def __init__(self, root):
        self.root = root
        self.printed = self.python = ""
        for place in ("bin/engram", "build/release/engram"):
            (root / place).parent.mkdir(parents=True)
            (root / place).symlink_to(ENGRAM)
        for other in ("apps/scripts/quickstart.sh", "bin/pip", "bin/tensorboard"):
            script(root / other, "")
        self.environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}

    def run(self, *command):
        self.printed = call(*command, env=self.environment, saying=None, timeout=300).stdout

    def read(self, page):
        text = page.read_text()
        for block in BLOCK.finditer(text):
            kind, content = block.groups()
            if kind == "ini":
                name = re.findall(r"`(\w+\.ini)`", text[:block.start()])[-1]
                (self.root / name).write_text(shortened(content))
            elif kind == "sh":
                self.run("bash", "-e", "-c", shortened(content))
            elif kind == "python":
                self.python += content
                self.run(sys.executable, "-c", self.python)
            else:
                assert kind == "text", block[0]
                for line in fixed_parts(content):
                    assert line in ("...", *fixed_parts(self.printed)), f"{page}: {line} is not in\n{self.printed}"


reader = Reader(scratch_folder())
tutorial = DOCS / "start/tutorial.md"
reader.read(tutorial)
reader.read(DOCS / "use/weights.md")
runs, budgets, success = (reader.root / "runs"), [], []
for row in cells(tutorial.read_text()):
    (budgets if len(row) == 4 else success).append(row)
plan = json.loads((runs / "compare/plan.json").read_text())["runs"]
planned = {run["backbone"]: [str(run[key]) for key in ("width", "mlp_width", "parameters")] for run in plan}
assert {backbone: sizes for backbone, *sizes in budgets[1:]} == planned, planned
reported = {row[0]: len(row) for row in cells((runs / "compare/report/report.md").read_text().replace("\\", ""))}
assert len(success) == 6 and all(reported[row[0]] == len(row) for row in success), (success, reported)
assert "name = none" in (runs / "mine_none/config.ini").read_text()
