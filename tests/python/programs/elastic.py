"""A worker of an elastic job: a model of PyTorch or Paddle, Adam and a schedule.

elastic.py FRAMEWORK LOG: as members.py."""
import json
import os
import sys

import numpy as np

from gate import passes
from paddlert.elastic import Order

name, log = sys.argv[1:]
home = os.environ.get("PADDLE_TRAINER_ID", "0")
N, WIDTH = 600, 6
rng = np.random.default_rng(7)
x = rng.normal(size=(N, WIDTH)).astype(np.float32)
y = np.tanh(x @ np.arange(WIDTH, dtype=np.float32) / 4)[:, None]
seed = 1 if home == "0" else os.getpid()
order = Order(N, 20, epochs=10 ** 6, seed=3)

if name == "torch":
    import torch

    from paddlert.torch import Elastic
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.9)
    tensor, mse, clear = torch.from_numpy, torch.nn.functional.mse_loss, optimizer.zero_grad
    elastic = Elastic(net, optimizer, order, others={"schedule": schedule}, values={"sum": 0}, start_timeout=300)
else:
    import paddle

    from paddlert.paddle import Elastic
    paddle.seed(seed % 2 ** 31)
    net = paddle.nn.Sequential(paddle.nn.Linear(WIDTH, 16), paddle.nn.Tanh(), paddle.nn.Linear(16, 1))
    schedule = paddle.optimizer.lr.StepDecay(0.02, 50, 0.9)
    optimizer = paddle.optimizer.Adam(schedule, parameters=net.parameters())
    tensor, mse, clear = paddle.to_tensor, paddle.nn.functional.mse_loss, optimizer.clear_grad
    elastic = Elastic(net, optimizer, order, values={"sum": 0}, start_timeout=300)

with elastic, open(f"{log}.{home}", "a") as lines:
    print("in", os.getpid(), file=lines, flush=True)
    for step in elastic:
        if not passes(step.number):
            break
        with step as part:
            clear()
            loss = mse(elastic.model(tensor(x[part])), tensor(y[part]))
            loss.backward()
            sums = np.array([float(loss.detach()) * step.samples, part.sum() if step.samples else 0])
            found = elastic.group.all_reduce(sums)
            optimizer.step()
            schedule.step()
            elastic.values["sum"] += int(found[1])
            elastic.group.barrier()             # one that dies here: the step is done
        if step.done:
            print(step.number, repr(float(found[0]) / step.total), file=lines, flush=True)
    weights = np.concatenate([np.asarray(p.detach().numpy()).ravel() for p in net.parameters()])
    print("done", elastic.steps, elastic.samples, elastic.skipped, elastic.values["sum"], json.dumps(weights.tolist()), flush=True)
