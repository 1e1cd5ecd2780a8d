"""A worker of an elastic job: NumPy's least squares.  Its last line: steps, samples, skipped, sum of all numbers, weights.

members.py ON_LOSS LOG EPOCHS: LOG.worker gets "in PID" when it has joined, and "step loss" of each step that it has done.  GATE: a file with the
numbers of the first step that waits, and of that before which training ends."""
import os
import sys

import numpy as np

from gate import passes
from paddlert.elastic import Elastic, Order

N, WIDTH = 600, 5
rng = np.random.default_rng(7)
x = rng.normal(size=(N, WIDTH))
y = x @ np.arange(WIDTH) + rng.normal(size=N)


class Model:
    """Of a momentum's optimizer, too."""

    def __init__(self, seed):
        self.w, self.v = np.random.default_rng(seed).normal(size=WIDTH), np.zeros(WIDTH)

    def state_dict(self):
        return {"w": self.w, "v": self.v}

    def load_state_dict(self, state):
        self.w, self.v = state["w"].copy(), state["v"].copy()

    def update(self, gradient):
        self.v = 0.9 * self.v + gradient
        self.w = self.w - 0.02 * self.v


on_loss, log, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
home = os.environ.get("PADDLE_TRAINER_ID", "0")
model = Model(0 if home == "0" else 100 + os.getpid())
with Elastic({"model": model}, Order(N, 20, epochs=epochs, seed=3), on_loss=on_loss, values={"sum": 0}, start_timeout=300) as elastic, open(f"{log}.{home}", "a") as lines:
    print("in", os.getpid(), file=lines, flush=True)
    for step in elastic:
        if not passes(step.number):
            break
        with step as part:
            error = x[part] @ model.w - y[part]
            mine = np.array([*(x[part].T @ error / len(part)), (error ** 2).mean(), part.sum() / len(part), 1]) * step.weight
            found = elastic.group.all_reduce(mine, "avg")
            elastic.values["sum"] += round(float(found[-2]) * step.total)
            model.update(found[:WIDTH])
        if step.done:
            print(step.number, repr(float(found[WIDTH])), file=lines, flush=True)
    print("done", elastic.steps, elastic.samples, elastic.skipped, elastic.values["sum"], model.w.tolist(), flush=True)
