"""Data parallel training: what paddlert.torch.DistributedDataParallel and paddlert.paddle.DataParallel share.  The averages are the
reducer's of runtime/rt.h; how a framework's tensors are read and written its module says."""
from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._lib import C, Error, Here, InvalidError, UnsupportedError, call_long, check, chosen, instance, items, number, real, shown
from .arrays import Array
from .group import Group
from .job import Job

WIRES = {None: _abi.RT_F32, "f16": _abi.RT_F16, "bf16": _abi.RT_BF16, "dgc": _abi.RT_F32}
REDUCED = ("float32", "bfloat16", "float16")     # the reducer's sums are float32
LINE = 1024                                      # bytes of what a rank says of its model
PIECE = 32 << 20                                 # bytes that are broadcast together
Named = Sequence[tuple[str, Any]]
Layers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class DGC:
    """Deep gradient compression (Lin et al. 2017, arXiv:1712.01887): of gradients of 16384 values and more only the largest entries travel.
    The others stay on their rank and add up, until they are among the largest.

    sparsity: the share that stays, at least 0 and below 1; several: one after the other, over rampup_step steps.
    momentum: 0, the optimizer's own is applied to what arrives.  Else gradients add up with momentum before they travel (nesterov: as
    Nesterov's), and the optimizer must have none for those parameters: it would count twice.
    clip_norm: each such gradient is scaled to this norm at most, of all ranks together; 0: not.  rampup_begin_step: steps that are dense before.
    """
    sparsity: float | Sequence[float] = 0.999
    momentum: float = 0
    nesterov: bool = False
    clip_norm: float = 0
    rampup_begin_step: int = 0
    rampup_step: int = 1

    def __post_init__(self) -> None:
        several = items(self.sparsity)
        shares = (self.sparsity,) if several is None else tuple(several)
        for share in shares:
            if not 0 <= real("sparsity", share) < 1:
                raise ValueError(f"sparsity is {share!r}, expected at least 0 and below 1")
        if not shares:
            raise ValueError("sparsity is [], expected one at least")
        object.__setattr__(self, "sparsity", shares)
        if not 0 <= real("momentum", self.momentum) <= 1:
            raise ValueError(f"momentum is {self.momentum!r}, expected 0 to 1")
        if not 0 <= real("clip_norm", self.clip_norm) < float("inf"):
            raise ValueError(f"clip_norm is {self.clip_norm!r}, expected 0 or more")
        instance("nesterov", self.nesterov, bool)
        number("rampup_begin_step", self.rampup_begin_step, ctypes.c_uint64)
        number("rampup_step", self.rampup_step, ctypes.c_uint64, 1)

    def _c(self) -> Any:
        shares = self.sparsity
        assert isinstance(shares, tuple)          # since __post_init__
        listed = (ctypes.c_float * len(shares))(*shares)
        made = _abi.rt_dgc(momentum=self.momentum, nesterov=self.nesterov, clip_norm=self.clip_norm, rampup_begin_step=self.rampup_begin_step,
                           rampup_step=self.rampup_step, sparsity=ctypes.cast(listed, ctypes.c_void_p), n_sparsity=len(shares))
        made.keeps = listed
        return made


@dataclass(frozen=True)
class LocalSGD:
    """Steps without communication, then the parameters are averaged, not the gradients (Stich 2018, arXiv:1805.09767): average_parameters()
    after each step of the optimizer, whose state stays each rank's own.

    k_steps: from one average to the next; with adaptive (Wang, Joshi 2018, arXiv:1810.08313) to begin with, then fewer as the loss falls, 1
    to 16.  begin_step: up to this step, each is averaged.
    """
    k_steps: int = 1
    begin_step: int = 1
    adaptive: bool = False

    def __post_init__(self) -> None:
        number("k_steps", self.k_steps, ctypes.c_uint32, 1)
        number("begin_step", self.begin_step, ctypes.c_uint32, 1)
        instance("adaptive", self.adaptive, bool)

    def _c(self) -> Any:
        return _abi.rt_local_sgd(k_steps=self.k_steps, begin_step=self.begin_step, adaptive=self.adaptive)


