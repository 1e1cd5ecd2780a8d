"""A ResNet of bottlenecks for dynamic graphs: 50, 101 or 152 layers, as narrow as a test wants them."""
from paddle import nn

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def convolution(inputs, outputs, size, stride=1, activation=True):
    layers = [nn.Conv2D(inputs, outputs, size, stride, padding=size // 2, bias_attr=False), nn.BatchNorm2D(outputs)]
    return nn.Sequential(*layers, *([nn.ReLU()] if activation else []))


class Bottleneck(nn.Layer):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.way = nn.Sequential(convolution(inputs, width, 1), convolution(width, width, 3, stride),
                                 convolution(width, 4 * width, 1, activation=False))
        same = stride == 1 and inputs == 4 * width
        self.around = nn.Identity() if same else convolution(inputs, 4 * width, 1, stride, activation=False)

    def forward(self, x):
        return nn.functional.relu(self.way(x) + self.around(x))


class ResNet(nn.Layer):
    def __init__(self, layers=50, class_dim=102, width=4):
        super().__init__()
        blocks, inputs = [], width
        for stage, count in enumerate(BLOCKS[layers]):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width << stage, 2 if stage and not i else 1))
                inputs = 4 * (width << stage)
        self.first = nn.Sequential(convolution(3, width, 7, 2), nn.MaxPool2D(3, 2, 1))
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(inputs, class_dim))

    def forward(self, x):
        return self.last(self.blocks(self.first(x)))
