"""The tables of docs/figures/ppo.md that show docs/figures/reports/memories_ppo.csv: every memory by PPO, tuned.

    ppo_tables.py                writes the tables into docs/figures/ppo.md, each in place of the one with its header
    ppo_tables.py --check        exit status 1 where docs/figures/ppo.md has other tables than the runs make
    ppo_tables.py --runs FILE    writes the runs of the second table, for `engram compare report`
    ppo_tables.py --both FILE    the same with SAC's, of memories.csv, of the memories that both learners have

A memory has learnt a task where its success is more than half of the way from chance to 1.
"""

import argparse
import collections
import csv

from published_runs import FOLDER, replace_tables, rows_of, write_or_check

PAGE = FOLDER.parent / "ppo.md"
CHANCE = {"tmaze_20": 1 / 2, "tmaze_50": 1 / 2, "visual_match_100": 1 / 3, "key_to_door_60": 0,
          "repeat_first_medium": 1 / 4, "repeat_first_hard": 1 / 4, "repeat_previous_easy": 0,
          "repeat_previous_medium": 0, "autoencode_easy": 0, "memory_len_100": 1 / 2, "minigrid_memory_s11": 1 / 2}
COMPARED = [task for task in CHANCE if task not in ("autoencode_easy", "minigrid_memory_s11")]  # have runs of most memories
RATES = ("3e-4", "1e-3", "3e-3")
COLUMNS = ("task", "backbone", "learner", "seed", "control", "state", "final_success", "sampled_success", "mean_return",
           "environment_steps", "width", "parameters", "state_bytes", "flops_per_step", "mlp_width", "mlp_parameters",
           "mlp_flops_per_step", "evaluations")


def learnt(task, success):
    return success > (1 + CHANCE[task]) / 2


def tries_table(rows):
    """How many memories have learnt each task with each rate, and with the best of the three."""
    found = collections.defaultdict(dict)  # (task, memory) -> rate -> success
    for row in rows:
        if row["state"] == "tuning" and row["control"] == "none":
            rate = row["tuned"].removeprefix("learner.learning_rate = ")
            found[row["task"], row["backbone"]][rate] = float(row["final_success"])
    lines = ["| learning rate | " + " | ".join(f"`{task}`" for task in CHANCE) + " |", "|---|" + "---:|" * len(CHANCE)]
    for name, of in [(rate, (rate,)) for rate in RATES] + [("best of the three", RATES)]:
        numbers = [sum(learnt(task, max(tries[rate] for rate in of)) for (own, _), tries in found.items() if own == task)
                   for task in CHANCE]
        lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    tried = [sum(own == task for own, _ in found) for task in CHANCE]
    return lines + ["| memories tried | " + " | ".join(map(str, tried)) + " |"]


def cell(runs):
    """All seeds, once where they are within five points."""
    if not runs:
        return ""
    values = [100 * value for _, value in sorted(runs)]
    text = f"{sum(values) / len(values):.0f}" if max(values) - min(values) <= 5 else \
        ", ".join(f"{value:.0f}" for value in values)
    return text + (f" (n={len(runs)})" if len(runs) < 3 else "")


def runs_table(rows):
    """Every run's success in %: memories in the order of the tasks that they have learnt, then controls."""
    found = collections.defaultdict(list)
    control = {}
    for row in rows:
        if row["state"] == "finished":
            found[row["backbone"], row["task"]].append((int(row["seed"]), float(row["final_success"])))
            control[row["backbone"]] = row["control"] != "none"

    def place(memory):
        means = {task: sum(value for _, value in found[memory, task]) / len(found[memory, task])
                 for task in COMPARED if found[memory, task]}
        return (control[memory], -sum(learnt(task, mean) for task, mean in means.items()),
                -sum(max(0, mean - CHANCE[task]) / (1 - CHANCE[task]) for task, mean in means.items()), memory)

    lines = ["| memory | learnt | " + " | ".join(f"`{task}`" for task in COMPARED) + " |",
             "|---|---:|" + "---:|" * len(COMPARED)]
    for memory in sorted(control, key=place):
        cells = [cell(found[memory, task]) for task in COMPARED]
        having = sum(bool(text) for text in cells)
        lines.append(f"| `{memory}` | {-place(memory)[1]} of {having} | " + " | ".join(cells) + " |")
    return lines


def write_runs(file, both):
    runs = {"ppo": rows_of("memories_ppo.csv")} | ({"sac": rows_of("memories.csv")} if both else {})
    runs = {learner: [row | {"learner": learner} for row in rows if row["state"] == "finished"]
            for learner, rows in runs.items()}
    memories = set.intersection(*({row["backbone"] for row in rows} for rows in runs.values()))
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS if both else [name for name in COLUMNS if name != "learner"],
                                extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for rows in runs.values() for row in rows
                         if row["task"] in COMPARED and row["backbone"] in memories)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--runs", metavar="FILE")
    parser.add_argument("--both", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.runs or arguments.both:
        write_runs(arguments.runs or arguments.both, both=bool(arguments.both))
        return
    runs = "memories_ppo.csv"
    rows = rows_of(runs)
    write_or_check(PAGE, replace_tables(PAGE, (tries_table(rows), runs_table(rows))), runs, arguments.check)


if __name__ == "__main__":
    main()
