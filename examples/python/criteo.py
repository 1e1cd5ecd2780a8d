"""Criteo data, the lines of a training and its command line: what both wide & deep programs share.

The rules are those of examples/wide_and_deep: README.md there has them.
"""
import argparse
import functools
import gzip
import itertools
import pathlib
import sys
import time
import zlib

import numpy as np
import paddlert

SLOTS, NUMBERS, VOCABULARY, EMBED, HIDDEN = 26, 13, 1000001, 10, 400
DENSE_RULE, EMBEDDING_RULE = "adagrad:lr=0.005,initial=1e-4", "adagrad:lr=0.05,initial=1e-4"
MINIMUM = np.array([0, -3, *[0] * 11])
RANGE = np.array([20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50])
LABELS = {b"true": 1.0, b"false": -1.0}                     # beside numbers
MISSING = {b"", b"na", b"n/a", b"nan", b"null", b"none", rb"\n", b"?"}
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
    def hidden(file):
        return any(part[0] in "._" for part in file.relative_to(folder).parts)
    files = sorted(f for f in pathlib.Path(folder).rglob("*") if f.is_file() and not hidden(f))
    if not files:
        raise FileNotFoundError(f"no file in {folder}, expected some with lines of Criteo data")
    if len(files) < workers:
        return files, worker, workers
    each, more = divmod(len(files), workers)
    first = worker * each + min(worker, more)
    return files[first:first + each + (worker < more)], 0, 1


def lines_of(file):
    """("file:number", line), whether text or gzip, from Unix or from Windows."""
    with file.open("rb") as f:
        packed = f.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(file, "rb") as f:
        try:
            for number, line in enumerate(f, 1):
                yield f"{file}:{number}", line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").rstrip(b"\r\n ")
        except (EOFError, zlib.error) as e:
            raise OSError(f"{file}: gzip data is damaged: {e}") from e


def sample(line):
    """(ids, numbers, label); ValueError says what is wrong."""
    row = line.split(b"\t")
    if len(row) != 1 + NUMBERS + SLOTS:
        raise ValueError(f"{len(row)} columns, expected {1 + NUMBERS + SLOTS} with tabs between")
    try:
        label = LABELS.get(row[0].strip().lower()) or float(row[0])
    except ValueError:
        label = None
    if label not in (-1, 0, 1):
        raise ValueError(f"the label is {row[0]!r}, expected 0 or 1 (-1 counts as 0)")
    numbers = [np.nan if x.strip().lower() in MISSING else float(x) for x in row[1:1 + NUMBERS]]
    if any(x.strip().lower() not in MISSING and not abs(n) <= 1e15 for x, n in zip(row[1:], numbers)):
        raise ValueError("a number is not finite")
    return [id_of(column, x) for column, x in enumerate(row[1 + NUMBERS:], 1 + NUMBERS)], numbers, label == 1


class Share:
    """A worker's share of a part of the data; a call makes a pass over it: (ids [n][26], numbers [n][13], labels [n])."""

    def __init__(self, options, part, worker, workers):
        self.folder, self.size, self.in_memory = f"{options.data}/{part}", options.batch_size, options.in_memory
        self.files, self.first, self.step = files_of(self.folder, worker, workers)
        self.used = self.skipped = self.ones = 0
        self.why, self.kept = "", None

    def __call__(self):
        if self.in_memory and self.kept is None:
            self.kept = list(self.read())
        return self.read() if self.kept is None else self.kept

    def samples(self):
        lines = itertools.chain.from_iterable(map(lines_of, self.files))
        for where, line in itertools.islice(lines, self.first, None, self.step):
            if not line.strip():
                continue
            try:
                one = sample(line)
            except ValueError as e:
                self.why = self.why or f", first: {where}: {e}"
                self.skipped += 1
            else:
                self.used += 1
                self.ones += one[2]
                yield one

    def read(self):
        self.used = self.skipped = self.ones = 0
        samples = self.samples()
        while part := list(itertools.islice(samples, self.size)):
            ids, numbers, labels = map(np.array, zip(*part))
            scaled = np.where(np.isnan(numbers), 0, (numbers - MINIMUM) / RANGE)
            yield ids, scaled.astype(np.float32), labels.astype(np.float32)
        if self.skipped:
            print(f"{self.folder}: {self.used} lines used, {self.skipped} skipped{self.why}", file=sys.stderr)
        if self.used and self.ones in (0, self.used):
            print(f"{self.folder}: all labels are {int(self.ones > 0)}: there is no second class, and no auc", file=sys.stderr)

    def check(self):
        """Before training: ValueError where no line can be used."""
        if next(self.samples(), None) is None:
            raise ValueError(self.unusable())

    def unusable(self):
        return f'no usable line in "{self.folder}": {self.skipped} skipped{self.why}'


def share(options, part, worker=0, workers=1):
    """That share of "train" or "test"."""
    return Share(options, part, worker, workers)


def trained(client, data, epochs):
    """After the last barrier, before anything is saved: ValueError where no worker of the job had a usable line."""
    if epochs and not data.used and not client.stat("dense")["pushes"]:
        raise ValueError(data.unusable())


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
