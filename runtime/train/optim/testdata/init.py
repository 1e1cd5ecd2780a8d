"""Rows for init_test.c, by the formulas in init.h, in Python alone:

    python3 runtime/train/optim/testdata/init.py >runtime/train/optim/testdata/init.txt

A line is text, seed, id, length, values.  Bounds and deviations of xavier are those of Paddle 3.3.1's XavierUniform and
XavierNormal; a and b of truncated_normal count standard deviations, where those of Paddle's TruncatedNormal are values (its
defaults are the same for mean 0 and std 1).
"""
from math import cos, log, pi, sqrt
from statistics import NormalDist

MASK = 2**64 - 1
NORMAL = NormalDist()


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def row(text, seed, ident, dim):
    s = mix(seed ^ mix((ident + 0x632BE59BD9B4E019) & MASK))
    u = lambda i: (mix((s + (i + 1) * 0x9E3779B97F4A7C15) & MASK) >> 11) * 2.0**-53
    n = lambda k: sqrt(-2 * log(1 - u(2 * k))) * cos(2 * pi * u(2 * k + 1))
    kind, _, rest = text.partition(":")
    p = dict(x.split("=") for x in rest.split(",") if x)
    get = lambda name, default: float(p.get(name, default))
    if kind == "zero":
        return [0.0] * dim
    if kind == "constant":
        return [get("value", 0)] * dim
    if kind == "uniform":
        low, high = get("min", -1), get("max", 1)
        return [low + (high - low) * u(k) for k in range(dim)]
    if kind == "normal":
        return [get("mean", 0) + get("std", 1) * n(k) for k in range(dim)]
    if kind == "truncated_normal":
        a, b = NORMAL.cdf(get("a", -2)), NORMAL.cdf(get("b", 2))
        return [get("mean", 0) + get("std", 1) * NORMAL.inv_cdf(a + (b - a) * u(k)) for k in range(dim)]
    fans = get("fan_in", dim) + get("fan_out", dim)
    if get("uniform", 1):
        return [get("gain", 1) * sqrt(6 / fans) * (2 * u(k) - 1) for k in range(dim)]
    return [get("gain", 1) * sqrt(2 / fans) * n(k) for k in range(dim)]


for t in ("zero", "constant:value=-0.25", "uniform", "uniform:min=2,max=5", "normal", "normal:mean=3,std=0.01",
          "truncated_normal", "truncated_normal:mean=1,std=0.1", "truncated_normal:a=0.5,b=3", "truncated_normal:a=-4,b=-1",
          "truncated_normal:a=-30,b=30", "xavier", "xavier:fan_in=100,fan_out=20", "xavier:uniform=0", "xavier:uniform=0,gain=2,fan_in=7"):
    for seed, ident, dim in ((0, 0, 9), (7, 2**64 - 1, 3), (2**63 + 5, 123456789, 64)):
        print(t, seed, ident, dim, *("%.9g" % x for x in row(t, seed, ident, dim)))
