"""Plays tasks with engram play, through pipes and on pseudo-terminals, and replays and films what it records.
usage: play.py ENGRAM"""

import base64
import functools
import json
import os
import re
import resource
import signal
import struct
import subprocess
import termios
import time

import numpy
import safetensors.numpy

import program
from program import ENGRAM, OnTerminal, call, json_lines, refused, scratch_folder, tiny

MATCH = ["visual_match", "--task.explore_steps=2", "--task.distractor_steps=3", "--task.reward_steps=4"]
ALT_SCREEN, FIRST_SCREEN, CURSOR = "\033[?1049h", "\033[?1049l", "\033[?25h"
engram = functools.partial(program.engram, timeout=300)


def wrong_key(task, keys, *arguments, saying):
    """What comes too late to be refused: the game has begun."""
    result = call(ENGRAM, "play", task, *arguments, status=2, input=keys, timeout=300)
    assert result.stderr.startswith("engram: ") and result.stderr.count("\n") == 1, result
    for text in saying:
        assert text in result.stderr, (text, result)


# ---- Through a pipe.


def check_same_as_environment(folder):
    """The episodes of a trace, played again by a person, have the same observations, rewards and success."""
    task = ["--task.explore_steps=2", "--task.distractor_steps=20", "--task.reward_steps=4"]
    engram("train", "run", "--seed=6", *tiny("--task.name=visual_match", *task))
    engram("evaluate", "run", "--episodes=5", "--trace=trace.safetensors")
    trace = safetensors.numpy.load_file(folder / "trace.safetensors")
    starts = trace["episode_starts"][1:]
    actions, rewards = numpy.split(trace["actions"], starts), numpy.split(trace["rewards"], starts)
    keys = "r".join("".join("kjhl"[action] for action in episode) for episode in actions[1:])
    seen = numpy.split(trace["observations"], starts)
    output = engram("play", "visual_match", *task, "--seed=6", "--episode=1", "--record=same.jsonl", input=keys)
    lines = json_lines(folder / "same.jsonl")
    assert len(lines) == 4, len(lines)
    assert sum(abs(episode).sum() for episode in rewards[1:]) > 0, rewards
    for number, line in enumerate(lines, start=1):
        assert line["end"] == "terminated" and line["length"] == 26, line
        assert numpy.array_equal(numpy.float32(line["rewards"]), rewards[number]), number
        bytes_seen = numpy.frombuffer(base64.b64decode(line["obs_b64"]), numpy.uint8).reshape(27, 3, 5, 5)
        assert numpy.array_equal(bytes_seen[:-1], seen[number]), number
        assert numpy.array_equal(bytes_seen[-1], trace["final_observations"][number]), number
        found = re.search(rf"episode {number}: (no )?success, return (\S+) after 26 steps", output)
        assert found and abs(float(found[2]) - rewards[number].sum()) < 1e-4, output
        assert (found[1] is None) == line["success"], output
    shown = [float(text) for text in re.findall(r"^step .* reward (\S+), return", output, re.MULTILINE)]
    assert numpy.allclose(shown, numpy.concatenate([line["rewards"] for line in lines])), shown


def check_pipe(folder):
    # The bit is the third element of the first observation; answering with it is right.
    for episode in range(4):
        output = engram("play", "memory_len_3", f"--episode={episode}", "--record=bit.jsonl", "--force", input="0000")
        line, = json_lines(folder / "bit.jsonl")
        bit = struct.unpack("<f", base64.b64decode(line["obs_b64"])[8:12])[0]
        assert line["success"] == (bit < 0) and line["rewards"][-1] == -bit, line
        assert f"Solved {int(bit < 0)} of 1" in output and "By chance: 50% (one of two answers" in output, output
    # Arrow keys as a terminal sends them, letters and blanks; several episodes, and one that is left.
    output = engram("play", *MATCH, "--record=mine.jsonl", input="\033[A \033[Bh\n\033OD\033[C ljk\n k r kh q kkk")
    first, second = json_lines(folder / "mine.jsonl")
    assert first["actions"] == [0, 1, 2, 2, 3, 3, 1, 0, 0] and first["end"] == "terminated", first
    assert second["actions"] == [0, 2] and second["end"] == "none", second
    assert second["episode"] == first["episode"] and second["environment"] == first["environment"] + 1
    assert "2 episodes are in 'mine.jsonl'" in output and output.count("step ") == 11, output
    assert engram("replay", "mine.jsonl") == "2 episodes, 0 mismatches\n"
    # Numbers, digit by digit.
    engram("play", "count_recall", "--record=count.jsonl", input="01 1 026")
    assert json_lines(folder / "count.jsonl")[0]["actions"] == [1, 10, 26]
    # Nothing played is nothing written.
    assert "is not written" in engram("play", "tmaze", "--record=no.jsonl", input="q")
    assert not (folder / "no.jsonl").exists()


