"""Rules of updates, as objects: printed by python/interface from the rows of docs/rules.md (tools/generate).

str() of one is the text that `optimizer` of a table takes, too.
"""
from __future__ import annotations

from ._rules import Optimizer

__all__ = ["SGD", "Sum", "Momentum", "Nesterov", "Adagrad", "AdagradRow", "AdagradStd", "AdagradCtr", "Adam",
           "AdamW", "AdamCtr", "AdamShared", "RMSprop", "RMSpropCentered", "Ftrl"]


class SGD(Optimizer):
    """Gradient descent: p -= lr g.

    lr: the learning rate
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "sgd"
    lr: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0,
                 min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min, max=max)


class Sum(Optimizer):
    """Adds up what is pushed, also over the trainers of a synchronous step: counters: p += lr g.

    lr: the learning rate
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "sum"
    lr: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 1.0, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0,
                 min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min, max=max)


class Momentum(Optimizer):
    """Gradient descent with a velocity: v = mu v + g; p -= lr v.

    lr: the learning rate
    mu: share of the velocity kept per step
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "momentum"
    lr: float
    mu: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, mu: float = 0.9, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0,
                 clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, mu=mu, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min, max=max)


class Nesterov(Optimizer):
    """Momentum that looks one step ahead: v = mu v + g; p -= lr (g + mu v).

    lr: the learning rate
    mu: share of the velocity kept per step
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "nesterov"
    lr: float
    mu: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, mu: float = 0.9, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0,
                 clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, mu=mu, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min, max=max)


class Adagrad(Optimizer):
    """Steps shrink with the sum of squared gradients: m += g^2, from initial; p -= lr g / (sqrt(m) + epsilon).

    lr: the learning rate
    epsilon: added to the root
    initial: start of the sum of squares
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adagrad"
    lr: float
    epsilon: float
    initial: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, epsilon: float = 1e-06, initial: float = 0.0, *, l2: float = 0.0, l1: float = 0.0,
                 clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, epsilon=epsilon, initial=initial, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm,
                         min=min, max=max)


class AdagradRow(Optimizer):
    """Adagrad with one sum a row, of mean squares; whole rows: m += [g^2], from initial; p -= lr g / (sqrt(m) +
    epsilon).

    lr: the learning rate
    epsilon: added to the root
    initial: start of the sum of squares
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adagrad_row"
    lr: float
    epsilon: float
    initial: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, epsilon: float = 1e-06, initial: float = 0.0, *, l2: float = 0.0, l1: float = 0.0,
                 clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, epsilon=epsilon, initial=initial, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm,
                         min=min, max=max)


class AdagradStd(Optimizer):
    """Adagrad by the squares of the updates before: Paddle's StdAdaGradSGDRule: p -= lr g sqrt(initial_g2sum /
    (initial_g2sum + m)); m += g^2.

    lr: the learning rate
    initial_g2sum: a sum of squares of this size takes the rate down by sqrt(2)
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adagrad_std"
    lr: float
    initial_g2sum: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.05, initial_g2sum: float = 3.0, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0,
                 clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, initial_g2sum=initial_g2sum, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min,
                         max=max)


class AdagradCtr(Optimizer):
    """Adagrad_std with one sum a row, of mean squares: Paddle's SparseAdaGradSGDRule; whole rows: p -= lr g
    sqrt(initial_g2sum / (initial_g2sum + m)); m += [g^2].

    lr: the learning rate
    initial_g2sum: a sum of squares of this size takes the rate down by sqrt(2)
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adagrad_ctr"
    lr: float
    initial_g2sum: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.05, initial_g2sum: float = 3.0, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0,
                 clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, initial_g2sum=initial_g2sum, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min,
                         max=max)


class Adam(Optimizer):
    """Mean gradient over mean square, both corrected for their start: m = beta1 m + (1 - beta1) g; v = beta2 v + (1
    - beta2) g^2; c = sqrt(1 - beta2^t); p -= lr c / (1 - beta1^t) m / (sqrt(v) + epsilon c).

    lr: the learning rate
    beta1: decay of the mean gradient
    beta2: decay of the mean square
    epsilon: added to the root
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adam"
    lr: float
    beta1: float
    beta2: float
    epsilon: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, *, l2: float = 0.0,
                 l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30,
                 max: float = 1e+30) -> None:
        super().__init__(lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, l2=l2, l1=l1, clip_value=clip_value,
                         clip_norm=clip_norm, min=min, max=max)


class AdamW(Optimizer):
    """Adam with a decay of parameters that is not part of the gradient: p -= lr decay p; then as adam.

    lr: the learning rate
    beta1: decay of the mean gradient
    beta2: decay of the mean square
    epsilon: added to the root
    decay: lr * decay of the parameter goes
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adamw"
    lr: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, decay: float = 0.01,
                 *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30,
                 max: float = 1e+30) -> None:
        super().__init__(lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, decay=decay, l2=l2, l1=l1, clip_value=clip_value,
                         clip_norm=clip_norm, min=min, max=max)


