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

Without servers, each worker has the whole model, and gradients are averaged:

    with paddlert.torch.DistributedDataParallel(net) as model:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in batches:                                # this worker's share
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

For workers that die and come back: Elastic.
"""
from __future__ import annotations

import contextlib
import copy
import functools
import json
import math
import operator
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from . import elastic
from ._lib import InvalidError, UnsupportedError, instance, items, renamed, shown, with_options
from ._norm import Layer, Lent, Shape, Statistics, agree_once, described, refuse_foreign
from ._options import SparseOptions, TableOptions
from ._parallel import REDUCED, DGC, Layers, LocalSGD, Named, Parallel, Seen, tensors_in
from ._rules import Initializer, Optimizer
from ._training import Rows, Synchroniser, ahead
from .arrays import Array
from .data import Dataset, process_part
from .group import Group
from .job import Job
from .ps import Sparse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Mode

    from typing import TypeAlias

    Dense: TypeAlias = "DistributedModel"

__all__ = ["DGC", "DistributedDataParallel", "DistributedModel", "Elastic", "Embedding", "EmbeddingBag", "LocalSGD", "Samples", "SyncBatchNorm",
           "ahead"]


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
    if ids.device.type == "meta":
        raise TypeError("ids are a tensor on meta, which has no numbers, expected one in memory")
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

    forward pulls, backward pushes.  padding_idx: reads as zeros and gets no gradient.  All else is of paddlert.Sparse.
    Has no parameters of its own: DistributedModel(model).connect() gives it servers.
    """

    @with_options(TableOptions, SparseOptions)
    def __init__(self, name: str, dim: int, optimizer: str | Optimizer = "sgd:lr=0.01",
                 init: str | Initializer = "uniform:min=-0.01,max=0.01", *, padding_idx: int | None = None, seed: int = 0,
                 mode: Mode | None = None, **options: Unpack[SparseOptions]) -> None:
        super().__init__()
        self.rows = Rows(Sparse(name, dim, optimizer, init, seed, mode=mode, **options), padding_idx)
        self.dtype, self.device = torch.float32, torch.empty(0).device         # as of parameters, had it any

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[*ids.shape, dim], on ids' device, of the type that model.to(...) says."""
        if torch.jit.is_tracing() or getattr(getattr(torch, "compiler", None), "is_exporting", bool)():
            self.__prepare_scriptable__()
        return _Pull.apply(torch.zeros((), requires_grad=True), self.rows, _ids(ids)).to(ids.device, self.dtype)

    def __prepare_scriptable__(self) -> NoReturn:
        """What torch.jit.script asks."""
        raise UnsupportedError(f"the rows of {self.rows.table.name!r} come from servers, by Python, which torch.jit and torch.export cannot compile: "
                               "expected DistributedModel(model).to_torch(), with torch's own embeddings; torch.compile leaves the pull to Python")

    def _apply(self, fn: Any, *recurse: Any) -> Any:
        like = fn(torch.zeros((), dtype=self.dtype, device=self.device))
        self.dtype, self.device = like.dtype, like.device
        return super()._apply(fn, *recurse)

    def to_torch(self, num_embeddings: int | None = None) -> torch.nn.Module:
        """A torch.nn.Embedding of the rows of ids 0 to num_embeddings - 1, as they are now; None: up to the largest id that has a row.
        InvalidError: more than 1 GiB."""
        weight = torch.from_numpy(self.rows.matrix(num_embeddings)).to(self.device, self.dtype)
        return torch.nn.Embedding.from_pretrained(weight, freeze=False, padding_idx=self._padding_in(weight))

    def _padding_in(self, weight: torch.Tensor) -> int | None:
        return int(self.rows.padding) if self.rows.padding is not None and self.rows.padding < len(weight) else None

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

    def to_torch(self, num_embeddings: int | None = None) -> torch.nn.Module:
        """A torch.nn.EmbeddingBag, otherwise as Embedding.to_torch."""
        weight = torch.from_numpy(self.rows.matrix(num_embeddings)).to(self.device, self.dtype)
        return torch.nn.EmbeddingBag.from_pretrained(weight, freeze=False, mode=self.mode, include_last_offset=self.include_last_offset,
                                                     padding_idx=self._padding_in(weight))