def check_differences(folder):
    line = json_lines(folder / "mine.jsonl")[0]

    def mismatch(**changes):
        (folder / "changed.jsonl").write_text(json.dumps({**line, **changes}) + "\n")
        return engram("replay", "changed.jsonl", status=1)

    seen = bytearray(base64.b64decode(line["obs_b64"]))
    seen[75 * 4 + 3] ^= 1
    text = mismatch(obs_b64=base64.b64encode(seen).decode())
    assert "(changed.jsonl, line 1, visual_match), step 4: observation\n  expected " in text, text
    text = mismatch(rewards=[0, 0, 0, 0, 0, 5, 0, 0, 0])
    assert "step 5: reward\n  expected 5\n  came     0" in text, text
    assert "step 4: observation" in mismatch(actions=[0, 1, 2, 3, 3, 3, 1, 0, 0])
    assert "step 9: success" in mismatch(success=not line["success"])
    assert "1 episode, 1 mismatch" in mismatch(seed=2)
    (folder / "changed.jsonl").write_text(json.dumps({**line, "seed": "two"}) + "\n")
    refused("replay", "changed.jsonl", saying=["line 1: 'seed' is \"two\"; it takes an integer"])


def check_refusals(folder):
    refused("play", saying=["TASK"])
    refused("play", "visual_mach", saying=["unknown task or preset 'visual_mach'", "'visual_match'"])
    refused("play", "tmaze", "--task.explore_steps=3", saying=["task.explore_steps", "tmaze"])
    refused("play", "tmaze", "--task.corridor_length=0", saying=["task.corridor_length", "'0'"])
    refused("play", "tmaze", "--task.name=tmaze", saying=["--task.name"])
    refused("play", "tmaze", "--record=mine.jsonl", saying=["mine.jsonl", "--force"])
    refused("play", "tmaze", "--record=no/where.jsonl", saying=["no/where.jsonl"])
    wrong_key("tmaze", "llx", "--record=lost.jsonl",
              saying=["character 3 of the standard input, 'x', is no key of task tmaze", "up/k: +y", "q: quit"])
    assert json_lines(folder / "lost.jsonl")[0]["actions"] == [0, 0]  # what was played before is not lost
    wrong_key("memory_len_1", "000", saying=["character 3", "after the episode's end; r begins"])
    wrong_key("count_recall", "1", saying=["ends within a number, after '1'"])
    wrong_key("count_recall", "27", saying=["character 2 of the standard input", "count_recall"])


# ---- Films.


def check_film(folder):
    if "--output" not in engram("completion", "bash").partition('"render")')[2].partition(";;")[0]:
        refused("render", "mine.jsonl", "--output=mine.gif", saying=["ENGRAM_VIDEO=ON"])
        return
    output = engram("render", "mine.jsonl", "--output=mine.gif")
    outcome = "success" if json_lines(folder / "mine.jsonl")[0]["success"] else "failure"
    assert output.startswith(f"episode 1: {outcome}, return 0, 9 steps\nepisode 2: left, return 0, 2 steps\n"), output
    assert f" of 2 solved; {9 + 15 + 2 + 15} frames of " in output, output
    assert (folder / "mine.gif").read_bytes()[:6] == b"GIF89a"
    assert "episode 1: left" in engram("render", "mine.jsonl", "--first_episode=1", "--output=one.gif")
    assert "episode 2" not in engram("render", "mine.jsonl", "--episodes=1", "--output=one.gif", "--force")
    refused("render", "mine.jsonl", "--output=no.gif", "--first_episode=2", saying=["has 2 episodes"])
    refused("render", "mine.jsonl", "--output=no.gif", "--policy=random", saying=["--policy", "mine.jsonl"])
    refused("render", "mine.jsonl", "--output=no.gif", "--show-memory", saying=["--show-memory"])
    refused("render", "mine.jsonl", "--output=no.gif", "--task.reward_steps=9", saying=["task.reward_steps"])
    line = json_lines(folder / "mine.jsonl")[0]
    (folder / "changed.jsonl").write_text(json.dumps({**line, "rewards": [1] * 9}) + "\n")
    refused("render", "changed.jsonl", "--output=no.gif", saying=["is not what the rules give", "engram replay"])
    (folder / "changed.jsonl").write_text(json.dumps({**line, "length": 0}) + "\n")
    refused("render", "changed.jsonl", "--output=no.gif", saying=["line 1: 'length' is 0"])
    (folder / "two.jsonl").write_text((folder / "lost.jsonl").read_text() + (folder / "mine.jsonl").read_text())
    refused("render", "two.jsonl", "--output=no.gif", saying=["episode 1 of 'two.jsonl' is of another task"])
    (folder / "golden.jsonl").write_text('{"env": "tmaze"}\n')
    refused("render", "golden.jsonl", "--output=no.gif", saying=["line 1", "layout of its own"])
    assert not (folder / "no.gif").exists()


