"""examples/python at batch 512: rows on a server beside the framework's own embedding and optimizer, one trainer, interleaved.

The server has a core of its own where there are two.  CPU is that of the trainer while it trains, which other load disturbs
less than the rate.  TORCH_PYTHON and PADDLE_PYTHON name Pythons that have them; what is not named is left out.
"""
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
    pythons = {f: os.environ[f"{f.upper()}_PYTHON"] for f in ("torch", "paddle") if os.environ.get(f"{f.upper()}_PYTHON")}
    if not pythons:
        print("python: TORCH_PYTHON and PADDLE_PYTHON name no Python, nothing is measured")
        return []
    with tempfile.TemporaryDirectory() as home:
        subprocess.run([BIN / "wide_and_deep", "--generate", "data", f"--lines={LINES}"], cwd=home, check=True, capture_output=True)
        out = {(name, form): [] for name in pythons for form in FORMS}
        for _ in range(runs):
            for name, form in out:
                out[name, form].append(run_one(home, pythons[name], name, form))
    rows = []
    for (name, form), r in out.items():
        base = out[name, "own"]
        rows.append([name, form, f"{middle(r, 'rate'):.0f}", f"{middle(r, 'rate') / middle(base, 'rate'):.2f}",
                     f"{1e6 * middle(r, 'cpu'):.0f}", f"{middle(base, 'cpu') / middle(r, 'cpu'):.2f}", f"{middle(r, 'auc'):.3f}",
                     f"{os.getloadavg()[0]:.0f}"])
    table("wide_and_deep in Python: batch 512, 1 trainer, 1 server (loopback; medians)",
          ["framework", "rows", "examples/s", "own = 1", "CPU us an example", "by CPU, own = 1", "AUC", "load"], rows)
    return [{"framework": name, "form": form, "runs": r} for (name, form), r in out.items()]


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
