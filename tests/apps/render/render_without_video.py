"""Built without OpenCV, engram render says so, however it is called.  usage: render_without_video.py ENGRAM"""

from program import refused, scratch_folder

scratch_folder()
for arguments in ([], ["--help"], ["--policy", "random", "--output", "film.mp4"]):
    refused("render", *arguments, saying="ENGRAM_VIDEO=ON")
