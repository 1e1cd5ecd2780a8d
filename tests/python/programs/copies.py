"""A connected model is copied, pickled and saved as a whole; what is no model or no ids is named.  copies.py FRAMEWORK"""
import copy
import importlib
import io
import pickle
import sys

import numpy as np
import paddlert

name = sys.argv[1]
framework = importlib.import_module(name)
ours = importlib.import_module(f"paddlert.{name}")
net = framework.nn.Sequential(ours.Embedding("rows", 2, "sgd:lr=1", init="zero"), framework.nn.Linear(2, 1))
ids = (framework.from_numpy if name == "torch" else framework.to_tensor)(np.array([1, 2]))


def wrong(call, *arguments):
    try:
        call(*arguments)
    except TypeError as e:
        print(e)


with ours.DistributedModel(net).connect(paddlert.Job(worker=0)) as dense:
    net(ids).sum().backward()
    dense.step()
    same = copy.deepcopy(net)
    assert (np.array(same(ids).tolist()) == np.array(net(ids).tolist())).all()
    file = io.BytesIO()
    if name == "torch":
        framework.save(net, file)
        file.seek(0)
        loaded = framework.load(file, weights_only=False)
    else:
        loaded = pickle.loads(pickle.dumps(net[0]))
    try:
        loaded(ids)
    except paddlert.InvalidError as e:
        print(e)
    for bad in ([1, 2], np.array([1, 2]), None):
        wrong(net[0], bad)
wrong(ours.DistributedModel, {})
wrong(ours.Embedding, "e", 2, framework.optim.Adam if name == "torch" else framework.optimizer.Adam)
