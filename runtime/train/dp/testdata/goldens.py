"""Numbers of real Paddle for golden_test.c:

    build/paddle-3.3.1/bin/python runtime/train/dp/testdata/goldens.py >runtime/train/dp/testdata/goldens.txt

A line is a name and numbers: arguments as the C function takes them, then what Paddle says.
"""
import numpy as np
import paddle
from paddle.distributed.fleet.metrics import metric

paddle.device.set_device("cpu")
RNG = np.random.default_rng(7)


def line(name, *numbers):
    flat = np.concatenate([np.ravel(np.asarray(n, dtype=np.float64)) for n in numbers])
    print(name, *(repr(float(x)) for x in flat))


def momentum(nesterov, mu, l2, rate, n=5, steps=4):
    w = paddle.create_parameter([n], "float32", default_initializer=paddle.nn.initializer.Assign(
        RNG.normal(size=n).astype("float32")))
    start = w.numpy().copy()
    o = paddle.optimizer.Momentum(rate, mu, [w], use_nesterov=nesterov, weight_decay=l2)
    gradients = RNG.normal(size=(steps, n)).astype("float32")
    for g in gradients:
        (w * paddle.to_tensor(g)).sum().backward()
        o.step()
        o.clear_grad()
    line("momentum", nesterov, mu, l2, rate, n, steps, start, gradients, w.numpy())


momentum(False, 0.9, 0.0, 0.1)
momentum(False, 0.9, 0.01, 0.1)
momentum(True, 0.8, 0.02, 0.05)


class Ranks:
    """fleet.util of a job: all_reduce over the shares of all ranks."""

    def __init__(self, *shares):
        self.shares = list(shares)

    def all_reduce(self, own, mode):
        share = self.shares.pop(0)
        return {"sum": np.sum, "max": np.max, "min": np.min}[mode](np.stack(share), axis=0)


def auc(ranks, buckets, largest):
    stats = RNG.integers(0, largest, size=(ranks, 2, 1, buckets))
    value = metric.auc(stats[0, 0], stats[0, 1], util=Ranks(
        [s[0].reshape(-1) for s in stats], [s[1].reshape(-1) for s in stats]))
    line("auc", ranks, buckets, stats, value)


auc(1, 4, 10)
auc(3, 64, 1000)
auc(2, 16, 2)
auc(2, 3, 1)  # nothing at all


def quotient(name, sums):
    sums = np.array(sums, dtype=np.float64)
    line(name, len(sums), sums, getattr(metric, name)(
        sums[0, :1], sums[0, 1:], util=Ranks(sums[:, :1], sums[:, 1:])))


quotient("acc", [[17, 20], [3, 11], [0, 0]])
quotient("mae", [[1.25, 20], [3.7, 11]])
quotient("mse", [[0.1, 7], [0.2, 11]])
quotient("rmse", [[0.1, 7], [0.2, 11]])


def auc_stat(buckets, n):
    m = paddle.metric.Auc(num_thresholds=buckets - 1)
    scores = RNG.random(n).astype("float32")
    scores[:4] = [0, 1, 0.5, 0.25]
    labels = RNG.integers(0, 2, size=n)
    m.update(np.stack([1 - scores, scores], axis=1), labels.reshape(-1, 1))
    line("auc_stat", buckets, n, scores, labels, m._stat_pos, m._stat_neg)


auc_stat(9, 40)
auc_stat(65, 20)


def norm(last, n, channels, inner, epsilon):
    shape = [n, inner, channels] if last else [n, channels, inner]
    x = paddle.to_tensor(RNG.normal(2, 3, size=shape).astype("float32"), stop_gradient=False)
    scale = paddle.to_tensor(RNG.random(channels).astype("float32"), stop_gradient=False)
    bias = paddle.zeros([channels])
    bias.stop_gradient = False
    mean, variance = paddle.zeros([channels]), paddle.ones([channels])
    y = paddle.nn.functional.batch_norm(x, mean, variance, scale, bias, training=True, momentum=0.0, epsilon=epsilon,
                                        data_format="NLC" if last else "NCL")
    dy = RNG.normal(size=shape).astype("float32")
    (y * paddle.to_tensor(dy)).sum().backward()
    line("norm", last, n, channels, inner, epsilon, x.numpy(), dy, scale.numpy(), mean.numpy(), variance.numpy(),
         x.grad.numpy(), scale.grad.numpy(), bias.grad.numpy())


norm(False, 5, 3, 9, 1e-5)
norm(True, 4, 3, 10, 1e-3)
norm(False, 7, 2, 1, 1e-5)
