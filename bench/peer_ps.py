"""wide_and_deep on Paddle 2.6.2's parameter servers, async: peer_ps.py BATCH LINES; the role is what the environment says.

The sizes are those of examples/wide_and_deep; ids and numbers are drawn before, so nothing is read.  SGD, the cheapest rule.
"""
import sys
import time

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

SLOTS, NUMBERS, VOCABULARY, EMBED, HIDDEN, WARM = 26, 13, 1000001, 10, 400, 5


def loss_of_network():
    data = paddle.static.data
    dense, label = data("dense", [None, NUMBERS]), data("label", [None, 1])
    slots = [data(f"slot{i}", [None, 1], "int64") for i in range(SLOTS)]
    rows = [paddle.static.nn.sparse_embedding(s, size=[VOCABULARY, EMBED], param_attr=paddle.ParamAttr(name="embedding")) for s in slots]
    x = paddle.concat([*(paddle.reshape(r, [-1, EMBED]) for r in rows), dense], axis=1)
    for _ in range(3):
        x = paddle.static.nn.fc(x, HIDDEN, activation="relu")
    p = paddle.nn.functional.sigmoid(paddle.static.nn.fc(x, 1) + paddle.static.nn.fc(dense, 1))
    return paddle.mean(paddle.nn.functional.log_loss(p, label))


def main():
    batch, lines = map(int, sys.argv[1:])
    paddle.enable_static()
    fleet.init(is_collective=False)
    loss = loss_of_network()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    rng = np.random.default_rng(fleet.worker_index())
    feeds = [{"dense": rng.random((batch, NUMBERS), dtype=np.float32), "label": rng.integers(0, 2, (batch, 1)).astype("float32"),
              **{f"slot{i}": rng.integers(0, 10000, (batch, 1)) for i in range(SLOTS)}} for _ in range(64)]
    steps = max(lines // fleet.worker_num() // batch, 2 * WARM)
    for i in range(steps):
        if i == WARM:
            begin = time.monotonic()
        exe.run(paddle.static.default_main_program(), feed=feeds[i % len(feeds)], fetch_list=[loss.name])
    print(f"examples/s: {(steps - WARM) * batch / (time.monotonic() - begin):.1f}", flush=True)
    fleet.stop_worker()


main()
