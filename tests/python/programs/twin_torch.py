"""A model with its rows on a server beside the same one with torch's own embeddings: the same losses, step by step."""
import sys

import numpy as np
import paddlert
import torch
from torch import nn

from paddlert.torch import DistributedModel, Embedding, EmbeddingBag, ahead

LR, STEPS, IDS, DIM, PAD = 0.05, 6, 20, 4, 0
mode = sys.argv[1]


class Ours(nn.Module):
    def __init__(self):
        super().__init__()
        more = {"optimizer": f"sgd:lr={LR}", "init": "uniform:min=-1,max=1"}
        self.embedding = Embedding("rows", DIM, seed=3, padding_idx=PAD, **more)
        self.bags = nn.ModuleList(EmbeddingBag(kind, DIM, seed=4, mode=kind, padding_idx=PAD if kind == "mean" else None, **more)
                                  for kind in ("sum", "mean", "max"))
        self.out = nn.Linear(5 * DIM, 1)

    def forward(self, ids):
        offsets = torch.arange(0, ids.numel(), ids.shape[1])
        parts = [self.embedding(ids).sum(1), *(bag(ids) for bag in self.bags), self.bags[0](ids.reshape(-1), offsets)]
        return self.out(torch.cat(parts, 1))


class Theirs(Ours):
    def __init__(self, start):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(start["rows"], freeze=False, padding_idx=PAD)
        self.bags = nn.ModuleList(nn.EmbeddingBag.from_pretrained(start[kind], freeze=False, mode=kind,
                                                                  padding_idx=PAD if kind == "mean" else None)
                                  for kind in ("sum", "mean", "max"))


def loss_of(net, ids):
    y = net(ids)
    return (torch.sigmoid(y) - (ids[:, :1] % 2)).square().mean()


torch.manual_seed(5)
server, net = paddlert.Server(), Ours()
batches = [torch.randint(0, IDS, (8, 5)) for _ in range(STEPS)]
ours, theirs = [], []
with DistributedModel(net, f"sgd:lr={LR}").connect(server.job(), mode=mode, k_steps=1 if mode == "geo" else 0, dense_merge_max=1) as dense:
    start = {t.name: torch.from_numpy(dense.client.pull(t.name, np.arange(IDS))) for t in dense.tables[1:]}
    start["rows"][PAD] = 0
    start["mean"][PAD] = 0
    twin = Theirs(start)
    twin.out.load_state_dict(net.out.state_dict())
    descent = torch.optim.SGD(twin.parameters(), lr=LR)
    for ids in ahead(batches, lambda b: net.embedding.prefetch(b)) if mode == "sync" else batches:
        loss, other = loss_of(net, ids), loss_of(twin, ids)
        loss.backward()
        dense.step()
        if mode == "async":                      # values of this step, not of one before
            dense.client.flush()
            dense.pull()
        descent.zero_grad()
        other.backward()
        descent.step()
        ours.append(loss.item())
        theirs.append(other.item())
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    assert ours[0] != ours[-1]
    seen = {int(i) for b in batches for i in b.flatten()}
    if mode != "geo":
        assert dense.client.stat("rows")["rows"] == len(seen - {PAD}), "the padding has a row"
    dense.no_more()
    dense.save("model")
    weights = dense.state_dict()
server.wait(30)
np.testing.assert_allclose(weights["out.weight"], twin.out.weight.detach(), rtol=1e-4, atol=1e-6)

saved = Ours()
DistributedModel(saved).predict("model")
saved.eval()
with torch.no_grad():
    np.testing.assert_allclose(saved(batches[0]), twin(batches[0]), rtol=1e-4, atol=1e-6)
try:
    saved(batches[0]).sum().backward()
except paddlert.InvalidError as e:
    assert "is a saved one" in str(e), e
else:
    raise AssertionError("a saved model was trained")
print("the same", len(ours))
