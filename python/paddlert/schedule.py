"""Learning rates over time, as objects: printed by python/interface from the rows of docs/rules.md (tools/generate).

str() of one is the text that `schedule` of a table takes, too.
"""
from __future__ import annotations

from collections.abc import Sequence

from ._rules import Schedule

__all__ = ["Constant", "Exponential", "NaturalExp", "InverseTime", "Polynomial", "Cosine", "Noam", "Step",
           "MultiStep", "Piecewise", "Poly", "CaffePoly", "Exp", "Discexp", "Linear", "Manual", "PassManual"]


class Constant(Schedule):
    """lr (the same all the time).

    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "constant"
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, *, warmup: float = 0.0, warmup_start: float = 0.0, warmup_end: float = -1.0) -> None:
        super().__init__(warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Exponential(Schedule):
    """lr gamma^n (Paddle's ExponentialDecay).

    gamma: what a decay multiplies by
    steps: of one decay
    staircase: True: only full decays count
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "exponential"
    gamma: float
    steps: float
    staircase: bool
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, gamma: float = 0.9, steps: float = 1.0, staircase: bool = False, *, warmup: float = 0.0,
                 warmup_start: float = 0.0, warmup_end: float = -1.0) -> None:
        super().__init__(gamma=gamma, steps=steps, staircase=staircase, warmup=warmup, warmup_start=warmup_start,
                         warmup_end=warmup_end)


class NaturalExp(Schedule):
    """lr e^(-gamma n) (Paddle's NaturalExpDecay).

    gamma: a decay multiplies by e^-gamma
    steps: of one decay
    staircase: True: only full decays count
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "natural_exp"
    gamma: float
    steps: float
    staircase: bool
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, gamma: float = 0.1, steps: float = 1.0, staircase: bool = False, *, warmup: float = 0.0,
                 warmup_start: float = 0.0, warmup_end: float = -1.0) -> None:
        super().__init__(gamma=gamma, steps=steps, staircase=staircase, warmup=warmup, warmup_start=warmup_start,
                         warmup_end=warmup_end)


class InverseTime(Schedule):
    """lr / (1 + gamma n) (Paddle's InverseTimeDecay).

    gamma: added to the divisor by a decay
    steps: of one decay
    staircase: True: only full decays count
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "inverse_time"
    gamma: float
    steps: float
    staircase: bool
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, gamma: float = 0.1, steps: float = 1.0, staircase: bool = False, *, warmup: float = 0.0,
                 warmup_start: float = 0.0, warmup_end: float = -1.0) -> None:
        super().__init__(gamma=gamma, steps=steps, staircase=staircase, warmup=warmup, warmup_start=warmup_start,
                         warmup_end=warmup_end)


