"""Ids whose memory the next batch is read into before backward.  reused.py FRAMEWORK"""
import importlib
import sys

import numpy as np
import paddlert

name = sys.argv[1]
framework = importlib.import_module(name)
ours = importlib.import_module(f"paddlert.{name}")
net = framework.nn.Sequential(ours.Embedding("rows", 2, "sgd:lr=1", init="zero"))
ids = (framework.from_numpy if name == "torch" else framework.to_tensor)(np.array([1, 2]))

with paddlert.Server() as server, ours.DistributedModel(net).connect(server.job()) as dense:
    loss = net(ids).sum()
    ids[:] = 9
    loss.backward()
    dense.client.flush()
    print(dense.client.pull("rows", [1, 2, 9])[:, 0])
