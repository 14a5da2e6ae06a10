"""engram bench run and act, on a GPU.  usage: bench_gpu.py ENGRAM

Exit status 77 (skipped) where there is no GPU.
"""

import json
import shutil
import subprocess
import sys

ENGRAM = sys.argv[1]

if not shutil.which("nvidia-smi") or subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL).returncode != 0:
    print("skipped: no GPU was found")
    sys.exit(77)

result = subprocess.run([ENGRAM, "bench", "run", "--seconds=6", "--json"], capture_output=True, text=True, timeout=120)
assert result.returncode == 0 and result.stderr == "", result
figures = json.loads(result.stdout)
assert figures["steps"] > 0 and figures["updates"] > 0, figures
shares = [figures[f"share_{part}"] for part in ("acting", "learning", "evaluating", "other")]
assert all(share >= 0 for share in shares) and abs(sum(shares) - 1) < 1e-6, figures

# Any backbone acts: by one kernel a step, or by the network's operations.
for backbone, acting in (("hqlt", "one kernel a step on the GPU"), ("gru", "the network's operations in a CUDA graph")):
    command = [ENGRAM, "bench", "act", f"--memory={backbone}", "--delay=20", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0 and result.stderr == "", result
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["envs"] for line in lines] == [1, 64, 1024, 4096], lines
    for line in lines:
        assert line["backbone"] == backbone and line["acting"] == acting and line["passed"], line
        assert line["environment_steps_per_second"] > 0, line
