"""What PaddlePaddle computes of the same networks, for plan_test.c and sampler_test.c:

    build/paddle-3.3.1/bin/python examples/resnet50/golden.py >examples/resnet50/testdata/golden.json

Weights and images are a formula that both sides compute, bit for bit, so that only results are kept.
"""
import json
import sys

import numpy as np
import paddle
from paddle.vision.models import resnet18, resnet50


def noise(stream, n):
    """[-1, 1), value i of a stream: a multiplicative hash; exact in f32."""
    i = np.arange(n, dtype=np.uint64)
    x = (i * 2654435761 + np.uint64(stream) * 40503 + 12345) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 2246822519) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 3266489917) & 0xFFFFFFFF
    x ^= x >> 16
    return ((x >> 8).astype(np.float64) / 2**23 - 1.0).astype(np.float32)


def stream_of(name):
    h = 2166136261
    for c in name.encode():
        h = ((h ^ c) * 16777619) & 0xFFFFFFFF
    return h


def value(name, shape, last_norm):
    """A block adds little to what it is given (the scale of its last norm is 0.2), or ten steps would
    multiply rounding errors until no digit agrees."""
    n = int(np.prod(shape))
    if len(shape) == 4:
        bound = np.float32(np.sqrt(6.0 / (shape[1] * shape[2] * shape[3])))
    elif len(shape) == 2:
        bound = np.float32(1.0 / np.sqrt(shape[0]))
    else:
        scale = 0.2 if name.endswith(last_norm + ".weight") else 1.0
        return np.full(shape, scale if name.endswith("weight") else 0.0, np.float32)
    return (noise(stream_of(name), n) * bound).reshape(shape)


def run(make, batch, image, steps, lr, smoothing):
    net = make(num_classes=102)
    for name, p in net.named_parameters():
        if not p.stop_gradient:  # running means and variances are left as they are
            p.set_value(value(name, p.shape, "bn2" if make is resnet18 else "bn3"))
    net.train()
    optimizer = paddle.optimizer.Momentum(
        learning_rate=lr, momentum=0.9, weight_decay=paddle.regularizer.L2Decay(1e-4), parameters=net.parameters())
    losses, top1, top5 = [], [], []
    for step in range(steps):
        x = paddle.to_tensor(noise(1000 + step % 2, batch * 3 * image * image).reshape(batch, 3, image, image))
        label = (np.arange(batch) * 7 + step % 2 * 3) % 102
        y = paddle.to_tensor(label.reshape(batch, 1).astype(np.int64))
        out = net(x)
        if smoothing:
            soft = paddle.nn.functional.label_smooth(
                paddle.nn.functional.one_hot(y.reshape([batch]), 102), epsilon=smoothing)
            loss = paddle.nn.functional.cross_entropy(out, soft, soft_label=True)
        else:
            loss = paddle.nn.functional.cross_entropy(out, y)
        top1.append(float(paddle.metric.accuracy(out, y, k=1)))
        top5.append(float(paddle.metric.accuracy(out, y, k=5)))
        losses.append(float(loss))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    state = net.state_dict()
    kept = ["conv1.weight", "bn1._mean", "bn1._variance", "layer4.1.conv2.weight", "layer4.1.bn2._variance", "fc.bias"]
    return {
        "depth": 18 if make is resnet18 else 50,
        "batch": batch, "image": image, "lr": lr, "smoothing": smoothing,
        "loss": losses, "acc1": top1, "acc5": top5,
        # Of values after the last step: mean, and root of the mean square.
        "after": {n: [float(state[n].numpy().astype(np.float64).mean()),
                      float(np.sqrt((state[n].numpy().astype(np.float64) ** 2).mean()))] for n in kept},
    }


class Numbers(paddle.io.Dataset):
    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        return i

    def __len__(self):
        return self.n


def shares(samples, batch, ranks, epochs):
    """Indices by rank and epoch, of the sampler itself."""
    rows = []
    for rank in range(ranks):
        s = paddle.io.DistributedBatchSampler(Numbers(samples), batch, num_replicas=ranks, rank=rank, shuffle=True)
        for epoch in range(epochs):
            s.set_epoch(epoch)
            rows.append({"rank": rank, "epoch": epoch, "indices": [int(i) for b in s for i in b]})
    return {"samples": samples, "batch": batch, "ranks": ranks, "rows": rows}


if __name__ == "__main__":
    paddle.set_device("cpu")
    json.dump({
        "paddle": paddle.__version__,
        "runs": [run(resnet50, 4, 64, 10, 0.001, 0.0), run(resnet18, 4, 64, 10, 0.001, 0.1)],
        "sampler": [shares(37, 4, 1, 2), shares(37, 4, 2, 2), shares(103, 5, 3, 2), shares(3, 4, 4, 1)],
    }, sys.stdout, indent=1)
    print()
