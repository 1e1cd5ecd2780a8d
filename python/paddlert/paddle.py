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

Without servers, each worker has the whole model, and gradients are averaged:

    with paddlert.paddle.DataParallel(net) as model:
        optimizer = paddle.optimizer.Momentum(0.1, parameters=model.parameters())
        for x, y in batches:                                # this worker's share
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.clear_grad()

For workers that die and come back: Elastic.
"""
from __future__ import annotations

import contextlib
import functools
import json
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import paddle

from . import elastic
from ._lib import UnsupportedError, instance, renamed, with_options
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

__all__ = ["DGC", "DataParallel", "DistributedModel", "Elastic", "Embedding", "LocalSGD", "Samples", "SyncBatchNorm", "ahead"]


F = TypeVar("F", bound=Callable[..., Any])

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


def _of_type(tensor: paddle.Tensor, dtype: Any) -> paddle.Tensor:
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def _float32(tensor: paddle.Tensor) -> paddle.Tensor:
    """As NumPy has it: of bfloat16 that has the bits only, as whole numbers."""
    return _of_type(tensor, paddle.float32)


def _dense(gradient: paddle.Tensor) -> paddle.Tensor:
    """A sparse one has the rows of a batch, as often as they are in it and in that order."""
    if gradient.is_selected_rows():
        raise UnsupportedError(f"a gradient of {list(gradient.shape)} is sparse, expected a dense one: Embedding(sparse=False), or "
                               "paddlert.paddle.Embedding")
    return gradient


_raised = threading.local()                # .error: what a backward of ours raised in this thread


def _noted(function: F) -> F:
    """A PyLayer's backward, of whose errors Paddle keeps only the text, in an OSError."""
    @functools.wraps(function)
    def noted(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as e:
            _raised.error = e
            raise
    return noted                                            # type: ignore[return-value]


def _let_errors_out() -> None:
    """What a hook or a PyLayer of ours raises leaves Tensor.backward() as it was raised: Paddle has made it the cause of a SystemError, or
    another error."""
    backward = paddle.Tensor.backward
    if hasattr(backward, "lets_errors_out"):
        return

    @functools.wraps(backward)
    def replaced(*arguments: Any, **named: Any) -> Any:
        _raised.error = None
        try:
            return backward(*arguments, **named)
        except BaseException as e:
            error = _raised.error or (e.__cause__ if isinstance(e, SystemError) else None)
            if error is None:
                raise
            raise error from None
        finally:
            _raised.error = None
    replaced.lets_errors_out = True                        # type: ignore[attr-defined]
    paddle.Tensor.backward = replaced


class _Pull(paddle.autograd.PyLayer):
    """anchor: a tensor that wants a gradient, so that backward comes here."""

    @staticmethod
    def forward(ctx: Any, anchor: paddle.Tensor, rows: Rows, ids: Array, dtype: Any) -> paddle.Tensor:
        ctx.rows, ctx.ids = rows, ids
        return _of_type(paddle.to_tensor(rows.pull(ids)), dtype)

    @staticmethod
    @_noted
    def backward(ctx: Any, gradient: paddle.Tensor) -> paddle.Tensor:
        ctx.rows.push(ctx.ids, _float32(gradient).numpy())
        return paddle.zeros([1])


class Embedding(paddle.nn.Layer):
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
        _let_errors_out()
        # In a list, where Layer does not take it for a parameter.
        self._anchor = [paddle.to_tensor([0.0], stop_gradient=False)]

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        """[*ids.shape, dim], in the type that its parameters would have, had it any."""
        name = str(self._dtype or "float32").removeprefix("paddle.")
        return _Pull.apply(self._anchor[0], self.rows, _ids(ids), getattr(paddle, name))

    def _apply(self, func: Any, device: Any, dtype: Any, *more: Any, **named: Any) -> None:
        """Of Layer.to(), which forgets the type where only a device is given."""
        before = getattr(self, "_dtype")
        super()._apply(func, device, dtype, *more, **named)
        self._dtype: Any = before if dtype is None else dtype

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
        np.copyto(out, _float32(parameter).numpy())

    @staticmethod
    def _write(parameter: paddle.Tensor, values: Array) -> None:
        parameter.set_value(values if parameter.dtype == paddle.float32 else _of_type(paddle.to_tensor(values), parameter.dtype))

    @staticmethod
    def _gradient(parameter: paddle.Tensor, out: Array) -> None:
        if parameter.grad is None:
            out.fill(0)
        else:
            np.copyto(out, _float32(_dense(parameter.grad)).numpy())
            parameter.clear_gradient(set_to_zero=False)

    def state_dict(self) -> dict[str, paddle.Tensor]:
        """{name: tensor} of the dense parameters as the servers have them; rows stay there (save())."""
        self.pull()
        return {name: paddle.to_tensor(values) for name, values in self.values().items()}


SUMMED = {getattr(paddle, name) for name in REDUCED}


class _Parallel(Parallel):
    @staticmethod
    def _kind(tensor: paddle.Tensor) -> str:
        return f"{str(tensor.dtype).removeprefix('paddle.')} {list(tensor.shape)}"

    @staticmethod
    def _size(tensor: paddle.Tensor) -> int:
        return int(np.prod(tensor.shape, dtype=np.int64))

    @staticmethod
    def _bytes(tensor: paddle.Tensor) -> Array:
        return np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)

    @staticmethod
    def _set_bytes(tensor: paddle.Tensor, array: Array) -> None:
        tensor.set_value(array.view(tensor.numpy().dtype).reshape(tensor.shape))

    @staticmethod
    def _view(values: Array, parameter: paddle.Tensor) -> Array:
        return values.reshape(parameter.shape)

    @staticmethod
    def _take(pairs: Sequence[tuple[paddle.Tensor, Array]]) -> None:
        for parameter, view in pairs:
            gradient = _dense(parameter.grad)
            if gradient.dtype not in SUMMED:
                raise UnsupportedError(f"a gradient of {list(gradient.shape)} is {gradient.dtype}, expected one of {', '.join(REDUCED)}: the model has been "
                                       "converted since it was wrapped")
            np.copyto(view, _float32(gradient).numpy())

    @staticmethod
    def _give(pairs: Sequence[tuple[paddle.Tensor, Array]]) -> None:
        for parameter, view in pairs:
            average = paddle.to_tensor(view, place=parameter.place).astype(parameter.dtype)
            if parameter.grad is None:
                parameter.grad = average
            else:
                parameter.grad.set_value(average)

    @staticmethod
    def _read(pairs: Sequence[tuple[paddle.Tensor, Array]]) -> None:
        for parameter, view in pairs:
            np.copyto(view, _float32(parameter).numpy())

    @staticmethod
    def _write(pairs: Sequence[tuple[paddle.Tensor, Array]]) -> None:
        for parameter, view in pairs:
            parameter.set_value(paddle.to_tensor(view, place=parameter.place).astype(parameter.dtype))

    @staticmethod
    def _made(parameter: paddle.Tensor) -> bool:
        return parameter.grad is not None

    @staticmethod
    def _at_end(function: Callable[[], None]) -> None:
        paddle.base.core.eager._add_backward_final_hook(function)