class Reducer(Here):
    """struct rt_reducer: gradients of float32, in the order in which backward makes them."""

    def __init__(self, group: Group, gradients: Sequence[tuple[str, int]], bucket_bytes: int, last_bytes: int, wire: int,
                 dgc: DGC | None = None) -> None:
        self._group, self.sizes = group, [n for _, n in gradients]
        self._handle: ctypes.c_void_p | None = None
        listed = (_abi.rt_gradient * len(gradients))(*(_abi.rt_gradient(name=name.encode(), n=n) for name, n in gradients))
        options = _abi.rt_reducer_options(bucket_bytes=bucket_bytes, last_bucket_bytes=last_bytes, wire=wire,
                                          error_feedback=wire != _abi.RT_F32)
        given = dgc and dgc._c()
        if given:
            options.dgc = ctypes.cast(ctypes.byref(given), ctypes.c_void_p)
        handle = ctypes.c_void_p()
        call_long(group, "rt_reducer_open", group._open(), listed, len(listed), ctypes.byref(options), ctypes.byref(handle))
        self._handle, self._err = handle, _abi.co_err()
        group.reducers.append(handle)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Its memory is freed, unless the group has done so, or a call that was interrupted still uses it."""
        handle, self._handle = self._handle, None
        if handle is not None and handle in self._group.reducers and self._group.may_close():
            self._group.reducers.remove(handle)
            C.rt_reducer_close(handle)

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None or self._handle not in self._group.reducers:
            raise InvalidError("the group of these gradients is closed")
        return self._handle

    def values(self, i: int) -> Array:
        """[n] of gradient i, in C's memory: not to be used when this is closed."""
        address = C.rt_reducer_values(self._open(), i)
        return np.ctypeslib.as_array((ctypes.c_float * self.sizes[i]).from_address(address))

    def buckets(self) -> list[int]:
        """The bucket of each gradient, numbered as they travel."""
        return [int(C.rt_reducer_bucket(self._open(), i)) for i in range(len(self.sizes))]

    def local_step(self, state: Any, loss: float, lr: float) -> bool:
        """Of local SGD, the values being parameters.  Whether they are averages now."""
        averaged = ctypes.c_bool()
        call_long(self._group, "rt_local_sgd_step", ctypes.byref(state), self._open(), ctypes.c_double(loss), ctypes.c_double(lr),
                  ctypes.byref(averaged))
        return averaged.value

    def compressed(self, i: int) -> bool:
        """Whether the last wait got the largest entries of that gradient alone."""
        return bool(C.rt_reducer_compressed(self._open(), i))

    def put(self, which: Any, n: int, places: Any) -> None:
        """Those gradients are ready.  which: numbers(gradients); places: C's array of where each is copied from, NULL: its values() are
        written."""
        check(self._err, C.rt_reducer_put(self._open(), which, places, n, ctypes.byref(self._err)))

    def get(self, which: Any, n: int, places: Any) -> None:
        """Copies averages to those places."""
        check(self._err, C.rt_reducer_get(self._open(), which, places, n, ctypes.byref(self._err)))

    def wait(self) -> None:
        call_long(self._group, "rt_reducer_wait", self._open(), None)


def numbers(gradients: Sequence[int]) -> Any:
    """For C."""
    return (ctypes.c_size_t * len(gradients))(*gradients)


class _Listed:
    """Of gradients that are handed over together, what stays from step to step."""

    def __init__(self, order: list[int], parameters: list[Any], views: list[Any], places: list[int], sizes: list[int]) -> None:
        """order: numbers of parameters."""
        self.order, self.parameters, self.views, self.places, self.sizes = order, parameters, views, places, sizes
        self.which, self.nowhere = numbers(places), (ctypes.c_void_p * len(places))()


