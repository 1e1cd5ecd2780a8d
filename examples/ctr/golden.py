#!/usr/bin/env python3
"""Writes testdata of deepfm and ctr_dnn with PaddlePaddle on a CPU (made with 3.3.1):

    examples/ctr/golden.py EXAMPLES

Forward, all gradients and ten SGD steps of a small network on one batch, in float32.  Inputs come from the generator below,
never from a library's; ids repeat inside a sample and between samples.  Sizes and names are those of the tests.
"""
import json
import pathlib
import sys

import numpy as np
import paddle
import paddle.nn.functional as F

paddle.set_device("cpu")
V, S, D, H, B, LR = 100, 3, 2, 8, 6, 0.1


class Gen:
    """x -> 6364136223846793005 x + 1442695040888963407 mod 2^64; a value is its top 24 bits / 2^24."""

    def __init__(self, seed):
        self.s = seed

    def u(self):
        self.s = (self.s * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
        return (self.s >> 40) / float(1 << 24)

    def arr(self, shape, low, high):
        return np.array([low + (high - low) * self.u() for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)


def tensor(a):
    a = np.asarray(a)
    return {"shape": list(a.shape), "data": [int(v) if a.dtype.kind == "i" else float("%.9g" % v) for v in a.ravel()]}


def layers(g, inputs):
    return {"fc1_w": g.arr((inputs, H), -0.4, 0.4), "fc1_b": g.arr((H,), -0.1, 0.1), "fc2_w": g.arr((H, H), -0.4, 0.4),
            "fc2_b": g.arr((H,), -0.1, 0.1), "out_w": g.arr((H, 1), -0.5, 0.5), "out_b": g.arr((1,), -0.1, 0.1)}


def tower(p, x):
    h1 = F.relu(F.linear(x, p["fc1_w"], p["fc1_b"]))
    h2 = F.relu(F.linear(h1, p["fc2_w"], p["fc2_b"]))
    return F.linear(h2, p["out_w"], p["out_b"]), h1, h2


def ctr_dnn(g):
    e = 4
    inits = {"emb": g.arr((V, e), -1, 1), **layers(g, S * e + D)}

    def logit(p, ids, dense):
        return tower(p, paddle.concat([F.embedding(ids, p["emb"]).reshape([B, S * e]), dense], 1))
    return inits, logit


def deepfm(g):
    e = 3                                         # a row is a weight, then a vector
    inits = {"emb": g.arr((V, 1 + e), -0.7, 0.7), **layers(g, (S + D) * e),
             "dense_w": g.arr((D, 1), -0.7, 0.7), "dense_v": g.arr((D, e), -0.7, 0.7)}

    def logit(p, ids, dense):
        rows = F.embedding(ids, p["emb"])
        first = rows[:, :, 0].sum(1, keepdim=True) + paddle.matmul(dense, p["dense_w"])
        v = paddle.concat([rows[:, :, 1:], dense.unsqueeze(2) * p["dense_v"].unsqueeze(0)], 1)
        second = sum((v[:, f] * v[:, h]).sum(1, keepdim=True) for f in range(S + D) for h in range(f))
        deep, h1, h2 = tower(p, v.reshape([B, (S + D) * e]))
        return first + second + deep, h1, h2
    return inits, logit


def run(name, net, seed):
    g = Gen(seed)
    inits, logit = net(g)
    ids = np.array([int(g.u() * V) for _ in range(B * S)], np.int64).reshape(B, S)
    ids[1, 0] = ids[0, 0]
    ids[2, 1] = ids[2, 0]
    dense, label = g.arr((B, D), 0, 1), np.array([[0], [1], [1], [0], [1], [0]], np.float32)
    p = {n: paddle.create_parameter(list(a.shape), "float32", default_initializer=paddle.nn.initializer.Assign(a))
         for n, a in inits.items()}
    optimizer = paddle.optimizer.SGD(LR, parameters=list(p.values()))
    out = {"what": f"{name}, {paddle.__version__}: the same batch 10 times, sgd lr {LR}", "losses": [],
           "inputs": {"ids": tensor(ids), "dense": tensor(dense), "label": tensor(label)},
           "params0": {n: tensor(a) for n, a in inits.items()}}
    for step in range(10):
        z, h1, h2 = logit(p, paddle.to_tensor(ids), paddle.to_tensor(dense))
        loss = F.log_loss(F.sigmoid(z), paddle.to_tensor(label), epsilon=1e-4).mean()
        loss.backward()
        if step == 0:
            out["forward"] = {"logit": tensor(z), "pred": tensor(F.sigmoid(z)), "hidden1": tensor(h1), "hidden2": tensor(h2)}
            out["grads0"] = {n: tensor(t.grad) for n, t in p.items()}
        out["losses"].append(float("%.9g" % float(loss)))
        optimizer.step()
        optimizer.clear_grad()
    out["loss0"] = out["losses"][0]
    out["params_end"] = {n: tensor(t) for n, t in p.items()}
    file = pathlib.Path(sys.argv[1]) / name / "testdata" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(out, separators=(",", ":")).replace("},", "},\n") + "\n")


run("ctr_dnn", ctr_dnn, 22)
run("deepfm", deepfm, 23)
