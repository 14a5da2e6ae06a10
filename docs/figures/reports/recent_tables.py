"""The table of docs/figures/recent.md, which shows docs/figures/reports/recent_tasks.csv: every memory by PPO on the
tasks of configs/compare/recent_tasks.ini.

    recent_tables.py             writes the table into the page, in place of the one with its header
    recent_tables.py --check     exit status 1 where the page has another table than the runs make

Memories are in the order of the tasks that they have learnt, of those that an agent without memory does not learn.
"""


from ppo_tables import by_place, cell, ended, learnt, mean_success
from published_runs import FOLDER, main_of_page

PAGE, RUNS = FOLDER.parent / "recent.md", "recent_tasks.csv"
CHANCE = {"endless_tmaze_uniform": 0, "tmaze_50_rewritten": 1 / 2, "mortar_mayhem_3": 0,
          "noisy_position_only_pendulum_easy": 0, "position_only_pendulum_easy": 0, "endless_tmaze_fixed": 0,
          "labyrinth_escape_easy": 0, "labyrinth_explore_easy": 0}
SAYING = [task for task in CHANCE if not task.startswith("labyrinth_")]  # labyrinths are solved without memory


def runs_table(rows):
    found = by_place(rows)
    controls = {row["backbone"] for row in rows if row["control"] != "none"}
    means = {place: mean_success(runs) for place, runs in found.items()}

    def place_of(memory):
        own = {task: means[memory, task] for task in SAYING if (memory, task) in means}
        return (memory in controls, -sum(learnt(task, mean, CHANCE) for task, mean in own.items()),
                -sum(own.values()), memory)

    lines = ["| memory | " + " | ".join(f"`{task}`" for task in CHANCE) + " |", "|---|" + "---:|" * len(CHANCE)]
    for memory in sorted({memory for memory, _ in found}, key=place_of):
        cells = [cell(found[memory, task]) if (memory, task) in found else "-" for task in CHANCE]
        lines.append(f"| `{memory}` | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main_of_page(__doc__, PAGE, RUNS, lambda rows: (runs_table(ended(rows)),))
