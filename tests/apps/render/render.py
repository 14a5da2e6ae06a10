"""Films random and trained agents, and checks what engram render prints, writes and refuses.
usage: render.py ENGRAM"""

import functools
import re

import numpy
import safetensors.numpy

import program
from program import engram_json, json_lines, refused, scratch_folder, tiny, with_changes

SHORT_TASK = ["--task.name=visual_match", "--task.explore_steps=2", "--task.distractor_steps=3",
              "--task.reward_steps=4"]
RANDOM = ["render", "--policy=random", *SHORT_TASK]
TINY = tiny(*with_changes(SHORT_TASK, "--task.distractor_steps=20"))
engram = functools.partial(program.engram, timeout=300)
# Offset and bytes.
MAGIC = {".mp4": (4, b"ftyp"), ".webm": (0, b"\x1a\x45\xdf\xa3"), ".avi": (0, b"RIFF"), ".gif": (0, b"GIF89a")}


def check_report(report, output, episodes, steps, fps):
    """One line an episode, then how many were solved and what was written."""
    lines = report.splitlines()
    assert len(lines) == episodes + 1, report
    solved = 0
    for number, line in enumerate(lines[:-1], start=1):
        match = re.fullmatch(rf"episode {number}: (success|failure), return (\S+), {steps} steps", line)
        assert match, line
        solved += match[1] == "success"
        float(match[2])
    frames = episodes * (steps + -(-3 * fps // 2))  # the last moment stands for a second and a half
    last = rf"{solved} of {episodes} solved; {frames} frames of \d+ x \d+ in {re.escape(output)}"
    assert re.fullmatch(last, lines[-1]), lines[-1]


def check_random(folder):
    for suffix, (offset, magic) in MAGIC.items():
        name = "random" + suffix
        report = engram(*RANDOM, "--output", name, "--episodes=2")
        check_report(report, name, 2, 9, 10)
        assert (folder / name).read_bytes()[offset:offset + len(magic)] == magic, name
    first = engram(*RANDOM, "--output=again.mp4", "--episodes=2", "--fps=5", "--scale=2")
    check_report(first, "again.mp4", 2, 9, 5)
    before = (folder / "again.mp4").read_bytes()
    refused(*RANDOM, "--output=again.mp4", "--episodes=1", saying=["overwrite 'again.mp4'", "--force"])
    engram(*RANDOM, "--output=again.mp4", "--episodes=1", "--force")
    assert (folder / "again.mp4").read_bytes() != before
    engram("render", "--policy", "random", "--task.preset=tmaze_passive_50", "--output=corridor.mp4",
           "--episodes=1")
    assert not list(folder.glob(".*"))


def check_same_episodes(folder):
    """Episode N of a film is episode N of an evaluation: greedy by its trace, sampled by its figures."""
    engram("evaluate", "run", "--episodes=70", "--device=cpu", "--trace=trace")
    trace = safetensors.numpy.load_file(folder / "trace")
    returns = [part.sum(dtype=float) for part in numpy.split(trace["rewards"], trace["episode_starts"][1:])]
    filmed = re.compile(r"^episode \d+: (success|failure), return (\S+), ", re.MULTILINE)
    for first in 0, 62:  # to the 65th, which is an environment's second
        report = engram("render", "run", "--output=same.gif", "--force", f"--first-episode={first}", "--episodes=4")
        found = filmed.findall(report)
        assert len(found) == 4 and len({total for _, total in found}) > 1, report
        for number, (outcome, total) in enumerate(found, start=first):
            assert (outcome == "success") == bool(trace["successes"][number]), (number, report)
            assert abs(float(total) - returns[number]) < 1e-4, (number, report, returns[number])
    evaluated = engram_json("evaluate", "run", "--episodes=5", "--device=cpu")["sampled"]
    report = engram("render", "run", "--output=same.gif", "--force", "--policy=sample", "--episodes=5")
    found = filmed.findall(report)
    assert sum(outcome == "success" for outcome, _ in found) == round(5 * evaluated["success"]), (report, evaluated)
    assert abs(sum(float(total) for _, total in found) / 5 - evaluated["return"]) < 1e-4, (report, evaluated)


def check_trained(folder):
    engram("train", "--run=run", *TINY)
    for arguments in ([], ["--weights=last"], ["--policy=sample"], ["--policy=random"], ["--first-episode=7"]):
        check_report(engram("render", "run", "--output=film.mp4", "--force", *arguments), "film.mp4", 3, 26, 10)
    # An animated picture stays small, and what the memory does is filmed beside everything else.
    check_report(engram("render", "run", "--output=film.gif"), "film.gif", 3, 26, 10)
    # Some 2.5 KB for each of the 3 x 27 pictures, as only what changes is written.
    assert (folder / "film.gif").stat().st_size < 3 * 27 * 3_000, (folder / "film.gif").stat().st_size
    for backbone in ("hqlt", "transformer", "deltanet", "lstm", "shm", "none"):
        engram("train", f"--run={backbone}", *with_changes(TINY, f"--memory.name={backbone}"))
        if backbone == "none":
            refused("render", "none", "--output=new.mp4", "--show-memory", saying=["'none' has no memory"])
            continue
        sizes = []
        for option in ([], ["--show-memory"]):
            report = engram("render", backbone, "--output=memory.gif", "--force", *option)
            check_report(report, "memory.gif", 3, 26, 10)
            sizes.append([int(size) for size in re.search(r"of (\d+) x (\d+) in", report).groups()])
        assert sizes[1][0] == sizes[0][0] and sizes[1][1] > sizes[0][1] + 40, sizes
    check_outcomes(folder)


EPISODE = re.compile(r"episode (\d+): (success|failure), return (\S+), (\d+) steps(.*)")
SUMMARY = re.compile(r"(.+); (\d+) frames of .*")


def filmed(*arguments):
    """The lines of episodes, as tuples, and of the summary its beginning and the number of frames."""
    *episodes, summary = engram("render", *arguments, "--output=film.gif", "--force").splitlines()
    found = SUMMARY.fullmatch(summary)
    return [EPISODE.fullmatch(line).groups() for line in episodes], found[1], int(found[2])


def check_outcomes(folder):
    """--only films those episodes of the same sequence that end so, and says which they are."""
    # One of two answers, of which each is right as often.
    engram("train", "--run=chain", *tiny("--task.name=memory_chain", "--task.memory_length=3"))
    everything, _, _ = filmed("chain", "--episodes=40", "--policy=sample")
    outcomes = [outcome for _, outcome, *_ in everything]
    assert 2 <= outcomes.count("success") < 38, outcomes
    for only, outcome in (("failures", "failure"), ("successes", "success")):
        expected = [i for i, found in enumerate(outcomes) if found == outcome][:2]
        episodes, summary, _ = filmed("chain", f"--only={only}", "--episodes=2", "--policy=sample")
        assert [line[1:4] for line in episodes] == [everything[i][1:4] for i in expected], (episodes, expected)
        assert summary == f"2 of 2 {only} found in {expected[1] + 1} episodes", summary
        assert all(line[4] == "" for line in episodes), episodes  # drawn actions are not found again by the number
    # Greedy ones are.
    greedy, _, _ = filmed("chain", "--episodes=1", "--first_episode=5")
    only = "failures" if greedy[0][1] == "failure" else "successes"
    episodes, summary, _ = filmed("chain", "--episodes=1", "--first_episode=5", f"--only={only}")
    assert episodes == [(*greedy[0][:4], "; --first_episode 5")] and summary == f"1 of 1 {only} found in 1 episode"
    # There may be fewer than asked for, or none.
    engram("play", "memory_len_1", "--record=bits.jsonl", "--force", input="r".join(["00"] * 6), saying=None)
    solved = [line["success"] for line in json_lines(folder / "bits.jsonl")]
    assert 0 < sum(solved) < 6, solved
    episodes, summary, _ = filmed("bits.jsonl", "--only=successes", "--episodes=6")
    assert summary == f"{sum(solved)} of 6 successes found in 6 episodes" and len(episodes) == sum(solved), summary
    assert [line[4] for line in episodes] == [f"; --first_episode {i}" for i in range(6) if solved[i]], episodes
    lines = (folder / "bits.jsonl").read_text().splitlines(keepends=True)
    (folder / "solved.jsonl").write_text("".join(line for line, success in zip(lines, solved) if success))
    refused("render", "solved.jsonl", "--output=new.gif", "--only=failures",
            saying=["--only failures", "none in 'solved.jsonl'"])
    refused("render", "--policy=random", "--task.name=memory_maze", "--task.max_steps=50",
            "--output=new.gif", "--only=successes", saying=["--only successes", "none in 1000 episodes", "new.gif"],
            timeout=300)


def check_lengths():
    """A long episode's film is short, and can begin where it matters."""
    long = ["--policy=random", "--task.name=tmaze", "--task.corridor_length=749", "--episodes=1"]
    for options, seconds, fps in (([], 20, 10), (["--fps=30"], 20, 30), (["--seconds=5"], 5, 10)):
        (episode,), _, frames = filmed(*long, *options)
        stride = int(re.fullmatch(r", a frame every (\d+) steps", episode[4])[1])
        assert episode[3] == "750", episode
        assert frames <= seconds * fps < frames + stride + 0.3 * seconds * fps, (options, frames)
        assert frames == -(-750 // stride) + -(-3 * fps // 2), (frames, stride)
    (episode,), _, frames = filmed(*long, "--seconds=1000")
    assert episode[4] == "" and frames == 750 + 15, (episode, frames)
    # The decision is the last step; without a reward the film begins before the end, too.
    for task in (long, ["--policy=random", "--task.name=memory_maze", "--task.max_steps=750", "--episodes=1"]):
        (episode,), _, frames = filmed(*task, "--skip-to=reward")
        start = int(re.match(r", from step (\d+)", episode[4])[1])
        assert start == 740 and frames == 10 + 15 if task is long else start <= 740, (episode, frames)
    (episode,), _, frames = filmed("run", "--skip-to=reward", "--episodes=1")
    start = int(re.fullmatch(r", from step (\d+)", episode[4])[1])
    assert 22 - 10 < start <= 26 - 10 and frames == 26 - start + 15, (episode, frames)


def check_refusals(folder):
    refused("render", saying=["DIR"])
    refused("render", *SHORT_TASK, "--output=new.mp4", saying=["--task.name", "DIR", "--policy random"])
    refused("render", "run", saying=["--output"])
    refused("render", "nowhere", "--output=new.mp4", saying=["nowhere"])
    refused("render", "nowhere", "--policy=random", "--output=new.mp4", saying=["nowhere"])
    refused("render", "run", "--task.reward_steps=9", "--output=new.mp4",
            saying=["task.reward_steps", "run"])
    refused(*RANDOM, "--output=new.mov", saying=[".mov", ".mp4, .webm, .avi, .gif"])
    refused(*RANDOM, "--output=new", saying=["new", ".mp4, .webm, .avi, .gif"])
    refused(*RANDOM, "--output=new.gif", "--fps=60", saying=["new.gif", "at most 50", "60"])
    refused(*RANDOM, "--output=new.mp4", "--show-memory", saying=["--show-memory", "random"])
    refused(*RANDOM, "--output=new.mp4", "--only=best", saying=["only", "best", "failures"])
    refused(*RANDOM, "--output=new.mp4", "--skip-to=end", saying=["skip-to", "end", "reward"])
    refused(*RANDOM, "--output=new.mp4", "--seconds=0", saying=["seconds", "0"])
    refused(*RANDOM, "--output=no/folder/new.mp4", saying=["no/folder"])
    refused(*RANDOM, "--output=/proc/new.mp4", saying=["/proc/new.mp4"])
    refused(*RANDOM, "--output=new.mp4", "--fps=0", saying=["fps", "0"])
    refused(*RANDOM, "--output=new.mp4", "--scale=9", saying=["scale", "9"])
    refused(*RANDOM, "--output=new.mp4", "--episodes=none", saying=["episodes", "none"])
    refused("render", *SHORT_TASK, "--output=new.mp4", "--policy=best", saying=["policy", "best", "greedy"])
    refused(*RANDOM, "--output=new.mp4", "--task.penalty=1", saying=["task.penalty", "visual_match"])
    refused(*RANDOM, "--output=new.mp4", "--run.steps=1", saying=["run.steps"])
    weights = folder / "run/weights/best.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    refused("render", "run", "--output=new.mp4", saying=["best.safetensors", "damaged"])


folder = scratch_folder()
help_text = engram("render", "--help")
for part in ("--output", "--fps", "--policy", "--task.name", ".webm", "default"):
    assert part in help_text, part
check_random(folder)
check_trained(folder)
check_lengths()
check_same_episodes(folder)
check_refusals(folder)
