"""The wide_and_deep of the parameter server quick start: train.py sync|async|geo, with ./data."""
import os
import sys

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

from model import WideDeepModel
from reader import WideDeepDataset

paddle.enable_static()
fleet.init(is_collective=False)
model = WideDeepModel()
model.net(is_train=True)


def distributed_training(exe, train_model, train_data_path="./data", batch_size=10, epoch_num=2):
    train_data = WideDeepDataset(data_path=train_data_path)
    reader = train_model.loader.set_sample_generator(train_data, batch_size=batch_size, drop_last=True, places=paddle.CPUPlace())
    for epoch_id in range(epoch_num):
        reader.start()
        try:
            while True:
                loss_val = exe.run(program=paddle.static.default_main_program(), fetch_list=[train_model.cost.name])
                print("TRAIN ---> pass: {} loss: {}\n".format(epoch_id, np.mean(loss_val)), flush=True)
        except paddle.common_ops_import.core.EOFException:
            reader.reset()


dist_strategy = fleet.DistributedStrategy()
dist_strategy.a_sync = sys.argv[1] != "sync"
if sys.argv[1] == "geo":
    dist_strategy.a_sync_configs = {"k_steps": 100}
optimizer = paddle.optimizer.SGD(learning_rate=0.0001)
optimizer = fleet.distributed_optimizer(optimizer, dist_strategy)
optimizer.minimize(model.loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    distributed_training(exe, model)
    fleet.stop_worker()
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()} ({os.environ['TRAINING_ROLE']}): the end", flush=True)
