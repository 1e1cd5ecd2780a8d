"""Wide & deep in Paddle 3 on parameter servers: the model of examples/wide_and_deep, to the letter.

The same script is server or worker, as the environment says.  README.md has how to start it.
"""
import sys

import criteo
import paddlert

options = criteo.options(__doc__.splitlines()[0])
job = paddlert.Job()
if job.is_server:
    criteo.serve(job)                                       # needs no Paddle

import paddle  # noqa: E402
from paddle import nn  # noqa: E402

from paddlert.paddle import DistributedModel, Embedding, ahead  # noqa: E402


class WideAndDeep(nn.Layer):
    def __init__(self, embedding):
        super().__init__()
        sizes = [criteo.SLOTS * criteo.EMBED + criteo.NUMBERS, *[criteo.HIDDEN] * 3]
        self.embedding = embedding
        self.hidden = nn.LayerList(self.linear(*pair) for pair in zip(sizes, sizes[1:]))
        self.out, self.wide = self.linear(criteo.HIDDEN, 1), self.linear(criteo.NUMBERS, 1)

    @staticmethod
    def linear(inputs, outputs):
        return nn.Linear(inputs, outputs, weight_attr=nn.initializer.Normal(std=inputs ** -0.5))

    def forward(self, ids, numbers):
        x = paddle.concat([self.embedding(ids).flatten(1), numbers], 1)
        for layer in self.hidden:
            x = nn.functional.relu(layer(x))
        return nn.functional.sigmoid(self.out(x) + self.wide(numbers)).squeeze(1)


def loss_of(p, y):
    return -(y * paddle.log(p + criteo.EPSILON) + (1 - y) * paddle.log(1 - p + criteo.EPSILON)).mean()


def train(net, data, step, prefetch=None):
    def step_of(batch):
        ids, numbers, y = map(paddle.to_tensor, batch)
        p = net(ids, numbers)
        loss_of(p, y).backward()
        step()
        return p.numpy(), batch[2]

    criteo.passes(options, lambda: ahead(data(), prefetch, depth=4) if prefetch else data(), step_of)


def test(net, data):
    measures = criteo.Measures()
    with paddle.no_grad():
        for ids, numbers, y in data():
            measures.add(net(*map(paddle.to_tensor, (ids, numbers))).numpy(), y)
    print(measures.test_line(), flush=True)


def main():
    data, tested = criteo.share(options, "train", job.worker_index, job.worker_num), criteo.share(options, "test")
    if job.is_first_worker:
        tested.check()
    net = WideAndDeep(Embedding("embedding", criteo.EMBED, criteo.EMBEDDING_RULE, "uniform:min=-1,max=1", seed=options.seed))
    with DistributedModel(net, criteo.DENSE_RULE).connect(job, mode=options.mode, load=options.load) as dense:
        train(net, data, dense.step, lambda batch: net.embedding.prefetch(paddle.to_tensor(batch[0])))
        dense.no_more()
        dense.client.barrier()
        criteo.trained(dense.client, data, options.epochs)
        if job.is_first_worker:
            dense.pull()
            test(net, tested)
        if options.save:
            dense.save(options.save)


def own():
    """The same without servers, by Paddle alone."""
    net = WideAndDeep(nn.Embedding(criteo.VOCABULARY, criteo.EMBED, sparse=True, weight_attr=nn.initializer.Uniform(-1, 1)))
    rows, dense = net.embedding.parameters(), [p for n, p in net.named_parameters() if not n.startswith("embedding")]
    rules = [paddle.optimizer.Adagrad(lr, epsilon=1e-6, parameters=p, initial_accumulator_value=1e-4) for p, lr in ((dense, 0.005), (rows, 0.05))]

    def step():
        for rule in rules:
            rule.step()
            rule.clear_grad()

    train(net, criteo.share(options, "train"), step)
    test(net, criteo.share(options, "test"))


if __name__ == "__main__":
    paddle.seed(options.seed)
    try:
        own() if options.own else main()
    except (paddlert.Error, OSError, ValueError) as e:
        sys.exit(f"wide_and_deep_paddle: {e}")
