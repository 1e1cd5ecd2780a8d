"""The ResNet50 of the collective quick start, with a dynamic graph."""
import sys

import numpy as np
import paddle
from paddle.distributed import fleet

import flowers
from resnet_dygraph import ResNet

BASE_LR, MOMENTUM, L2_DECAY = 0.1, 0.9, 1e-4
EPOCHS, BATCH, BATCHES = 2, 4, 6


def reader_decorator(reader):
    def decorated():
        for image, kind in reader():
            yield np.array(image).astype("float32").reshape(3, flowers.SIDE, flowers.SIDE), np.array(kind).astype("int64").reshape(1)
    return decorated


def optimizer_setting(parameters):
    return paddle.optimizer.Momentum(learning_rate=BASE_LR, momentum=MOMENTUM, weight_decay=paddle.regularizer.L2Decay(L2_DECAY),
                                     parameters=parameters)


def train_resnet():
    fleet.init(is_collective=True)
    paddle.seed(7)
    resnet = ResNet(class_dim=flowers.KINDS, layers=50)
    optimizer = fleet.distributed_optimizer(optimizer_setting(resnet.parameters()))
    resnet = fleet.distributed_model(resnet)

    reader = paddle.batch(reader_decorator(flowers.train(BATCH * BATCHES)), batch_size=BATCH, drop_last=True)
    # paddle.io.DataLoader.from_generator, before 2.5.
    loader = paddle.base.reader.DataLoader.from_generator(capacity=32, use_double_buffer=True, iterable=True, return_list=True,
                                                          use_multiprocess="processes" in sys.argv)
    loader.set_sample_list_generator(reader)
    for epoch in range(EPOCHS):
        resnet.train()
        for batch, (image, label) in enumerate(loader()):
            label.stop_gradient = True
            out = resnet(image)
            loss = paddle.mean(paddle.nn.functional.cross_entropy(input=out, label=label))
            acc_top1 = paddle.metric.accuracy(input=out, label=label, k=1)
            acc_top5 = paddle.metric.accuracy(input=out, label=label, k=5)
            loss.backward()
            optimizer.minimize(loss)
            resnet.clear_gradients()
            print("[Epoch %d, batch %d] loss: %.5f, acc1: %.5f, acc5: %.5f" % (epoch, batch, float(loss), float(acc_top1), float(acc_top5)), flush=True)
    weights = sum(float(p.abs().sum()) for p in resnet.parameters() if not p.stop_gradient)     # all but running means
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()} weights {weights:.3f}", flush=True)


if __name__ == "__main__":
    train_resnet()
