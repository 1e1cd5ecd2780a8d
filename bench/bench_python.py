"""Pulls and pushes of 26 rows beside the same in C (bench_pull.c), in turn on one server.  Then examples/python at batch 512: rows on
a server beside the framework's own embedding and optimizer, and beside the C program on a server; one trainer, interleaved.
At last data parallel training beside torch's own over Gloo, in turn in the same processes (peer_ddp.py).

The server has a core of its own where there are two.  CPU is that of the trainer while it trains, which other load disturbs
less than the rate.  TORCH_PYTHON and PADDLE_PYTHON name Pythons that have them; what is not named is left out.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from cluster import BIN, ROOT, free_port
from report import table

LINES = 60000
FORMS = {"own": ["--own"], "server, async": ["--mode", "async"], "server, sync": ["--mode", "sync"],
         "server, geo": ["--mode", "geo"]}


def run(runs):
    return calls(runs) + frameworks(runs)


def calls(runs, rounds=300):
    """A trainer in C and one in Python take turns; both on one core, the server on another."""
    address, out = f"127.0.0.1:{free_port()}", []
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PADDLE_PSERVERS_IP_PORT_LIST": address, "TRAINING_ROLE": "TRAINER",
           "PADDLE_TRAINERS_NUM": "2"}
    rows = []
    for dim in (8, 16):
        server = subprocess.Popen([*pinned(1), sys.executable, "-m", "paddlert", "server", "--servers", address, "--workers", "2", "--shards", "1"],
                                  env=env, stderr=subprocess.DEVNULL)
        both = [subprocess.Popen([*pinned(0), *command, str(dim)], env={**env, "PADDLE_TRAINER_ID": str(i)}, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for i, command in enumerate([[BIN / "bench-pull"], [sys.executable, ROOT / "bench/peer_pull.py"]])]
        turns = [[turn(p, rounds) for p in both] for _ in range(10 * runs + 1)][1:]      # but the first, which finds nothing in caches
        for p in both:
            p.communicate(timeout=60)
        server.wait(60)
        for i, what in enumerate(("pull", "push")):
            c, py = ([t[k] for t in turns] for k in (0, 1))
            wall, cpu = ([statistics.median(t[j] for t in side) for side in (c, py)] for j in (i, i + 2))
            rows.append([what, dim, *(f"{x:.1f}" for x in (*wall, *cpu)), f"{wall[1] / wall[0]:.2f}", f"{cpu[1] / cpu[0]:.2f}",
                         f"{os.getloadavg()[0]:.0f}"])
            out.append({"call": what, "dim": dim, "c": c, "python": py})
    table("26 rows a call (loopback; medians of turns; us, and us of the trainer's CPU)",
          ["call", "floats", "C", "Python", "CPU, C", "CPU, Python", "C = 1", "by CPU", "load"], rows)
    return out


def turn(program, rounds):
    """us of a pull and a push, then of CPU."""
    program.stdin.write(f"{rounds}\n")
    program.stdin.flush()
    answer = program.stdout.readline()
    assert answer, f"{program.args} has ended: is there NumPy, and the library?"
    return [float(x) for x in answer.split()]


def frameworks(runs):
    pythons = {f: os.environ[f"{f.upper()}_PYTHON"] for f in ("torch", "paddle") if os.environ.get(f"{f.upper()}_PYTHON")}
    if not pythons:
        print("python: TORCH_PYTHON and PADDLE_PYTHON name no Python, nothing is measured")
        return []
    with tempfile.TemporaryDirectory() as home:
        subprocess.run([BIN / "wide_and_deep", "--generate", "data", f"--lines={LINES}"], cwd=home, check=True, capture_output=True)
        out = {(name, form): [] for name in pythons for form in FORMS}
        program = {form: [] for form in FORMS if form != "own"}
        arithmetic = {name: [] for name in (*pythons, "C")}
        for _ in range(runs):
            for name in arithmetic:
                arithmetic[name].append(arithmetic_of(home, name, pythons.get(name)))
            for name, form in out:
                out[name, form].append(run_one(home, pythons[name], name, form))
            for form in program:
                program[form].append(run_program(home, form))
    rows = []
    own = {name: statistics.median(r) for name, r in arithmetic.items()}
    for (name, form), r in out.items():
        base, c = out[name, "own"], program.get(form)
        split = [own[name] / own["C"], (1e6 * middle(r, "cpu") - own[name]) / (1e6 * middle(c, "cpu") - own["C"])] if c else []
        rows.append([name, form, f"{middle(r, 'rate'):.0f}", f"{middle(r, 'rate') / middle(base, 'rate'):.2f}",
                     f"{1e6 * middle(r, 'cpu'):.0f}", f"{middle(base, 'cpu') / middle(r, 'cpu'):.2f}",
                     *(f"{x:.2f}" if c else "" for x in (c and middle(c, "rate") / middle(r, "rate"), c and middle(r, "cpu") / middle(c, "cpu"))),
                     *([f"{x:.2f}" for x in split] or ["", ""]),
                     f"{middle(r, 'auc'):.3f}", f"{os.getloadavg()[0]:.0f}"])
    table("wide_and_deep in Python: batch 512, 1 trainer, 1 server (loopback; medians); a step beside the C program's: goal <= 1.15",
          ["framework", "rows", "examples/s", "own = 1", "CPU us an example", "by CPU, own = 1", "a step, C = 1", "by CPU, C = 1", "arithmetic",
           "all else", "AUC", "load"],
          rows)
    print("by CPU, C = 1, in two: arithmetic, forward and backward alone on rows that stay, " +
          ", ".join(f"{name} {us:.1f}" for name, us in own.items()) + " us an example; and all else of the step")
    found = [{"framework": name, "form": form, "runs": r} for (name, form), r in [*out.items(), *((("C", f), r) for f, r in program.items())]]
    return found + (data_parallel(pythons["torch"], runs) if "torch" in pythons else [])


def data_parallel(python, runs):
    """hidden: of what averages lengthen backward by when they come at its end, the part that they do not when they overlap it."""
    rows, out = [], []
    for model in ("large", "small", "device"):
        for ranks in (2, 4):
            r = [ranks_of(python, model, ranks) for _ in range(runs)]
            differ = max(x["losses"]["differ"] for x in r)
            if differ > 1e-5:
                sys.exit(f"python: {model}, {ranks} ranks: losses differ by {differ:.1e} of torch's own")
            base = middle([x["torch"] for x in r], "rate")
            for name in (n for n in r[0] if n != "losses"):
                found, end = [x[name] for x in r], [x.get(f"{name}, at the end") for x in r]
                backward, local = (middle(found, what) for what in ("averaged", "local"))
                hidden = f"{100 * (1 - (backward - local) / (middle(end, 'averaged') - local)):.0f} %" if all(end) else ""
                rows.append([model, ranks, name, f"{middle(found, 'rate'):.0f}", f"{middle(found, 'rate') / base:.2f}",
                             *(f"{1e3 * s:.1f}" for s in (backward, local)), hidden, f"{differ:.0e}", f"{os.getloadavg()[0]:.0f}"])
            out.append({"model": model, "ranks": ranks, "runs": r})
    table("data parallel in PyTorch: 3 layers of 1024, batch 64 a rank; 100 of 32, batch 32; 6 of 1024, whose backward waits 20 ms each, "
          "as for a device (shared memory; Gloo: loopback; medians)",
          ["model", "ranks", "by", "examples/s", "torch = 1", "backward, ms", "without averages", "hidden", "losses differ by", "load"], rows)
    return out


def ranks_of(python, model, ranks):
    """What rank 0 of peer_ddp.py prints."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore"}
    port, *ports = (free_port() for _ in range(ranks + 1))
    words = [str(port), *(f"127.0.0.1:{p}" for p in ports)]
    run = [subprocess.Popen([python, ROOT / "bench/peer_ddp.py", model, str(i), *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True) for i in range(ranks)]
    try:
        said = [p.communicate(timeout=600) for p in run]
    finally:
        for p in run:
            p.kill()
    if any(p.returncode for p in run):
        sys.exit(f"python: {model}, {ranks} ranks: {''.join(e for _, e in said)[-2000:]}")
    return json.loads(said[0][0].splitlines()[-1])


def arithmetic_of(home, name, python, batch=512):
    """us of CPU an example of forward and backward alone."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore"}
    words = [BIN / "bench-alone", "data/train", batch] if name == "C" else [python, ROOT / "bench/peer_net.py", name, batch, 100]
    said = subprocess.run([*pinned(0), *map(str, words)], cwd=home, env=env, check=True, capture_output=True, text=True).stdout
    return float(said.split()[-1])


def middle(runs, key):
    return statistics.median(r[key] for r in runs)


def pinned(core):
    return ["taskset", "-c", str(core)] if (os.cpu_count() or 1) > 1 else []


def run_one(home, python, name, form, batch=512):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore"}
    server, options = None, [*FORMS[form], f"--batch-size={batch}", "--data=data", "--in-memory", "--save="]
    if form != "own":
        address = f"127.0.0.1:{free_port()}"
        server = subprocess.Popen([*pinned(1), python, "-m", "paddlert", "server", "--servers", address, "--shards", "1"], env=env,
                                  stderr=subprocess.DEVNULL)
        env = {**env, "PADDLE_PSERVERS_IP_PORT_LIST": address, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "1"}
    r = subprocess.run([*pinned(0), python, ROOT / f"examples/python/wide_and_deep_{name}.py", *options], cwd=home, env=env,
                       capture_output=True, text=True, timeout=600)
    if server:
        server.wait(60)
    said = re.search(r"(\d+) examples in ([0-9.]+) s, ([0-9.]+) s of CPU", r.stderr)
    auc = re.search(r"TEST ---> .* auc: ([0-9.]+)", r.stdout)
    if r.returncode or not said or not auc:
        sys.exit(f"python: {name}, {form}: {r.stderr[-2000:]}")
    n, seconds, cpu = map(float, said.groups())
    return {"rate": n / seconds, "cpu": cpu / n, "auc": float(auc[1])}


def run_program(home, form, batch=512):
    """The C program as run_one has it: its CPU is that of training, without what starting and ending take."""
    idle, _ = trainer_of(home, form, batch, 0)
    cpu, said = trainer_of(home, form, batch, 1)
    rates = [float(x) for x in re.findall(r"examples/s: *([0-9.]+)", said)]
    if not rates:
        sys.exit(f"python: wide_and_deep, {form}: no rate in what it says: {said[-2000:]}")
    return {"rate": statistics.median(rates), "cpu": (cpu - idle) / LINES}


def trainer_of(home, form, batch, epochs):
    """CPU seconds of a trainer in C that has a server, and what it says."""
    address = f"127.0.0.1:{free_port()}"
    words = [BIN / "wide_and_deep", "--train=data/train", f"--batch-size={batch}", f"--epochs={epochs}", "--save=", "--more", *FORMS[form]]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PADDLE_PSERVERS_IP_PORT_LIST": address, "PADDLE_TRAINERS_NUM": "1", "PADDLE_TRAINER_ID": "0",
           "POD_IP": "127.0.0.1", "PADDLE_PORT": address.split(":")[1]}
    server = subprocess.Popen([*pinned(1), *words], cwd=home, env={**env, "TRAINING_ROLE": "PSERVER"}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    trainer = subprocess.Popen([*pinned(0), *words], cwd=home, env={**env, "TRAINING_ROLE": "TRAINER"}, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    said = trainer.stdout.read()
    _, status, used = os.wait4(trainer.pid, 0)
    trainer.returncode = os.waitstatus_to_exitcode(status)
    server.wait(60)
    if trainer.returncode:
        sys.exit(f"python: wide_and_deep, {form}: it ended with {trainer.returncode}")
    return used.ru_utime + used.ru_stime, said
