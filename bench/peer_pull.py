"""What bench_pull.c does, by the package paddlert, with ids as a program has them: an array of int64.

    peer_pull.py DIM
"""
import sys
import time

import numpy as np
import paddlert

IDS, KEYS = 26, 50000


def measure(client, dim, rounds):
    ids = [(np.arange(r * IDS, (r + 1) * IDS, dtype=np.int64) * 7919) % KEYS for r in range(rounds)]
    times = []
    wall, cpu = time.perf_counter(), time.process_time()
    for i in ids:
        client.pull("rows", i)
    times.append((time.perf_counter() - wall, time.process_time() - cpu))
    gradient = np.full((IDS, dim), 1e-3, np.float32)
    wall, cpu = time.perf_counter(), time.process_time()
    for i in ids:
        client.push("rows", i, gradient)
    client.flush()
    times.append((time.perf_counter() - wall, time.process_time() - cpu))
    print(*(f"{1e6 * t / rounds:.3f}" for t in (*(w for w, _ in times), *(c for _, c in times))), flush=True)


dim = int(sys.argv[1])
with paddlert.Client(paddlert.Job(), [paddlert.Sparse("rows", dim, "sgd:lr=0.1")], mode="async") as c:
    for line in sys.stdin:
        measure(c, dim, int(line))
