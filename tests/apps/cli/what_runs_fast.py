"""docs/use/what_runs_fast.md is what engram list roads prints.  usage: what_runs_fast.py ENGRAM PAGE"""

import subprocess
import sys
from pathlib import Path

engram, page = sys.argv[1], Path(sys.argv[2])
result = subprocess.run([engram, "list", "roads"], capture_output=True, text=True, timeout=60)
assert result.returncode == 0 and result.stderr == "", result
assert page.read_text() == result.stdout, f"{page} is not what the program prints: engram list roads > {page}"

refused = subprocess.run([engram, "list", "roads", "--json"], capture_output=True, text=True, timeout=60)
assert refused.returncode == 2 and "has no --json" in refused.stderr, refused
