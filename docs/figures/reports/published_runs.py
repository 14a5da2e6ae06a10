"""What the scripts share that make tables of Markdown pages from the published runs."""

import argparse
import csv
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def rows_of(name):
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(file))


def write_rows(name, columns, lines):
    with open(FOLDER / name, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(lines)


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


def main_of_page(description, page, runs, tables, collect=None, source=None):
    """The command of a script whose tables stand on one page. `tables` makes them of the rows of `runs`; with --from,
    whose value is called `source`, `collect` makes these rows."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if collect:
        parser.add_argument("--from", dest="source", metavar=source)
    arguments = parser.parse_args()
    if collect and arguments.source:
        collect(arguments.source)
    else:
        write_or_check(page, replace_tables(page, tables(rows_of(runs))), runs, arguments.check)