class AdamCtr(Optimizer):
    """Adam, epsilon added to the root that is not corrected: Paddle's SparseAdamSGDRule: as adam, with epsilon in
    place of epsilon c.

    lr: the learning rate
    beta1: decay of the mean gradient
    beta2: decay of the mean square
    epsilon: added to the root
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adam_ctr"
    lr: float
    beta1: float
    beta2: float
    epsilon: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, *, l2: float = 0.0,
                 l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30,
                 max: float = 1e+30) -> None:
        super().__init__(lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, l2=l2, l1=l1, clip_value=clip_value,
                         clip_norm=clip_norm, min=min, max=max)


class AdamShared(Optimizer):
    """Adam_ctr with one pair of means a row: Paddle's SparseSharedAdamSGDRule; whole rows: as adam_ctr of the m and
    v of the row; then m, v = [m], [v] of what came out for its values.

    lr: the learning rate
    beta1: decay of the mean gradient
    beta2: decay of the mean square
    epsilon: added to the root
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "adam_shared"
    lr: float
    beta1: float
    beta2: float
    epsilon: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, *, l2: float = 0.0,
                 l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30,
                 max: float = 1e+30) -> None:
        super().__init__(lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, l2=l2, l1=l1, clip_value=clip_value,
                         clip_norm=clip_norm, min=min, max=max)


class RMSprop(Optimizer):
    """Steps shrink with the mean squared gradient: q = rho q + (1 - rho) g^2; u = momentum u + lr g / sqrt(q +
    epsilon); p -= u.

    lr: the learning rate
    rho: decay of the mean square
    epsilon: added under the root
    momentum: share of the last update kept
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "rmsprop"
    lr: float
    rho: float
    epsilon: float
    momentum: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, rho: float = 0.95, epsilon: float = 1e-06, momentum: float = 0.0, *, l2: float = 0.0,
                 l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30,
                 max: float = 1e+30) -> None:
        super().__init__(lr=lr, rho=rho, epsilon=epsilon, momentum=momentum, l2=l2, l1=l1, clip_value=clip_value,
                         clip_norm=clip_norm, min=min, max=max)


class RMSpropCentered(Optimizer):
    """Rmsprop with the variance in place of the mean square: also a = rho a + (1 - rho) g; as rmsprop, with q - a^2
    in place of q under the root.

    lr: the learning rate
    rho: decay of the mean square
    epsilon: added under the root
    momentum: share of the last update kept
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "rmsprop_centered"
    lr: float
    rho: float
    epsilon: float
    momentum: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, rho: float = 0.95, epsilon: float = 1e-06, momentum: float = 0.0, *, l2: float = 0.0,
                 l1: float = 0.0, clip_value: float = 0.0, clip_norm: float = 0.0, min: float = -1e+30,
                 max: float = 1e+30) -> None:
        super().__init__(lr=lr, rho=rho, epsilon=epsilon, momentum=momentum, l2=l2, l1=l1, clip_value=clip_value,
                         clip_norm=clip_norm, min=min, max=max)


class Ftrl(Optimizer):
    """Follow the regularised leader: with l1, parameters that matter little are 0: z += g - (sqrt(q + g^2) -
    sqrt(q)) / lr p; q += g^2, from initial; p = abs(z) > l1 ? (l1 sign(z) - z) / (sqrt(q) / lr + 2 l2) : 0.

    lr: the learning rate
    initial: start of the sum of squares
    l2: l2 * parameter is added to the gradient
    l1: l1 * sign(parameter) is added to the gradient
    clip_value: gradients are put within -clip_value .. clip_value; 0: not
    clip_norm: a row's gradient is scaled to a norm of at most this; 0: not
    min: parameters are kept from falling below; -1e+30: not
    max: parameters are kept from rising above; 1e+30: not
    """
    rule = "ftrl"
    lr: float
    initial: float
    l2: float
    l1: float
    clip_value: float
    clip_norm: float
    min: float
    max: float

    def __init__(self, lr: float = 0.01, initial: float = 0.0, *, l2: float = 0.0, l1: float = 0.0, clip_value: float = 0.0,
                 clip_norm: float = 0.0, min: float = -1e+30, max: float = 1e+30) -> None:
        super().__init__(lr=lr, initial=initial, l2=l2, l1=l1, clip_value=clip_value, clip_norm=clip_norm, min=min, max=max)
