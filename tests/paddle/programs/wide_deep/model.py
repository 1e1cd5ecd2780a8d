"""WideDeepModel of the parameter server quick start: a linear part beside layers over embeddings, with Criteo's features."""
import paddle

DENSE, SLOTS, IDS, DIM = 13, 26, 1001, 8


class WideDeepModel:
    def __init__(self, layers=(16, 16)):
        self.layers = layers

    def _deep(self, dense, slots):
        rows = [paddle.reshape(paddle.static.nn.embedding(slot, size=[IDS, DIM], is_sparse=True, param_attr=paddle.ParamAttr(name="rows")), [-1, DIM])
                for slot in slots]
        x = paddle.concat([*rows, dense], axis=1)
        for size in self.layers:
            x = paddle.static.nn.fc(x, size, activation="relu")
        return paddle.static.nn.fc(x, 2)

    def net(self, is_train=True):
        dense = paddle.static.data("dense", [None, DENSE], "float32")
        slots = [paddle.static.data(f"C{i}", [None, 1], "int64") for i in range(1, SLOTS + 1)]
        label = paddle.static.data("label", [None, 1], "int64")
        self.inputs = [dense, *slots, label]
        if is_train:
            # paddle.io.DataLoader.from_generator, before 2.5.
            self.loader = paddle.base.reader.DataLoader.from_generator(feed_list=self.inputs, capacity=64, use_double_buffer=False, iterable=False)
        self.predict = paddle.nn.functional.softmax(paddle.static.nn.fc(dense, 2) + self._deep(dense, slots))
        self.auc, _, _ = paddle.static.auc(input=self.predict, label=label, num_thresholds=2 ** 8)
        self.cost = self.loss = paddle.mean(paddle.nn.functional.cross_entropy(self.predict, label, use_softmax=False))