# ---- On a terminal.


class Player(OnTerminal):
    """Sits at a game."""

    def __init__(self, *arguments, colorterm="", no_color="", **options):
        super().__init__("play", *arguments, TERM="xterm-256color", COLORTERM=colorterm, NO_COLOR=no_color, **options)

    def modes(self):
        return termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO)

    def begin(self):
        self.wait_for(r"step 0 of \d+.*q: quit\033\[K\033\[J")
        assert self.raw.startswith(ALT_SCREEN) and self.modes() == 0, self.raw
        return self

    def type(self, keys, pattern=""):
        os.write(self.master, keys)
        self.wait_for(pattern)

    def finish(self, status):
        """What is on the screen when the program has gone."""
        super().finish(status)
        assert self.raw.count(ALT_SCREEN) == self.raw.count(FIRST_SCREEN), self.raw
        screen, _, after = self.raw.rpartition(FIRST_SCREEN)
        assert screen.endswith(CURSOR) and "\033" not in after, self.raw
        return after

    def quit(self, status=0):
        self.type(b"q")
        return self.finish(status)


def check_terminal(folder):
    player = Player(*MATCH, "--record=typed.jsonl").begin()
    assert "48;5;" in player.raw and "48;2;" not in player.raw, player.raw
    for step, (keys, action) in enumerate([(b"\033[A", "north"), (b"\033[B", "south"), (b"\033OD", "west"),
                                           (b"\033[1;2C", "east"), (b"l", "east")], start=1):
        player.type(keys, rf"step {step} of 9 +{action}: reward 0 .*q: quit")
    player.type(b"x", r"'x' does nothing")
    player.type(b"\033[3~", r"that key does nothing")
    for byte in (b"\033", b"["):  # as a slow line brings them
        os.write(player.master, byte)
        time.sleep(0.05)
    player.type(b"D", r"step 6 of 9 +west")
    player.type(b"hhh", r"The episode is over: (no )?success, return 0 after 9 steps.*\r\nSolved \d of 1")
    player.type(b"l", r"The episode is over")  # no more steps
    player.type(b"r", r"episode 1\).*step 0 of 9")
    player.type(b"jj", r"step 2 of 9")
    after = player.quit()
    assert "Solved" in after and "By chance: 33.3%" in after and "2 episodes are in 'typed.jsonl'" in after, after
    first, second = json_lines(folder / "typed.jsonl")
    assert first["actions"] == [0, 1, 2, 3, 3, 2, 2, 2, 2] and second["actions"] == [1, 1], (first, second)
    assert engram("replay", "typed.jsonl") == "2 episodes, 0 mismatches\n"

    player = Player(*MATCH, colorterm="truecolor").begin()
    assert "48;2;204;204;204m" in player.raw and "48;5;" not in player.raw, player.raw
    player.quit()


