"""Parameters of other types than f32, sparse gradients, and errors in backward.  kinds.py FRAMEWORK"""
import importlib
import sys

import numpy as np
import paddlert

name = sys.argv[1]
framework = importlib.import_module(name)
ours = importlib.import_module(f"paddlert.{name}")
TORCH = name == "torch"
nn = framework.nn


def values(tensor):
    return tensor.detach().float().numpy() if TORCH else tensor.astype("float32").numpy()


def stepped(net, loss):
    """What a step of sgd takes away from the only parameter."""
    parameter, = net.parameters()
    with ours.DistributedModel(net, "sgd:lr=1").connect(paddlert.Job(servers=[], worker=0, workers=1), mode="sync") as model:
        before = values(parameter).copy()
        loss(parameter)
        model.step()
        return np.round(before - values(parameter), 2)


class Net(nn.Module if TORCH else nn.Layer):
    def __init__(self):
        super().__init__()
        self.rows = ours.Embedding("rows", 2, "sgd:lr=1", "constant:value=0.5")
        self.out = nn.Linear(2, 1, bias=False) if TORCH else nn.Linear(2, 1, bias_attr=False)

    def forward(self, ids):
        return self.out(self.rows(ids))


ids = framework.tensor([1, 2, 2]) if TORCH else framework.to_tensor([1, 2, 2])
net = Net().to(dtype=framework.float64)
net.to("cpu")


def trained(parameter):
    out = net(ids)
    out.sum().backward()
    print(out.dtype, end=" ")


print(stepped(net, trained).ravel())

# No layer of bfloat16 runs on every processor.
half = nn.Linear(2, 1, bias=False) if TORCH else nn.Linear(2, 1, bias_attr=False)
if TORCH:
    half.weight.data.fill_(3)
else:
    half.weight.set_value(np.full((2, 1), 3, np.float32))
half.to(dtype=framework.bfloat16)


def ones(parameter):
    parameter.grad = framework.ones(parameter.shape, dtype=framework.bfloat16)


print("bfloat16", stepped(half, ones).ravel())

table = nn.Embedding(4, 2, sparse=True)
all_of_them = framework.tensor([3, 1, 0, 2]) if TORCH else framework.to_tensor([3, 1, 0, 2])
try:
    print(stepped(table, lambda _: table(all_of_them).sum().backward()))
except paddlert.UnsupportedError as e:
    print(e)

# An error of ours in the framework's backward is of its own kind.
net = Net()
with ours.DistributedModel(net).connect(paddlert.Job(servers=[], worker=0, workers=1)):
    loss = net(ids).sum()
try:
    loss.backward()
except Exception as e:
    print(type(e).__name__)
