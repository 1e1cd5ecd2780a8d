"""A rank of data parallel training in PyTorch, by paddlert and by torch's own DDP over Gloo in turn: blocks of steps of the same model
on the same batches.  Rank 0 prints a line of JSON.

    peer_ddp.py MODEL RANK PORT ENDPOINT...       MODEL: large, small, device

device: backward waits after each layer, as for a device.  So there is time in which the processors can average what is there already.
Beside that, one bucket of all gradients, which are averaged when backward has ended.
"""
import json
import sys
import time

import paddlert.torch
import torch
import torch.distributed as dist

model, rank, port, *endpoints = sys.argv[1:]
rank, size = int(rank), len(endpoints)
BLOCKS, STEPS = 8, 6
WIDTH, LAYERS, BATCH, WAIT = {"large": (1024, 3, 64, 0), "small": (32, 100, 32, 0), "device": (1024, 6, 8, 0.02)}[model]
BUCKET = {"bucket_cap_mb": 4} if WAIT else {}              # a layer each
ALL = 1000
torch.set_num_threads(1)


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(WAIT)
        return gradient


class Waits(torch.nn.Module):
    def forward(self, x):
        return Wait.apply(x)


def net():
    torch.manual_seed(1)
    end = [Waits()] if WAIT else []
    layers = [x for _ in range(LAYERS) for x in (*end, torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))


class Trained:
    """By one wrapper."""

    def __init__(self, wrapped, alone):
        self.model, self.alone = wrapped, alone
        self.optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
        self.losses, self.seconds, self.parts = [], [], {"averaged": [], "local": [], "alone": []}

    def step(self):
        x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(1000 * len(self.losses) + rank))
        self.optimizer.zero_grad()
        loss = (self.model(x) - x.mean(1, keepdim=True)).square().mean()
        start = time.monotonic()
        loss.backward()
        self.parts["averaged"].append(time.monotonic() - start)
        self.optimizer.step()
        self.losses.append(float(loss.detach()))

    def block(self):
        dist.barrier()
        start = time.monotonic()
        for _ in range(STEPS):
            self.step()
        dist.barrier()
        self.seconds.append((time.monotonic() - start) / STEPS)

    def measure(self):
        """Backward that does not average, and an average of as many values alone."""
        x = torch.randn(BATCH, WIDTH)
        with self.model.no_sync():
            loss = self.model(x).square().mean()
        dist.barrier()
        start = time.monotonic()
        loss.backward()
        self.parts["local"].append(time.monotonic() - start)
        dist.barrier()
        start = time.monotonic()
        self.alone()
        self.parts["alone"].append(time.monotonic() - start)

    def result(self):
        middle = {k: sorted(v)[len(v) // 2] for k, v in self.parts.items()}
        return {"rate": BATCH * size / sorted(self.seconds)[len(self.seconds) // 2], "losses": self.losses, **middle}


dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
with paddlert.Group(endpoints=endpoints, rank=rank) as group:
    values = torch.zeros(sum(p.numel() for p in net().parameters()))
    trained = {"paddlert": Trained(paddlert.torch.DistributedDataParallel(net(), group, **BUCKET), lambda: group.all_reduce(values, out=values)),
               "torch": Trained(torch.nn.parallel.DistributedDataParallel(net(), **BUCKET), lambda: dist.all_reduce(values))}
    if WAIT:
        trained["paddlert, at the end"] = Trained(
            paddlert.torch.DistributedDataParallel(net(), group, bucket_cap_mb=ALL, last_bucket_mb=ALL), trained["paddlert"].alone)
        trained["torch, at the end"] = Trained(torch.nn.parallel.DistributedDataParallel(net(), bucket_cap_mb=ALL), trained["torch"].alone)
    for one in trained.values():
        one.block()                                        # what is done once
        one.seconds.clear()
        one.parts["averaged"].clear()
    for i in range(BLOCKS):
        for one in list(trained.values())[::-1 if i % 2 else 1]:
            one.block()
            one.measure()
    found = {name: one.result() for name, one in trained.items()}
if rank == 0:
    theirs = found["torch"]["losses"]
    found["losses"] = {"steps": len(theirs), "differ": max(abs(a - b) / max(abs(b), 1e-9) for one in found.values()
                                                            for a, b in zip(one.pop("losses"), theirs))}
    print(json.dumps(found))
dist.destroy_process_group()
