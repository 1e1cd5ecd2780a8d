"""Training steps of ResNet50 (224 x 224, f32) without data: beside PyTorch and Paddle on the same cores, and two
workers of a thread each beside two processes that know nothing of each other.

The sides take turns, RUNS times.  Images a second, and images a second of processor time: the latter is nearly
the same on a busy machine (threads that wait spin, so with more than one it says less).  TORCH_PYTHON and
PADDLE_PYTHON name Pythons that have them; what is not named is left out.
"""
import os
import statistics
import subprocess

from cluster import ROOT, free_port
from report import table

STEPS, WARM, SECONDS = 4, 1, 600
FORMS = [(16, 1), (16, 2), (32, 2)]        # batch, threads
PAIRS = [16, 32]                           # batch of each of two
OURS = str(ROOT / "build/bin/bench-resnet")


def sides():
    peer = str(ROOT / "bench/peer_resnet.py")
    yield "own", lambda b, t: [OURS, b, t, "f32", str(STEPS)]
    yield "own, bf16", lambda b, t: [OURS, b, t, "bf16", str(STEPS)]
    for variable, forms in (("TORCH_PYTHON", ("torch", "torch-nhwc")), ("PADDLE_PYTHON", ("paddle",))):
        python = os.environ.get(variable, "").split(":")[0]
        for form in forms if python else ():
            yield form, lambda b, t, form=form, python=python: [python, peer, form, b, t, str(STEPS)]


def measure(command, batch, threads):
    """Images a second, and a second of processor time, of the median step."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    try:
        out = subprocess.run(command(str(batch), str(threads)), capture_output=True, text=True, timeout=SECONDS, env=env, check=True).stdout
    except (OSError, subprocess.SubprocessError) as e:
        print(f"  no figure: {e}")
        return None
    wall, cpu = medians(out)
    return batch / wall, batch / cpu


def medians(out):
    """Seconds and processor seconds of the median step."""
    rows = [tuple(map(float, line.split())) for line in out.splitlines()][WARM:]
    return statistics.median(w for w, _ in rows), statistics.median(c for _, c in rows)


def measure_two(batch, together):
    """The same of two processes at the same time, which train one model together or each its own."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    processes = []
    for rank in range(2):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PADDLE_")} | {"OMP_NUM_THREADS": "1"}
        if together:
            env |= {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints), "PADDLE_TRAINERS_NUM": "2",
                    "PADDLE_TRAINER_ID": str(rank)}
        processes.append(subprocess.Popen([OURS, str(batch), "1", "f32", str(STEPS)], stdout=subprocess.PIPE, text=True, env=env))
    steps = [medians(p.communicate(timeout=SECONDS)[0]) for p in processes]
    return sum(batch / wall for wall, _ in steps), 2 * batch / sum(cpu for _, cpu in steps)


def run_two(batch, runs):
    figures = {"two workers": [], "two alone": []}
    for _ in range(runs):
        for side in figures:
            figures[side].append(measure_two(batch, side == "two workers"))
    ratios = [[a / b for a, b in zip(*pair)] for pair in zip(*figures.values())]
    table(f"ResNet50 training, two processes of 1 thread and batch {batch} each", ["", "images/s", "images/s of processor"], [
        [side, *(f"{statistics.median(f[k] for f in got):.2f}" for k in (0, 1))] for side, got in {**figures, "ratio": ratios}.items()])
    return figures


def run(only, runs):
    result = {}
    for batch in PAIRS:
        if not only or f"two:{batch}" in only:
            result[f"two:{batch}"] = run_two(batch, runs)
    for batch, threads in FORMS:
        name = f"{batch}x{threads}"
        if only and name not in only:
            continue
        figures = {side: [] for side, _ in sides()}
        for _ in range(runs):
            for side, command in sides():
                figures[side] += filter(None, [measure(command, batch, threads)])
        table(f"ResNet50 training, batch {batch}, {threads} threads", ["", "images/s", "images/s of processor"], [
            [side, *(f"{statistics.median(f[k] for f in got):.2f}" if got else "-" for k in (0, 1))] for side, got in figures.items()])
        result[name] = figures
    return result
