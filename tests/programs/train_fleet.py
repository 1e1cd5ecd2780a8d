"""Collective training without Paddle: a line is fitted by data-parallel descent, in step by sums over all processes.

Reads what every collective launcher gives its processes, and nothing else. Prints the weights, which are the same in all.
"""
import os
import socket
import struct
import time

STEPS, RATE, SECONDS = 300, 0.5, 60
rank, size = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])
endpoints = [(e.rsplit(":", 1)[0], int(e.rsplit(":", 1)[1])) for e in os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")]
assert len(endpoints) == size and os.environ["PADDLE_CURRENT_ENDPOINT"] == "%s:%d" % endpoints[rank]


def say(line):
    """In one write: processes may share their output, and print's line end is a write of its own."""
    os.write(1, f"{line}\n".encode())


def others():
    """Of the first process the connections of all others, of another the one to the first."""
    if rank == 0:
        with socket.create_server(endpoints[0], backlog=size) as server:
            server.settimeout(SECONDS)
            return [server.accept()[0] for _ in range(size - 1)]
    end = time.monotonic() + SECONDS
    while True:
        try:
            peer = socket.create_connection(endpoints[0], 5)
            if peer.getsockname() != peer.getpeername():        # on one machine, before the first listens
                return [peer]
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def receive(peer, n):
    data = b""
    while len(data) < 8 * n:
        more = peer.recv(8 * n - len(data))
        if not more:
            raise SystemExit("a peer has gone")
        data += more
    return struct.unpack(f"{n}d", data)


def allreduce(peers, values):
    pack = struct.Struct(f"{len(values)}d").pack
    if rank == 0:
        values = [sum(v) for v in zip(values, *(receive(p, len(values)) for p in peers))]
        for p in peers:
            p.sendall(pack(*values))
        return values
    peers[0].sendall(pack(*values))
    return receive(peers[0], len(values))


def train():
    peers = others()
    for p in peers:
        p.settimeout(SECONDS)
    data = [(x, 3 * x + 1) for x in ((37 * i % 101) / 101 for i in range(rank, 404, size))]     # each its share
    a = b = 0.0
    for step in range(STEPS):
        errors = [(a * x + b - y, x) for x, y in data]
        loss, da, db, n = allreduce(peers, [sum(e * e for e, _ in errors), sum(e * x for e, x in errors), sum(e for e, _ in errors), len(data)])
        a, b = a - RATE * 2 * da / n, b - RATE * 2 * db / n
        if step % 100 == 0:
            say(f"[Epoch 0, batch {step}] loss: {loss / n:.5f}")
    say(f"worker {rank} of {size} weights {a:.4f} {b:.4f}")


train()
