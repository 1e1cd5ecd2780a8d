"""The steps of bench_resnet.c in another framework: peer_resnet.py torch|torch-nhwc|paddle BATCH THREADS STEPS."""
import sys
import time

BLOCKS = ((64, 3), (128, 4), (256, 6), (512, 3))


def torch_step(batch, threads, nhwc):
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.set_num_threads(threads)

    def conv(i, o, k, stride=1):
        return [nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o)]

    class Bottleneck(nn.Module):
        def __init__(self, i, planes, stride):
            super().__init__()
            self.body = nn.Sequential(*conv(i, planes, 1), nn.ReLU(inplace=True), *conv(planes, planes, 3, stride), nn.ReLU(inplace=True),
                                      *conv(planes, 4 * planes, 1))
            self.short = nn.Sequential(*conv(i, 4 * planes, 1, stride)) if stride > 1 or i != 4 * planes else nn.Identity()

        def forward(self, x):
            return F.relu(self.body(x) + self.short(x), inplace=True)

    layers, i = [*conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (planes, n) in enumerate(BLOCKS):
        for block in range(n):
            layers.append(Bottleneck(i, planes, 2 if stage and not block else 1))
            i = 4 * planes
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 102))
    x, y = torch.rand(batch, 3, 224, 224) * 2 - 1, torch.arange(batch) % 102
    if nhwc:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return step


def paddle_step(batch):                 # OMP_NUM_THREADS says how many threads
    import paddle
    paddle.set_device("cpu")
    net = paddle.vision.models.resnet50(num_classes=102)
    x, y = paddle.rand([batch, 3, 224, 224]) * 2 - 1, paddle.arange(batch) % 102
    optimizer = paddle.optimizer.Momentum(0.01, 0.9, net.parameters(), weight_decay=1e-4)

    def step():
        paddle.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.clear_grad()
    return step


def main():
    what, batch, threads, steps = sys.argv[1], *map(int, sys.argv[2:])
    step = paddle_step(batch) if what == "paddle" else torch_step(batch, threads, what == "torch-nhwc")
    for _ in range(steps):
        wall, cpu = time.monotonic(), time.process_time()
        step()
        print(f"{time.monotonic() - wall:.4f} {time.process_time() - cpu:.4f}", flush=True)


main()
