"""The table of docs/figures/minigrid.md that shows docs/figures/reports/minigrid.csv: memories in MiniGrid's Memory.

    minigrid_tables.py             writes the table into docs/figures/minigrid.md, in place of the one with its header
    minigrid_tables.py --check     exit status 1 where docs/figures/minigrid.md has another table than the runs make
"""


from published_runs import FOLDER, main_of_page

PAGE = FOLDER.parent / "minigrid.md"
RUNS = "minigrid.csv"
TASKS = ("minigrid_memory_s11", "minigrid_memory_s17_random")


def cell(row):
    """Success in percent after so many million steps."""
    if row["state"] == "failed":
        return row["failure"]
    return f"{100 * float(row['final_success']):.0f} ({float(row['environment_steps']) / 1e6:.1f})"


def table(rows):
    """A memory a line, in the order of its first row; every run, seed by seed."""
    found = {}  # memory -> task -> rows
    for row in rows:
        found.setdefault(row["backbone"], {}).setdefault(row["task"], []).append(row)
    lines = ["| memory | size 11 | size 17, random corridors |", "|---|---|---|"]
    for memory, by_task in found.items():
        cells = [", ".join(map(cell, sorted(by_task.get(task, []), key=lambda row: int(row["seed"])))) for task in TASKS]
        lines.append(f"| `{memory}` | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main_of_page(__doc__, PAGE, RUNS, lambda rows: (table(rows),))
