"""The ResNet50 of the collective quick start, with a static program, on CPUs."""
import numpy as np
import paddle
import paddle.distributed.fleet as fleet

import flowers
import resnet_static as resnet
from train_fleet_dygraph import BATCH, BATCHES, EPOCHS, optimizer_setting, reader_decorator


def get_train_loader(feed_list, place):
    reader = paddle.batch(reader_decorator(flowers.train(BATCH * BATCHES)), batch_size=BATCH, drop_last=True)
    # paddle.io.DataLoader.from_generator, before 2.5.
    loader = paddle.base.reader.DataLoader.from_generator(capacity=32, use_double_buffer=True, feed_list=feed_list, iterable=True)
    loader.set_sample_list_generator(reader, place)
    return loader


def train_resnet():
    paddle.enable_static()
    paddle.seed(7)
    image = paddle.static.data(name="x", shape=[None, 3, flowers.SIDE, flowers.SIDE], dtype="float32")
    label = paddle.static.data(name="y", shape=[None, 1], dtype="int64")
    out = resnet.ResNet(layers=50).net(input=image, class_dim=flowers.KINDS)
    avg_cost = paddle.nn.functional.cross_entropy(input=out, label=label)
    acc_top1 = paddle.metric.accuracy(input=out, label=label, k=1)
    acc_top5 = paddle.metric.accuracy(input=out, label=label, k=5)
    place = paddle.CPUPlace()
    loader = get_train_loader([image, label], place)

    strategy = fleet.DistributedStrategy()
    fleet.init(is_collective=True, strategy=strategy)
    optimizer = fleet.distributed_optimizer(optimizer_setting(None))
    optimizer.minimize(avg_cost)

    exe = paddle.static.Executor(place)
    exe.run(paddle.static.default_startup_program())
    for epoch in range(EPOCHS):
        for batch, data in enumerate(loader()):
            found = exe.run(paddle.static.default_main_program(), feed=data, fetch_list=[avg_cost, acc_top1, acc_top5])
            loss, acc1, acc5 = (float(np.mean(value)) for value in found)
            print("[Epoch %d, batch %d] loss: %.5f, acc1: %.5f, acc5: %.5f" % (epoch, batch, loss, acc1, acc5), flush=True)
    weights = sum(float(np.abs(np.array(paddle.static.global_scope().find_var(p.name).get_tensor())).sum())
                  for p in paddle.static.default_main_program().all_parameters() if p.trainable)
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()} weights {weights:.3f}", flush=True)


if __name__ == "__main__":
    train_resnet()
