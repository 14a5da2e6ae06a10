"""The table of docs/figures/length.md that shows docs/figures/reports/length.csv: memories beyond the length of training.

    length_tables.py                  writes the table into docs/figures/length.md, in place of the one with its header
    length_tables.py --check          exit status 1 where docs/figures/length.md has another table than the runs make
    length_tables.py --from REPORT    puts the runs of a report.json of `engram compare report` into length.csv
"""

import json

from published_runs import FOLDER, main_of_page, rows_of, write_rows

PAGE = FOLDER.parent / "length.md"
RUNS = "length.csv"
COLUMNS = ("backbone", "seed", "corridor_length", "success", "sampled_success")
TRAINED = 20


def percent(values):
    """Every seed, once where they agree."""
    texts = [f"{100 * float(value):.0f}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def table(rows):
    """Success in percent at every length: memories in the order of their mean beyond the length of training."""
    found = {}  # memory -> length -> success of the seeds
    for row in rows:
        found.setdefault(row["backbone"], {}).setdefault(int(row["corridor_length"]), []).append(row["success"])
    lengths = sorted({length for by_length in found.values() for length in by_length})

    def beyond(memory):
        values = [float(value) for length, values in found[memory].items() if length > TRAINED for value in values]
        return (-sum(values) / len(values), memory)

    lines = ["| memory | " + " | ".join(map(str, lengths)) + " |", "|---|" + "---:|" * len(lengths)]
    for memory in sorted(found, key=beyond):
        lines.append(f"| `{memory}` | " + " | ".join(percent(found[memory][length]) for length in lengths) + " |")
    return lines


def write_csv(report):
    """Every run that was evaluated at all lengths, in place of one of the same memory and seed."""
    with open(report) as file:
        runs = json.load(file)["range"]["runs"]
    kept = {}  # (memory, seed) -> its lines
    for row in rows_of(RUNS):
        kept.setdefault((row["backbone"], int(row["seed"])), []).append([row[column] for column in COLUMNS])
    for run in runs:
        kept[run["backbone"], int(run["seed"])] = [
            [run["backbone"], run["seed"], int(point["value"]), point["greedy"]["success"], point["sampled"]["success"]]
            for point in run["points"]]
    write_rows(RUNS, COLUMNS, (line for lines in kept.values() for line in lines))


if __name__ == "__main__":
    main_of_page(__doc__, PAGE, RUNS, lambda rows: (table(rows),), write_csv, "REPORT")
