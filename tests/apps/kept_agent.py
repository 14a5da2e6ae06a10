"""The agents in docs/agents still do what docs/delays.md says of them.  usage: kept_agent.py ENGRAM DOCS

The DeltaNet: 93.3% of 1,000 greedy episodes at the delay of 750 that it was trained at; 200 of a kind vary by 1.8
points. The Transformer: 99% of 200."""

import json
import pathlib
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
assert contents() == before, "an agent was written to"
