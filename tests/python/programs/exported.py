"""A PyTorch model with rows on servers has another type, and becomes files and a model of torch alone."""
import copy
import io
import pathlib
import pickle
import sys
import tempfile
import warnings

import numpy as np
import torch

import paddlert
from paddlert import evict, init, optim
from paddlert.torch import DistributedModel, Embedding, EmbeddingBag

warnings.simplefilter("ignore", FutureWarning)          # torch.jit is to go


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding("rows", 2, optim.SGD(1), init.Constant(1), padding_idx=0, evict=evict.LFU(1000))
        self.bag = EmbeddingBag("bag", 2, optim.SGD(1), init.Constant(2), mode="sum")
        self.out = torch.nn.Linear(4, 1)

    def forward(self, ids):
        return self.out(torch.cat([self.embedding(ids).sum(1), self.bag(ids)], 1))


def said(f, *a):
    try:
        print("no:", f(*a))
    except Exception as e:
        print(f"{type(e).__name__} {e}".splitlines()[0])


with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert paddlert.torch.Dense is DistributedModel and [w.category for w in seen] == [DeprecationWarning] and seen[0].filename == __file__
torch.manual_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())
net, ids = Net(), torch.tensor([[1, 2, 0], [5, 1, 1]])
with DistributedModel(net, optim.SGD(0.1)).connect(paddlert.Job(worker=0)) as model:
    net(ids).sum().backward()
    model.step()
    model.client.flush()
    model.pull()
    want = net(ids).detach()
    assert torch.equal(copy.deepcopy(net)(ids), want)
    said(torch.jit.script, net)
    said(torch.jit.trace, net, ids)
    # torch's own embeddings
    plain = model.to_torch()
    assert [type(m).__name__ for m in plain.children()] == ["Embedding", "EmbeddingBag", "Linear"] and len(plain.embedding.weight) == 6
    assert torch.equal(plain(ids), want) and model.to_torch({"rows": 10}).embedding.weight.shape == (10, 2)
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(plain), file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(ids), want)
    said(net.embedding.to_torch, 1 << 30)
    said(net.embedding.to_torch, 0)
    # files
    model.export(folder / "model.npz")
    said(model.export, folder / "model.txt")
    model.save(folder / "model")
    # another type
    assert net.to(torch.float64)(ids).dtype == torch.float64 and torch.allclose(net(ids).float(), want)
    net(ids).sum().backward()
    model.step()
    assert net.to(torch.float32)(ids).dtype == torch.float32
    # another device; ours have no parameters, and are where the others are
    moved = DistributedModel.to_torch(type("", (), {"model": copy.deepcopy(net).to("meta")})())
    assert {p.device.type for p in moved.parameters()} == {"meta"} and {p.device.type for p in model.to_torch().parameters()} == {"cpu"}

names = {"embedding.weight", "out.weight", "out.bias", "rows.ids", "rows.rows", "bag.ids", "bag.rows"} - {"embedding.weight"}
with np.load(folder / "model.npz") as arrays:
    assert set(arrays) == names, set(arrays)
    assert arrays["rows.ids"].tolist() == [1, 2, 5] and arrays["bag.ids"].tolist() == [0, 1, 2, 5] and arrays["out.weight"].shape == (1, 4)
    assert np.array_equal(arrays["rows.rows"], plain.embedding.weight.detach()[[1, 2, 5]])
    theirs = dict(arrays)
saved = Net()
other = DistributedModel(saved).predict(folder / "model")
assert torch.allclose(saved.eval()(ids), want)
other.export(folder / "again.npz")
with np.load(folder / "again.npz") as arrays:
    assert set(arrays) == names and all(np.array_equal(arrays[n], theirs[n]) for n in names)
assert not list(folder.glob("*.part"))
sys.modules["safetensors.numpy"] = None                 # not installed
said(other.export, folder / "model.safetensors")
said(pickle.loads(pickle.dumps(saved)), ids)
print(*paddlert.Model(folder / "model").tables, sep="\n")
