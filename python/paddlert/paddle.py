"""Paddle 3 models, dygraph, with their parameters on parameter servers.

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.embedding = paddlert.paddle.Embedding("embedding", 8, optim.Adagrad(lr=0.05))
            self.out = paddle.nn.Linear(8, 1)

        def forward(self, ids: paddle.Tensor) -> paddle.Tensor:                             # [batch][slots], any int64
            return self.out(self.embedding(ids).sum(1))

    net = Net()
    with paddlert.paddle.DistributedModel(net, optim.Adam(lr=0.001)).connect(paddlert.Job()) as model:
        for ids, y in paddlert.paddle.ahead(batches, lambda b: net.embedding.prefetch(b[0])):
            loss = F.binary_cross_entropy_with_logits(net(ids), y)
            loss.backward()                                 # pushes the gradients of rows
            model.step()                                    # and those of all other parameters; gets new values
        model.no_more()
        model.save("model")

The servers apply the gradients by the rules of the tables: there is no paddle.optimizer.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from ._lib import renamed, with_options
from ._options import SparseOptions, TableOptions
from ._rules import Initializer, Optimizer
from ._training import Rows, Synchroniser, ahead
from .arrays import Array
from .ps import Sparse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Mode

    from typing import TypeAlias

    Dense: TypeAlias = "DistributedModel"

__all__ = ["DistributedModel", "Embedding", "ahead"]


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name == "Dense":
            return renamed(__name__, name, "DistributedModel", DistributedModel)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _ids(ids: paddle.Tensor) -> Array:
    if not isinstance(ids, paddle.Tensor):
        raise TypeError(f"ids are a {type(ids).__name__}, expected a paddle.Tensor of whole numbers")
    if ids.dtype not in (paddle.int64, paddle.int32, paddle.uint8, paddle.int16, paddle.int8):
        raise TypeError(f"ids are {ids.dtype}, expected whole numbers")
    return np.asarray(ids.numpy(), np.int64, order="C").view(np.uint64)


class _Pull(paddle.autograd.PyLayer):
    """anchor: a tensor that wants a gradient, so that backward comes here."""

    @staticmethod
    def forward(ctx: Any, anchor: paddle.Tensor, rows: Rows, ids: Array) -> paddle.Tensor:
        ctx.rows, ctx.ids = rows, ids
        return paddle.to_tensor(rows.pull(ids))

    @staticmethod
    def backward(ctx: Any, gradient: paddle.Tensor) -> paddle.Tensor:
        ctx.rows.push(ctx.ids, gradient.numpy())
        return paddle.zeros([1])


class Embedding(paddle.nn.Layer):
    """Rows of `dim` floats by id, kept by the servers and made when first pushed to: an id is any int64.

    forward pulls, backward pushes.  padding_idx: reads as zeros and gets no gradient.  All else is of paddlert.Sparse.  Has no parameters of its own: DistributedModel(model).connect() gives it servers.
    """

    @with_options(TableOptions, SparseOptions)
    def __init__(self, name: str, dim: int, optimizer: str | Optimizer = "sgd:lr=0.01",
                 init: str | Initializer = "uniform:min=-0.01,max=0.01", *, padding_idx: int | None = None, seed: int = 0,
                 mode: Mode | None = None, **options: Unpack[SparseOptions]) -> None:
        super().__init__()
        self.rows = Rows(Sparse(name, dim, optimizer, init, seed, mode=mode, **options), padding_idx)
        # In a list, where Layer does not take it for a parameter.
        self._anchor = [paddle.to_tensor([0.0], stop_gradient=False)]

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        """[*ids.shape, dim]."""
        return _Pull.apply(self._anchor[0], self.rows, _ids(ids))

    def prefetch(self, ids: paddle.Tensor) -> None:
        """Rows of ids that a later forward will ask for begin to travel; sync: when this step has ended."""
        self.rows.prefetch(_ids(ids))

    def extra_repr(self) -> str:
        """What print(model) shows of it."""
        return f"{self.rows.table.name!r}, dim={self.rows.table.dim}"


class DistributedModel(Synchroniser):
    """All parameters of a model that want a gradient, as one table: see Synchroniser's methods.  Buffers (running means)
    stay each trainer's own."""
    model_kind = paddle.nn.Layer

    @staticmethod
    def _parameters(model: paddle.nn.Layer) -> list[tuple[str, paddle.Tensor]]:
        return [(name, p) for name, p in model.named_parameters() if not p.stop_gradient]

    @staticmethod
    def _embeddings(model: paddle.nn.Layer) -> list[Rows]:
        return [m.rows for m in model.sublayers(include_self=True) if isinstance(m, Embedding)]

    @staticmethod
    def _shape(parameter: paddle.Tensor) -> Iterable[int]:
        return tuple(parameter.shape)

    @staticmethod
    def _read(parameter: paddle.Tensor, out: Array) -> None:
        np.copyto(out, parameter.numpy())

    @staticmethod
    def _write(parameter: paddle.Tensor, values: Array) -> None:
        parameter.set_value(values)

    @staticmethod
    def _gradient(parameter: paddle.Tensor, out: Array) -> None:
        if parameter.grad is None:
            out.fill(0)
        else:
            np.copyto(out, parameter.grad.numpy())
            parameter.clear_gradient(set_to_zero=False)

    def state_dict(self) -> dict[str, paddle.Tensor]:
        """{name: tensor} of the dense parameters as the servers have them; rows stay there (save())."""
        self.pull()
        return {name: paddle.to_tensor(values) for name, values in self.values().items()}
