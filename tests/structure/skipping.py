"""What ctest makes of skipped cases: a failure beside them wins, and only what is said to need a GPU may be skipped.

    skipping.py CMAKE TEST_SKIPPING SCRATCH
"""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree

CMAKE, PROGRAM, SCRATCH = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
SOURCE = pathlib.Path(__file__).parent / "skipping"

# Entry -> what ctest says of it where the source is said to need a GPU, and where it is not.
EXPECTED = {
    "passing": ("run", "run"),
    "skipped": ("notrun", "fail"),
    "failing": ("fail", "fail"),
    "mixed": ("fail", "fail"),
    "absent": ("fail", "fail"),
}


def statuses(gpu):
    folder = SCRATCH / ("gpu" if gpu else "everywhere")
    subprocess.run([CMAKE, "-S", SOURCE, "-B", folder, f"-DPROGRAM={PROGRAM}", f"-DGPU={'ON' if gpu else 'OFF'}"],
                   check=True, stdout=subprocess.DEVNULL)
    ctest = pathlib.Path(CMAKE).with_name("ctest")
    result = folder / "result.xml"
    result.unlink(missing_ok=True)
    subprocess.run([ctest, "--test-dir", folder, "--output-junit", result], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    cases = xml.etree.ElementTree.parse(result).getroot().iter("testcase")
    return {case.get("name").removeprefix("skipping."): case.get("status") for case in cases}


with_gpu, everywhere = statuses(True), statuses(False)
found = {name: (with_gpu.get(name), everywhere.get(name)) for name in EXPECTED}
assert found == EXPECTED, found
assert with_gpu.keys() == everywhere.keys() == EXPECTED.keys(), with_gpu
print("ctest tells passed, skipped and failed apart")
