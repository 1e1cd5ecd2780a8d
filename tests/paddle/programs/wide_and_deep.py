"""The parameter server quick start in small: one program, whose role comes from its environment."""
import numpy as np
import paddle
import paddle.distributed.fleet as fleet

paddle.enable_static()
fleet.init(is_collective=False)

dense = paddle.static.data("dense", [None, 4], "float32")
ids = paddle.static.data("ids", [None, 1], "int64")
label = paddle.static.data("label", [None, 1], "int64")
embedding = paddle.static.nn.sparse_embedding(ids, size=[100, 4], param_attr=paddle.ParamAttr(name="embedding"))
both = paddle.concat([dense, paddle.reshape(embedding, [-1, 4])], axis=1)
predict = paddle.static.nn.fc(paddle.static.nn.fc(both, 8, activation="relu"), 2, activation="softmax")
cost = paddle.mean(paddle.nn.functional.cross_entropy(predict, label, use_softmax=False))

strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.01), strategy).minimize(cost)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    rng = np.random.default_rng(fleet.worker_index())
    for batch in range(20):
        x = rng.random((10, 4), dtype=np.float32)
        feed = {"dense": x, "ids": rng.integers(0, 100, (10, 1)), "label": (x[:, :1] > 0.5).astype("int64")}
        loss, = exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[cost.name])
        print(f"TRAIN ---> pass: 0 loss: {float(np.mean(loss)):.5f}", flush=True)
    fleet.stop_worker()
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()}, servers {fleet.server_num()}: trained", flush=True)
