"""The tables of docs/figures/popgym.md that show docs/figures/reports/popgym.csv: POPGym's protocol, memory by memory.

    popgym_tables.py             writes the tables into docs/figures/popgym.md, each in place of the one with its header
    popgym_tables.py --check     exit status 1 where docs/figures/popgym.md has other tables than the runs make
"""

import csv
import statistics

from published_runs import FOLDER, main_of_page

PAGE = FOLDER.parent / "popgym.md"
PUBLISHED = FOLDER.parents[2] / "experiments/report/published_popgym.csv"
MEMORIES = ("gru", "lstm", "rnn", "s5", "linear_transformer", "fast_weight_programmer", "frame_stack", "none")
APART = 3  # published standard deviations
SEEDS_APART = 0.05


def published():
    """task -> row of the paper's figures, in the order of the file."""
    with open(PUBLISHED, newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["task"]: row for row in rows}


def scores(rows):
    """(task, memory) -> MMER of each seed."""
    found = {}
    for row in rows:
        found.setdefault((row["task"], row["backbone"]), []).append(float(row["mmer"]))
    return found


def gru_table(found, paper):
    lines = ["| task | MMER of three seeds | POPGym's GRU | difference | its best of 13 |", "|---|---:|---:|---:|---:|"]
    ours, theirs, best = [], [], []
    for task, row in paper.items():
        own, mean, deviation = found[task, "gru"], float(row["gru_mean"]), float(row["gru_deviation"])
        difference = statistics.mean(own) - mean
        star = " \\*" if abs(difference) > APART * deviation + 0.0005 else ""
        memory = f" ({row['best_memory']})" if row["best_memory"] else ""
        lines.append(f"| `{task}` | {statistics.mean(own):.3f} ± {statistics.stdev(own):.3f} | {mean:.3f} ± {deviation:.3f} "
                     f"| {difference:+.3f}{star} | {row['best']}{memory} |")
        ours.append(statistics.mean(own))
        theirs.append(mean)
        best.append(float(row["best"]))
    ours, theirs, best = (statistics.mean(values) for values in (ours, theirs, best))
    return lines + [f"| mean of these {len(paper)} | {ours:.3f} | {theirs:.3f} | {ours - theirs:+.3f} | {best:.3f} |"]


def mean_of_seeds(values):
    """With the deviation where seeds differ."""
    apart = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.2f}" + (f" ± {apart:.2f}" if apart > SEEDS_APART else "")


def memories_table(found, paper):
    """Each memory's mean MMER over the seeds that were run, and over the sizes."""
    lines = ["| task | " + " | ".join(f"`{memory}`" for memory in MEMORIES) + " |", "|---|" + "---:|" * len(MEMORIES)]
    for task in paper:
        cells = [mean_of_seeds(found[task, memory]) for memory in MEMORIES]
        lines.append(f"| `{task}` | " + " | ".join(cells) + " |")
    means = [statistics.mean(statistics.mean(found[task, memory]) for task in paper) for memory in MEMORIES]
    runs = [sum(len(found[task, memory]) for task in paper) for memory in MEMORIES]
    lines.append(f"| mean of these {len(paper)} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return lines + ["| runs | " + " | ".join(map(str, runs)) + " |"]


def tables(rows):
    found, paper = scores(rows), published()
    return gru_table(found, paper), memories_table(found, paper)


if __name__ == "__main__":
    main_of_page(__doc__, PAGE, "popgym.csv", tables)
