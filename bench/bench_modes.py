"""wide_and_deep in each mode, interleaved: examples/s, CPU of all processes, area under the curve."""
import os
import re
import resource
import statistics
import subprocess
import tempfile

from cluster import BIN, free_port
from report import table

BATCHES = (10, 512)
MODES = {
    "sync": ["--mode=sync"],
    "sync, 1 backup": ["--mode=sync", "--backup=1"],
    "async": ["--mode=async"],
    "async, merge 4": ["--mode=async", "--merge=4"],
    "async, staleness 8": ["--mode=async", "--staleness=8"],
    "geo, k_steps 20": ["--mode=geo", "--k-steps=20"],
    "geo, k_steps 100": ["--mode=geo", "--k-steps=100"],
}


def rate(text):
    found = re.findall(r"examples/s: *([0-9.]+)", text)
    return statistics.median(map(float, found)) if found else 0.0


def run(runs):
    with tempfile.TemporaryDirectory() as d:
        lines = 60000
        subprocess.run([BIN / "wide_and_deep", "--generate", d, f"--lines={lines}", "--seed=1"], check=True, capture_output=True)
        return run_modes(d, lines, runs)


def run_modes(data, lines, runs):
    """2 servers, 2 trainers, one pass; CPU is that of all four processes, which other load disturbs less than the rate."""
    out = {(b, m): [] for b in BATCHES for m in MODES}
    for _ in range(runs):
        for batch, mode in out:
            out[batch, mode].append(run_ps(data, batch, 2, 2, MODES[mode]))
    rows = []
    for batch in BATCHES:
        base = middle(out[batch, "async"], "cpu")
        for mode in MODES:
            r = out[batch, mode]
            rows.append([batch, mode, f"{middle(r, 'rate'):.0f}", f"{1e6 * middle(r, 'cpu') / lines:.0f}",
                         f"{base / middle(r, 'cpu'):.2f}", f"{middle(r, 'auc'):.4f}", f"{os.getloadavg()[0]:.0f}"])
    table("wide_and_deep: modes, 2 servers + 2 trainers (loopback; medians)",
          ["batch", "mode", "examples/s", "CPU us an example", "by CPU, async = 1", "AUC", "load"], rows)
    return [{"batch": b, "mode": m, "runs": r} for (b, m), r in out.items()]


def middle(runs, key):
    return statistics.median(r[key] for r in runs)


def run_ps(data, batch, servers, trainers, mode=()):
    """Examples a second, summed over the trainers; CPU seconds of all processes; area under the curve of the test."""
    args = [BIN / "wide_and_deep", "--train", data, "--batch-size", str(batch), "--epochs", "1", "--save=", "--more", *mode]
    before = cpu()
    texts = run_job(args, servers, trainers)
    auc = re.findall(r"TEST ---> .* auc: ([0-9.]+)", texts[0])
    return {"rate": sum(map(rate, texts)), "cpu": cpu() - before, "auc": float(auc[0]) if auc else 0.0}


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_job(args, servers, trainers):
    ends = [f"127.0.0.1:{free_port()}" for _ in range(servers)]
    env = {**os.environ, "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(ends), "PADDLE_TRAINERS_NUM": str(trainers)}
    procs = [subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**env, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": e.split(":")[1]})
             for e in ends]
    work = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**env, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}) for i in range(trainers)]
    texts = [w.communicate(timeout=600)[0] for w in work]
    for p in procs:
        p.wait(60)
    return texts
