"""us of CPU an example of a framework's own forward and backward in examples/python, on rows that stay: nothing of servers is in it.

    peer_net.py torch|paddle BATCH ROUNDS
"""
import importlib
import pathlib
import sys
import time

import numpy as np

name, batch, rounds = sys.argv[1], *map(int, sys.argv[2:])
del sys.argv[1:]
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "examples/python"))
import criteo  # noqa: E402

example, framework = importlib.import_module(f"wide_and_deep_{name}"), importlib.import_module(name)
tensor = framework.from_numpy if name == "torch" else framework.to_tensor
if name == "torch":
    framework.set_num_threads(1)
rng = np.random.default_rng(1)
rows, numbers, y = (tensor(a.astype(np.float32)) for a in (rng.uniform(-1, 1, (batch, criteo.SLOTS, criteo.EMBED)),
                                                           rng.random((batch, criteo.NUMBERS)), rng.integers(0, 2, batch)))
if name == "torch":
    rows.requires_grad_()
else:
    rows.stop_gradient = False


class Rows(example.nn.Module if name == "torch" else example.nn.Layer):
    def forward(self, _):
        return rows


def step():
    example.loss_of(net(None, numbers), y).backward()
    for p in (rows, *net.parameters()):                     # as servers take them
        if name == "torch":
            p.grad = None
        else:
            p.clear_gradient(False)


net = example.WideAndDeep(Rows())
for _ in range(5):
    step()
begun = time.process_time()
for _ in range(rounds):
    step()
print(f"{1e6 * (time.process_time() - begun) / rounds / batch:.2f}")
