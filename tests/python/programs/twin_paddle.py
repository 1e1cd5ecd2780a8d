"""A model with its rows on a server beside the same one with Paddle's own embedding: the same losses, step by step."""
import sys

import numpy as np
import paddle
import paddlert
from paddle import nn

from paddlert.paddle import DistributedModel, Embedding, ahead

LR, STEPS, IDS, DIM, PAD = 0.05, 6, 20, 4, 0
mode = sys.argv[1]


class Ours(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding("rows", DIM, f"sgd:lr={LR}", "uniform:min=-1,max=1", seed=3, padding_idx=PAD)
        self.out = nn.Linear(DIM, 1)

    def forward(self, ids):
        return self.out(self.embedding(ids).sum(1))


class Theirs(Ours):
    def __init__(self, start):
        super().__init__()
        self.embedding = nn.Embedding(IDS, DIM, padding_idx=PAD)
        self.embedding.weight.set_value(start)


def loss_of(net, ids):
    return (nn.functional.sigmoid(net(ids)) - (ids[:, :1] % 2).astype("float32")).square().mean()


paddle.seed(5)
server, net = paddlert.Server(), Ours()
batches = [paddle.randint(0, IDS, [8, 5]) for _ in range(STEPS)]
ours, theirs = [], []
with DistributedModel(net, f"sgd:lr={LR}").connect(server.job(), mode=mode, k_steps=1 if mode == "geo" else 0, dense_merge_max=1) as dense:
    start = dense.client.pull("rows", np.arange(IDS))
    start[PAD] = 0
    twin = Theirs(start)
    twin.out.set_state_dict(net.out.state_dict())
    descent = paddle.optimizer.SGD(LR, twin.parameters())
    for ids in ahead(batches, lambda b: net.embedding.prefetch(b)) if mode == "sync" else batches:
        loss, other = loss_of(net, ids), loss_of(twin, ids)
        loss.backward()
        dense.step()
        if mode == "async":                      # values of this step, not of one before
            dense.client.flush()
            dense.pull()
        other.backward()
        descent.step()
        descent.clear_grad()
        ours.append(float(loss))
        theirs.append(float(other))
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    assert ours[0] != ours[-1]
    seen = {int(i) for b in batches for i in b.flatten()}
    if mode != "geo":
        assert dense.client.stat("rows")["rows"] == len(seen - {PAD}), "the padding has a row"
    dense.no_more()
    dense.save("model")
    weights = dense.state_dict()
server.wait(30)
np.testing.assert_allclose(weights["out.weight"].numpy(), twin.out.weight.numpy(), rtol=1e-4, atol=1e-6)

saved = Ours()
DistributedModel(saved).predict("model")
saved.eval()
with paddle.no_grad():
    np.testing.assert_allclose(saved(batches[0]).numpy(), twin(batches[0]).numpy(), rtol=1e-4, atol=1e-6)
try:
    saved(batches[0]).sum().backward()
except Exception as e:                           # Paddle makes a kind of its own of it
    assert "is a saved one" in str(e), e
else:
    raise AssertionError("a saved model was trained")
print("the same", len(ours))
