"""The agents in docs/agents still do what docs/figures/delays.md says of them.  usage: kept_agent.py ENGRAM DOCS

The DeltaNet: 93.3% of 1,000 greedy episodes at the delay of 750 that it was trained at; 200 of a kind vary by 1.8
points. The Transformer: 99% of 200. And the small ones what docs/agents/README.md says."""

import json
import math
import pathlib
import re
import subprocess
import sys

ENGRAM, DOCS = sys.argv[1], pathlib.Path(sys.argv[2])
AGENT = DOCS / "agents" / "visual_match_750"
TRANSFORMER = DOCS / "agents" / "visual_match_750_transformer"


def contents():
    return sorted((path, path.read_bytes()) for path in (DOCS / "agents").rglob("*") if path.is_file())


before = contents()
result = subprocess.run(
    [ENGRAM, "evaluate", AGENT, "--range", "task.distractor_steps: 750,3000", "--episodes", "200", "--device", "cpu",
     "--json"], capture_output=True, text=True, timeout=300)
assert result.returncode == 0, result
evaluations = json.loads(result.stdout)["evaluations"]
assert [evaluation["value"] for evaluation in evaluations] == [750, 3000], evaluations
for evaluation in evaluations:
    for policy in ("greedy", "sampled"):
        assert 0.87 <= evaluation[policy]["success"] <= 0.98, evaluation


def at_250(*arguments):
    result = subprocess.run(
        [ENGRAM, "evaluate", AGENT, "--task.distractor_steps", "250", "--episodes", "40", "--device", "cpu", "--json",
         *arguments], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


dropping = at_250("--evaluation.dropout", "true")
assert dropping["dropout"] and at_250("--evaluation.dropout", "true") == dropping, dropping
plain = at_250()
assert not plain["dropout"] and plain == at_250("--evaluation.dropout", "false"), plain
assert plain["greedy"] != dropping["greedy"], (plain, dropping)

result = subprocess.run([ENGRAM, "evaluate", TRANSFORMER, "--episodes", "100", "--device", "cpu", "--json"],
                        capture_output=True, text=True, timeout=300)
assert result.returncode == 0, result
for policy in ("greedy", "sampled"):
    assert json.loads(result.stdout)[policy]["success"] >= 0.95, result.stdout

# Those of configs/small, on 60 episodes: 2.5 standard deviations below what docs/agents/README.md has of 100.
page = (DOCS / "agents" / "README.md").read_text()
listed = dict(re.findall(r"\| \[small/(\w+)\].*\| (\d+)% \|", page))
assert set(listed) == {folder.name for folder in (DOCS / "agents" / "small").iterdir()}, listed
for task, percent in listed.items():
    result = subprocess.run([ENGRAM, "evaluate", DOCS / "agents" / "small" / task, "--episodes", "60", "--device", "cpu",
                             "--json"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, (task, result)
    said, found = int(percent) / 100, json.loads(result.stdout)["greedy"]["success"]
    deviation = math.sqrt(max(said * (1 - said), 0.02) * (1 / 60 + 1 / 100))
    assert found >= said - 2.5 * deviation, (task, said, found)
assert contents() == before, "an agent was written to"
