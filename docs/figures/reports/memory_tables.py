"""The tables of docs/figures/memories.md that show docs/figures/reports/memories.csv: success by memory and task.

    memory_tables.py               writes the tables into the page, each in place of the one with its header, or behind
                                   the table before where there is none
    memory_tables.py --check       exit status 1 where the page has other tables than the runs make

A cell: for tasks whose return says more than their success, the mean return; mean success of the best weights in %,
greedy; in brackets sampled, where that is more than 5 points apart; n, where fewer seeds ran than of others in the
column; then the median of the episodes of training after which an evaluation first had 67%, with the number of seeds
that came so far where others did not. Return and episodes are of the runs whose evaluations the table has.
"""

import argparse
import collections
import statistics

from published_runs import FOLDER, end_of_table, rows_of, write_or_check

PAGE = FOLDER.parent / "memories.md"
GROUPS = [
    {"tmaze_10": "T-maze 10", "tmaze_20": "T-maze 20", "tmaze_50": "T-maze 50"},
    {"visual_match_0": "visual match 0", "visual_match_50": "delay 50", "visual_match_100": "delay 100",
     "visual_match_250": "delay 250"},
    {"key_to_door_60": "key-to-door 60"},
    {"repeat_previous_easy": "repeat_previous easy", "repeat_previous_medium": "medium",
     "repeat_previous_hard": "hard"},
    {"repeat_first_easy": "repeat_first easy", "repeat_first_medium": "medium", "repeat_first_hard": "hard"},
    {"autoencode_easy": "autoencode easy", "concentration_easy": "concentration easy"},
    {"memory_len_30": "memory_len 30", "memory_len_100": "100"},
    {"minigrid_memory_s9": "MiniGrid Memory S9", "minigrid_memory_s11": "S11", "minigrid_memory_s13": "S13",
     "minigrid_memory_s17_random": "S17 random"},
]
BY_RETURN = {task for group in GROUPS[3:6] for task in group}  # POPGym's


def percent(values):
    return 100 * statistics.mean(float(value) for value in values)


def cell(task, runs, most):
    if not runs:
        return ""
    greedy = percent(run["final_success"] for run in runs)
    sampled = percent(run["sampled_success"] for run in runs)
    whole = [run for run in runs if run["best_evaluation"]]  # of the others what was printed is left
    text = ""
    if task in BY_RETURN and whole:
        text = f"{statistics.mean(float(run['mean_return']) for run in whole):.2f}; "
    text += f"{greedy:.0f}" + (f" ({sampled:.0f})" if abs(greedy - sampled) > 5 else "")
    if len(runs) < most:
        text += f", n={len(runs)}"
    learnt = [int(run["episodes_until_learnt"]) for run in whole if run["episodes_until_learnt"]]
    if not learnt:
        return text + ("; -" if whole else "")
    return text + f"; {statistics.median(learnt):,.0f}" + (f" ({len(learnt)})" if len(learnt) < len(whole) else "")


def tables(rows):
    """Each as its lines, the header first."""
    of = collections.defaultdict(list)
    for row in rows:
        of[row["backbone"], row["task"]].append(row)
    memories = list(dict.fromkeys(row["backbone"] for row in rows))
    for group in GROUPS:
        tasks = [task for task in group if any(of[memory, task] for memory in memories)]
        if not tasks:
            continue
        most = {task: max(len(of[memory, task]) for memory in memories) for task in tasks}
        seeds = [f"{group[task]}, {most[task]} seed{'s' if most[task] > 1 else ''}" for task in tasks]
        lines = ["| memory | state, bytes | " + " | ".join(seeds) + " |", "|---|---|" + "---|" * len(tasks)]
        for memory in memories:
            runs = [of[memory, task] for task in tasks]
            if not any(runs):
                continue
            states = sorted({int(run["state_bytes"]) for task_runs in runs for run in task_runs})
            state = f"{states[0]:,}" + (f" to {states[-1]:,}" if len(states) > 1 else "")
            cells = [cell(task, task_runs, most[task]) for task_runs, task in zip(runs, tasks)]
            lines.append(f"| {memory} | {state} | " + " | ".join(cells) + " |")
        yield group, lines


def with_tables(text, rows):
    lines = text.split("\n")
    behind = None  # the table before
    for group, table in tables(rows):
        first = next(iter(group.values()))
        found = [i for i, line in enumerate(lines) if line.startswith(f"| memory | state, bytes | {first}")]
        if len(found) > 1 or (not found and behind is None):
            raise SystemExit(f"memory_tables: {PAGE.name} has {len(found)} tables of '{first}'")
        if found:
            begin, end = found[0], end_of_table(lines, found[0])
        else:
            lines[behind:behind] = [""]
            begin = end = behind + 1
        lines[begin:end] = table
        behind = begin + len(table)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    runs = "memories.csv"
    write_or_check(PAGE, with_tables(PAGE.read_text(), rows_of(runs)), runs, check)


if __name__ == "__main__":
    main()
