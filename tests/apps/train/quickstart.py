"""Runs apps/scripts/quickstart.sh with the program as it is, a set-up and a build that are there already, and configs
that learn nothing or learn fast: its exit status, what it says, and what a second call reuses.
usage: quickstart.py ENGRAM SOURCES"""

import pathlib
import shutil
import sys

from program import ENGRAM, call, scratch_folder

SOURCES = pathlib.Path(sys.argv[2]).resolve()
# A step ahead, then left or right as the sign said; without it chance is one in two.
TASK = "[task]\nname = tmaze\ncorridor_length = 1\n[memory]\nname = gru\nwidth = 16\n[network]\nhidden_width = 32\n"
LEARNS = TASK + ("[learner]\nlearning_rate = 3e-3\ntemperature = learnt\nalpha = 0.05\nalpha_min = 0.0005\n"
                 "target_entropy_fraction = 0.1\n[replay]\nbatch_episodes = 32\n"
                 "[run]\ndevice = cpu\nsteps = 20000\nnum_envs = 4\nrandom_episodes = 300\n"
                 "[evaluation]\nevery_steps = 500\nepisodes = 50\nstop_at_success = 1\n")
LEARNS_BY_PPO = TASK + ("[learner]\nname = ppo\nlearning_rate = 3e-3\niteration_steps = 256\nminibatches = 4\n"
                        "[run]\ndevice = cpu\nsteps = 60000\nnum_envs = 16\n"
                        "[evaluation]\nevery_steps = 2000\nepisodes = 50\nstop_at_success = 1\n")
LEARNS_NOTHING = TASK + "[run]\ndevice = cpu\nsteps = 30\nrandom_episodes = 1\nupdates_per_step = 0\n"


def script(path, text):
    path.write_text("#!/usr/bin/env bash\nset -e\n" + text)
    path.chmod(0o755)


def prepare(root):
    for folder in ("apps/scripts", "configs", "tools"):
        (root / folder).mkdir(parents=True)
    shutil.copy(SOURCES / "apps/scripts/quickstart.sh", root / "apps/scripts")
    script(root / "apps/scripts/setup.sh", f'echo "{root}/tools"\n')
    # Configures, then "builds" the program.
    script(root / "tools/cmake",
           f'[[ $1 != --build ]] || {{ mkdir -p build/release; ln -sf "{ENGRAM}" build/release/engram; }}\n')


def quickstart(root, *arguments, status=0):
    return call("bash", root / "apps/scripts/quickstart.sh", *arguments, status=status, saying=None, timeout=300)


def learns_nothing(root):
    result = quickstart(root, status=1)
    lines = [line for line in result.stderr.splitlines() if line.startswith("quickstart:")]
    assert len(lines) == 1 and "failed, not above chance" in lines[0] and "chance is 50.0%" in lines[0], result.stderr
    assert "quickstart: done" not in result.stdout and "3/5 training: configs" in result.stdout, result.stdout
    assert "1 CPU thread" in result.stdout, result.stdout
    assert not (root / "runs/quickstart/episodes.mp4").exists()


def main(root):
    prepare(root)
    config = root / "configs/small/visual_match.ini"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(LEARNS_NOTHING)
    learns_nothing(root)
    learns_nothing(root)  # not reused

    config.write_text(LEARNS)
    out = quickstart(root).stdout
    assert "quickstart: done in" in out and "unseen episodes solved" in out, out
    assert (root / "runs/quickstart/episodes.mp4").stat().st_size > 1000
    weights = root / "runs/quickstart/weights/best.safetensors"
    first = weights.stat().st_mtime_ns
    assert "training: reused" in quickstart(root).stdout
    assert weights.stat().st_mtime_ns == first
    assert "training: configs" in quickstart(root, "--again").stdout
    assert weights.stat().st_mtime_ns != first

    # The other learner has a folder of its own.
    (root / "configs/tmaze_10_ppo.ini").write_text(LEARNS_BY_PPO)
    first = weights.stat().st_mtime_ns
    assert "quickstart: done in" in quickstart(root, "ppo").stdout
    assert "name = ppo" in (root / "runs/quickstart_ppo/config.ini").read_text()
    assert "training: reused from runs/quickstart_ppo" in quickstart(root, "ppo").stdout
    assert weights.stat().st_mtime_ns == first
    assert "training: reused from runs/quickstart " in quickstart(root, "sac").stdout
    assert "'dqn' is unknown; it takes sac or ppo" in quickstart(root, "dqn", status=2).stderr

    # Another config, which fails: the run that was good is no excuse.
    config.write_text(LEARNS_NOTHING)
    learns_nothing(root)
    assert "'--agian' is unknown" in quickstart(root, "--agian", status=2).stderr


main(scratch_folder())
