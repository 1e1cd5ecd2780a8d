"""all_reduce between this machine's GPUs, beside nccl-tests' all_reduce_perf where that is in PATH.

Both: f32 sums, 5 calls before, 20 that count, sizes doubling.  algbw = bytes / time, busbw = algbw * 2 (n - 1) / n.
all_reduce_perf puts its 20 calls into the stream and waits once; here each is waited for, as programs call it.
"""
import shutil
import statistics
import subprocess

from cluster import ROOT
from report import table

OURS = str(ROOT / "build/bin/bench-gpu")
SKIPPED = 77
SECONDS = 300
COLUMNS = ["time us", "algbw", "busbw", "wrong"]


def read(out, skip):
    """Bytes -> (out of place, in place), each as COLUMNS; skip: columns after the bytes that say what was measured."""
    rows = {}
    for line in out.splitlines():
        cells = line.split()
        if cells and cells[0].isdigit():
            figures = [float(c) if c not in ("N/A", "nan") else None for c in cells[1 + skip:9 + skip]]
            rows[int(cells[0])] = (figures[:4], figures[4:8])
    return rows


def median(runs):
    """Of times and bandwidths; of wrong elements the most."""
    def cell(size, place, column):
        values = [r[size][place][column] for r in runs if r[size][place][column] is not None]
        return None if not values else int(max(values)) if COLUMNS[column] == "wrong" else round(statistics.median(values), 2)

    return {size: tuple([cell(size, place, c) for c in range(len(COLUMNS))] for place in (0, 1)) for size in runs[0]}


def measure(cmd, runs, skip=0):
    return median([read(subprocess.run(cmd, capture_output=True, text=True, timeout=SECONDS, check=True, cwd=ROOT).stdout, skip)
                   for _ in range(runs)])


def run(runs):
    probe = subprocess.run([OURS], capture_output=True, text=True, timeout=SECONDS)
    if probe.returncode == SKIPPED:
        print(f"gpu: skipped: {probe.stderr.strip()}")
        return {"skipped": probe.stderr.strip()}
    if probe.returncode:
        raise SystemExit(f"bench-gpu: {probe.stderr.strip()}")
    sides = {"own": measure([OURS], runs)}
    perf = shutil.which("all_reduce_perf")
    if perf:
        # A process a GPU needs an MPI there; threads of one process are what it does without.
        ranks = probe.stdout.split()[1]
        sides["all_reduce_perf"] = measure([perf, "-b", "8", "-e", "128M", "-f", "2", "-g", ranks], runs, skip=4)
    else:
        print("  without all_reduce_perf: it is not in PATH")
    for place, name in enumerate(["out of place", "in place"]):
        header = ["bytes", *(f"{side} {c}" for side in sides for c in COLUMNS)]
        sizes = [s for s in sides["own"] if all(s in rows for rows in sides.values())]
        table(f"all_reduce of f32 sums, {name}; bandwidths in GB/s", header,
              [[s, *(c for rows in sides.values() for c in rows[s][place])] for s in sizes])
    return {side: {str(s): row for s, row in rows.items()} for side, rows in sides.items()}
