"""The same ResNet of layers of a static program."""
import paddle
from paddle.static import nn

from resnet_dygraph import BLOCKS


def convolution(x, outputs, size, stride=1, activation="relu"):
    x = nn.conv2d(x, outputs, size, stride, padding=size // 2, bias_attr=False)
    return nn.batch_norm(x, act=activation)


def bottleneck(x, width, stride):
    way = convolution(convolution(convolution(x, width, 1), width, 3, stride), 4 * width, 1, activation=None)
    same = stride == 1 and x.shape[1] == 4 * width
    around = x if same else convolution(x, 4 * width, 1, stride, activation=None)
    return paddle.nn.functional.relu(way + around)


class ResNet:
    def __init__(self, layers=50, width=4):
        self.layers, self.width = layers, width

    def net(self, input, class_dim=102):
        x = paddle.nn.functional.max_pool2d(convolution(input, self.width, 7, 2), 3, 2, 1)
        for stage, count in enumerate(BLOCKS[self.layers]):
            for i in range(count):
                x = bottleneck(x, self.width << stage, 2 if stage and not i else 1)
        x = paddle.nn.functional.adaptive_avg_pool2d(x, 1)
        return nn.fc(paddle.flatten(x, 1), class_dim)