def agree(group: Group, rows: Sequence[tuple[str, str]]) -> None:
    """All ranks have rank 0's (name, what it is), in its order; else all get InvalidError with the first row that is another one."""
    own = np.frombuffer(json.dumps(rows).encode(), np.uint8)
    text = np.array(own) if group.rank == 0 else np.zeros(0, np.uint8)
    size = int(group.broadcast(np.array([text.size]))[0])
    text = text if group.rank == 0 else np.zeros(size, np.uint8)
    group.broadcast(text)
    line = np.zeros(LINE, np.uint8)
    said = _difference([tuple(row) for row in json.loads(text.tobytes())], list(rows), group.rank).encode()[:LINE]
    line[:len(said)] = np.frombuffer(said, np.uint8)
    for found in group.all_gather(line):
        if found.any():
            with contextlib.suppress(Error):     # who raises gives the group up: not while another rank has yet to learn why
                group.barrier()
            raise InvalidError(found.tobytes().rstrip(b"\0").decode(errors="replace"))


def _difference(first: Sequence[tuple[str, ...]], own: Sequence[tuple[str, ...]], rank: int) -> str:
    """Of a rank's rows from rank 0's; "": none."""
    for i in range(max(len(first), len(own))):
        theirs, ours = ([f'"{rows[i][0]}" is {rows[i][1]}' if i < len(rows) else "there is nothing more"][0] for rows in (first, own))
        if theirs != ours:
            return f"the models of the ranks differ: on rank {rank} {ours}, on rank 0 {theirs}; expected the same model and options on all ranks"
    return ""


def _pieces(arrays: Iterable[tuple[Any, Array]]) -> Iterator[list[tuple[Any, Array]]]:
    """Of about PIECE bytes, at least one array each."""
    piece: list[tuple[Any, Array]] = []
    size = 0
    for tensor, array in arrays:
        if piece and size + array.size > PIECE:
            yield piece
            piece, size = [], 0
        piece.append((tensor, array))
        size += array.size
    if piece:
        yield piece


class Seen:
    """What a model had when its parameters were listed: looked at in each step, so without their names."""

    def __init__(self, modules: Iterable[Any], children: str, wants: Callable[[Any], bool]) -> None:
        """children: the attribute that has a module's."""
        self._wants, modules = wants, list(modules)
        self._have = [have for m in modules for have in (m._parameters, getattr(m, children))]
        self._had = [x for have in self._have for x in have.values()]
        self._frozen = [p for m in modules for p in m._parameters.values() if p is not None and not wants(p)]
        self._buffers = [m._buffers for m in modules if m._buffers]

    def changed(self) -> bool:
        """Whether a parameter or a layer is another one, or a frozen parameter wants a gradient."""
        now = itertools.chain.from_iterable([have.values() for have in self._have])
        return (any(map(self._wants, self._frozen)) or sum(map(len, self._have)) != len(self._had)
                or not all(map(operator.is_, now, self._had)))

    def has_buffers(self) -> list[Any]:
        """Those of now: layers replace them."""
        return [b for have in self._buffers for b in have.values() if b is not None]