def _refuse_sparse(gradient: torch.Tensor) -> None:
    if gradient.layout != torch.strided:
        raise UnsupportedError(f"a gradient of {list(gradient.shape)} is {gradient.layout}, expected a dense one: Embedding(sparse=False), or "
                               "paddlert.torch.Embedding")


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
            _refuse_sparse(parameter.grad)
            torch.from_numpy(out).copy_(parameter.grad)
            parameter.grad = None

    def to_torch(self, num_embeddings: Mapping[str, int] | None = None) -> torch.nn.Module:
        """A copy of the model with torch's own embeddings in the place of ours, as Embedding.to_torch makes them: for torch.jit, torch.export and
        ONNX.  num_embeddings: by the table's name; a table that is not there goes up to its largest id."""
        sizes = dict(num_embeddings or {})
        made = copy.deepcopy(self.model)
        if isinstance(made, Embedding):
            return made.to_torch(sizes.get(made.rows.table.name))
        for module in list(made.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, Embedding):
                    setattr(module, name, child.to_torch(sizes.get(child.rows.table.name)))
        return made

    def state_dict(self) -> dict[str, torch.Tensor]:
        """{name: tensor} of the dense parameters as the servers have them; rows stay there (save())."""
        self.pull()
        return {name: torch.from_numpy(values) for name, values in self.values().items()}


SUMMED = {getattr(torch, name) for name in REDUCED}


_FORM = operator.attrgetter("layout", "dtype", "is_cpu")
_PLAIN = (torch.strided, torch.float32, True)              # a tensor whose values C can read and write


