"""Training steps of ResNet50 (224 x 224, f32) beside PyTorch and Paddle, on the same cores, without data.

The sides take turns, RUNS times.  Images a second, and images a second of processor time: the latter is nearly
the same on a busy machine (threads that wait spin, so with more than one it says less).  TORCH_PYTHON and
PADDLE_PYTHON name Pythons that have them; what is not named is left out.
"""
import os
import statistics
import subprocess

from cluster import ROOT
from report import table

STEPS, WARM, SECONDS = 4, 1, 600
FORMS = [(16, 1), (16, 2), (32, 2)]        # batch, threads


def sides():
    ours, peer = str(ROOT / "build/bin/bench-resnet"), str(ROOT / "bench/peer_resnet.py")
    yield "own", lambda b, t: [ours, b, t, "f32", str(STEPS)]
    yield "own, bf16", lambda b, t: [ours, b, t, "bf16", str(STEPS)]
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
    rows = [tuple(map(float, line.split())) for line in out.splitlines()][WARM:]
    return batch / statistics.median(w for w, _ in rows), batch / statistics.median(c for _, c in rows)


def run(only, runs):
    result = {}
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
