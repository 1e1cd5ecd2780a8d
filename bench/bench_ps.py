"""The parameter server, row by row of what it is to reach: make bench-ps.

calls       pulls and pushes over lanes, gRPC and TLS beside plain TCP of the same bytes and a copy in memory (bench_ps.c)
store       rows of a table, also with three quarters of them on a disk (bench_table.c, bench_cold.c)
trainers    1 to 256 of them on one server (bench_trainers.c)
wd          wide_and_deep alone by direct calls (bench_alone.c), with servers and trainers, and in Paddle 2.6.2 and PyTorch
save        checkpoints beside training (bench_checkpoint.c); a killed server until training continues (bench_return.c)

A ratio is the median of the ratios of rounds, in each of which both sides ran in turn.  PADDLE_PYTHON (2.6.2) and TORCH_PYTHON
name Pythons that have them; what is not named is left out.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import bench_python
from cluster import BIN, ROOT, free_port
from report import table

middle = statistics.median
CORES = os.cpu_count() or 1


def output(*words, timeout=900):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, timeout=timeout).stdout


def numbers(words):
    return dict(zip(words[::2], map(float, words[1::2])))


def ratio(a, b):
    """Median of the ratios of rounds."""
    return middle(x / y for x, y in zip(a, b))


# ---- calls -----------------------------------------------------------------------------------


def calls(runs):
    rounds = {}                         # figures by what, kind and name, one a round
    for line in output(BIN / "bench-ps", 200, 3 * runs).splitlines():
        what, kind, *rest = line.split()
        for name, value in numbers(rest).items():
            rounds.setdefault((what, kind), {}).setdefault(name, []).append(value)
    table("parameter server: calls beside plain TCP of the same bytes (loopback; medians of rounds in turn)", ["what", "kind", "figures"],
          [[*k, "  ".join(f"{n} {middle(v):g}" for n, v in f.items())] for k, f in rounds.items()])

    def over(what, kind, name, base="tcp"):
        return ratio(rounds[what, kind][name], rounds[what, base][name])

    def rate(kind):
        return middle(1000 / v for v in rounds["flight", kind]["cpu_us"])

    def busier(what, kind):
        """CPU of a transfer at the end that has more to do, which decides where cores are free; two lanes are two threads there."""
        f, threads = rounds[what, kind], 2 if kind == "two-lanes" else 1
        return [max(s / threads, t) for s, t in zip(f["server_cpu_ms"], f["trainer_cpu_ms"])]

    def by_cpu(what, kind):
        return ratio(busier(what, "tcp"), busier(what, kind))

    return [
        ("pull of 26 rows x 10, p50: x TCP", "<= 1.5", over("pull", "lanes", "p50_us")),
        ("... p99", "<= 2", over("pull", "lanes", "p99_us")),
        ("... p50 over gRPC", "", over("pull", "grpc", "p50_us")),
        ("... p50 encrypted: x in clear", "", over("pull", "encrypted", "p50_us", "lanes")),
        ("small pulls a server core by CPU, 4 connections x 8 in flight: k/s", ">= 400", rate("lanes")),
        ("... over gRPC", "", rate("grpc")),
        ("... 1 x 1: x TCP echo", ">= 0.75", 1 / over("pull", "lanes", "cpu_us")),
        ("large pull, one lane: x one-lane TCP", ">= 0.55", over("pull-large", "lanes", "gb_s")),
        ("... by CPU of the busier end", "", by_cpu("pull-large", "lanes")),
        ("... two lanes", ">= 0.85", over("pull-large", "two-lanes", "gb_s")),
        ("... two lanes, by CPU of the busier thread", "", by_cpu("pull-large", "two-lanes")),
        ("... one lane: x memcpy", "", over("pull-large", "lanes", "gb_s", "memcpy")),
        ("... encrypted: x in clear", "", over("pull-large", "encrypted", "gb_s", "lanes")),
        ("large push: x one-lane TCP", ">= 0.7", over("push", "lanes", "gb_s")),
        ("... by CPU of the busier end", "", by_cpu("push", "lanes")),
        ("... two lanes", "", over("push", "two-lanes", "gb_s")),
        ("... encrypted: x in clear", "", over("push", "encrypted", "gb_s", "lanes")),
        ("an empty server: MB", "<= 12", middle(rounds["memory", "empty"]["mb"])),
    ]


# ---- rows ------------------------------------------------------------------------------------


def found(pattern, text):
    return [float(n) for n in re.search(pattern, text).groups()]


def store(_runs):
    said = output(BIN / "bench-table", 5000000)
    with tempfile.TemporaryDirectory() as d:
        cold = output(BIN / "bench-cold", 400000, d)
    print(f"\nrows of a sparse table (bench-table)\n{said}\nthree quarters of the rows on a disk (bench-cold)\n{cold}")
    one, two = said.split("2 threads")
    (bytes_a_row,), (pauses,) = found(r"\.\. ([0-9.]+) resident", one), found(r"inserts: .* ([0-9]+) over 5 ms", one)
    insert, lookup = found(r"insert ([0-9.]+) M/s.* lookup ([0-9.]+)", two)
    hot, slow = found(r"train, Zipf 0.99 +([0-9.]+) +[0-9.]+ +([0-9.]+)", cold)
    return [
        ("row of 10 floats, SGD, the most at any fill: x (key + payload)", "<= 1.25", bytes_a_row / 48),
        ("... calls of 256 inserts over 5 ms of CPU", "0", pauses),
        ("insert, 2 threads, by CPU: M rows/s", ">= 5", insert),
        ("lookup in batches, 2 threads, by CPU: M rows/s", ">= 15", lookup),
        ("table of four times the memory, trained by Zipf's law, by CPU: x all in memory", "", slow / hot),
    ]


# ---- many trainers ---------------------------------------------------------------------------

TRAINERS = (1, 4, 16, 64, 256)


def trainers(runs):
    """Each trainer makes 50 steps a second; what all of them come to, and what a step costs the server."""
    seen = {(mode, n): [] for mode in ("async", "sync") for n in TRAINERS}
    for _ in range(runs):
        for mode, n in seen:            # in turn: they share the machine's moods
            line = output(BIN / "bench-trainers", 1500, n, mode, timeout=300).split()
            seen[mode, n].append(numbers(line[3:]))
    figures = {k: {name: middle(f[name] for f in r) for name in r[0]} for k, r in seen.items()}
    table("parameter server: many trainers, one server, 26 rows pulled and pushed a step (loopback; medians)",
          ["mode", "trainers", "steps/s", "x what they want", "server CPU us a step", "load"],
          [[mode, n, f"{f['per_s']:.0f}", f"{f['per_s'] / f['wanted']:.2f}", f"{f['server_cpu_us']:.1f}", f"{f['load']:.0f}"]
           for (mode, n), f in figures.items()])
    many = figures["async", 256]
    return [("256 trainers, one server, 50 steps/s each: x linear", ">= 0.8 until cores are full", many["per_s"] / many["wanted"]),
            ("... a server core by CPU: k steps/s", "", 1000 / many["server_cpu_us"])]


# ---- wide_and_deep ---------------------------------------------------------------------------

LINES = {512: 60000, 10: 20000}
JOBS = {f"1 + {n} {mode}{' ' * bool(wire)}{wire}": (n, mode, "lanes", wire) for wire in ("", "f16") for n in (1, 2)
        for mode in ("async", "sync")} | {"1 + 2 async gRPC": (2, "async", "grpc", "")}


def rates(texts):
    return sum(middle(map(float, re.findall(r"examples/s: *([0-9.]+)", t))) for t in texts)


def pinned(core):
    return ["taskset", "-c", str(core)] if CORES > 1 else []


def job(words, n, env, address=None, more=lambda i: {}, stop=False):
    """One server and n trainers: what trainers said, CPU seconds of the server and of all trainers.  One trainer has a core of its
    own, and its server another one; two share all cores with the server.  stop: the server does not end by itself."""
    address = address or f"127.0.0.1:{free_port()}"
    env = {**os.environ, "PADDLE_PSERVERS_IP_PORT_LIST": address, "PADDLE_TRAINERS_NUM": str(n), "POD_IP": "127.0.0.1", **env}
    core = pinned if n == 1 else lambda _: []
    server = subprocess.Popen([*core(1), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**env, "TRAINING_ROLE": "PSERVER", "PADDLE_PORT": address.split(":")[1]})
    work = [subprocess.Popen([*core(0), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**env, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i), **more(i)}) for i in range(n)]
    texts = [w.stdout.read() for w in work]
    used = [cpu(w) for w in work]
    if stop:
        server.kill()
    return texts, cpu(server, stop), sum(used)


def cpu(process, killed=False):
    """Of a process that is about to end."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not killed:
        sys.exit(f"bench ps: {process.args} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def run_job(data, batch, kind):
    """CPU is that of the training: what starting and ending take, a job without a step shows."""
    n, mode, way, wire = JOBS[kind]
    words = [str(BIN / "wide_and_deep"), f"--train={data}/train", f"--batch-size={batch}", "--save=", "--more", f"--mode={mode}", f"--wire={wire}"]
    env = {"PADDLE_PS_TRANSPORT": way}
    _, server0, trainers0 = job([*words, "--epochs=0"], n, env)
    texts, server, trainer = job(words, n, env)
    return {"rate": rates(texts), "server": (server - server0) / LINES[batch] * 1e6, "trainers": (trainer - trainers0) / LINES[batch] * 1e6}


def alone(data, batch):
    f = numbers(output(*pinned(0), BIN / "bench-alone", data / "train", batch).split()[2:])
    return {"rate": f["per_s"], "server": 0, "trainers": f["cpu_us"]}


def paddle(batch, n):
    address, other = f"127.0.0.1:{free_port()}", [f"127.0.0.1:{free_port()}" for _ in range(n)]
    env = {"PADDLE_TRAINER_ENDPOINTS": ",".join(other), "OMP_NUM_THREADS": "1"}
    words = ["timeout", "200", os.environ["PADDLE_PYTHON"], str(ROOT / "bench/peer_ps.py"), str(batch), str(LINES[batch] // (1 if batch > 100 else 4))]
    texts, _, _ = job(words, n, env, address, lambda i: {"PADDLE_PORT": other[i].split(":")[1]}, stop=True)
    return {"rate": rates(texts), "server": 0, "trainers": 0}


def torch(data, batch):
    f = bench_python.run_one(data.parent, os.environ["TORCH_PYTHON"], "torch", "own", batch)
    return {"rate": f["rate"], "server": 0, "trainers": f["cpu"] * 1e6}


def wd(runs):
    kinds = {"alone": alone, **{k: lambda d, b, k=k: run_job(d, b, k) for k in JOBS}}
    if os.environ.get("PADDLE_PYTHON"):
        kinds |= {"Paddle 1 + 1": lambda d, b: paddle(b, 1), "Paddle 1 + 2": lambda d, b: paddle(b, 2)}
    if os.environ.get("TORCH_PYTHON"):
        kinds["PyTorch alone"] = torch
    with tempfile.TemporaryDirectory() as d:
        seen = {(b, k): [] for b in LINES for k in kinds}
        for batch, lines in LINES.items():
            os.mkdir(f"{d}/{batch}")
            output(BIN / "wide_and_deep", "--generate", f"{d}/{batch}/data", "--lines", lines, "--seed", 1)
        for _ in range(runs):
            for batch, k in seen:       # in turn: they share the machine's moods
                seen[batch, k].append(kinds[k](pathlib.Path(f"{d}/{batch}/data"), batch))
    rows, reach = [], []
    for batch in LINES:
        def of(kind, name, batch=batch):
            return [f[name] for f in seen[batch, kind]]

        def all_of(kind, batch=batch):
            return [f["server"] + f["trainers"] for f in seen[batch, kind]]

        for k in kinds:
            cpu_us = middle(all_of(k))
            rows.append([k, batch, f"{middle(of(k, 'rate')):.0f}", f"{middle(of(k, 'trainers')):.1f}", f"{middle(of(k, 'server')):.1f}",
                         f"{ratio(of(k, 'rate'), of('alone', 'rate')):.2f}",
                         f"{ratio(of('alone', 'trainers'), of(k, 'trainers')):.2f}" if cpu_us else "",
                         f"{CORES * 1e6 / cpu_us:.0f}" if cpu_us and k in JOBS else "", f"{os.getloadavg()[0]:.0f}"])
        head = f"W&D, batch {batch}"
        reach += [
            (f"{head}: alone, a core by CPU: k examples/s", ">= 30" if batch == 512 else ">= 12", middle(1000 / v for v in of("alone", "trainers"))),
            (f"{head}: 1 + 1: x alone on a core", ">= 0.9" if batch == 512 else ">= 0.7", ratio(of("1 + 1 async", "rate"), of("alone", "rate"))),
            ("... by CPU of the trainer, the server's subtracted", "", ratio(of("alone", "trainers"), of("1 + 1 async", "trainers"))),
            (f"{head}: 1 + 2: k examples/s", ">= 45" if batch == 512 else "", middle(of("1 + 2 async", "rate")) / 1000),
            (f"... what {CORES} cores give at most, by CPU of all", "", middle(CORES * 1e3 / v for v in all_of("1 + 2 async"))),
            ("... the server's subtracted", "", middle(CORES * 1e3 / v for v in of("1 + 2 async", "trainers"))),
            ("... x 1 + 1", ">= 1", ratio(of("1 + 2 async", "rate"), of("1 + 1 async", "rate"))),
            (f"{head}: sync: x async, 1 + 2", ">= 0.8", ratio(of("1 + 2 sync", "rate"), of("1 + 2 async", "rate"))),
            ("... by CPU of all", "", ratio(all_of("1 + 2 async"), all_of("1 + 2 sync"))),
            ("... 1 + 1", "", ratio(of("1 + 1 sync", "rate"), of("1 + 1 async", "rate"))),
            (f"{head}, values and gradients in f16: 1 + 1: x alone on a core", "", ratio(of("1 + 1 async f16", "rate"), of("alone", "rate"))),
            ("... 1 + 2: x 1 + 1", "", ratio(of("1 + 2 async f16", "rate"), of("1 + 1 async f16", "rate"))),
            ("... sync: x async, 1 + 2", "", ratio(of("1 + 2 sync f16", "rate"), of("1 + 2 async f16", "rate"))),
        ]
        reach += [(f"{head}: 1 + {n}: x Paddle 2.6.2", "", ratio(of(f"1 + {n} async", "rate"), of(f"Paddle 1 + {n}", "rate")))
                  for n in (1, 2) if f"Paddle 1 + {n}" in kinds]
        if "PyTorch alone" in kinds:
            reach.append((f"{head}: alone: x PyTorch, by CPU", "", ratio(of("PyTorch alone", "trainers"), of("alone", "trainers"))))
    table("wide_and_deep (loopback; medians; CPU us an example)",
          ["servers + trainers", "batch", "examples/s", "trainers' CPU", "server's CPU", "x alone", "x alone by trainers' CPU",
           f"most of {CORES} cores", "load"], rows)
    return reach


# ---- checkpoints, kills ----------------------------------------------------------------------


def save(runs):
    with tempfile.TemporaryDirectory() as d:
        said = output(BIN / "bench-checkpoint", d, 1000000, 2, runs + 1)
    print(f"\ntraining beside checkpoints (bench-checkpoint)\n{said}")
    at = {k: found(rf"{k} .*?([+-][0-9.]+)% +([0-9.]+)", said) for k in ("without", "full, no break", "deltas, no break", "a delta a second")}
    reach = [(f"saving beside training, {k}: by CPU, %", goal, at[k][0]) for k, goal in
             (("full, no break", ">= -10"), ("deltas, no break", ">= -1"), ("a delta a second", ">= -1"))]
    reach += [("... longest step, ms (without checkpoints: the row below)", "10 more", max(at[k][1] for k in at if k != "without")),
              ("... without", "", at["without"][1])]
    for mode in ("async", "sync"):
        for rows, goal in ((10000, "<= 2"), (1000000, "<= 2 + load")):
            with tempfile.TemporaryDirectory() as d:
                ms = [float(line.split()[-1]) for line in output(BIN / "bench-return", d, mode, rows, 3).splitlines()]
            reach.append((f"server killed, {mode}, {rows:,} rows: s until training goes on", goal, max(ms) / 1000))
    return reach


PARTS = {"calls": calls, "store": store, "trainers": trainers, "wd": wd, "save": save}


def run(names, runs):
    reach = [row for name in names or PARTS for row in PARTS[name](runs)]
    table(f"parameter server: what is to be reached (load {os.getloadavg()[0]:.1f})", ["row", "reach", "here"],
          [[row, goal, f"{value:.3g}"] for row, goal, value in reach])
    return [{"row": row, "reach": goal, "here": value} for row, goal, value in reach]
