"""Built without OpenCV, engram render says so, however it is called.  usage: render_without_video.py ENGRAM"""

import subprocess
import sys

for arguments in ([], ["--help"], ["--policy", "random", "--output", "film.mp4"]):
    result = subprocess.run([sys.argv[1], "render", *arguments], capture_output=True, text=True, timeout=300)
    assert result.returncode == 2, result
    assert len(result.stderr.splitlines()) == 1 and "ENGRAM_VIDEO=ON" in result.stderr, result.stderr
