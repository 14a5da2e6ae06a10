"""engram bench run, on a GPU.  usage: bench_gpu.py ENGRAM

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

result = subprocess.run([ENGRAM, "bench", "run", "--seconds=2", "--json"], capture_output=True, text=True, timeout=60)
assert result.returncode == 0 and result.stderr == "", result
figures = json.loads(result.stdout)
assert figures["steps"] > 0 and figures["updates"] > 0, figures
shares = [figures[f"share_{part}"] for part in ("acting", "learning", "evaluating", "other")]
assert all(share >= 0 for share in shares) and abs(sum(shares) - 1) < 1e-6, figures
