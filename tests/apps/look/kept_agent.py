"""The agents in docs/agents still do what docs/figures/delays.md says of them.  usage: kept_agent.py ENGRAM DOCS

The DeltaNet: 93.3% of 1,000 greedy episodes at the delay of 750 that it was trained at; 200 of a kind vary by 1.8
points. The Transformer: 99% of 200. And the small ones what docs/agents/README.md says."""

import math
import pathlib
import re
import sys

from program import contents, engram_json

AGENTS = pathlib.Path(sys.argv[2]) / "agents"


def evaluate(agent, *arguments):
    return engram_json("evaluate", AGENTS / agent, *arguments, "--device", "cpu", timeout=300)


def at_250(*arguments):
    return evaluate("visual_match_750", "--task.distractor_steps", "250", "--episodes", "40", *arguments)


before = contents(AGENTS)
found = evaluate("visual_match_750", "--range", "task.distractor_steps: 750,3000", "--episodes", "200")
evaluations = found["evaluations"]
assert [evaluation["value"] for evaluation in evaluations] == [750, 3000], evaluations
for evaluation in evaluations:
    for policy in ("greedy", "sampled"):
        assert 0.87 <= evaluation[policy]["success"] <= 0.98, evaluation

dropping = at_250("--evaluation.dropout", "true")
assert dropping["dropout"] and at_250("--evaluation.dropout", "true") == dropping, dropping
plain = at_250()
assert not plain["dropout"] and plain == at_250("--evaluation.dropout", "false"), plain
assert plain["greedy"] != dropping["greedy"], (plain, dropping)

transformer = evaluate("visual_match_750_transformer", "--episodes", "100")
for policy in ("greedy", "sampled"):
    assert transformer[policy]["success"] >= 0.95, transformer

# Those of configs/small, on 60 episodes: 2.5 standard deviations below what docs/agents/README.md has of 100.
page = (AGENTS / "README.md").read_text()
listed = dict(re.findall(r"\| \[small/(\w+)\].*\| (\d+)% \|", page))
assert set(listed) == {folder.name for folder in (AGENTS / "small").iterdir()}, listed
for task, percent in listed.items():
    said, found = int(percent) / 100, evaluate(f"small/{task}", "--episodes", "60")["greedy"]["success"]
    deviation = math.sqrt(max(said * (1 - said), 0.02) * (1 / 60 + 1 / 100))
    assert found >= said - 2.5 * deviation, (task, said, found)
assert contents(AGENTS) == before, "an agent was written to"
