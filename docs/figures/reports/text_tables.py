"""The tables of docs/figures/text.md that show docs/figures/reports/text.csv: a text, every memory.

    text_tables.py               writes the table of the runs into docs/figures/text.md, in place of the one with its
                                 header, and their bits a byte into the last column of the published perplexities
    text_tables.py --check       exit status 1 where docs/figures/text.md has other tables than the runs make
    text_tables.py --from RUN    makes text.csv, a line a run, and text_curves.csv, a line a validation, of the cells of
                                 RUN, a folder of `engram probe --preset text`
"""

import json
import pathlib
import sys

from published_runs import FOLDER, end_of_table, main_of_page, write_rows

PAGE = FOLDER.parent / "text.md"
RUNS = "text.csv"
CURVES = "text_curves.csv"
COLUMNS = ("memory", "seed", "bits", "parameters", "state_bytes", "seconds")
CURVE_COLUMNS = ("memory", "seed", "step", "bits")
# Of backbones that the preset has several times or that have another name than what they are.
NAMES = {
    ("deltanet", "convolution", "true"): "deltanet_convolution",
    ("delta_2021", "feature_map", "favor"): "performer_delta",
    ("delta_2021", "feature_map", "dpfp"): "dpfp_delta",
    ("fast_weights", "feature_map", "elu"): "linear_transformer_delta",
    ("hqlt", "mixing", "sum"): "hqlt_sum",
    ("hqlt", "fast_weights", "linear_transformer"): "hqlt_linear_transformer",
    ("stack", "stack", "deltanet,window,deltanet,window,deltanet,window"): "deltanet_window",
}


def memory_of(cell):
    names = [name for (backbone, key, value), name in NAMES.items()
             if backbone == cell["backbone"] and cell["backbone_options"]["memory." + key] == value]
    return names[0] if names else cell["backbone"]


def by_memory(rows):
    found = {}  # memory -> its rows
    for row in rows:
        found.setdefault(row["memory"], []).append(row)
    return found


def mean(rows, column):
    return sum(float(row[column]) for row in rows) / len(rows)


def table(found):
    """Memories in the order of their mean over seeds; of what a memory's runs share the first one's."""
    lines = ["| memory | bits a byte | of each seed | parameters, million | state, bytes | seconds |",
             "|---|---:|---:|---:|---:|---:|"]
    for memory in sorted(found, key=lambda memory: mean(found[memory], "bits")):
        of_seeds = sorted(found[memory], key=lambda row: int(row["seed"]))
        seeds = ", ".join(f"{float(row['bits']):.3f}" for row in of_seeds)
        parameters, state = int(of_seeds[0]["parameters"]) / 1e6, int(of_seeds[0]["state_bytes"])
        lines.append(f"| `{memory}` | {mean(of_seeds, 'bits'):.3f} | {seeds} | {parameters:.2f} | {state:,} | "
                     f"{mean(of_seeds, 'seconds'):.0f} |")
    return lines


def published_table(found):
    """The page's table of published perplexities, each line with the memory's bits a byte at its end."""
    lines = PAGE.read_text().split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("| memory | Irie"))
    result = lines[begin:begin + 2]
    for line in lines[begin + 2:end_of_table(lines, begin)]:
        cells = line.split("|")
        rows = found.get(cells[1].strip(" `"))
        cells[-2] = f" {mean(rows, 'bits'):.3f} " if rows else " "
        result.append("|".join(cells))
    return result


def collect(run):
    runs, curves = [], []
    for file in pathlib.Path(run, "cells").glob("text-*.json"):
        result = json.loads(file.read_text())
        key = memory_of(result["cell"]), result["cell"]["seed"]
        bits = "inf" if result["test_loss"] is None else round(result["test_loss"], 4)
        runs.append([*key, bits, result["parameters"], result["state_bytes"], round(result["seconds"], 1)])
        curves += [[*key, validation["step"], round(validation["loss"], 4)] for validation in result["validations"]
                   if validation["loss"] is not None]
    if not runs:
        sys.exit(f"text_tables.py: '{run}' has no finished cells of engram probe --preset text")
    write_rows(RUNS, COLUMNS, sorted(runs))
    write_rows(CURVES, CURVE_COLUMNS, sorted(curves))


def tables(rows):
    found = by_memory(rows)
    return table(found), published_table(found)


if __name__ == "__main__":
    main_of_page(__doc__, PAGE, RUNS, tables, collect, "RUN")
