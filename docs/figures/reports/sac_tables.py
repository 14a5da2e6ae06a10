"""The tables of docs/figures/sac.md, which show docs/figures/reports/memories_sac.csv: every memory by SAC, each with a
learning rate of its own, beside SAC with one rate for all (memories.csv) and PPO (memories_ppo.csv).

    sac_tables.py                writes the tables into the page, each in place of the one with its header
    sac_tables.py --check        exit status 1 where the page has another table than the runs make
    sac_tables.py --both FILE    writes the runs of all three that share memories and tasks, as three learners, for
                                 `engram compare report`
"""

import argparse
import statistics

from ppo_tables import by_place, cell, compared, learnt, mean_success, tries_table, write_runs
from published_runs import FOLDER, replace_tables, rows_of, write_or_check

PAGE = FOLDER.parent / "sac.md"
TASKS = ("tmaze_20", "tmaze_50", "visual_match_100", "key_to_door_60", "repeat_previous_easy", "memory_len_100")
RUNS = {"sac": "memories_sac.csv", "sac_one_rate": "memories.csv", "ppo": "memories_ppo.csv"}


def means_table(found):
    """Mean success in % of the memories that all learners have, and how many of them have learnt each task."""
    memories = set.intersection(*({memory for memory, _ in places} for places in found.values()))
    lines = [f"| mean success of {len(memories)} memories, %; learnt by | " + " | ".join(f"`{task}`" for task in TASKS) + " |",
             "|---|" + "---:|" * len(TASKS)]
    for learner, name in (("sac", "SAC, a rate for each"), ("sac_one_rate", "SAC, one rate"), ("ppo", "PPO, a rate for each")):
        cells = []
        for task in TASKS:
            means = [mean_success(found[learner][memory, task]) for memory in memories]
            cells.append(f"{100 * statistics.mean(means):.0f}; {sum(learnt(task, mean) for mean in means)}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def runs_table(found, controls):
    """Success in % of every run, memories in the order of the tasks that they have learnt, then controls."""
    own = found["sac"]
    order = sorted({memory for memory, _ in own}, key=lambda memory: (
        memory in controls, -sum(learnt(task, mean_success(own[memory, task])) for task in TASKS),
        -sum(mean_success(own[memory, task]) for task in TASKS), memory))
    lines = ["| memory | learnt | " + " | ".join(f"`{task}`" for task in TASKS) + " |",
             "|---|---:|" + "---:|" * len(TASKS)]
    for memory in order:
        cells = []
        for task in TASKS:
            others = [found[learner].get((memory, task)) for learner in ("sac_one_rate", "ppo")]
            means = [f"{100 * mean_success(runs):.0f}" if runs else "-" for runs in others]
            cells.append(f"{cell(own[memory, task])} ({'; '.join(means)})")
        number = sum(learnt(task, mean_success(own[memory, task])) for task in TASKS)
        lines.append(f"| `{memory}` | {number} of {len(TASKS)} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--both", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.both:
        write_runs(arguments.both, RUNS, TASKS)
        return
    runs = {learner: [row for row in compared(rows_of(name)) if row["task"] in TASKS] for learner, name in RUNS.items()}
    found = {learner: by_place(rows) for learner, rows in runs.items()}
    remembering = {learner: by_place(row for row in rows if row["control"] == "none") for learner, rows in runs.items()}
    controls = {row["backbone"] for row in runs["sac"] if row["control"] != "none"}
    tables = (means_table(remembering), tries_table(rows_of(RUNS["sac"]), TASKS), runs_table(found, controls))
    write_or_check(PAGE, replace_tables(PAGE, tables), RUNS["sac"], arguments.check)


if __name__ == "__main__":
    main()
