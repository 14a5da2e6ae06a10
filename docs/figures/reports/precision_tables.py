"""The tables of docs/figures/precision.md, float32 beside bfloat16: of docs/figures/reports/precision.csv, by PPO, and of
precision_sac.csv, by SAC.

    precision_tables.py             writes the tables into docs/figures/precision.md, in place of those with their headers
    precision_tables.py --check     exit status 1 where docs/figures/precision.md has other tables than the runs make
"""

import argparse
import itertools
import math
import statistics

from published_runs import FOLDER, replace_tables, rows_of, write_or_check

PAGE = FOLDER.parent / "precision.md"
RUNS, SAC_RUNS = "precision.csv", "precision_sac.csv"
PRECISIONS = ("float32", "bfloat16")


def scores(rows, name):
    """memory -> task -> precision -> values of the seeds."""
    found = {}
    for row in rows:
        of_task = found.setdefault(row["backbone"], {}).setdefault(row["task"], {})
        of_task.setdefault(row["learner"], []).append(float(row[name]))
    return found


def tasks_table(success):
    """Mean success in % of every memory and task by both precisions."""
    memories = list(success)
    lines = ["| float32 / bfloat16 | " + " | ".join(f"`{memory}`" for memory in memories) + " |",
             "|---|" + "---:|" * len(memories)]
    for task in success[memories[0]]:
        cells = [" / ".join(f"{100 * statistics.mean(success[memory][task][own]):.0f}" for own in PRECISIONS)
                 for memory in memories]
        lines.append(f"| `{task}` | " + " | ".join(cells) + " |")
    return lines


def p_value(left, right):
    """Of the exact permutation test of a difference between means, both sides."""
    both, half = left + right, len(left)
    seen = abs(sum(left) - sum(right))
    ways = [abs(2 * sum(chosen) - sum(both)) for chosen in itertools.combinations(both, half)]
    return sum(way >= seen - 1e-9 for way in ways) / len(ways)


def difference(cells):
    """The mean over cells, and half of its 95% interval by the variances of the seeds."""
    mean = statistics.mean(statistics.mean(cell["bfloat16"]) - statistics.mean(cell["float32"]) for cell in cells)
    variance = sum(statistics.variance(cell[own]) / len(cell[own]) for cell in cells for own in PRECISIONS)
    return mean, 1.96 * math.sqrt(variance) / len(cells)


def differences_table(success, area):
    """Over all tasks, in points, with intervals; and in how many tasks the precisions differ."""
    lines = ["| memory | success, points | area under the curve, points | tasks in which they differ |", "|---|---|---|---|"]
    memories = [memory for memory in success if memory != "none"]
    for name, chosen in [(f"`{memory}`", [memory]) for memory in memories] + [("all eight", memories)]:
        texts, apart = [], []
        for found in (success, area):
            cells = [cell for memory in chosen for cell in found[memory].values()]
            mean, half = difference(cells)
            texts.append(f"{100 * mean:+.1f} ({100 * (mean - half):+.1f} to {100 * (mean + half):+.1f})")
            apart.append(sum(p_value(cell["float32"], cell["bfloat16"]) <= 0.05 for cell in cells))
        lines.append(f"| {name} | {texts[0]} | {texts[1]} | {apart[0]} and {apart[1]} of {len(cells)} |")
    return lines


def sac_table(success, area):
    """Of the one task, memory by memory: how many runs solve it, and the mean area under the curve."""
    lines = ["| by SAC, `tmaze_20` | solved, float32 | bfloat16 | area under the curve, %, float32 | bfloat16 | p |",
             "|---|---:|---:|---:|---:|---:|"]
    for name, memories in [(f"`{memory}`", [memory]) for memory in success] + [
            ("all eight", [memory for memory in success if memory != "none"])]:
        cells = [(success[memory]["tmaze_20"], area[memory]["tmaze_20"]) for memory in memories]
        solved = [f"{sum(value > 0.95 for of, _ in cells for value in of[own])} of {sum(len(of[own]) for of, _ in cells)}"
                  for own in PRECISIONS]
        means = [f"{100 * statistics.mean(statistics.mean(of[own]) for _, of in cells):.0f}" for own in PRECISIONS]
        chance = f"{p_value(*(cells[0][1][own] for own in PRECISIONS)):.2f}" if len(memories) == 1 else ""
        lines.append(f"| {name} | " + " | ".join(solved + means + [chance]) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    by_ppo, by_sac = ([scores(rows_of(name), column) for column in ("final_success", "area_under_curve")]
                      for name in (RUNS, SAC_RUNS))
    tables = (tasks_table(by_ppo[0]), differences_table(*by_ppo), sac_table(*by_sac))
    write_or_check(PAGE, replace_tables(PAGE, tables), f"{RUNS} or {SAC_RUNS}", check)


if __name__ == "__main__":
    main()
