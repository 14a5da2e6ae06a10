"""What the scripts share that make tables of Markdown pages from the published runs."""

import csv
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def rows_of(name):
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(file))


def end_of_table(lines, begin):
    """The line behind the table that begins there."""
    while lines[begin].startswith("|"):
        begin += 1
    return begin


def replace_tables(page, tables):
    """The page's text with each table in place of the one with its header."""
    lines = page.read_text().split("\n")
    for table in tables:
        found = [i for i, line in enumerate(lines) if line == table[0]]
        if len(found) != 1:
            sys.exit(f"docs/figures/{page.name} has {len(found)} tables that begin '{table[0]}'")
        lines[found[0]:end_of_table(lines, found[0])] = table
    return "\n".join(lines)


def write_or_check(page, right, runs, check):
    """Writes the page, or leaves with status 1 where `check` and its text is another."""
    if not check:
        page.write_text(right)
    elif right != page.read_text():
        sys.exit(f"docs/figures/{page.name} has other tables than docs/figures/reports/{runs} makes")
