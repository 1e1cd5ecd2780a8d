"""A rank of two: collectives on a framework's tensors, in place where they lie.  group.py FRAMEWORK RANK ENDPOINT ENDPOINT"""
import importlib
import sys

import numpy as np
import paddlert

name, rank, *endpoints = sys.argv[1:]
framework, rank = importlib.import_module(name), int(rank)


def tensor(values, dtype="float32"):
    if name == "torch":
        return framework.tensor(values, dtype=getattr(framework, dtype))
    return framework.to_tensor(values, dtype=dtype)


def values(t):
    return np.array((t.float() if name == "torch" else t.astype("float32")).tolist())


with paddlert.Group(endpoints=endpoints, rank=rank) as g:
    for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8"):
        t = tensor([[1, 2, 3], [4, 5, 6 + rank]], dtype)
        before = t.data_ptr()
        assert g.all_reduce(t, out=t) is t and t.data_ptr() == before
        assert (values(t) == [[2, 4, 6], [8, 10, 13]]).all(), t
        all = g.all_gather(t)
        assert type(all) is type(t) and all.dtype == t.dtype and list(all.shape) == [2, 2, 3] and (values(all)[1] == values(t)).all(), all
    parameter = tensor([1.0, 2.0])
    if name == "torch":
        parameter.requires_grad_()
    else:
        parameter.stop_gradient = False
    work = g.all_reduce(parameter, "avg", start=True)
    assert (values(work.wait()) == [1, 2]).all()
    t = tensor([float(rank)] * 4)
    assert (values(g.broadcast(t, root=1)) == 1).all() and (values(t) == 1).all()
    turned = framework.transpose(tensor([[1.0, 2, 3], [4, 5, 6]]), *((0, 1) if name == "torch" else ([1, 0],)))
    assert (values(g.all_reduce(turned)) == [[2, 8], [4, 10], [6, 12]]).all()
    assert list(g.all_gather(tensor(np.zeros((0, 3)))).shape) == [2, 0, 3]
    if name == "torch":
        pixels = framework.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=framework.channels_last)
        assert (values(g.all_reduce(pixels)) == 2 * values(pixels)).all()
        wanted = 2 * values(pixels)
        assert g.all_reduce(pixels, out=pixels) is pixels and (values(pixels) == wanted).all()
        wide = framework.zeros(2, 4, dtype=framework.bfloat16)
        g.broadcast(wide[:, ::2].add_(rank), root=1)
        part = wide[:, ::2]
        g.broadcast(part, root=1)
        assert (values(wide) == [[1, 0, 1, 0]] * 2).all(), wide
print("done")
