"""docs/use/what_runs_fast.md is what engram list roads prints.  usage: what_runs_fast.py ENGRAM PAGE"""

import pathlib
import sys

from program import engram, refused, scratch_folder

page = pathlib.Path(sys.argv[2]).resolve()
scratch_folder()
printed = engram("list", "roads", timeout=60)
assert page.read_text() == printed, f"{page} is not what the program prints: engram list roads > {page}"
refused("list", "roads", "--json", saying="has no --json")