class DataParallel(paddle.nn.Layer):
    """A model that every rank has, each with its part of the batch: backward leaves the average of all ranks' gradients in .grad, and
    sends those that are made while it makes others.  Collective; the parameters and buffers become rank 0's.

    group: a paddlert.Group, None: the workers of the environment.  comm_buffer_size: gradients travel in buckets of about so many MB;
    last_comm_buffer_size: of the bucket that is ready last.  compression: "bf16" or "f16" halves what travels; what rounding takes is added
    to the next step's gradients; "dgc", a DGC: of large gradients only the largest entries travel.
    local_sgd: a LocalSGD, by which parameters are averaged, not gradients.  broadcast_buffers: forward while training begins with rank 0's buffers (running means).

    find_unused_parameters: as Paddle's; nothing changes.

    A parameter without a gradient counts as zeros; where no rank has one, it has none.  What is unfrozen, replaced or added later, on all
    ranks, is taken on by the next forward: new parameters become rank 0's.  Forward in no_sync(), or without
    gradients, does not communicate.  state_dict() has the model's own names.  Errors of communication are raised by Tensor.backward()
    (paddlert.PeerLostError, which names the rank, and others).
    """

    def __init__(self, layers: paddle.nn.Layer, group: Group | None = None, *, comm_buffer_size: float = 25, last_comm_buffer_size: float = 1,
                 compression: str | DGC | None = None, local_sgd: LocalSGD | None = None, broadcast_buffers: bool = True,
                 find_unused_parameters: bool = False,
                 strategy: None = None) -> None:
        super().__init__()
        self._layers = instance("layers", layers, paddle.nn.Layer)
        if strategy is not None:
            raise UnsupportedError(f"strategy is {strategy!r}, expected None: options are DataParallel's own")
        named = self._named()
        if any(not p.place.is_cpu_place() for _, p in named[0]):
            warnings.warn("the model is not in main memory: its gradients are copied there, averaged and copied back", stacklevel=2)
        self._parallel = _Parallel(*named, group, bucket_mb=comm_buffer_size, last_mb=last_comm_buffer_size, compression=compression,
                                   broadcast_buffers=broadcast_buffers, local_sgd=local_sgd, layers=self._synchronised())
        self._sync = True
        _let_errors_out()
        self._hooks: list[Any] = []
        self._lent = Lent(self._parallel.group)
        self._finalizer = weakref.finalize(self, _close, self._parallel, self._hooks, self._lent)
        self._watch()

    def _norms(self) -> list[Any]:
        return [m for m in self._layers.sublayers(include_self=True) if isinstance(m, paddle.nn.layer.norm._BatchNormBase)]

    def _named(self) -> tuple[Named, Named, Named]:
        """Parameters that want a gradient, the others, and buffers."""
        named = list(self._layers.named_parameters())
        refuse_foreign(self._layers.named_sublayers(include_self=True), paddle.nn.SyncBatchNorm, paddle.distributed)
        running = {id(t) for m in self._norms() for t in (m._mean, m._variance)}              # to Paddle, parameters
        return ([(n, p) for n, p in named if not p.stop_gradient], [(n, p) for n, p in named if p.stop_gradient and id(p) not in running],
                [*self._layers.named_buffers(), *((n, p) for n, p in named if id(p) in running)])

    def _synchronised(self) -> Layers:
        """What has to be the same on all ranks, beside parameters and buffers."""
        return described((name, m) for name, m in self._layers.named_sublayers(include_self=True) if isinstance(m, SyncBatchNorm))

    def _watch(self) -> None:
        """The model as it is now."""
        for hook in self._hooks:
            hook.remove()
        self._hooks[:] = [_Hook(p, functools.partial(self._parallel.made, i)) for i, (_, p) in enumerate(self._parallel._parameters)]
        norms = self._norms()
        self._lent.add(m for m in norms if isinstance(m, SyncBatchNorm))
        self._seen = Seen(self._layers.sublayers(include_self=True), "_sub_layers", lambda p: not p.stop_gradient)
        self._running = [t for m in norms for t in (m._mean, m._variance)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a DataParallel belongs to this process, and cannot be copied or pickled: expected its ._layers, or state_dict()")

    @property
    def group(self) -> Group:
        """Whose ranks these are; its collectives may be called between steps."""
        return self._parallel.group

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Of the model, with the same arguments and result.  Outside of no_sync(), its backward averages the gradients."""
        if not paddle.is_grad_enabled():
            return self._layers(*inputs, **named)
        parallel = self._parallel
        parallel.check()
        if self._sync:
            if self._seen.changed():
                parallel.renew(*self._named(), self._synchronised())
                self._watch()
            parallel.use_buffers(lambda: self._seen.has_buffers() + self._running)
        parallel.forward(self._sync, self.training)
        output = self._layers(*inputs, **named)
        if parallel.sync:
            for tensor in tensors_in(output, paddle.Tensor):
                if not tensor.stop_gradient:
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

    def scale_loss(self, loss: paddle.Tensor) -> paddle.Tensor:
        """The loss itself, as Paddle's own has it."""
        return loss

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        """The model's."""
        return self._layers.state_dict(*arguments, **named)

    def set_state_dict(self, *arguments: Any, **named: Any) -> Any:
        """The model's."""
        return self._layers.set_state_dict(*arguments, **named)

    set_dict = load_dict = set_state_dict

    def __enter__(self) -> DataParallel:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._parallel.close(None if isinstance(error, SystemExit) and not error.code else error)
        self.close()

    def close(self) -> None:
        """The model is by itself again: the group of the environment is closed, a given one is not."""
        self._finalizer()


class _Hook:
    """Called when backward has made the gradient of a parameter, until it is removed: Paddle keeps it as long as the parameter."""

    def __init__(self, parameter: paddle.Tensor, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function
        parameter._register_backward_hook(self._call)

    def _call(self) -> None:
        if self._function is not None:
            self._function()

    def remove(self) -> None:
        self._function = None


def _close(parallel: _Parallel, hooks: Iterable[Any], lent: Lent) -> None:
    for hook in hooks:
        hook.remove()
    lent.close()
    parallel.close()


def _plain(tensor: paddle.Tensor) -> Array:
    """As C takes it."""
    return np.ascontiguousarray(_float32(tensor).numpy())


class _Normalise(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: paddle.Tensor, weight: paddle.Tensor | None, bias: paddle.Tensor | None, layer: SyncBatchNorm) -> paddle.Tensor:
        assert layer.group is not None
        last = layer._data_format[-1] == "C" and len(x.shape) > 2
        dims = list(x.shape)
        channels = dims.pop(-1 if last else 1)
        shape = Shape(dims[0], channels, int(np.prod(dims[1:], dtype=np.int64)), last)
        ctx.statistics = Statistics(layer.group, _plain(x), shape, layer._epsilon)
        ctx.save_for_backward(x)
        ctx.scale = None if weight is None else _plain(weight)
        ctx.given = [not x.stop_gradient, *(not t.stop_gradient for t in (weight, bias) if t is not None)]
        ctx.kinds = [t.dtype for t in (x, weight, bias) if t is not None]
        ctx.there = [True, weight is not None, bias is not None]
        mean, variance = (paddle.to_tensor(a, place=x.place) for a in (ctx.statistics.mean, ctx.statistics.variance))
        for running, found in ((layer._mean, mean), (layer._variance, variance)):
            running.set_value(running * layer._momentum + found.astype(running.dtype) * (1 - layer._momentum))
        ones, zeros = paddle.ones([channels]), paddle.zeros([channels])
        y = paddle.nn.functional.batch_norm(_float32(x), mean, variance, ones if weight is None else weight, zeros if bias is None else bias,
                                            training=False, epsilon=layer._epsilon, data_format=layer._data_format)
        return y.astype(x.dtype)

    @staticmethod
    @_noted
    def backward(ctx: Any, dy: paddle.Tensor) -> Any:
        x, = ctx.saved_tensor()
        found = ctx.statistics.gradients(_plain(x), _plain(dy), ctx.scale)
        there = [paddle.to_tensor(a, place=x.place) for a, is_there in zip(found, ctx.there) if is_there]
        return tuple(g.astype(kind) if wanted else None for g, kind, wanted in zip(there, ctx.kinds, ctx.given))


class SyncBatchNorm(Layer, paddle.nn.layer.norm._BatchNormBase):
    """paddle.nn.BatchNorm1D, 2D and 3D, whose statistics while training are those of all ranks' batches together, of whatever sizes;
    gradients are as if one process had the whole batch.  [batch, channels, ...] or, by data_format, channels last.

    group: a paddlert.Group, for these layers alone.  None: that of the DataParallel that the model is wrapped in, without which each rank has
    its own statistics.  Each forward while training is collective, also in no_grad() and no_sync(), and so is its backward.
    """

    def __init__(self, num_features: int, momentum: float = 0.9, epsilon: float = 1e-5, weight_attr: Any = None, bias_attr: Any = None,
                 data_format: str = "NCHW", name: str | None = None, group: Group | None = None) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)
        self.group: Group | None = None if group is None else instance("group", group, Group)
        _let_errors_out()

    @classmethod
    def convert_sync_batchnorm(cls, layer: paddle.nn.Layer, group: Group | None = None) -> paddle.nn.Layer:
        """The layer with SyncBatchNorm in the place of each batch normalisation, with its parameters and buffers: before the optimizer is made
        and the model is wrapped.  group: as SyncBatchNorm's."""
        made = layer
        if isinstance(layer, paddle.nn.layer.norm._BatchNormBase) and not isinstance(layer, cls):
            made = cls(layer._num_features, layer._momentum, layer._epsilon, False, False, layer._data_format, layer._name, group)
            made._use_global_stats, made.training = layer._use_global_stats, layer.training
            made._parameters, made._buffers = layer._parameters, layer._buffers
            made.weight, made.bias, made._mean, made._variance = layer.weight, layer.bias, layer._mean, layer._variance
        for name, child in layer.named_children():
            made.add_sublayer(name, cls.convert_sync_batchnorm(child, group))
        return made

    def _check_input_dim(self, x: paddle.Tensor) -> None:
        at = -1 if self._data_format[-1] == "C" else 1
        if len(x.shape) < 2 or x.shape[at] != self._num_features:
            raise ValueError(f"the input is {list(x.shape)} in {self._data_format}, expected {self._num_features} channels")
        if x.dtype not in (paddle.float32, paddle.bfloat16, paddle.float16):
            raise UnsupportedError(f"the input is {x.dtype}, expected float32, bfloat16 or float16")

    def extra_repr(self) -> str:
        """What print(layer) shows of it."""
        return f"{super().extra_repr()}, use_global_stats={self._use_global_stats}"

    def _check_data_format(self, input: str) -> None:
        if input[-1] not in "CLHWD" or input[0] != "N":
            raise ValueError(f"data_format is {input!r}, expected NCHW, NHWC or those of other dimensions")

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """The input, normalised."""
        if self.group is None or not self.training or self._use_global_stats or self.group.size == 1:
            return super().forward(x)
        self._check_data_format(self._data_format)
        self._check_input_dim(x)
        agree_once(self)
        return _Normalise.apply(x, self.weight, self.bias, self)


class Elastic(elastic.ElasticModel):
    __doc__ = elastic.ElasticModel.__doc__
    _tensor, _optimizer = paddle.Tensor, paddle.optimizer.Optimizer

    @with_options(elastic.ModelOptions)
    def __init__(self, model: paddle.nn.Layer, optimizer: paddle.optimizer.Optimizer | Sequence[paddle.optimizer.Optimizer], data: elastic.Reader, *,
                 comm_buffer_size: float = 25, last_comm_buffer_size: float = 1, **options: Unpack[elastic.ModelOptions]) -> None:
        super().__init__(model, optimizer, data, functools.partial(DataParallel, comm_buffer_size=comm_buffer_size,
                                                                   last_comm_buffer_size=last_comm_buffer_size), options)

    def _watch(self, i: int, optimizer: paddle.optimizer.Optimizer) -> None:
        """Paddle has no hook behind an optimizer's step."""
        step = optimizer.step

        @functools.wraps(step)
        def stepped(*arguments: Any, **named: Any) -> Any:
            result = step(*arguments, **named)
            self._optimized(i)
            return result
        optimizer.step = stepped

    def _tensor_of(self, kind: str, array: Array) -> paddle.Tensor:
        name, _, shape = kind.partition(" ")
        made = paddle.zeros(json.loads(shape), dtype=name)
        _Parallel._set_bytes(made, array)
        return made


class Samples(paddle.io.IterableDataset):
    """A paddlert.data.Dataset for paddle.io.DataLoader(..., batch_size=None): batches as arrays, of which the DataLoader makes tensors, by Batch.arrays()'s names.

    With num_workers each process reads its part of this worker's share.  Threads of C read ahead in any case: processes are
    worth their copies only for what the program does to a batch besides.  Positions are those of num_workers=0."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.dataset: Dataset = instance("dataset", dataset, Dataset)
        self._part: Dataset | None = None

    def __iter__(self) -> Iterator[dict[str, Array]]:
        self._part = self._part or process_part(self.dataset, paddle.io.get_worker_info())
        for batch in self._part:
            yield batch.arrays()
