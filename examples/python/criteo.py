"""Criteo data, the lines of a training and its command line: what both wide & deep programs share.

The rules are those of examples/wide_and_deep: README.md there has them.
"""
import argparse
import functools
import itertools
import pathlib
import sys
import time

import numpy as np
import paddlert

SLOTS, NUMBERS, VOCABULARY, EMBED, HIDDEN = 26, 13, 1000001, 10, 400
DENSE_RULE, EMBEDDING_RULE = "adagrad:lr=0.005,initial=1e-4", "adagrad:lr=0.05,initial=1e-4"
MINIMUM = np.array([0, -3, *[0] * 11])
RANGE = np.array([20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50])
EPSILON = 1e-4                      # in the logarithms of the loss
BUCKETS = 4096                      # of the area under the curve


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


@functools.lru_cache(1 << 20)
def id_of(column, value):
    """64-bit FNV-1a of the column's number and the value."""
    h = 0xcbf29ce484222325
    for byte in str(column).encode() + value:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h % VOCABULARY


def files_of(folder, worker, workers):
    """(this worker's files, and which of their lines: the first, and every so many)."""
    files = sorted(f for f in pathlib.Path(folder).iterdir() if f.name[0] not in "._")
    if not files:
        raise FileNotFoundError(f"no file in {folder}, expected some with lines of Criteo data")
    if len(files) < workers:
        return files, worker, workers
    each, more = divmod(len(files), workers)
    first = worker * each + min(worker, more)
    return files[first:first + each + (worker < more)], 0, 1


def batches(folder, size, worker=0, workers=1):
    """(ids [n][26], numbers [n][13], labels [n]) of this worker's share."""
    files, first, step = files_of(folder, worker, workers)
    lines = itertools.islice(itertools.chain.from_iterable(f.open("rb") for f in files), first, None, step)
    while part := list(itertools.islice(lines, size)):
        rows = [line.rstrip(b"\r\n").split(b"\t") for line in part]
        for row in rows:
            if len(row) != 1 + NUMBERS + SLOTS:
                raise ValueError(f"a line of {folder} has {len(row)} columns, expected {1 + NUMBERS + SLOTS}")
        numbers = np.array([[float(x) if x else np.nan for x in row[1:1 + NUMBERS]] for row in rows])
        ids = np.array([[id_of(column, x) for column, x in enumerate(row[1 + NUMBERS:], 1 + NUMBERS)] for row in rows])
        scaled = np.where(np.isnan(numbers), 0, (numbers - MINIMUM) / RANGE)
        yield ids, scaled.astype(np.float32), np.array([row[0] == b"1" for row in rows], np.float32)


def share(options, part, worker=0, workers=1):
    """One pass over a part of the data, "train" or "test"; a function that makes one."""
    def read():
        return batches(f"{options.data}/{part}", options.batch_size, worker, workers)
    if options.in_memory:
        kept = list(read())
        return lambda: kept
    return read


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

        def tell():
            seconds = max(time.monotonic() - since, 1e-3)
            more = f" auc: {all.auc():.6f} examples/s: {part.n / seconds:.0f}" if options.more else ""
            print(f"TRAIN ---> pass: {number} loss: {part.loss / part.n:.6f}{more}\n", flush=True)

        for batch in batches_of():
            p, y = step(batch)
            all.add(p, y)
            part.add(p, y)
            if time.monotonic() - since > 0.5:
                tell()
                part, since = Measures(), time.monotonic()
        if part.n:
            tell()
        n += all.n
    print(f"{n} examples in {time.monotonic() - start:.2f} s, {time.process_time() - cpu:.2f} s of CPU", file=sys.stderr)
