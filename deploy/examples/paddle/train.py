"""A training script of real Paddle 3.x: digits, data parallel, with checkpoints that it resumes from.

    python train.py --output out                                     one process
    paddlerun launch --nproc_per_node 2 train.py --output out        two, here
    kubectl create -f job.yaml                                       two pods

Data: --data names a .npz file with images (n, 1, 16, 16) and labels (n); without it they are made up.
"""
import argparse
import os

import numpy as np
import paddle
from paddle.distributed import fleet

CLASSES, SIDE = 10, 16


def made_up(n):
    """A coarse pattern a class, and noise on it."""
    random = np.random.default_rng(1)
    patterns = random.normal(size=(CLASSES, 1, 4, 4)).repeat(SIDE // 4, 2).repeat(SIDE // 4, 3)
    labels = random.integers(0, CLASSES, n)
    return (patterns[labels] + random.normal(size=(n, 1, SIDE, SIDE))).astype("float32"), labels.astype("int64")


class Digits(paddle.io.Dataset):
    def __init__(self, path):
        if path:
            with np.load(path) as f:
                self.images, self.labels = f["images"].astype("float32"), f["labels"].astype("int64")
        else:
            self.images, self.labels = made_up(4096)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i:i + 1]


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = paddle.nn.Sequential(paddle.nn.Conv2D(1, 16, 3, padding=1), paddle.nn.ReLU(), paddle.nn.MaxPool2D(2),
                                             paddle.nn.Conv2D(16, 32, 3, padding=1), paddle.nn.ReLU(), paddle.nn.MaxPool2D(2))
        self.classes = paddle.nn.Linear(32 * (SIDE // 4) ** 2, CLASSES)

    def forward(self, x):
        return self.classes(paddle.flatten(self.features(x), 1))


def save(path, state):
    """Whole or not at all: a pod may end at any moment."""
    paddle.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data")
    p.add_argument("--output", default="output")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=64)
    args = p.parse_args()

    fleet.init(is_collective=True)
    rank, size = fleet.worker_index(), fleet.worker_num()
    paddle.seed(1)
    net = Net()
    optimizer = paddle.optimizer.Momentum(learning_rate=0.05, momentum=0.9, parameters=net.parameters())
    begin, checkpoint = 0, os.path.join(args.output, "checkpoint.pdparams")
    if os.path.exists(checkpoint):
        state = paddle.load(checkpoint)
        net.set_state_dict(state["net"])
        optimizer.set_state_dict(state["optimizer"])
        begin = state["epoch"] + 1
        print(f"worker {rank} resumes with epoch {begin}", flush=True)
    os.makedirs(args.output, exist_ok=True)

    model, update = net, optimizer
    if size > 1:
        model, update = fleet.distributed_model(net), fleet.distributed_optimizer(optimizer)
    data = Digits(args.data)
    for epoch in range(begin, args.epochs):
        sampler = paddle.io.DistributedBatchSampler(data, args.batch_size, num_replicas=size, rank=rank, shuffle=True)
        sampler.set_epoch(epoch)
        right = seen = 0
        for batch, (images, labels) in enumerate(paddle.io.DataLoader(data, batch_sampler=sampler)):
            scores = model(images)
            loss = paddle.nn.functional.cross_entropy(scores, labels)
            loss.backward()
            update.step()
            update.clear_grad()
            right += int((scores.argmax(1, keepdim=True) == labels).sum())
            seen += len(labels)
            if rank == 0 and batch % 10 == 0:
                print(f"[Epoch {epoch}, batch {batch}] loss: {float(loss):.5f}, acc: {right / seen:.5f}", flush=True)
        if rank == 0:
            save(checkpoint, {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch})
            print(f"[Epoch {epoch}] acc: {right / seen:.5f}, saved to {checkpoint}", flush=True)


if __name__ == "__main__":
    main()
