"""Shares of Criteo data, the lines of a training and its command line: what both wide & deep programs have in common.

The rules are those of examples/wide_and_deep: README.md there has them.
"""
import argparse
import sys
import time
import warnings

import numpy as np
import paddlert
from paddlert.data import Dataset

SLOTS, NUMBERS, VOCABULARY, EMBED, HIDDEN = 26, 13, 1000001, 10, 400
DENSE_RULE, EMBEDDING_RULE = "adagrad:lr=0.005,initial=1e-4", "adagrad:lr=0.05,initial=1e-4"
EPSILON = 1e-4                      # in the logarithms of the loss
BUCKETS = 4096                      # of the area under the curve
warnings.filterwarnings("ignore", "lines that cannot be used")       # Share counts them


def options(text):
    p = argparse.ArgumentParser(description=text)
    p.add_argument("--data", default="data", help="folder with train/ and test/: `wide_and_deep --generate data` makes one")
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--mode", choices=["sync", "async", "geo"], help="default: what PADDLE_PS_STRATEGY says, or async")
    p.add_argument("--seed", type=int, default=1, help="of first values")
    p.add_argument("--load", help="folder of a saved model to start from, of this or of the C program")
    p.add_argument("--save", default="model", help="folder for the trained model; empty: not saved")
    p.add_argument("--in-memory", action="store_true", help="reads all of the data before training")
    p.add_argument("--more", action="store_true", help="TRAIN lines with auc and examples/s")
    p.add_argument("--own", action="store_true", help="no servers: the framework's own embedding and optimizer, to compare")
    a = p.parse_args()
    if a.batch_size < 1 or a.epochs < 0:
        p.error(f"--batch-size is {a.batch_size} and --epochs {a.epochs}, expected at least 1 and 0")
    return a


def serve(job):
    """A server's part; exit code 0 when all workers have finished."""
    try:
        job.serve()
    except paddlert.Error as e:
        sys.exit(f"server {job.server_index}: {e}")
    sys.exit(0)


class Share:
    """A worker's share of a part of the data; a call makes a pass over it: (ids [n][26], numbers [n][13], labels [n])."""

    def __init__(self, options, part, worker, workers):
        self.folder, self.in_memory, self.others = f"{options.data}/{part}", options.in_memory, workers > 1
        self.data = Dataset(self.folder, "criteo", batch=options.batch_size, vocabulary=VOCABULARY, rank=worker, world=workers, share="blocks")
        self.data.describe()                # before anybody waits for this worker: are there files?
        self.used = self.ones = 0
        self.unusable, self.kept = "", None

    def __call__(self):
        if self.in_memory and self.kept is None:
            self.kept = list(self.read())
        return self.read() if self.kept is None else self.kept

    def read(self):
        self.used = self.ones = 0
        try:
            for batch in self.data:
                self.used += len(batch)
                self.ones += int(batch.labels.sum())
                yield batch.ids.view(np.int64), batch.dense, batch.labels
        except paddlert.InvalidError as e:
            if self.used or not self.others:
                raise
            self.unusable = str(e)          # the other workers may have lines to train on
        if (counts := self.data.counts()).bad:
            print(f"{self.folder}: {self.used} lines used, {counts.text}", file=sys.stderr)
        if self.used and self.ones in (0, self.used):
            print(f"{self.folder}: all labels are {int(self.ones > 0)}: there is no second class, and no auc", file=sys.stderr)

    def check(self):
        """Before training: InvalidError where no line can be used."""
        next(iter(self.data))


def share(options, part, worker=0, workers=1):
    """That share of "train" or "test"."""
    return Share(options, part, worker, workers)


def trained(client, data, epochs):
    """After the last barrier, before anything is saved: ValueError where no worker of the job had a usable line."""
    if epochs and not data.used and not client.stat("dense")["pushes"]:
        raise ValueError(data.unusable or f'no line in "{data.folder}"')


class Measures:
    """Loss, area under the curve, accuracy: added up batch by batch."""

    def __init__(self):
        self.counts = np.zeros((2, BUCKETS))
        self.n = self.loss = self.right = self.absolute = self.square = 0

    def add(self, p, y):
        p = p.astype(np.float64)
        np.add.at(self.counts, (y.astype(int), np.clip(p * (BUCKETS - 1), 0, BUCKETS - 1).astype(int)), 1)
        self.n += len(y)
        self.loss -= (y * np.log(p + EPSILON) + (1 - y) * np.log(1 - p + EPSILON)).sum()
        self.right += ((p > 0.5) == y).sum()
        self.absolute += np.abs(p - y).sum()
        self.square += ((p - y) ** 2).sum()

    def auc(self):
        no, yes = (np.cumsum(c[::-1]) for c in self.counts)
        area = np.sum((yes + np.r_[0, yes[:-1]]) / 2 * np.diff(np.r_[0, no]))
        return area / (yes[-1] * no[-1]) if yes[-1] and no[-1] else 0.0

    def test_line(self):
        n = max(self.n, 1)
        return (f"TEST ---> loss: {self.loss / n:.6f} auc: {self.auc():.6f} acc: {self.right / n:.6f} mae: {self.absolute / n:.6f}, "
                f"mse: {self.square / n:.6f} rmse: {(self.square / n) ** 0.5:.6f}")


def passes(options, batches_of, step):
    """Trains: step(batch) -> (predictions, labels).  The classic lines, twice a second and at the end of a pass."""
    start, cpu, n = time.monotonic(), time.process_time(), 0
    for number in range(options.epochs):
        all, part, since = Measures(), Measures(), time.monotonic()

        def progress():
            seconds = max(time.monotonic() - since, 1e-3)
            more = f" auc: {all.auc():.6f} examples/s: {part.n / seconds:.0f}" if options.more else ""
            print(f"TRAIN ---> pass: {number} loss: {part.loss / part.n:.6f}{more}\n", flush=True)

        for batch in batches_of():
            p, y = step(batch)
            all.add(p, y)
            part.add(p, y)
            if time.monotonic() - since > 0.5:
                progress()
                part, since = Measures(), time.monotonic()
        if part.n:
            progress()
        n += all.n
    print(f"{n} examples in {time.monotonic() - start:.2f} s, {time.process_time() - cpu:.2f} s of CPU", file=sys.stderr)
