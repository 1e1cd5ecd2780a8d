"""Numbers for optim_test.c of rules and of what all rules have in common:

    build/paddle-3.3.1/bin/python runtime/train/optim/testdata/rules.py >runtime/train/optim/testdata/rules.json

Inputs are those of optimizers.json beside it.  "paddle": real Paddle 3.3.1 on a CPU, in float32.  "formula": NumPy in
float64, value by value, by the formulas of Paddle's documents of memory_sparse_table (naive, std_adagrad, adagrad, adam,
shared_adam) and of DLRM's rowwise_adagrad; the wheel has no such tables.  The rows of a formula are w (3 of 4) and b (1 of 5).
"""
import json
import os

import numpy as np
import paddle

paddle.device.set_device("cpu")
STORED = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.json")))["tensors"]
TENSORS = {k: np.array(v["data"], dtype=np.float32).reshape(v["shape"]) for k, v in STORED.items()}
O, L1, L2 = paddle.optimizer, paddle.regularizer.L1Decay, paddle.regularizer.L2Decay
VALUE, NORM = paddle.nn.ClipGradByValue, paddle.nn.ClipGradByNorm
CASES = []


def case(rule, source, w, b, rows=1):
    numbers = {k: [float("%.9g" % x) for x in np.ravel(np.stack(v))] for k, v in (("w", w), ("b", b))}
    CASES.append({"rule": rule, "source": source, "rows": rows, **numbers})


def parameter(start):
    return paddle.create_parameter(list(start.shape), "float32", default_initializer=paddle.nn.initializer.Assign(start))


def of_paddle(rule, make):
    w, b = parameter(TENSORS["w0"]), parameter(TENSORS["b0"])
    o = make([w, b])
    got = ([], [])
    for gw, gb in zip(TENSORS["grad_w"], TENSORS["grad_b"]):
        ((w * paddle.to_tensor(gw)).sum() + (b * paddle.to_tensor(gb)).sum()).backward()
        o.step()
        o.clear_grad()
        for to, p in zip(got, (w, b)):
            to.append(p.numpy().copy())
    case(rule, "paddle", *got)


def ftrl(rule, lr, l1, l2):
    """The kernel adds 1e-10 to l1 and l2, which shows where gradients are as small."""
    got = []
    for which in "wb":
        p, grads = paddle.to_tensor(TENSORS[which + "0"]), TENSORS["grad_" + which]
        squares, linear = paddle.zeros_like(p), paddle.zeros_like(p)
        got.append([])
        for g in grads:
            p, squares, linear = paddle._C_ops.ftrl(
                p, squares, linear, paddle.to_tensor(g), paddle.to_tensor([lr]), l1 - 1e-10, l2 - 1e-10, -0.5)
            got[-1].append(p.numpy().copy())
    case(rule, "paddle", *got)


def of_formula(rule, step):
    """step(row, gradient, state): changes row and state, a dict; rows in float64."""
    got = []
    for which, rows in (("w", 3), ("b", 1)):
        values = TENSORS[which + "0"].astype(np.float64).reshape(rows, -1)
        states = [{} for _ in range(rows)]
        got.append([])
        for g in TENSORS["grad_" + which].astype(np.float64):
            for row, gradient, state in zip(values, g.reshape(rows, -1), states):
                step(row, gradient, state)
            got[-1].append(values.copy())
    case(rule, "formula", *got, rows=3)


def counter(row, g, state):
    row += g


def naive(row, g, state):
    row[:] = np.clip(row - 0.1 * g, -0.5, 0.6)


def rowwise(row, g, state, initial=0.0):
    state["m"] = state.get("m", initial) + sum(x * x for x in g) / len(g)
    row -= 0.05 * g / (np.sqrt(state["m"]) + 1e-6)


def std_adagrad(row, g, state):
    m = state.setdefault("m", np.zeros_like(row))
    row -= 0.05 * g * np.sqrt(3.0 / (3.0 + m))
    m += g * g


def adagrad_ctr(row, g, state):
    m = state.get("m", 0.0)
    row[:] = np.clip(row - 0.05 * g * np.sqrt(3.0 / (3.0 + m)), -0.8, 0.8)
    state["m"] = m + sum(x * x for x in g) / len(g)


def adam_ctr(row, g, state):
    m, v = state.setdefault("m", np.zeros_like(row)), state.setdefault("v", np.zeros_like(row))
    p1, p2 = state.get("p1", 0.9), state.get("p2", 0.999)
    m[:], v[:] = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    row -= 0.01 * np.sqrt(1 - p2) / (1 - p1) * m / (np.sqrt(v) + 1e-4)
    state["p1"], state["p2"] = p1 * 0.9, p2 * 0.999


def adam_shared(row, g, state):
    p1, p2 = state.get("p1", 0.9), state.get("p2", 0.999)
    m = [0.9 * state.get("m", 0.0) + 0.1 * x for x in g]
    v = [0.999 * state.get("v", 0.0) + 0.001 * x * x for x in g]
    for i in range(len(row)):
        row[i] -= 0.01 * np.sqrt(1 - p2) / (1 - p1) * m[i] / (np.sqrt(v[i]) + 1e-4)
    state.update(p1=p1 * 0.9, p2=p2 * 0.999, m=sum(m) / len(m), v=sum(v) / len(v))


of_paddle("adamw:lr=0.01,decay=0.1", lambda p: O.AdamW(0.01, parameters=p, weight_decay=0.1))
of_paddle("sgd:lr=0.1,l1=0.02", lambda p: O.SGD(0.1, p, weight_decay=L1(0.02)))
of_paddle("adagrad:lr=0.1,l1=0.05", lambda p: O.Adagrad(0.1, 1e-6, p, weight_decay=L1(0.05)))
of_paddle("sgd:lr=0.1,clip_value=0.4", lambda p: O.SGD(0.1, p, grad_clip=VALUE(0.4)))
of_paddle("sgd:lr=0.1,clip_norm=1.5", lambda p: O.SGD(0.1, p, grad_clip=NORM(1.5)))
of_paddle("momentum:lr=0.1,mu=0.9,l2=0.3,clip_norm=1.5",
          lambda p: O.Momentum(0.1, 0.9, p, weight_decay=L2(0.3), grad_clip=NORM(1.5)))
of_paddle("adam:lr=0.01,l1=0.1,clip_value=0.5", lambda p: O.Adam(0.01, parameters=p, weight_decay=L1(0.1), grad_clip=VALUE(0.5)))
of_paddle("rmsprop:lr=0.01,rho=0.95,epsilon=1e-6,momentum=0.9,clip_norm=1",
          lambda p: O.RMSProp(0.01, 0.95, 1e-6, 0.9, False, p, grad_clip=NORM(1.0)))
ftrl("ftrl:lr=0.1", 0.1, 0.0, 0.0)
ftrl("ftrl:lr=0.1,l1=0.5,l2=0.2", 0.1, 0.5, 0.2)
of_formula("sum", counter)
of_formula("sgd:lr=0.1,min=-0.5,max=0.6", naive)
of_formula("adagrad_row:lr=0.05", rowwise)
of_formula("adagrad_row:lr=0.05,initial=0.1", lambda r, g, s: rowwise(r, g, s, 0.1))
of_formula("adagrad_std:lr=0.05", std_adagrad)
of_formula("adagrad_ctr:lr=0.05,min=-0.8,max=0.8", adagrad_ctr)
of_formula("adam_ctr:lr=0.01,epsilon=1e-4", adam_ctr)
of_formula("adam_shared:lr=0.01,epsilon=1e-4", adam_shared)
print("[\n" + ",\n".join(" " + json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]")