class Parallel:
    """The gradients of a model, averaged over the ranks of a group while backward still makes others.

    A framework's class says how: _kind(tensor) -> "float32 [3, 4]", _size(tensor), _bytes(tensor) -> uint8 array,
    _set_bytes(tensor, array), _view(values, parameter), _take and _give([(parameter, view)]), which copy gradients to views and back,
    _made(parameter), whether it has a gradient, and _at_end(function), called when this backward has ended.
    """

    def __init__(self, parameters: Named, others: Named, buffers: Named, group: Group | None, *, bucket_mb: float, last_mb: float,
                 compression: str | DGC | None, broadcast_buffers: bool, local_sgd: LocalSGD | None = None, layers: Layers = ()) -> None:
        """parameters: that want a gradient; others: that do not.  layers: (name, what it is) of those whose forward is collective.  Collective."""
        dgc = compression if isinstance(compression, DGC) else DGC() if compression == "dgc" else None
        wire = _abi.RT_F32 if dgc else chosen("compression", compression, WIRES)
        sizes = [_megabytes("bucket size", bucket_mb), _megabytes("last bucket's size", last_mb)]
        self._check(parameters)
        if local_sgd is not None and compression is not None:
            raise UnsupportedError(f"compression is {compression!r} beside local_sgd, expected None: parameters travel as they are")
        self._local = None if local_sgd is None else instance("local_sgd", local_sgd, LocalSGD)._c()
        self._unaveraged = False                          # local SGD: a backward has been, and no average_parameters()
        instance("broadcast_buffers", broadcast_buffers, bool)
        self._own = group is None
        self.group = Group(Job()) if group is None else instance("group", group, Group)
        self._options: tuple[int, int, int] = (sizes[0], sizes[1], wire)
        self._dgc, self._broadcasts = dgc, broadcast_buffers
        self._said = f"{bucket_mb} MB, {last_mb} MB, {dgc or compression}, {broadcast_buffers}" + (f", {local_sgd}" if local_sgd else "")
        self._known: list[Any] = []                       # tensors that have been rank 0's
        self.weight = 1.0                                 # of this rank's gradients
        self.sync, self._running, self._closed = True, False, False
        self._failed: BaseException | None = None
        self._lock = threading.Lock()                     # devices of a framework may have a thread each
        try:
            self._take_on(parameters, others, buffers, layers)
        except BaseException:
            self._leave()
            raise

    def _check(self, parameters: Named) -> None:
        if not parameters:
            raise InvalidError("the model has no parameter that wants a gradient, expected one at least")
        for name, parameter in parameters:
            if self._kind(parameter).split()[0] not in REDUCED:
                raise UnsupportedError(f'parameter "{name}" is {self._kind(parameter)}, expected one of {", ".join(REDUCED)}')

    def _take_on(self, parameters: Named, others: Named, buffers: Named, layers: Layers) -> None:
        """All ranks have the same, and those that are new are rank 0's."""
        self._rows = [("bucket size, last bucket's size, compression, broadcast_buffers", self._said),
                      *((name, f"a {what} of {self._kind(t)}") for what, named in (
                          ("parameter", parameters), ("frozen parameter", others), ("buffer", buffers)) for name, t in named), *layers]
        agree(self.group, self._rows)
        known = {id(t) for t in self._known}
        tensors = [t for named in (parameters, others, buffers) for _, t in named]
        self._broadcast([t for t in tensors if id(t) not in known])
        self._known = tensors
        self._parameters = [(name, p) for name, p in parameters if self._size(p)]
        self._buffers = [b for _, b in buffers] if self._broadcasts else []
        self._learning = self._dgc is None and self._local is None        # what dgc keeps back is in its buckets, which stay
        self._arrange(list(reversed(range(len(self._parameters)))))

    def renew(self, parameters: Named, others: Named, buffers: Named, layers: Layers = ()) -> None:
        """The model has other parameters now, or others want a gradient; collective, before a forward."""
        self._check(parameters)
        had = {id(p) for _, p in self._parameters}
        self._reducer.close()
        try:
            self._take_on(parameters, others, buffers, layers)
        except Error as e:
            name = next((f', parameter "{n}" for example' for n, p in parameters if id(p) not in had), "")
            self._failed = type(e)(f"the model has changed on this rank{name}, expected the same change before the same step of all: {e}")
            raise self._failed from e

    @staticmethod
    def _kind(tensor: Any) -> str:
        raise NotImplementedError

    @staticmethod
    def _size(tensor: Any) -> int:
        raise NotImplementedError

    @staticmethod
    def _bytes(tensor: Any) -> Array:
        raise NotImplementedError

    @staticmethod
    def _set_bytes(tensor: Any, array: Array) -> None:
        raise NotImplementedError

    @staticmethod
    def _view(values: Array, parameter: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def _gradients(parameters: Sequence[Any]) -> list[Any]:
        return []

    @staticmethod
    def _addresses(gradients: Sequence[Any], sizes: Sequence[int]) -> list[int]:
        """Of all these, if C can copy each: so many float32, in main memory, one after the other.  Else []."""
        return []

    @staticmethod
    def _lie_at(gradients: Sequence[Any], addresses: list[int]) -> bool:
        """Whether they still do."""
        return False

    @staticmethod
    def _take(pairs: Sequence[tuple[Any, Any]]) -> None:
        raise NotImplementedError

    @staticmethod
    def _give(pairs: Sequence[tuple[Any, Any]]) -> None:
        raise NotImplementedError

    @staticmethod
    def _read(pairs: Sequence[tuple[Any, Any]]) -> None:
        """Parameters to their views."""
        raise NotImplementedError

    @staticmethod
    def _write(pairs: Sequence[tuple[Any, Any]]) -> None:
        raise NotImplementedError

    @staticmethod
    def _made(parameter: Any) -> bool:
        raise NotImplementedError

    @staticmethod
    def _at_end(function: Callable[[], None]) -> None:
        raise NotImplementedError

    def _arrange(self, order: list[int]) -> None:
        """Buckets for gradients that backward makes in that order; collective.  Behind them travels which of them this rank has."""
        n = len(self._parameters)
        self._order, self._place = order, [0] * n
        for place, i in enumerate(order):
            self._place[i] = place
        sizes = [(self._parameters[i][0], self._size(self._parameters[i][1])) for i in order]
        self._reducer = Reducer(self.group, [*sizes, ("which there are", n)], *self._options, self._dgc)
        self._views = [self._view(self._reducer.values(self._place[i]), p) for i, (_, p) in enumerate(self._parameters)]
        self._there = self._reducer.values(n)
        self._last, self._nowhere = numbers([n]), (ctypes.c_void_p * 1)()
        self._lists: dict[int, _Listed] = {}              # by bucket
        in_order = self._reducer.buckets()
        self._bucket = [in_order[self._place[i]] for i in range(n)]
        self._in_bucket = [self._bucket.count(k) for k in range(max(in_order) + 1)]
        self._reset()

    def _reset(self) -> None:
        """For the next step."""
        self._copied: list[tuple[_Listed, list[Any], list[int], Any]] = []
        self._taken: list[int] = []
        self._is_taken = [False] * len(self._parameters)
        self._made_of: list[list[int]] = [[] for _ in self._in_bucket]          # by bucket: made, and not handed over

    def _broadcast(self, tensors: Sequence[Any]) -> None:
        """Rank 0's values, for everybody."""
        for piece in _pieces((t, self._bytes(t)) for t in tensors):
            packed: Array = np.concatenate([array for _, array in piece])
            self.group.broadcast(packed)
            at = 0
            for tensor, array in piece if self.group.rank else ():
                self._set_bytes(tensor, packed[at:at + array.size])
                at += array.size

    def use_buffers(self, now: Callable[[], list[Any]]) -> None:
        """Those that the model has now."""
        if self._broadcasts:
            self._buffers = now()

    def check(self) -> None:
        """Whether a step may begin."""
        if self._closed:
            raise InvalidError("it is closed: expected a new one, or the model that it was made of")
        if self._running and self._failed is None:
            self._give_up(InvalidError("a backward ended in an error while its gradients were averaged"))
        if self._failed is not None:
            raise self._again(self._failed)

    def forward(self, sync: bool, training: bool) -> None:
        """One begins whose backward averages, or does not.  training: buffers become rank 0's."""
        self.check()
        if sync and self._unaveraged:
            raise InvalidError("a forward after a backward without average_parameters(), expected it after each step of the optimizer, and no_sync() "
                               "around what only adds up gradients")
        self.sync = sync
        if sync and training and self._buffers and self._local is None:
            self._broadcast(self._buffers)

    @staticmethod
    def _again(e: BaseException) -> Error:
        """What a later call says."""
        kind = type(e) if isinstance(e, Error) else InvalidError
        said = kind(f"an earlier step failed: {e or type(e).__name__}")
        said.__cause__ = e
        return said

    def _give_up(self, e: BaseException) -> None:
        """The other ranks are notified, as this one is not in step with them any more."""
        self._failed = e
        if not isinstance(e, Error) and self.group._group:
            C.rt_group_abort(self.group._group, f"{type(e).__name__}: {e}".encode(errors="replace"))
        elif isinstance(e, (InvalidError, UnsupportedError)) and self.group._group:
            C.rt_group_abort(self.group._group, str(e).encode(errors="replace"))

    def begin(self) -> None:
        """A backward has begun whose gradients are averaged: called at each place where one may begin.  That is so for the output of a
        forward that averages even when later ones do not."""
        if not self._running and not self._closed:
            self._running = True
            self._at_end(self._end)

    def made(self, i: int, _: Any = None) -> None:
        """Backward has made the gradient of parameter i: once for each in a step, so the usual way is short.  What fails here is raised at
        its end: not all frameworks let errors out of a hook."""
        if not self._running and (not self.sync or self._closed or self._failed is not None):
            return
        try:
            if not self._running:
                self.begin()
            if self._local is None:
                with self._lock:
                    self._send(i)
        except BaseException as e:
            if self._failed is None:
                self._give_up(e)

    def _send(self, i: int) -> None:
        if self._is_taken[i]:
            raise InvalidError(f'parameter "{self._parameters[i][0]}" got a gradient twice in one backward, expected once: checkpoints of activations must not '
                          "be reentrant")
        self._is_taken[i] = True
        self._taken.append(i)
        bucket = self._bucket[i]
        made = self._made_of[bucket]
        made.append(i)
        if len(made) == self._in_bucket[bucket] and self._failed is None and not self._closed:
            self._hand_over(bucket)

    def _hand_over(self, bucket: int) -> None:
        """A bucket's gradients at once, which is faster than one by one: none travels before all are there."""
        made, self._made_of[bucket] = self._made_of[bucket], []
        listed = self._lists.get(bucket)
        if listed is None or listed.order != made:
            places = [self._place[i] for i in made]
            listed = self._lists[bucket] = _Listed(made, [self._parameters[i][1] for i in made], [self._views[i] for i in made], places,
                                                   [self._reducer.sizes[k] for k in places])
        gradients = self._gradients(listed.parameters) if self.weight == 1 else []
        addresses = self._addresses(gradients, listed.sizes) if gradients else []
        if addresses:
            given = (ctypes.c_void_p * len(made))(*addresses)
            self._copied.append((listed, gradients, addresses, given))
            self._reducer.put(listed.which, len(made), given)
            return
        self._take(list(zip(listed.parameters, listed.views)))
        for place in listed.places if self.weight != 1 else ():
            values = self._reducer.values(place)
            np.multiply(values, np.float32(self.weight), out=values)
        self._reducer.put(listed.which, len(made), listed.nowhere)

    def _averages(self) -> None:
        """To where the gradients are: by C, if they still are where it found them, as hooks may replace them."""
        everywhere, left = bool(self._there.all()), set(range(len(self._parameters)))
        for listed, gradients, addresses, places in self._copied:
            now = self._gradients(listed.parameters)
            if all(map(operator.is_, now, gradients)) and self._lie_at(now, addresses):
                self._reducer.get(listed.which, len(addresses), places)
                left.difference_update(listed.order)
        given = [i for i in sorted(left) if everywhere or self._there[i] or self._was_kept_back(i)]
        if given:
            self._give([(self._parameters[i][1], self._views[i]) for i in given])

    def _end(self) -> None:
        """Of a backward.  A gradient that it did not make is what it was, of steps that only accumulated; one that no rank has
        stays away."""
        if self._closed:
            return
        if self._local is not None:
            self._running, self._unaveraged = False, True
            return
        try:
            if self._failed is not None:
                raise self._failed
            first = list(self._taken)
            for i, (_, parameter) in enumerate(self._parameters):
                if not self._is_taken[i] and self._made(parameter):
                    self._send(i)
            for bucket, made in enumerate(self._made_of):
                if made:
                    self._hand_over(bucket)
            self._there[:] = self._is_taken
            self._reducer.put(self._last, 1, self._nowhere)
            self._reducer.wait()                # no deadline: all_reduces, which have the group's call_timeout
            self._averages()
            self._reset()
            if self._learning:
                self._learn(first)
        except BaseException as e:
            if self._failed is None:
                self._give_up(e)
            raise
        finally:
            self._running = False

    def average(self, loss: float | None, lr: float | None) -> bool:
        """Local SGD's part of a step; see LocalSGD."""
        self.check()
        if self._local is None:
            raise InvalidError("gradients are averaged, expected local_sgd=LocalSGD(...) when the model is wrapped")
        if self._local.adaptive and (loss is None or lr is None):
            raise TypeError(f"loss is {loss!r} and lr {lr!r}, expected numbers: steps adapt to them")
        pairs = [(p, view) for (_, p), view in zip(self._parameters, self._views)]
        try:
            self._read(pairs)
            averaged = self._reducer.local_step(self._local, real("loss", loss or 0), real("lr", lr or 0))
            if averaged:
                self._write(pairs)
                self._broadcast(self._buffers)
        except BaseException as e:
            self._give_up(e)
            raise
        self._unaveraged = False
        return averaged

    def _was_kept_back(self, i: int) -> bool:
        """Whether no rank has that gradient in this step, and some sent what dgc kept back of earlier ones."""
        return self._dgc is not None and self._reducer.compressed(self._place[i]) and bool(
            self._reducer.values(self._place[i]).any())

    def _learn(self, order: list[int]) -> None:
        """The order in which rank 0 has made gradients is that of the buckets from now on."""
        self._learning = False
        seen = set(order)
        wanted = np.array([*order, *(i for i in self._order if i not in seen)])
        self.group.broadcast(wanted)
        if wanted.tolist() != self._order:
            self._reducer.close()
            self._arrange(wanted.tolist())

    def detach(self) -> None:
        """From the group, which may be closed then; until attach()."""
        self._views, self._there = [], np.zeros(0, np.float32)
        self._reducer.close()

    def attach(self, group: Group) -> None:
        """Averages are over the ranks of this group; collective.  A backward that has failed counts no longer."""
        if self._dgc is not None:
            raise UnsupportedError('compression is "dgc", which keeps parts of gradients on a worker that would be lost with it: expected '
                                   '"f16", "bf16" or None')
        self.group, self._failed, self._running = group, None, False
        agree(group, self._rows)
        order = np.array([*self._order, self._learning])
        group.broadcast(order)                            # that of rank 0
        self._learning = bool(order[-1])
        self._arrange(order[:-1].tolist())

    def _leave(self) -> None:
        if self._own:
            self.group.close()

    def close(self, error: BaseException | None = None) -> None:
        """The model is by itself again.  The group of the environment is closed; a given one stays.  After an error, or in a backward
        that has not ended: the other ranks are notified."""
        if self._closed or self.group.process != os.getpid():
            return
        if self._failed is None and (error is not None or self._running):
            self._give_up(error or InvalidError("it is closed in a backward that has not ended"))
        self._closed = True
        self.detach()
        self._leave()


def _megabytes(name: str, value: Any) -> int:
    size = int(real(name, value) * (1 << 20)) if 0 < real(name, value) < 1 << 40 else 0
    if size <= 0:
        raise ValueError(f"{name} is {shown(value)}, expected megabytes, more than 0")
    return size


def tensors_in(found: Any, kind: type) -> Iterator[Any]:
    """Those of a model's output: alone, in lists, mappings and objects with attributes, at any depth."""
    if isinstance(found, kind):
        yield found
    elif isinstance(found, Mapping):
        for value in found.values():
            yield from tensors_in(value, kind)
    elif isinstance(found, (list, tuple, set)):
        for value in found:
            yield from tensors_in(value, kind)
    elif hasattr(found, "__dataclass_fields__"):
        for value in vars(found).values():
            yield from tensors_in(value, kind)
