"""Batch normalisation over the ranks of a group: what paddlert.torch.SyncBatchNorm and paddlert.paddle.SyncBatchNorm share.  The numbers are
rt_bn's of runtime/rt.h; arrays are float32, contiguous, in main memory."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._lib import InvalidError, UnsupportedError
from ._parallel import Layers, agree
from .arrays import Array
from .group import Group


@dataclass
class Shape:
    """Of an input [n][channels][inner], or with channels_last [n][inner][channels]."""
    n: int
    channels: int
    inner: int
    channels_last: bool

    def c(self) -> Any:
        return ctypes.byref(_abi.rt_bn(n=self.n, channels=self.channels, inner=self.inner, channels_last=self.channels_last))


def _at(array: Array) -> ctypes.c_void_p:
    assert array.dtype == np.float32 and array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


class Statistics:
    """Of all ranks' inputs; collective.  mean, variance (biased): float32 [channels]; count: values a channel."""

    def __init__(self, group: Group, x: Array, shape: Shape, epsilon: float) -> None:
        self._group, self._shape = group, shape
        self.mean, self.variance, self._inv_std = (np.empty(shape.channels, np.float32) for _ in range(3))
        count = ctypes.c_uint64()
        group._use("rt_bn_forward", shape.c(), _at(x), ctypes.c_float(epsilon), _at(self.mean), _at(self.variance), _at(self._inv_std),
                   ctypes.byref(count))
        self.count = int(count.value)

    def gradients(self, x: Array, dy: Array, scale: Array | None) -> tuple[Array, Array, Array]:
        """Of x (all ranks' losses count), of scale and of bias (this rank's loss); collective."""
        scale = np.ones(self._shape.channels, np.float32) if scale is None else scale
        dx, dscale, dbias = np.empty_like(x), np.empty_like(scale), np.empty_like(scale)
        self._group._use("rt_bn_backward", self._shape.c(), _at(x), _at(dy), _at(self.mean), _at(self._inv_std), _at(scale),
                         ctypes.c_uint64(self.count), _at(dx), _at(dscale), _at(dbias))
        return dx, dscale, dbias

    def unbiased(self) -> Array:
        """variance, of a sample."""
        if self.count < 2:
            raise InvalidError("the batches of all ranks have 1 value a channel together, expected 2 at least")
        unbiased: Array = self.variance * np.float32(self.count / (self.count - 1))
        return unbiased


def described(modules: Iterable[tuple[str, Any]]) -> Layers:
    """(name, what it is) of layers: their statistics are all ranks', and so is what is made of them."""
    return [(name or "the model", f"a SyncBatchNorm({m.extra_repr()})") for name, m in modules]


def refuse_foreign(modules: Iterable[tuple[str, Any]], kind: type, distributed: Any) -> None:
    """The framework's own layers know nothing of a paddlert.Group: without process groups of its own, each rank silently normalises by itself."""
    name = next((name for name, m in modules if isinstance(m, kind)), None)
    if name is not None and not (distributed.is_available() and distributed.is_initialized()):
        module = kind.__module__.partition(".")[0]
        raise UnsupportedError(f'"{name or "the model"}" is a {module}.nn.SyncBatchNorm, for which {module}.distributed has no ranks here: expected '
                               f"paddlert.{module}.SyncBatchNorm.convert_sync_batchnorm(model) before the optimizer is made")


def agree_once(layer: Any) -> None:
    """Collective, in the first forward of a layer with its own group: all ranks' are the same, whose sizes C compares in each."""
    if layer.agreed is not layer.group:
        agree(layer.group, described([("the layer", layer)]))
        layer.agreed = layer.group


class Layer:
    """A layer's group, which is no part of its copies and files where a wrapper has lent it: they are models by themselves, as those that are
    kept as averages and for checkpoints are."""
    group: Group | None
    agreed: Group | None = None                  # whose ranks have the same layer
    lent = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "agreed": None, "lent": False, "group": None if self.lent else self.group}


class Lent:
    """Layers that normalise over the ranks of a wrapper, as they have no group of their own: one made of the wrapper's, where their calls do
    not wait behind gradients, and are in order whatever the order of these."""

    def __init__(self, group: Group) -> None:
        self._given = group
        self._group: Group | None = None
        self._layers: list[tuple[Any, Group | None]] = []      # with the group that each had

    def add(self, layers: Iterable[Any]) -> None:
        """Collective."""
        needy = [layer for layer in layers if layer.group is None or layer.group is self._given]
        if needy and self._group is None:
            self._group = self._given.split(0)
        for layer in needy:
            self._layers.append((layer, layer.group))
            layer.group = layer.agreed = self._group          # compared when the model was wrapped
            layer.lent = True

    def close(self) -> None:
        for layer, own in self._layers:
            if layer.group is self._group:
                layer.group, layer.agreed, layer.lent = own, None, False
        if self._group is not None:
            self._group.close()
