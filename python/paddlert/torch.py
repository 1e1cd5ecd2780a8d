"""PyTorch models with their parameters on parameter servers.

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = paddlert.torch.Embedding("embedding", 8, optim.Adagrad(lr=0.05))
            self.out = torch.nn.Linear(8, 1)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:                             # [batch][slots], any int64
            return self.out(self.embedding(ids).sum(1))

    net = Net()
    with paddlert.torch.DistributedModel(net, optim.Adam(lr=0.001)).connect(paddlert.Job()) as model:
        for ids, y in paddlert.torch.ahead(batches, lambda b: net.embedding.prefetch(b[0])):
            loss = F.binary_cross_entropy_with_logits(net(ids), y)
            loss.backward()                                 # pushes the gradients of rows
            model.step()                                    # and those of all other parameters; gets new values
        model.no_more()
        model.save("model")

The servers apply the gradients by the rules of the tables: there is no torch.optim.  Models may be on a GPU; what travels
is copied to main memory.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

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

__all__ = ["DistributedModel", "Embedding", "EmbeddingBag", "ahead"]


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name == "Dense":
            return renamed(__name__, name, "DistributedModel", DistributedModel)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _ids(ids: torch.Tensor) -> Array:
    if not isinstance(ids, torch.Tensor):
        raise TypeError(f"ids are a {type(ids).__name__}, expected a torch.Tensor of whole numbers")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"ids are {ids.dtype}, expected whole numbers")
    return np.asarray(ids.detach().to("cpu", torch.int64).numpy(), order="C").view(np.uint64)


class _Pull(torch.autograd.Function):
    """anchor: a tensor that wants a gradient, so that backward comes here."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, rows: Rows, ids: Array) -> torch.Tensor:
        ctx.rows, ctx.ids = rows, ids.copy()                   # the caller's memory may have other ids before backward
        return torch.from_numpy(rows.pull(ids))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None, None]:
        ctx.rows.push(ctx.ids, gradient.contiguous().numpy())
        return None, None, None


class Embedding(torch.nn.Module):
    """Rows of `dim` floats by id, kept by the servers and made when first pushed to: an id is any int64.

    forward pulls, backward pushes.  padding_idx: reads as zeros and gets no gradient.  All else is of paddlert.Sparse.  Has no parameters of its own: DistributedModel(model).connect() gives it servers.
    """

    @with_options(TableOptions, SparseOptions)
    def __init__(self, name: str, dim: int, optimizer: str | Optimizer = "sgd:lr=0.01",
                 init: str | Initializer = "uniform:min=-0.01,max=0.01", *, padding_idx: int | None = None, seed: int = 0,
                 mode: Mode | None = None, **options: Unpack[SparseOptions]) -> None:
        super().__init__()
        self.rows = Rows(Sparse(name, dim, optimizer, init, seed, mode=mode, **options), padding_idx)
        self._anchor = torch.zeros((), requires_grad=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[*ids.shape, dim], on ids' device."""
        return _Pull.apply(self._anchor, self.rows, _ids(ids)).to(ids.device)

    def prefetch(self, ids: torch.Tensor) -> None:
        """Rows of ids that a later forward will ask for begin to travel; sync: when this step has ended."""
        self.rows.prefetch(_ids(ids))

    def extra_repr(self) -> str:
        """What print(model) shows of it."""
        return f"{self.rows.table.name!r}, dim={self.rows.table.dim}"


class EmbeddingBag(Embedding):
    """Sums, means or maxima of rows, as torch.nn.EmbeddingBag: of [B][n] ids, or of [n] ids cut at offsets."""

    @with_options(TableOptions, SparseOptions)
    def __init__(self, name: str, dim: int, optimizer: str | Optimizer = "sgd:lr=0.01",
                 init: str | Initializer = "uniform:min=-0.01,max=0.01", *, mode: str = "mean", padding_idx: int | None = None,
                 include_last_offset: bool = False, seed: int = 0, **options: Unpack[SparseOptions]) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"mode is {mode!r}, expected sum, mean or max")
        super().__init__(name, dim, optimizer, init, padding_idx=padding_idx, seed=seed, **options)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor | None = None,
                per_sample_weights: torch.Tensor | None = None) -> torch.Tensor:
        """[B, dim]."""
        rows = super().forward(ids).reshape(-1, self.rows.table.dim)
        at, n, padding = torch.arange(len(rows), device=ids.device), len(rows), None
        if self.rows.padding is not None:           # one more row, which stands for all of them
            padding = n
            at = torch.where(torch.from_numpy(_ids(ids).reshape(-1) == self.rows.padding).to(ids.device), n, at)
            rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
        return torch.nn.functional.embedding_bag(at.reshape(ids.shape), rows, offsets, mode=self.mode, padding_idx=padding,
                                                 per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset)


class DistributedModel(Synchroniser):
    """All parameters of a model that want a gradient, as one table: see Synchroniser's methods.  Buffers (running means)
    stay each trainer's own."""
    model_kind = torch.nn.Module

    @staticmethod
    def _parameters(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
        return [(name, p) for name, p in model.named_parameters() if p.requires_grad]

    @staticmethod
    def _embeddings(model: torch.nn.Module) -> list[Rows]:
        return [m.rows for m in model.modules() if isinstance(m, Embedding)]

    @staticmethod
    def _shape(parameter: torch.Tensor) -> Iterable[int]:
        return tuple(parameter.shape)

    @staticmethod
    def _read(parameter: torch.Tensor, out: Array) -> None:
        torch.from_numpy(out).copy_(parameter.detach())

    @staticmethod
    def _write(parameter: torch.Tensor, values: Array) -> None:
        parameter.detach().copy_(torch.from_numpy(values))

    @staticmethod
    def _gradient(parameter: torch.Tensor, out: Array) -> None:
        if parameter.grad is None:
            out.fill(0)
        else:
            torch.from_numpy(out).copy_(parameter.grad)
            parameter.grad = None

    def state_dict(self) -> dict[str, torch.Tensor]:
        """{name: tensor} of the dense parameters as the servers have them; rows stay there (save())."""
        self.pull()
        return {name: torch.from_numpy(values) for name, values in self.values().items()}
