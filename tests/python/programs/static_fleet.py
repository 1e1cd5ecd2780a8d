"""A static program on the workers of the environment, each with its share of two batches a step; alone it has both."""
import sys

import numpy as np
import paddle
from paddlert import fleet

paddle.enable_static()
strategy = fleet.DistributedStrategy()
strategy.fp16_allreduce = "half" in sys.argv
fleet.init(is_collective=True, strategy=strategy)
rank, size = fleet.worker_index(), fleet.worker_num()
paddle.seed(7 + rank)                                    # the others' values are replaced
x, y = paddle.static.data("x", [None, 4], "float32"), paddle.static.data("y", [None, 1], "float32")
if paddle.framework.in_pir_mode():
    out = paddle.nn.Linear(4, 1)(x)
else:
    out = paddle.static.nn.fc(paddle.static.nn.fc(x, 8, activation="tanh"), 1)
loss = paddle.mean((out - y) ** 2)
optimizer = fleet.distributed_optimizer(paddle.optimizer.Momentum(
    0.1, 0.9, weight_decay=paddle.regularizer.L2Decay(1e-2), grad_clip=paddle.nn.ClipGradByValue(0.05)))
optimizer.minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
rng = np.random.default_rng(1)
for _ in range(6):
    batches = rng.normal(size=(2, 8, 4)).astype(np.float32)
    mine = batches[rank::size].reshape(-1, 4)
    exe.run(feed={"x": mine, "y": np.sin(mine.sum(1, keepdims=True))}, fetch_list=[loss])
values = [np.array(paddle.static.global_scope().find_var(p.name).get_tensor()).ravel() for p in paddle.static.default_main_program().all_parameters()]
print("weights", *np.concatenate(values), flush=True)
