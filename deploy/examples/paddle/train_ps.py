"""A training script of real Paddle 2.6.2: clicks, a wide and deep model whose rows are on parameter servers.

    paddlerun launch --server_num 1 --worker_num 2 --with_gloo 1 train_ps.py --output out      here
    kubectl create -f ps.yaml                                                                  two servers, two workers

One script is server and worker: the environment says which. Workers wait for each other by gloo; without it one may begin
before the first has sent the servers the model's first values. Data are made up.
"""
import argparse

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

IDS, DENSE, BATCH = 1000, 8, 64


def batches(worker, n):
    """Whether somebody clicks depends on an id and on the sum of the dense values."""
    random = np.random.default_rng(worker)
    taste = np.random.default_rng(0).normal(size=IDS)
    for _ in range(n):
        dense = random.normal(size=(BATCH, DENSE)).astype("float32")
        ids = random.integers(0, IDS, (BATCH, 1))
        yield dense, ids, (2 * taste[ids] + dense.sum(1, keepdims=True) > 0).astype("int64")


def model():
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    ids = paddle.static.data("ids", [None, 1], "int64")
    label = paddle.static.data("label", [None, 1], "int64")
    rows = paddle.static.nn.sparse_embedding(ids, size=[IDS, 8], param_attr=paddle.ParamAttr(name="rows"))
    both = paddle.concat([dense, paddle.reshape(rows, [-1, 8])], axis=1)
    predict = paddle.static.nn.fc(paddle.static.nn.fc(both, 32, activation="relu"), 2, activation="softmax")
    return paddle.mean(paddle.nn.functional.cross_entropy(predict, label, use_softmax=False)), predict


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--output", default="output")
    p.add_argument("--batches", type=int, default=1000)
    args = p.parse_args()

    paddle.enable_static()
    fleet.init(is_collective=False)
    cost, predict = model()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1), strategy).minimize(cost)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    right = seen = 0
    for batch, (dense, ids, label) in enumerate(batches(fleet.worker_index(), args.batches)):
        loss, scores = exe.run(paddle.static.default_main_program(), feed={"dense": dense, "ids": ids, "label": label},
                               fetch_list=[cost.name, predict.name])
        right, seen = right + int((scores.argmax(1) == label[:, 0]).sum()), seen + BATCH
        if (batch + 1) % 50 == 0:
            print(f"worker {fleet.worker_index()}, batch {batch + 1}: loss {float(np.mean(loss)):.4f}, right {right / seen:.3f}", flush=True)
            right = seen = 0
    fleet.save_persistables(exe, args.output)       # all of them, which wait for each other; the first one saves
    print(f"worker {fleet.worker_index()}: saved to {args.output}", flush=True)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