class Polynomial(Schedule):
    """(lr - end) (1 - t / steps)^power + end, t at most steps; cycle: steps ceil(t / steps) in place of steps
    (Paddle's PolynomialDecay).

    steps: from lr to end
    end: last rate
    power: of the polynomial
    cycle: True: begins again, from less, instead of ending
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "polynomial"
    steps: float
    end: float
    power: float
    cycle: bool
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, steps: float = 1000.0, end: float = 0.0001, power: float = 1.0, cycle: bool = False, *,
                 warmup: float = 0.0, warmup_start: float = 0.0, warmup_end: float = -1.0) -> None:
        super().__init__(steps=steps, end=end, power=power, cycle=cycle, warmup=warmup, warmup_start=warmup_start,
                         warmup_end=warmup_end)


class Cosine(Schedule):
    """end + (lr - end) (1 + cos(pi t / steps)) / 2 (Paddle's CosineAnnealingDecay).

    steps: from lr to end: T_max
    end: lowest: eta_min
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "cosine"
    steps: float
    end: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, steps: float = 1000.0, end: float = 0.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(steps=steps, end=end, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Noam(Schedule):
    """lr d_model^-0.5 min(t^-0.5, t warmup_steps^-1.5) (Paddle's NoamDecay).

    d_model: width of the model
    warmup_steps: the rate rises before, and falls after
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "noam"
    d_model: float
    warmup_steps: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, d_model: float = 512.0, warmup_steps: float = 4000.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(d_model=d_model, warmup_steps=warmup_steps, warmup=warmup, warmup_start=warmup_start,
                         warmup_end=warmup_end)


class Step(Schedule):
    """lr gamma^floor(t / steps) (Paddle's StepDecay).

    steps: of one decay
    gamma: what a decay multiplies by
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "step"
    steps: float
    gamma: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, steps: float = 1000.0, gamma: float = 0.1, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(steps=steps, gamma=gamma, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class MultiStep(Schedule):
    """lr gamma^i, i: how many of at are t or below (Paddle's MultiStepDecay).

    at: steps, ascending: [100, 200]
    gamma: what a decay multiplies by
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "multi_step"
    at: Sequence[float]
    gamma: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, at: Sequence[float], gamma: float = 0.1, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(at=at, gamma=gamma, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Piecewise(Schedule):
    """lr values[i], i: how many of at are t or below; Paddle's values with lr 1 (Paddle's PiecewiseDecay).

    at: steps, ascending: [100, 200]
    values: as many and one, of lr: [1, 0.1, 0.01]
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "piecewise"
    at: Sequence[float]
    values: Sequence[float]
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, at: Sequence[float], values: Sequence[float], *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(at=at, values=values, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Poly(Schedule):
    """lr (1 + a t)^-b (poly of 0.x).

    a: learning_rate_decay_a
    b: learning_rate_decay_b
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "poly"
    a: float
    b: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, a: float = 0.0, b: float = 0.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(a=a, b=b, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class CaffePoly(Schedule):
    """lr (1 - t / a)^b, 0 beyond a (caffe_poly of 0.x).

    a: learning_rate_decay_a: its end
    b: learning_rate_decay_b
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "caffe_poly"
    a: float
    b: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, a: float = 1000.0, b: float = 1.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(a=a, b=b, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Exp(Schedule):
    """lr a^(t / b) (exp of 0.x).

    a: learning_rate_decay_a
    b: learning_rate_decay_b: steps of one decay
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "exp"
    a: float
    b: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, a: float = 1.0, b: float = 1.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(a=a, b=b, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Discexp(Schedule):
    """lr a^floor(t / b) (discexp of 0.x).

    a: learning_rate_decay_a
    b: learning_rate_decay_b: steps of one decay
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "discexp"
    a: float
    b: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, a: float = 1.0, b: float = 1.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(a=a, b=b, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Linear(Schedule):
    """max(lr - a t, b) (linear of 0.x).

    a: learning_rate_decay_a: less by this each step
    b: learning_rate_decay_b: lowest
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "linear"
    a: float
    b: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, a: float = 0.0, b: float = 0.0, *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(a=a, b=b, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class Manual(Schedule):
    """lr values[i], i: how many of at are below t, at most the last (manual of 0.x: at=S1:S2,values=R1:R2 is
    learning_rate_args 'S1:R1,S2:R2').

    at: steps, ascending: [100, 200]
    values: as many, of lr: [1, 0.1]
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "manual"
    at: Sequence[float]
    values: Sequence[float]
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, at: Sequence[float], values: Sequence[float], *, warmup: float = 0.0, warmup_start: float = 0.0,
                 warmup_end: float = -1.0) -> None:
        super().__init__(at=at, values=values, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)


class PassManual(Schedule):
    """as manual, with floor(t / steps), the pass, in place of t (pass_manual of 0.x, the same by passes, from 0).

    at: steps, ascending: [100, 200]
    values: as many, of lr: [1, 0.1]
    steps: of one pass
    warmup: steps before the schedule begins; 0: none
    warmup_start: first rate of them
    warmup_end: where they lead to; -1: lr
    """
    rule = "pass_manual"
    at: Sequence[float]
    values: Sequence[float]
    steps: float
    warmup: float
    warmup_start: float
    warmup_end: float

    def __init__(self, at: Sequence[float], values: Sequence[float], steps: float = 1000.0, *, warmup: float = 0.0,
                 warmup_start: float = 0.0, warmup_end: float = -1.0) -> None:
        super().__init__(at=at, values=values, steps=steps, warmup=warmup, warmup_start=warmup_start, warmup_end=warmup_end)
