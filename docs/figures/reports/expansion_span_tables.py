"""The tables of docs/figures/expansion_span.md, which show docs/figures/reports/expansion_span.csv: agents adapted to a
longer delay by LoRA, HyLoRA and full fine-tuning, with several layers of attention.

    expansion_span_tables.py               writes the tables into the page, each in place of the one with its header
    expansion_span_tables.py --check       exit status 1 where the page has other tables than the runs make
    expansion_span_tables.py --from DIR    makes expansion_span.csv of the folder of apps/scripts/adapt.py
"""

import configparser
import json
import math
import pathlib
import statistics
import sys

from published_runs import FOLDER, main_of_page, write_rows

PAGE = FOLDER.parent / "expansion_span.md"
RUNS = "expansion_span.csv"
COLUMNS = ("stage", "method", "layer", "seed", "rate", "environment_steps", "delay", "success", "sampled_success")
# What stands between the stage's folder and an agent's, in their order.
PLACES = {"base": ("seed",), "scratch": ("layer", "seed"), "tune": ("method", "layer", "rate"),
          "adapted": ("method", "layer", "seed"), "attention": ("method", "layer", "seed")}
DELAYS = (50, 250, 500)
LAYERS = ("attention", "window", "shifted_sparse", "expansion_span")
METHODS = {"none": "not at all", "lora": "LoRA", "hylora": "HyLoRA", "full": "all weights", "scratch": "from scratch"}
RANKS = {"hylora": "8", "hylora_16": "16", "hylora_32": "32", "hylora_64": "64"}
# Of Student's t distribution, 97.5%, by degrees of freedom.
T = (None, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def write_csv(run):
    folder, lines = pathlib.Path(run), []
    for stage, names in PLACES.items():
        for file in sorted(folder.glob("/".join((stage, *"*" * len(names), "evaluations.json")))):
            config = configparser.ConfigParser(interpolation=None)
            config.read_string("[run directory]\n" + (file.parent / "config.ini").read_text())
            place = dict(zip(names, file.relative_to(folder / stage).parts))
            found = json.loads(file.read_text())
            own = {"stage": stage, "method": "", "layer": "attention", "rate": config["learner"]["learning_rate"],
                   "environment_steps": found["weights"]["environment_steps"]} | place | {"seed": config["run"]["seed"]}
            points = (own | {"delay": int(point["value"]), "success": point["greedy"]["success"],
                             "sampled_success": point["sampled"]["success"]} for point in found["evaluations"])
            lines += [[point[column] for column in COLUMNS] for point in points]
    if not lines:
        sys.exit(f"expansion_span_tables.py: '{folder}' has no evaluated runs of apps/scripts/adapt.py")
    write_rows(RUNS, COLUMNS, lines)


def by_place(rows):
    """(stage, method, layer, delay) -> seed -> success in %"""
    found = {}
    for row in rows:
        if row["stage"] != "tune":
            place = row["stage"], row["method"], row["layer"], int(row["delay"])
            found.setdefault(place, {})[row["seed"]] = 100 * float(row["success"])
    return found


def interval(values):
    """Mean and 95% interval by Student's t over the seeds; of one seed its value alone."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return (mean,)
    half = T[min(len(values), len(T)) - 1] * math.sqrt(statistics.variance(values) / len(values))
    return mean, mean - half, mean + half


def text_of(numbers, sign=""):
    mean, *ends = (f"{number:{sign}.0f}" for number in numbers)
    return f"{mean} ({' to '.join(ends)})" if ends else mean


def percent(values):
    return text_of(min(max(number, 0), 100) for number in interval(values))


def success_table(found, delays):
    short, adapted_to, beyond = delays
    lines = [f"| layer | adapted | {short} | {adapted_to} | {adapted_to}, attention put back | {beyond} |",
             "|---|---|---:|---:|---:|---:|"]
    for layer in LAYERS:
        for method, name in METHODS.items():
            stage, own = ("scratch", "") if method == "scratch" else ("adapted", method)
            places = [(stage, own, layer, short), (stage, own, layer, adapted_to),
                      ("attention", method, layer, adapted_to), (stage, own, layer, beyond)]
            if any(place in found for place in places):
                cells = [percent(found[place].values()) if place in found else "" for place in places]
                lines.append(f"| `{layer}` | {name} | " + " | ".join(cells) + " |")
    return lines


def rank_table(found, delays):
    lines = ["| layer | rank | " + " | ".join(map(str, delays)) + " |", "|---|---:|---:|---:|---:|"]
    for layer in LAYERS:
        rows = [[found.get(("adapted", method, layer, delay)) for delay in delays] for method in RANKS]
        if any(any(row) for row in rows[1:]):  # of HyLoRA's own rank alone there is nothing to compare
            lines += [f"| `{layer}` | {rank} | " + " | ".join(percent(cell.values()) for cell in row) + " |"
                      for rank, row in zip(RANKS.values(), rows) if all(row)]
    return lines


def claims_table(found, delays):
    """Differences between agents of the same base."""
    short, adapted_to, beyond = delays

    def of(method, layer, delay=adapted_to, stage="adapted"):
        return stage, method, layer, delay

    span = of("hylora", "expansion_span")
    claims = (
        ("adapting helps: HyLoRA, span - the base, span", span, of("none", "expansion_span")),
        ("the same with attention", of("hylora", "attention"), of("none", "attention")),
        ("the span is better than a window", span, of("hylora", "window")),
        ("the span is better than shifted sparse attention", span, of("hylora", "shifted_sparse")),
        ("the span is as good as attention", span, of("hylora", "attention")),
        ("HyLoRA is better than LoRA, span", span, of("lora", "expansion_span")),
        ("HyLoRA is better than LoRA, attention", of("hylora", "attention"), of("lora", "attention")),
        ("HyLoRA is as good as all weights, span", span, of("full", "expansion_span")),
        ("a larger rank is better: 64 - 8, span", of("hylora_64", "expansion_span"), span),
        ("the same with attention", of("hylora_64", "attention"), of("hylora", "attention")),
        (f"the short delay is kept: {short}, HyLoRA, span - the base", of("hylora", "expansion_span", short),
         of("none", "attention", short)),
        (f"it holds beyond: {beyond}, span - window", of("hylora", "expansion_span", beyond),
         of("hylora", "window", beyond)),
        ("attention put back is better than the span itself", of("hylora", "expansion_span", stage="attention"), span),
    )
    lines = ["| the paper says | difference, points |", "|---|---:|"]
    for text, left, right in claims:
        seeds = sorted(found.get(left, {}).keys() & found.get(right, {}).keys())
        if seeds:
            differences = [found[left][seed] - found[right][seed] for seed in seeds]
            lines.append(f"| {text} | {text_of(interval(differences), '+')} |")
    return lines


def tables(rows):
    found, delays = by_place(rows), sorted({int(row["delay"]) for row in rows}) or DELAYS
    return success_table(found, delays), rank_table(found, delays), claims_table(found, delays)


if __name__ == "__main__":
    main_of_page(__doc__, PAGE, RUNS, tables, write_csv, "DIR")