def check_colours():
    """What colours mean stands below the board, and without colours letters stand for them."""
    player = Player(*MATCH, "--full").begin()
    plain = re.sub(r"\033\[[0-9;]*m", "", player.raw)
    assert re.search(r"   wall      floor      agent      (red|green|blue)", plain), plain
    player.quit()
    player = Player("minigrid_memory", "--full", colorterm="truecolor", no_color="1").begin()
    screen = player.raw.rpartition("\033[H")[2]
    assert not re.search(r"\033\[[0-9;]*m", screen), screen
    assert re.search(r"# wall   \. floor in sight   .*[>v<^] agent", screen), screen
    board = screen.partition("an agent sees")[2]
    # From a wall's row of the board: the agent stands in its room, and turns to its left.
    heading = re.search(r"# [^\r]*?([>v<^]) ", board)[1]
    turned = {">": "^", "^": "<", "<": "v", "v": ">"}[heading]
    player.type(b"h", rf"# [^\r]*?{re.escape(turned)} .*step 1 of .*q: quit")
    player.quit()


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def check_stops(folder):
    for number, stop in enumerate([lambda player: os.write(player.master, b"\x03"),
                                   lambda player: player.process.send_signal(signal.SIGINT),
                                   lambda player: player.process.send_signal(signal.SIGTERM)]):
        player = Player(*MATCH, f"--record=stop{number}.jsonl").begin()
        player.type(b"kkk", "step 3 of 9")
        stop(player)
        player.finish(143 if number == 2 else 130)
        assert json_lines(folder / f"stop{number}.jsonl")[0]["actions"] == [0, 0, 0]
    # A terminal that goes away, as a lost connection's does.
    player = Player(*MATCH, "--record=lost_line.jsonl").begin()
    player.type(b"kk", "step 2 of 9")
    os.close(player.slave)
    os.close(player.master)
    assert player.process.wait(60) == 129, player.process.returncode
    assert json_lines(folder / "lost_line.jsonl")[0]["actions"] == [0, 0]
    # An error while playing: the file of --record must not grow.
    player = Player(*MATCH, "--record=full.jsonl", prepare=limit_files).begin()
    player.type(b"kkk", "step 3 of 9")
    assert "engram: " in player.quit(1)
    # Ctrl-Z gives the terminal back until the program goes on.
    player = Player(*MATCH).begin()
    os.write(player.master, b"\x1a")
    assert os.WIFSTOPPED(os.waitpid(player.process.pid, os.WUNTRACED)[1])
    assert termios.tcgetattr(player.slave) == player.before
    player.process.send_signal(signal.SIGCONT)
    player.wait_for(r"step 0 of 9")
    assert player.modes() == 0
    player.quit()


def check_sizes():
    player = Player("tmaze", "--full", "--task.corridor_length=90").begin()
    assert re.search(r"No room for the picture of 3 x 91 cells: it takes 92 columns", player.raw), player.raw
    player.set_size(120)
    player.wait_for(r"48;5;\d+m.*q: quit")
    player.quit()
    # On the smallest usual terminal the largest boards and views have room.
    for task in (["visual_match"], ["key_to_door"], ["tmaze"], ["door_key", "--task.size=16"],
                 ["minigrid_memory", "--task.size=17"], ["red_blue_doors", "--task.size=8"], ["umbrella_chain"]):
        player = Player(*task, "--full").begin()
        assert "No room" not in player.raw and "There is more" not in player.raw, (task, player.raw)
        last = player.raw.rpartition("\033[H")[2].split("\r\n")
        assert len(last) <= 24, (task, len(last))
        assert max(len(re.sub(r"\033\[[0-9;]*[mKJ]", "", line).rstrip("\r")) for line in last) < 80, (task, last)
        player.quit()


def check_no_terminal():
    master, slave = os.openpty()
    for output, term in ((subprocess.PIPE, "xterm"), (slave, "dumb")):
        result = subprocess.run([ENGRAM, "play", *MATCH], stdin=slave, stdout=output, text=True, timeout=60,
                                stderr=subprocess.PIPE, env={**os.environ, "TERM": term})
        assert result.returncode == 2 and "through a pipe" in result.stderr, result
    os.close(master)
    os.close(slave)


folder = scratch_folder()
help_text = engram("play", "tmaze", "--help")
for part in ("--full", "--record", "--seed", "--episode", "--task.corridor_length", "engram replay"):
    assert part in help_text, part
check_same_as_environment(folder)
check_pipe(folder)
check_differences(folder)
check_refusals(folder)
check_film(folder)
check_terminal(folder)
check_colours()
check_stops(folder)
check_sizes()
check_no_terminal()
