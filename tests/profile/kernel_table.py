"""What the launches of a kernel trace (kernel_trace.cpp) take, a row for each kernel, of each time that a marker runs.

    kernel_table.py TRACE [--per adam_kernel] [--names 40]

"share": of a whole GPU: a kernel's time, times the part of what the multiprocessors have room for that its blocks fill,
by threads, registers and shared memory together. Many programs beside each other cannot take more than all of it.
The sizes are those of an H100 or H200; options say others.
"""

import argparse
import collections
import re
import subprocess

Record = collections.namedtuple("Record", "kind begin end stream grid threads bytes registers name")
RESERVED = 1024  # bytes of shared memory that a block has for the system


def read(lines):
    for line in lines:
        field = line.rstrip("\n").split("\t")
        if len(field) != len(Record._fields):
            raise SystemExit(f"kernel_table: not a line of a kernel trace: {line.strip()[:80]!r}")
        yield Record(field[0], int(field[1]), int(field[2]), *field[3:])


def demangled(names):
    try:
        out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
        return dict(zip(names, out.splitlines()))
    except OSError:
        return {name: name for name in names}


def short(name):
    """Without namespaces that say nothing, the return type and the parameters."""
    name = re.sub(r"\(anonymous namespace\)::|engram::|^void ", "", name)
    return re.split(r"\(", name, maxsplit=1)[0]


def share(record, gpu):
    """Of the GPU's room that a kernel's blocks fill."""
    blocks = 1
    for size in record.grid.split(","):
        blocks *= int(size)
    threads, registers = int(record.threads), max(int(record.registers), 16)
    together = max(1, min(gpu.threads // threads, gpu.registers // (registers * threads),
                          gpu.shared_bytes // (int(record.bytes) + RESERVED), gpu.blocks))
    return min(1.0, blocks / (gpu.multiprocessors * together))


def rows(records, marker, gpu):
    """(name, launches, us, us of the whole GPU), each of a marker, greatest share first; and the us of a marker."""
    records = sorted(records, key=lambda record: record.begin)
    marks = sum(marker in record.name for record in records)
    if marks == 0:
        raise SystemExit(f"kernel_table: nothing of the trace is named '{marker}'")
    sums = collections.defaultdict(lambda: [0, 0, 0.0])
    for record in records:
        row = sums[record.name]
        time = record.end - record.begin
        row[0] += 1
        row[1] += time
        row[2] += time * share(record, gpu) if record.kind == "K" else 0
    span = (max(record.end for record in records) - records[0].begin) / 1e3 / marks
    table = [(name, n / marks, ns / 1e3 / marks, whole / 1e3 / marks) for name, (n, ns, whole) in sums.items()]
    return sorted(table, key=lambda row: (-row[3], -row[2])), span


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--per", default="adam_kernel", help="the marker, part of a kernel's name: one an update")
    parser.add_argument("--names", type=int, default=60, help="width of the names")
    parser.add_argument("--multiprocessors", type=int, default=132)
    parser.add_argument("--threads", type=int, default=2048, help="of a multiprocessor, as what follows")
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--registers", type=int, default=65536)
    parser.add_argument("--shared-bytes", type=int, default=233472)
    options = parser.parse_args()
    with open(options.trace, encoding="utf-8") as file:
        records = list(read(file))
    table, span = rows(records, options.per, options)
    names = demangled([row[0] for row in table])
    print(f"{'of one ' + options.per:{options.names}} {'launches':>9} {'us':>8} {'share, us':>10}")
    for name, launches, time, whole in table:
        print(f"{short(names[name])[:options.names]:{options.names}} {launches:9.2f} {time:8.2f} {whole:10.2f}")
    launches, time, whole = (sum(row[i] for row in table) for i in (1, 2, 3))
    print(f"{f'all, beside each other in {span:.1f} us':{options.names}} {launches:9.2f} {time:8.2f} {whole:10.2f}")


if __name__ == "__main__":
    main()
