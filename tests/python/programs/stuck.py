"""A trainer whose server is stopped in the middle of a step.  stuck.py FRAMEWORK ADDRESS PID forward|backward"""
import importlib
import os
import signal
import sys

import numpy as np
import paddlert

name, address, pid, waits = sys.argv[1:]
framework = importlib.import_module(name)
ours = importlib.import_module(f"paddlert.{name}")
Net = framework.nn.Sequential
net = Net(ours.Embedding("rows", 512), framework.nn.Linear(512, 1))
make = framework.from_numpy if name == "torch" else framework.to_tensor
ids = [make(np.arange(i * 1000, i * 1000 + 1000)) for i in range(64)]

with ours.DistributedModel(net).connect(paddlert.Job(servers=[address], worker=0)) as dense:
    losses = [net(i).sum() for i in ids]
    os.kill(int(pid), signal.SIGSTOP)
    print("waits", flush=True)
    if waits == "forward":
        net(ids[0])
    for loss in losses:                            # pushes are handed over until too much is in flight
        loss.backward()
    print("did not wait")
