"""kernel_table.py on traces whose sums are known."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import kernel_table

GPU = argparse.Namespace(multiprocessors=132, threads=2048, blocks=32, registers=65536, shared_bytes=233472)


def kernel(begin, end, grid, threads, shared_bytes, registers, name):
    return f"K\t{begin}\t{end}\t7\t{grid}\t{threads}\t{shared_bytes}\t{registers}\t{name}"


def share(*sizes):
    return kernel_table.share(next(kernel_table.read([kernel(0, 1, *sizes, "any")])), GPU)


# One block a multiprocessor for its shared memory, eight for its threads, two for its registers, 32 at most.
assert share("88,1,1", 384, 164308, 168) == 88 / 132
assert share("4,33,2", 256, 0, 32) == 264 / (132 * 8)
assert share("66,1,1", 256, 0, 128) == 66 / (132 * 2)
assert share("132,1,1", 32, 0, 16) == 1 / 32
assert share("100000,1,1", 1024, 0, 32) == 1

lines = [kernel(1000, 3000, "66,1,1", 1024, 200000, 32, "_Z4workv"),
         kernel(3000, 4000, "1,1,1", 2048, 0, 16, "adam_kernel"),
         "C\t500\t700\t7\t-\t-\t512\t-\tmemcpy", kernel(5000, 9000, "132,1,1", 1024, 200000, 32, "_Z4workv"),
         kernel(9000, 10500, "1,1,1", 2048, 0, 16, "adam_kernel")]
table, span = kernel_table.rows(list(kernel_table.read(lines)), "adam_kernel", GPU)
assert span == 5.0, span  # from 500 to 10,500 ns, two updates
assert [row[0] for row in table] == ["_Z4workv", "adam_kernel", "memcpy"]
assert table[0][1:] == (1.0, 3.0, (2000 * 0.5 + 4000) / 2000), table[0]
assert table[1][1:3] == (1.0, 1.25) and abs(table[1][3] - 1.25 / 132) < 1e-12, table[1]
assert table[2][1:] == (0.5, 0.1, 0), table[2]
assert kernel_table.short("void engram::narrow::(anonymous namespace)::forward_kernel<64, 64>(int)") == \
    "narrow::forward_kernel<64, 64>"

with tempfile.TemporaryDirectory() as folder:
    trace = pathlib.Path(folder) / "trace.tsv"
    program = [sys.executable, str(pathlib.Path(kernel_table.__file__)), str(trace)]
    trace.write_text("\n".join(lines) + "\n")
    out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1].split()[-3:] == ["2.50", "4.35", "2.51"], out
    for text, reason in (("rubbish\n", "not a line"), (lines[0] + "\n", "'adam_kernel'")):
        trace.write_text(text)
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and reason in done.stderr, done
print("ok")
