"""The tables that show docs/figures/reports/memories_ppo.csv, every memory by PPO, tuned: those of docs/figures/ppo.md,
and of docs/figures/memories.md the one that counts memories by PPO and by SAC (memories.csv).

    ppo_tables.py                writes the tables into their pages, each in place of the one with its header
    ppo_tables.py --check        exit status 1 where a page has another table than the runs make
    ppo_tables.py --both FILE    writes the runs of memories that SAC has, too, with SAC's of memories.csv, for
                                 `engram compare report`

A memory has learnt a task where its success is more than half of the way from chance to 1; a run that diverged counts
with a success of 0, as in a report. Of a seed that not every memory has run to its end in a task nothing is shown
there: runs that learn end first.
"""

import argparse
import collections
import csv

from published_runs import FOLDER, replace_tables, rows_of, write_or_check

PAGE, MEMORIES = FOLDER.parent / "ppo.md", FOLDER.parent / "memories.md"
CHANCE = {"tmaze_20": 1 / 2, "tmaze_50": 1 / 2, "visual_match_100": 1 / 3, "key_to_door_60": 0,
          "repeat_first_medium": 1 / 4, "repeat_first_hard": 1 / 4, "repeat_previous_easy": 0,
          "repeat_previous_medium": 0, "autoencode_easy": 0, "memory_len_100": 1 / 2, "minigrid_memory_s11": 1 / 2}
CARDS = [task for task in CHANCE if task.startswith(("repeat_", "autoencode_"))]
PLACES = [task for task in CHANCE if task not in CARDS]
RATES = ("3e-4", "1e-3", "3e-3")
COLUMNS = ("task", "backbone", "learner", "seed", "control", "state", "failure", "reason", "final_success",
           "sampled_success", "mean_return", "environment_steps", "width", "parameters", "state_bytes", "flops_per_step",
           "mlp_width", "mlp_parameters", "mlp_flops_per_step", "evaluations")


def learnt(task, success, chance=CHANCE):
    return success > (1 + chance[task]) / 2


def tries_table(rows, tasks=CHANCE):
    """How many memories have learnt each task with each rate, and with the best of the three."""
    found = collections.defaultdict(dict)  # (task, memory) -> rate -> success
    for row in rows:
        if row["state"] == "tuning" and row["control"] == "none":
            rate = row["tuned"].removeprefix("learner.learning_rate = ")
            found[row["task"], row["backbone"]][rate] = float(row["final_success"])
    lines = ["| learning rate | " + " | ".join(f"`{task}`" for task in tasks) + " |", "|---|" + "---:|" * len(tasks)]
    for name, of in [(rate, (rate,)) for rate in RATES] + [("best of the three", RATES)]:
        numbers = [sum(learnt(task, max(tries[rate] for rate in of)) for (own, _), tries in found.items() if own == task)
                   for task in tasks]
        lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    tried = [sum(own == task for own, _ in found) for task in tasks]
    return lines + ["| memories tried | " + " | ".join(map(str, tried)) + " |"]


def ended(rows):
    """The runs that finished or diverged."""
    return [row for row in rows if row["state"] == "finished" or
            (row["state"] == "failed" and row["failure"] == "diverged")]


def compared(rows):
    """The runs that ended, of the seeds that all memories have in a task."""
    rows = ended(rows)
    memories = {row["backbone"] for row in rows}
    of_seed = collections.defaultdict(set)
    for row in rows:
        of_seed[row["task"], row["seed"]].add(row["backbone"])
    return [row for row in rows if of_seed[row["task"], row["seed"]] == memories]


def cell(runs):
    """All seeds, once where they are within five points."""
    values = [100 * float(row["final_success"]) for row in runs if row["state"] == "finished"]
    if len(values) == len(runs) and max(values) - min(values) <= 5:
        return f"{sum(values) / len(values):.0f}"
    return ", ".join(f"{100 * float(row['final_success']):.0f}" if row["state"] == "finished" else row["failure"]
                     for row in sorted(runs, key=lambda row: int(row["seed"])))


def mean_success(runs):
    successes = [float(row["final_success"]) if row["state"] == "finished" else 0 for row in runs]
    return sum(successes) / len(successes)


def by_place(rows):
    """(memory, task) -> its runs"""
    found = collections.defaultdict(list)
    for row in rows:
        found[row["backbone"], row["task"]].append(row)
    return found


def learners_table(rows_of_learners):
    """How many memories have learnt each task by each learner, by runs that ended."""
    lines = ["| memories that learn | " + " | ".join(f"`{task}`" for task in CHANCE) + " |", "|---|" + "---:|" * len(CHANCE)]
    for learner, rows in rows_of_learners.items():
        found = by_place(row for row in rows if row["control"] == "none" and row["task"] in CHANCE)
        counts = [sum(learnt(task, mean_success(runs)) for (_, own), runs in found.items() if own == task)
                  for task in CHANCE]
        lines.append(f"| {learner}, of {len({memory for memory, _ in found})} | " + " | ".join(map(str, counts)) + " |")
    return lines


def runs_tables(rows):
    """Success in % of every run compared: memories in the order of the tasks that they have learnt, then controls."""
    found = by_place(rows)
    control = {row["backbone"]: row["control"] != "none" for row in rows}

    def mean(memory, task):
        return mean_success(found[memory, task])

    def number_learnt(memory, tasks):
        return sum(learnt(task, mean(memory, task)) for task in tasks)

    def place(memory):
        return (control[memory], -number_learnt(memory, CHANCE),
                -sum(max(0, mean(memory, task) - CHANCE[task]) / (1 - CHANCE[task]) for task in CHANCE), memory)

    order = sorted(control, key=place)
    tables = []
    for head, of, tasks in (("learnt", CHANCE, PLACES), ("of these", CARDS, CARDS)):
        table = [f"| memory | {head} | " + " | ".join(f"`{task}`" for task in tasks) + " |",
                 "|---|---:|" + "---:|" * len(tasks)]
        for memory in order:
            cells = [cell(found[memory, task]) for task in tasks]
            table.append(f"| `{memory}` | {number_learnt(memory, of)} of {len(of)} | " + " | ".join(cells) + " |")
        seeds = [str(len({row["seed"] for row in rows if row["task"] == task})) for task in tasks]
        tables.append(table + ["| seeds | | " + " | ".join(seeds) + " |"])
    return tables


def write_runs(file, names, tasks):
    """Of each learner the runs of its file that are compared, of `tasks` and of the memories that all learners have."""
    runs = {learner: compared(rows_of(name)) for learner, name in names.items()}
    memories = set.intersection(*({row["backbone"] for row in rows} for rows in runs.values()))
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS if len(names) > 1 else [name for name in COLUMNS if name != "learner"],
                                extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | {"learner": learner} for learner, rows in runs.items() for row in rows
                         if row["task"] in tasks and row["backbone"] in memories)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--both", metavar="FILE")
    arguments = parser.parse_args()
    runs = "memories_ppo.csv"
    if arguments.both:
        write_runs(arguments.both, {"ppo": runs, "sac": "memories.csv"}, CHANCE)
        return
    rows = rows_of(runs)
    own = compared(rows)
    write_or_check(PAGE, replace_tables(PAGE, (tries_table(rows), *runs_tables(own))), runs, arguments.check)
    learners = learners_table({"SAC": ended(rows_of("memories.csv")), "PPO": own})
    write_or_check(MEMORIES, replace_tables(MEMORIES, (learners,)), runs, arguments.check)


if __name__ == "__main__":
    main()
