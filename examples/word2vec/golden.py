#!/usr/bin/env python3
"""Writes testdata/skipgram.json with PaddlePaddle on a CPU (made with 3.3.1): examples/word2vec/golden.py

Skip-gram with negative sampling as PaddleRec has it (models/recall/word2vec): a word's vector, another word's vector and bias,
sigmoid cross entropy with logits.  Loss, all gradients and ten SGD steps on one batch, in float32.  Windows and drawn words come
from the generator below, never from a library's; words repeat inside a window and between windows.
"""
import json
import pathlib

import numpy as np
import paddle
import paddle.nn.functional as F

paddle.set_device("cpu")
B, N, K, V, E, LR = 6, 5, 3, 20, 8, 1.0
seed = 31


def u():
    """x -> 6364136223846793005 x + 1442695040888963407 mod 2^64; a value is its top 24 bits / 2^24."""
    global seed
    seed = (seed * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
    return (seed >> 40) / float(1 << 24)


def array(shape, low, high):
    return np.array([low + (high - low) * u() for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)


def tensor(a):
    a = np.asarray(a)
    return {"shape": list(a.shape), "data": [int(v) if a.dtype.kind == "i" else float("%.9g" % v) for v in a.ravel()]}


def embedding(values):
    e = paddle.nn.Embedding(*values.shape)
    e.weight.set_value(values)
    return e


words = np.array([int(u() * V) for _ in range(B * N)], np.int64).reshape(B, N)
words[1, 2], words[2, 0] = words[0, 2], words[2, 1]
drawn = np.array([int(u() * V) for _ in range(B * (N - 1) * K)], np.int64).reshape(B * (N - 1), K)
drawn[0, 0] = words[0, 0]                                      # the word itself is drawn, too
middle = np.repeat(words[:, N // 2], N - 1)
other = np.delete(words, N // 2, 1).reshape(-1)
net = {"emb": embedding(array((V, E), -0.5, 0.5)), "emb_w": embedding(array((V, E), -0.5, 0.5)), "emb_b": embedding(array((V, 1), -0.2, 0.2))}
out = {"what": f"skip-gram, {paddle.__version__}: the same batch 10 times, sgd lr {LR}", "losses": [],
       "inputs": {"words": tensor(words), "drawn": tensor(drawn)}, "params0": {n: tensor(e.weight) for n, e in net.items()}}
optimizer = paddle.optimizer.SGD(LR, parameters=[e.weight for e in net.values()])
for step in range(10):
    v = net["emb"](paddle.to_tensor(middle))
    true = (v * net["emb_w"](paddle.to_tensor(other))).sum(1) + net["emb_b"](paddle.to_tensor(other)).squeeze(1)
    ids = paddle.to_tensor(drawn)
    negative = (v.unsqueeze(1) * net["emb_w"](ids)).sum(2) + net["emb_b"](ids).squeeze(2)
    loss = (F.binary_cross_entropy_with_logits(true, paddle.ones_like(true), reduction="none")
            + F.binary_cross_entropy_with_logits(negative, paddle.zeros_like(negative), reduction="none").sum(1)).mean()
    loss.backward()
    if step == 0:
        out["grads0"] = {n: tensor(e.weight.grad) for n, e in net.items()}
    out["losses"].append(float("%.9g" % float(loss)))
    optimizer.step()
    optimizer.clear_grad()
out["params_end"] = {n: tensor(e.weight) for n, e in net.items()}
file = pathlib.Path(__file__).parent / "testdata/skipgram.json"
file.write_text(json.dumps(out, separators=(",", ":")).replace("},", "},\n") + "\n")
