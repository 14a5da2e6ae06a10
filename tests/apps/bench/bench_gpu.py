"""engram bench run and act, on a GPU.  usage: bench_gpu.py ENGRAM

Exit status 77 (skipped) where there is no GPU.
"""

import json

from program import count_gpus, engram, engram_json, skip

if not count_gpus():
    skip("no GPU was found")

figures = engram_json("bench", "run", "--seconds=6", timeout=120)
assert figures["steps"] > 0 and figures["updates"] > 0, figures
shares = [figures[f"share_{part}"] for part in ("acting", "learning", "evaluating", "other")]
assert all(share >= 0 for share in shares) and abs(sum(shares) - 1) < 1e-6, figures

# Any backbone acts: by one kernel a step, or by the network's operations.
for backbone, acting in (("hqlt", "one kernel a step on the GPU"), ("gru", "the network's operations in a CUDA graph")):
    printed = engram("bench", "act", f"--memory={backbone}", "--delay=20", "--json", timeout=240)
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["envs"] for line in lines] == [1, 64, 1024, 4096], lines
    for line in lines:
        assert line["backbone"] == backbone and line["acting"] == acting and line["passed"], line
        assert line["environment_steps_per_second"] > 0, line
