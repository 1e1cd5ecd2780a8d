"""Readers of samples: paddlert.data beside a loop in Python, pandas and pyarrow, the same arrays from each, interleaved.

numbers: CSV with a header, a label, 13 decimals, 26 ids as whole numbers.  criteo: Criteo's lines; ids are hashes of 26 texts, of
pandas where pandas and pyarrow read, which has one in C.  What comes out is float32 and uint64, batches of 512.  DATA_PYTHON names a
Python with NumPy, and pandas and pyarrow where these are to be measured.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

from cluster import ROOT
from report import table

LINES, PYTHON_LINES = 200_000, 20_000
READERS = ("paddlert", "pandas", "pyarrow", "python")
PROGRAM = r'''
import json, sys, time
import numpy as np
reader, form, path, lines, batch = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), 512
NUMBERS, IDS = [f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)]
NAMES = ["label", *NUMBERS, *IDS]
csv = form == "numbers"

def paddlert():
    from paddlert.data import Dataset
    data = (Dataset(path, "csv", dense=NUMBERS, slots=IDS, ids="number", batch=batch) if csv
            else Dataset(path, "criteo", scale=False, batch=batch))
    for b in data:
        yield b.labels, b.dense, b.ids

def frames(found):
    import pandas as pd
    for f in found:
        labels, dense = f["label"].to_numpy(np.float32), np.nan_to_num(f[NUMBERS].to_numpy(np.float32))
        if csv:
            ids = f[IDS].to_numpy(np.uint64)
        else:
            ids = np.stack([pd.util.hash_array(f[c].to_numpy(object), categorize=False) for c in IDS], 1)
        for i in range(0, len(f), batch):
            yield labels[i:i + batch], dense[i:i + batch], ids[i:i + batch]

def pandas():
    import pandas as pd
    types = {**dict.fromkeys(["label", *NUMBERS], np.float32), **dict.fromkeys(IDS, np.uint64 if csv else object)}
    names = {} if csv else {"sep": "\t", "header": None, "names": NAMES}
    return frames(pd.read_csv(path, dtype=types, chunksize=16384, keep_default_na=True, **names))

def pyarrow():
    import pyarrow as pa
    from pyarrow import csv as pc
    types = {**dict.fromkeys(["label", *NUMBERS], pa.float32()), **dict.fromkeys(IDS, pa.uint64() if csv else pa.string())}
    r = pc.open_csv(path, pc.ReadOptions(column_names=None if csv else NAMES, block_size=4 << 20), pc.ParseOptions(delimiter="," if csv else "\t"),
                    pc.ConvertOptions(column_types=types))
    return frames(b.to_pandas() for b in r)

def python():
    def fnv(column, text):
        h = 0xcbf29ce484222325
        for c in column + text:
            h = (h ^ c) * 0x100000001b3 & 0xffffffffffffffff
        return h
    columns = [str(14 + i).encode() for i in range(26)]
    rows = []
    with open(path, "rb") as f:
        if csv:
            next(f)
        for line in f:
            row = line.rstrip(b"\n").split(b"," if csv else b"\t")
            ids = [int(x) for x in row[14:]] if csv else [fnv(c, x) for c, x in zip(columns, row[14:])]
            rows.append((float(row[0]), [float(x or 0) for x in row[1:14]], ids))
            if len(rows) == batch:
                yield (np.array([r[0] for r in rows], np.float32), np.array([r[1] for r in rows], np.float32),
                       np.array([r[2] for r in rows], np.uint64))
                rows = []
        if rows:
            yield (np.array([r[0] for r in rows], np.float32), np.array([r[1] for r in rows], np.float32),
                   np.array([r[2] for r in rows], np.uint64))

if reader == "paddlert":
    import paddlert.data as _                                        # imports are no reading
batches = globals()[reader]()
n = len(next(iter(batches))[0]) if reader != "paddlert" else 0
start, cpu = time.monotonic(), time.process_time()
total = 0.0
for labels, dense, ids in batches:
    n += len(labels)
    total += float(dense.sum())
assert n == lines, (n, lines)
print(json.dumps({"rate": n / (time.monotonic() - start), "cpu": (time.process_time() - cpu) / n, "sum": total}))
'''


def files(home):
    r = random.Random(1)
    for form, lines in (("numbers", LINES), ("criteo", LINES)):
        with open(f"{home}/{form}", "w") as f, open(f"{home}/{form}.short", "w") as short:
            for to in (f, short):
                if form == "numbers":
                    to.write(",".join(["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]) + "\n")
            for i in range(lines):
                if form == "numbers":
                    row = [i % 2, *(f"{r.random():.6f}" for _ in range(13)), *(r.getrandbits(30) for _ in range(26))]
                else:
                    row = [i % 2, *(r.randrange(1000) if r.random() < .8 else "" for _ in range(13)),
                           *("%08x" % r.getrandbits(32) for _ in range(26))]
                line = ("," if form == "numbers" else "\t").join(map(str, row)) + "\n"
                f.write(line)
                if i < PYTHON_LINES:
                    short.write(line)


def measure(python, reader, form, home):
    lines, path = (PYTHON_LINES, f"{home}/{form}.short") if reader == "python" else (LINES, f"{home}/{form}")
    r = subprocess.run([python, "-c", PROGRAM, reader, form, path, str(lines)], env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                       capture_output=True, text=True, timeout=600)
    if "ModuleNotFoundError" in r.stderr:
        return None
    if r.returncode:
        sys.exit(r.stderr)
    return json.loads(r.stdout)


def run(runs):
    python = os.environ.get("DATA_PYTHON")
    if not python:
        print("data: DATA_PYTHON names no Python with NumPy, nothing is measured")
        return []
    out = {(form, reader): [] for form in ("numbers", "criteo") for reader in READERS}
    with tempfile.TemporaryDirectory() as home:
        files(home)
        for _ in range(runs):
            for form, reader in out:
                out[form, reader].append(measure(python, reader, form, home))
    rows = []
    for (form, reader), found in out.items():
        if None in found:
            continue
        rate, cpu = (statistics.median(r[key] for r in found) for key in ("rate", "cpu"))
        base = [statistics.median(r[key] for r in out[form, "python"]) for key in ("rate", "cpu")]
        rows.append([form, reader, f"{rate:.0f}", f"{rate / base[0]:.1f}", f"{1e6 * cpu:.2f}", f"{base[1] / cpu:.1f}", f"{os.getloadavg()[0]:.0f}"])
    table("samples from text, one process, batches of 512 (medians)",
          ["lines", "reader", "lines/s", "Python = 1", "CPU us a line", "by CPU, Python = 1", "load"], rows)
    return [{"lines": form, "reader": reader, "runs": found} for (form, reader), found in out.items()]