class _Parallel(Parallel):
    @staticmethod
    def _kind(tensor: torch.Tensor) -> str:
        return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"

    @staticmethod
    def _size(tensor: torch.Tensor) -> int:
        return int(tensor.numel())

    @staticmethod
    def _bytes(tensor: torch.Tensor) -> Array:
        array: Array = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return array

    @staticmethod
    def _set_bytes(tensor: torch.Tensor, array: Array) -> None:
        tensor.detach().copy_(torch.from_numpy(array.copy()).view(tensor.dtype).view(tensor.shape))

    @staticmethod
    def _view(values: Array, parameter: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(values).view(parameter.shape)

    @staticmethod
    def _gradients(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        return [p.grad for p in parameters]

    @staticmethod
    def _addresses(gradients: Sequence[torch.Tensor], sizes: Sequence[int]) -> list[int]:
        if (torch.is_grad_enabled()                       # create_graph: gradients have versions, which C does not count
                or set(map(type, gradients)) != {torch.Tensor} or set(map(_FORM, gradients)) != {_PLAIN}
                or not all(map(torch.Tensor.is_contiguous, gradients)) or any(map(torch.Tensor.is_neg, gradients))
                or list(map(torch.Tensor.numel, gradients)) != sizes):
            return []
        addresses = list(map(torch.Tensor.data_ptr, gradients))
        return addresses if all(addresses) else []

    @staticmethod
    def _lie_at(gradients: Sequence[torch.Tensor], addresses: list[int]) -> bool:
        return list(map(torch.Tensor.data_ptr, gradients)) == addresses

    @staticmethod
    def _take(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        gradients = [g for p, _ in pairs if (g := p.grad) is not None]
        odd = next((g for g in gradients if g.layout != torch.strided or g.dtype not in SUMMED), None)
        if odd is not None:
            _refuse_sparse(odd)
            raise UnsupportedError(f"a gradient of {list(odd.shape)} is {odd.dtype}, expected one of {', '.join(REDUCED)}: the model has been converted "
                                   "since it was wrapped")
        if len(gradients) < len(pairs):
            raise InvalidError("a hook has cleared a gradient before all ranks' average was made of it, expected it to stay until backward ends")
        with torch.no_grad():                             # create_graph: gradients may want gradients
            torch._foreach_copy_([view for _, view in pairs], gradients)

    @staticmethod
    def _give(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        gradients = []
        with torch.no_grad():
            for parameter, _ in pairs:
                gradient = parameter.grad
                if gradient is None:
                    gradient = parameter.grad = torch.empty_like(parameter)
                gradients.append(gradient)
            torch._foreach_copy_(gradients, [view for _, view in pairs])

    @staticmethod
    def _read(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        torch._foreach_copy_([view for _, view in pairs], [p.detach() for p, _ in pairs])

    @staticmethod
    def _write(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        torch._foreach_copy_([p.detach() for p, _ in pairs], [view for _, view in pairs])

    @staticmethod
    def _made(parameter: torch.Tensor) -> bool:
        return parameter.grad is not None

    @staticmethod
    def _at_end(function: Callable[[], None]) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(function)


# What torch's own has, and what to do here.
INSTEAD = {
    "join": "ranks call forward and backward equally often; one without samples passes an empty batch and a loss of 0 * model(x).sum()",
    "register_comm_hook": "compression= says how gradients travel",
    "_register_comm_hook": "compression= says how gradients travel",
    "_register_builtin_comm_hook": "compression= says how gradients travel",
    "_set_static_graph": "nothing is to be said of the graph before",
    "_register_fused_optim": "call the optimizer's step() after backward",
    "reducer": "what it shows has no counterpart",
    **dict.fromkeys(("join_hook", "join_device", "join_process_group"), "ranks call forward and backward equally often, without Join"),
}


class DistributedDataParallel(torch.nn.Module):
    """A model that every rank has, each with its part of the batch: backward leaves the average of all ranks' gradients in .grad, and
    sends those that are made while it makes others.  Collective; the parameters and buffers become rank 0's.

    group: a paddlert.Group, None: the workers of the environment.  bucket_cap_mb: gradients travel in buckets of about this size;
    last_bucket_mb: of the bucket that is ready last.  compression: "bf16" or "f16" halves what travels; what rounding takes is added to the
    next step's gradients; "dgc", a DGC: of large gradients only the largest entries travel.
    local_sgd: a LocalSGD, by which parameters are averaged, not gradients.  broadcast_buffers: forward while training begins with rank 0's buffers (running means).

    find_unused_parameters, static_graph, gradient_as_bucket_view, device_ids of one device, output_device: as torch's; nothing changes.

    A parameter without a gradient counts as zeros; where no rank has one, it stays None.  What is unfrozen, replaced or added later, on all
    ranks, is taken on by the next forward: new parameters become rank 0's.  Forward in no_sync(), or without
    gradients, does not communicate.  state_dict() has the model's own names, without "module.".  Errors of communication are raised
    by backward (paddlert.PeerLostError, which names the rank, and others).
    """

    def __init__(self, module: torch.nn.Module, group: Group | None = None, *, bucket_cap_mb: float = 25, last_bucket_mb: float = 1,
                 compression: str | DGC | None = None, local_sgd: LocalSGD | None = None, broadcast_buffers: bool = True,
                 find_unused_parameters: bool = False,
                 static_graph: bool = False, gradient_as_bucket_view: bool = False, device_ids: Sequence[Any] | None = None,
                 output_device: Any = None, process_group: None = None) -> None:
        super().__init__()
        self.module = instance("module", module, torch.nn.Module)
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            raise UnsupportedError(f"this is PyTorch {torch.__version__}, expected 2.1 or later")
        if process_group is not None:
            raise UnsupportedError(f"process_group is {shown(process_group)}, expected group=, a paddlert.Group")
        if device_ids is not None and len(items(device_ids) or [device_ids]) > 1:
            raise UnsupportedError(f"device_ids is {shown(device_ids)}, expected one device, where the model already is: one process for each")
        named = self._named()
        if any(p.device.type != "cpu" for _, p in named[0]):
            warnings.warn("the model is not in main memory: its gradients are copied there, averaged and copied back", stacklevel=2)
        self._parallel = _Parallel(*named, group, bucket_mb=bucket_cap_mb, last_mb=last_bucket_mb, compression=compression,
                                   broadcast_buffers=broadcast_buffers, local_sgd=local_sgd, layers=self._synchronised())
        self._sync = True
        self._hooks: list[Any] = []
        self._lent = Lent(self._parallel.group)
        self._finalizer = weakref.finalize(self, _close, self._parallel, self._hooks, self._lent)
        self._watch()
        self._register_state_dict_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(self._with_prefix)

    def _named(self) -> tuple[Named, Named, Named]:
        """Parameters that want a gradient, the others, and buffers."""
        named = list(self.module.named_parameters())
        unmade = next((name for name, p in named if isinstance(p, torch.nn.parameter.UninitializedParameter)), None)
        if unmade is not None:
            raise InvalidError(f'parameter "{unmade}" has no shape yet, expected a forward of the model before it is wrapped')
        refuse_foreign(self.module.named_modules(), torch.nn.SyncBatchNorm, torch.distributed)
        return ([(n, p) for n, p in named if p.requires_grad], [(n, p) for n, p in named if not p.requires_grad],
                list(self.module.named_buffers()))

    def _synchronised(self) -> Layers:
        """What has to be the same on all ranks, beside parameters and buffers."""
        return described((name, m) for name, m in self.module.named_modules() if isinstance(m, SyncBatchNorm))

    def _watch(self) -> None:
        """The model as it is now."""
        parallel = self._parallel
        for hook in self._hooks:
            hook.remove()
        self._hooks[:] = [p.register_post_accumulate_grad_hook(functools.partial(parallel.made, i))
                          for i, (_, p) in enumerate(parallel._parameters)]
        modules = list(self.module.modules())
        self._lent.add(m for m in modules if isinstance(m, SyncBatchNorm))
        self._seen = Seen(modules, "_modules", lambda p: bool(p.requires_grad))

    def __getattr__(self, name: str) -> Any:
        if name in INSTEAD:
            raise AttributeError(f"DistributedDataParallel has no {name}: {INSTEAD[name]}")
        return super().__getattr__(name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a DistributedDataParallel belongs to this process, and cannot be copied or pickled: expected its .module, or state_dict()")

    @property
    def require_backward_grad_sync(self) -> bool:
        """False is no_sync() until it is True again."""
        return self._sync

    @require_backward_grad_sync.setter
    def require_backward_grad_sync(self, value: bool) -> None:
        self._sync = bool(value)

    @property
    def group(self) -> Group:
        """Whose ranks these are; its collectives may be called between steps."""
        return self._parallel.group

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Of the model, with the same arguments and result.  Outside of no_sync(), its backward averages the gradients."""
        if not torch.is_grad_enabled():
            return self.module(*inputs, **named)
        parallel = self._parallel
        parallel.check()
        if self._sync:
            if self._seen.changed():
                parallel.renew(*self._named(), self._synchronised())
                self._watch()
            parallel.use_buffers(self._seen.has_buffers)
        parallel.forward(self._sync, self.training)
        output = self.module(*inputs, **named)
        if parallel.sync:
            for tensor in tensors_in(output, torch.Tensor):
                if tensor.requires_grad:
                    tensor.register_hook(lambda _: parallel.begin())
        return output

    def average_parameters(self, loss: float | None = None, lr: float | None = None) -> bool:
        """With local_sgd, after each step of the optimizer; collective.  Whether parameters are averages now, and buffers rank 0's.
        loss, lr: of the step, for adaptive."""
        return self._parallel.average(loss, lr)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of what runs forward in here stay this rank's, and add up until one outside averages the sums."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def _with_prefix(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        """load_state_dict() takes the model's own names, and those of torch's wrapper."""
        for name in self.module.state_dict():
            if f"{prefix}{name}" in state and f"{prefix}module.{name}" not in state:
                state[f"{prefix}module.{name}"] = state.pop(f"{prefix}{name}")

    def __enter__(self) -> DistributedDataParallel:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._parallel.close(None if isinstance(error, SystemExit) and not error.code else error)
        self.close()

    def close(self) -> None:
        """The model is by itself again: the group of the environment is closed, a given one is not."""
        self._finalizer()


def _close(parallel: _Parallel, hooks: Iterable[Any], lent: Lent) -> None:
    for hook in hooks:
        hook.remove()
    lent.close()
    parallel.close()


def _without_prefix(_: torch.nn.Module, state: dict[str, Any], prefix: str, *__: Any) -> None:
    for name in [n for n in state if n.startswith(f"{prefix}module.")]:
        state[prefix + name.removeprefix(f"{prefix}module.")] = state.pop(name)
    versions = getattr(state, "_metadata", {})
    for name in [n for n in versions if f"{n}.".startswith(f"{prefix}module.")]:
        versions[(prefix + f"{name}.".removeprefix(f"{prefix}module.")).removesuffix(".")] = versions.pop(name)


def _plain(tensor: torch.Tensor, channels_last: bool) -> Array:
    """As C takes it: float32, in main memory."""
    flat = tensor.detach().movedim(1, -1) if channels_last else tensor.detach()
    array: Array = flat.to("cpu", torch.float32).contiguous().numpy()
    return array


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, layer: SyncBatchNorm,
                momentum: float) -> torch.Tensor:
        assert layer.group is not None
        last = x.dim() > 2 and not x.is_contiguous() and x.movedim(1, -1).is_contiguous()
        shape = Shape(x.shape[0], x.shape[1], math.prod(x.shape[2:]), last)
        ctx.statistics = Statistics(layer.group, _plain(x, last), shape, layer.eps)
        ctx.last = last
        ctx.save_for_backward(x, weight)
        like = x.new_empty(0, dtype=torch.float32) if weight is None else weight
        mean, variance = (torch.from_numpy(a).to(like) for a in (ctx.statistics.mean, ctx.statistics.variance))
        for running, found in ((layer.running_mean, ctx.statistics.mean), (layer.running_var, ctx.statistics.unbiased())):
            if running is not None:
                running.lerp_(torch.from_numpy(found).to(running), momentum)
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, layer.eps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        scale = None if weight is None else _plain(weight, False)
        dx, dscale, dbias = map(torch.from_numpy, ctx.statistics.gradients(_plain(x, ctx.last), _plain(dy, ctx.last), scale))
        found = [(dx.movedim(-1, 1) if ctx.last else dx).to(x), dscale.to(x.device), dbias.to(x.device)]
        return *(gradient if wanted else None for gradient, wanted in zip(found, ctx.needs_input_grad)), None, None


class SyncBatchNorm(Layer, torch.nn.modules.batchnorm._BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d, whose statistics while training are those of all ranks' batches together, of whatever sizes, an
    empty one included; gradients are as if one process had the whole batch.  [batch, channels, ...], of float32, bfloat16 or float16.

    group: a paddlert.Group, for these layers alone.  None: that of the DistributedDataParallel that the model is wrapped in, without which
    each rank has its own statistics.  Each forward while training is collective, also in no_grad() and no_sync(), and so is its backward.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, group: Group | None = None, device: Any = None, dtype: Any = None) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.group: Group | None = None if group is None else instance("group", group, Group)

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module, group: Group | None = None) -> torch.nn.Module:
        """The module with SyncBatchNorm in the place of each batch normalisation, with its parameters and buffers: before the optimizer is made
        and the model is wrapped.  group: as SyncBatchNorm's."""
        made = module
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(module, cls):
            made = cls(module.num_features, module.eps, module.momentum, False, False, group)
            made.affine, made.track_running_stats, made.training = module.affine, module.track_running_stats, module.training
            made._parameters, made._buffers = module._parameters, module._buffers
        for name, child in module.named_children():
            setattr(made, name, cls.convert_sync_batchnorm(child, group))
        return made

    def _check_input_dim(self, x: torch.Tensor) -> None:
        if x.dim() < 2 or x.shape[1] != self.num_features:
            raise ValueError(f"the input is {list(x.shape)}, expected [batch, {self.num_features}, ...]")
        if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise UnsupportedError(f"the input is {x.dtype}, expected torch.float32, torch.bfloat16 or torch.float16")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, channels, ...], normalised."""
        if self.group is None or not self.training or self.group.size == 1:
            return super().forward(x)
        self._check_input_dim(x)
        agree_once(self)
        momentum = self.momentum or 0.0
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        normalised: torch.Tensor = _Normalise.apply(x, self.weight, self.bias, self, momentum)
        return normalised


class Elastic(elastic.ElasticModel):
    __doc__ = elastic.ElasticModel.__doc__
    _tensor, _optimizer = torch.Tensor, torch.optim.Optimizer

    @with_options(elastic.ModelOptions)
    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer], data: elastic.Reader, *,
                 bucket_cap_mb: float = 25, last_bucket_mb: float = 1, **options: Unpack[elastic.ModelOptions]) -> None:
        super().__init__(model, optimizer, data, functools.partial(DistributedDataParallel, bucket_cap_mb=bucket_cap_mb, last_bucket_mb=last_bucket_mb),
                         options)

    def _watch(self, i: int, optimizer: torch.optim.Optimizer) -> None:
        optimizer.register_step_post_hook(lambda *_: self._optimized(i))

    def _tensor_of(self, kind: str, array: Array) -> torch.Tensor:
        name, _, shape = kind.partition(" ")
        return torch.from_numpy(array).view(getattr(torch, name)).view(json.loads(shape))


class Samples(torch.utils.data.IterableDataset):
    """A paddlert.data.Dataset for torch.utils.data.DataLoader(..., batch_size=None): batches as tensors, by Batch.arrays()'s names.

    With num_workers each process reads its part of this worker's share.  Threads of C read ahead in any case: processes are
    worth their copies only for what the program does to a batch besides.  Positions are those of num_workers=0."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.dataset: Dataset = instance("dataset", dataset, Dataset)
        self._part: Dataset | None = None

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        self._part = self._part or process_part(self.dataset, torch.utils.data.get_worker_info())
        for batch in self._part:
            yield {name: torch.from_numpy(a) for name, a in batch.arrays().items()}
