"""First values of rows, as objects: printed by python/interface from the rows of docs/rules.md (tools/generate).

str() of one is the text that `init` of a table takes, too.
"""
from __future__ import annotations

from ._rules import Initializer

__all__ = ["Zero", "Constant", "Uniform", "Normal", "TruncatedNormal", "Xavier"]


class Zero(Initializer):
    """0 (0)."""
    rule = "zero"


class Constant(Initializer):
    """value (the same everywhere).

    value: it
    """
    rule = "constant"
    value: float

    def __init__(self, value: float = 0.0) -> None:
        super().__init__(value=value)


class Uniform(Initializer):
    """min + (max - min) u(k) (uniform).

    min: at least
    max: below
    """
    rule = "uniform"
    min: float
    max: float

    def __init__(self, min: float = -1.0, max: float = 1.0) -> None:
        super().__init__(min=min, max=max)


class Normal(Initializer):
    """mean + std n (normal).

    mean: mean
    std: standard deviation
    """
    rule = "normal"
    mean: float
    std: float

    def __init__(self, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__(mean=mean, std=std)


class TruncatedNormal(Initializer):
    """mean + std x, F(x) = F(a) + (F(b) - F(a)) u(k), F the normal distribution (normal, but for its ends).

    mean: mean
    std: standard deviation, before its ends are cut
    a: lower end, in standard deviations from the mean
    b: upper end, the same
    """
    rule = "truncated_normal"
    mean: float
    std: float
    a: float
    b: float

    def __init__(self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> None:
        super().__init__(mean=mean, std=std, a=a, b=b)


class Xavier(Initializer):
    """gain sqrt(6 / (fan_in + fan_out)) (2 u(k) - 1); uniform=0: gain sqrt(2 / (fan_in + fan_out)) n (of a size
    that keeps signals alive through layers (Glorot, Bengio 2010)).

    uniform: True: uniform; False: normal
    fan_in: inputs; 0: the row's length
    fan_out: outputs; 0: the row's length
    gain: all values are multiplied by it
    """
    rule = "xavier"
    uniform: bool
    fan_in: float
    fan_out: float
    gain: float

    def __init__(self, uniform: bool = True, fan_in: float = 0.0, fan_out: float = 0.0, gain: float = 1.0) -> None:
        super().__init__(uniform=uniform, fan_in=fan_in, fan_out=fan_out, gain=gain)
