"""Training that continues when workers die, and takes in those that come back, without a checkpoint.

    state = {"model": model, "optimizer": optimizer}        # of anything that has state_dict() and load_state_dict()
    with Elastic(state, Order(len(x), batch=64, epochs=3)) as elastic:
        for step in elastic:
            with step as rows:                              # this worker's part of the batch
                gradient = model.gradient(x[rows], y[rows]) * step.weight
                model.update(elastic.group.all_reduce(gradient, "avg"))

Every batch is one of the job, of which each rank has a part.  When a rank dies the others deal the batch out among themselves and do the
step again.  A worker that is started again gets what the others have, and its part from the next batch on.  paddlert.torch.Elastic and
paddlert.paddle.Elastic do so with a framework's models.
"""
from __future__ import annotations

import copy
import ctypes
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np

from . import data as data_module
from ._admission import ANYWHERE, SAY, Admission, Roster
from ._lib import C, GoneError, InvalidError, PeerLostError, TimeoutError, UnsupportedError, chosen, instance, number, option_value, shown
from ._parallel import Parallel
from .arrays import Array
from .group import Group
from .job import Job

logger = logging.getLogger("paddlert")

__all__ = ["Elastic", "Order", "Reader", "Step"]

LOST = (PeerLostError, TimeoutError, GoneError)   # after which a group is broken
PIECE = 32 << 20                                  # bytes that travel together
DESCRIBED_MAX = 1000                              # bytes of what a worker trains, in a message
ON_LOSS = {"repeat": 0, "skip": 1}
Stateful = Any                                    # state_dict() and load_state_dict() or set_state_dict()
T = TypeVar("T")


class Reader(Protocol):
    """Batches of the whole job, the same ones on all workers, of one sample at least: an Order, a paddlert.data.Dataset with rank=0 and world=1, or
    yours."""

    def __iter__(self) -> Iterator[Any]:
        """From the position on."""

    def position(self) -> dict[str, int]:
        """Where the batch that came last ends."""

    def restore(self, position: Mapping[str, int]) -> None:
        """The next iteration continues there."""


class Order:
    """Batches of numbers from 0 to n - 1, int64, each number once in an epoch: of whatever can be indexed.

    batch: numbers in each, of the whole job.  shuffle: another order in each epoch, which follows from seed and epoch, and takes 8 bytes a
    number.  drop_last: not a last batch that is smaller."""

    def __init__(self, n: int, batch: int, *, shuffle: bool = True, seed: int = 0, epochs: int = 1, drop_last: bool = False) -> None:
        self.n, self.batch, self.epochs = (number(name, value, ctypes.c_int64, 1)
                                           for name, value in (("n", n), ("batch", batch), ("epochs", epochs)))
        self.shuffle, self.drop_last = (bool(instance(name, value, bool)) for name, value in (("shuffle", shuffle), ("drop_last", drop_last)))
        self.seed = number("seed", seed, ctypes.c_int64, 0)
        self._epoch, self._at = 0, 0

    def __repr__(self) -> str:
        return f"Order({self.n}, {self.batch}, shuffle={self.shuffle}, seed={self.seed}, epochs={self.epochs}, drop_last={self.drop_last})"

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self.n // self.batch if self.drop_last else -(-self.n // self.batch)

    def __iter__(self) -> Iterator[Array]:
        while self._epoch < self.epochs:
            order: Array | None = None
            if self.shuffle:
                order = np.random.Generator(np.random.PCG64([self.seed, self._epoch])).permutation(self.n)
            while self._at < len(self) * self.batch:
                first, self._at = self._at, self._at + self.batch
                yield np.arange(first, min(self._at, self.n)) if order is None else order[first:self._at]
            self._epoch, self._at = self._epoch + 1, 0

    def position(self) -> dict[str, int]:
        """Numbers; restore() continues behind the batch that came last."""
        return {"epoch": self._epoch, "at": self._at}

    def restore(self, position: Mapping[str, int]) -> None:
        """The next iteration continues there."""
        self._epoch, self._at = (number(f"position[{name!r}]", instance("position", position, Mapping).get(name), ctypes.c_int64, 0)
                                 for name in ("epoch", "at"))


def _length(batch: Any) -> int:
    """Samples in it."""
    if isinstance(batch, Mapping):
        return _length(next(iter(batch.values()), ()))
    if isinstance(batch, (tuple, list)):
        return _length(batch[0]) if batch else 0
    return len(batch)


def _part(batch: Any, first: int, step: int, end: int) -> Any:
    """Every step-th sample."""
    if isinstance(batch, Mapping):
        return {name: _part(value, first, step, end) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(*(_part(v, first, step, end) for v in batch)) if hasattr(batch, "_fields") else type(batch)(
            _part(v, first, step, end) for v in batch)
    if isinstance(batch, data_module.Batch):
        return batch.rows(np.arange(first, end, step))
    return batch[first:end:step]


class _Data:
    """A reader's batches, of which the last one may be wanted again."""

    def __init__(self, reader: Reader) -> None:
        if isinstance(reader, data_module.Dataset) and reader.world != 1:
            raise InvalidError(f"the Dataset is the share of rank {reader.rank} of {reader.world}, expected Dataset(..., rank=0, world=1): its batches "
                               "are dealt out over those workers that are there")
        lacks = [name for name in ("__iter__", "position", "restore") if not hasattr(reader, name)]
        if lacks or isinstance(reader, type):
            raise TypeError(f"data is {shown(reader)}, expected an Order, a paddlert.data.Dataset or another reader that has __iter__(), position() "
                            "and restore()")
        self._reader = reader
        self.position = reader.position()         # behind the last batch that is done
        self._iterator: Iterator[Any] | None = None
        self._batch: Any = None

    def described(self) -> str:
        """Which batches, and in which order, as far as the reader says it."""
        if isinstance(self._reader, data_module.Dataset):
            return f"a Dataset ({self._reader._decides()}, files and fields {self.position['check']:x})"
        return repr(self._reader) if isinstance(self._reader, Order) else f"a {type(self._reader).__name__}"

    def batch(self) -> Any:
        """The next one to be done; None: there is no more."""
        if self._batch is None:
            if self._iterator is None:
                self._reader.restore(self.position)
                self._iterator = iter(self._reader)
            batch = next(self._iterator, None)
            if batch is not None and _length(batch) == 0:
                raise InvalidError(f"the reader gave a batch without a sample, behind position {self.position}: expected one at least")
            self._batch = batch
        return self._batch

    def done(self) -> None:
        """With that batch."""
        self.position, self._batch = self._reader.position(), None

    def restore(self, position: dict[str, int]) -> None:
        self.position, self._iterator, self._batch = position, None, None


class _Pack:
    """A state as JSON text, and arrays that are not in it."""

    def __init__(self, array_of: Callable[[Any], tuple[str, Array] | None]) -> None:
        self._array_of = array_of
        self.arrays: list[Array] = []             # uint8 [bytes]

    def pack(self, value: Any, name: str) -> Any:
        if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
            return value
        if isinstance(value, (list, tuple)):
            return ["l" if isinstance(value, list) else "t", [self.pack(v, f"{name}[{i}]") for i, v in enumerate(value)]]
        if isinstance(value, Mapping):
            return ["d", [[self.pack(k, name), self.pack(v, f"{name}[{k!r}]")] for k, v in value.items()]]
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiub":
            array = np.ascontiguousarray(value)
            self.arrays.append(array.reshape(-1).view(np.uint8))
            return ["s" if isinstance(value, np.generic) else "n", value.dtype.str, list(value.shape)]
        found = self._array_of(value)
        if found is None:
            raise UnsupportedError(f"{name} is a {type(value).__name__}, expected numbers, texts, lists, mappings, arrays and tensors: it cannot travel to a "
                              "worker that comes back")
        kind, array = found
        self.arrays.append(array)
        return ["x", kind, int(array.size)]


class _Unpack:
    """The opposite: sizes first, for arrays to be filled."""

    def __init__(self, tensor_of: Callable[[str, Array], Any]) -> None:
        self._tensor_of = tensor_of

    def sizes(self, value: Any) -> Iterator[int]:
        if isinstance(value, list):
            kind, *rest = value
            if kind in ("n", "s"):
                yield int(np.prod(rest[1], dtype=np.int64)) * np.dtype(rest[0]).itemsize
            elif kind == "x":
                yield rest[1]
            else:
                for item in rest[0]:
                    for v in item if kind == "d" else [item]:
                        yield from self.sizes(v)

    def unpack(self, value: Any, arrays: Iterator[Array]) -> Any:
        if not isinstance(value, list):
            return value
        kind, *rest = value
        if kind in ("n", "s"):
            array = next(arrays).view(rest[0]).reshape(rest[1])
            return array[()] if kind == "s" else array
        if kind == "x":
            return self._tensor_of(rest[0], next(arrays))
        if kind == "d":
            return {self.unpack(k, arrays): self.unpack(v, arrays) for k, v in rest[0]}
        found = [self.unpack(v, arrays) for v in rest[0]]
        return found if kind == "l" else tuple(found)


def _spread(group: Group, source: int, arrays: Sequence[Array]) -> None:
    """source's bytes into everybody's, in pieces."""
    waiting: list[Array] = []

    def flush() -> None:
        packed: Array = np.concatenate(waiting)
        group.broadcast(packed, source)
        at = 0
        for array in waiting if group.rank != source else ():
            array[:] = packed[at:at + array.size]
            at += array.size
        waiting.clear()
    size = 0
    for whole in arrays:
        for first in range(0, whole.size, PIECE):
            array = whole[first:first + PIECE]
            if waiting and size + array.size > PIECE:
                flush()
                size = 0
            waiting.append(array)
            size += array.size
    if waiting:
        flush()


class Step:
    """One batch.  `with step as part:` does it; when another worker is lost in there, the rest of the `with` is left out."""

    def __init__(self, elastic: Elastic, batch: Any) -> None:
        self._elastic, self._batch = elastic, batch
        self.number = elastic.steps           # of steps that are done, those of other workers' included
        self.total = _length(batch)           # samples of the whole job's batch
        self.samples = 0                      # of this worker's part
        self.weight = 0.0                     # of the mean over this part, for an average over ranks that is that over all samples
        self.done = False                     # after the with: by all workers; False: it is repeated, or skipped
        self._entered = False

    def __enter__(self) -> Any:
        if self._entered:
            raise InvalidError("the step was done already, expected one `with` for each step of the loop")
        self._entered = True
        group = self._elastic.group
        rank, size = group.rank, group.size
        self.samples = len(range(rank, self.total, size))
        self.weight = self.samples * size / self.total
        self._elastic._begin(self.weight)
        # a rank without a sample takes one, with no weight: frameworks have no mean of nothing
        return _part(self._batch, *((rank, size, self.total) if self.samples else (0, 1, 1)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None:
            self._elastic._end(whole=True)
        elif not self._elastic._was_lost(error):
            return False
        else:
            self._elastic._lost(error)
        self.done = self._elastic.steps > self.number
        return True


class Elastic:
    """Steps that all workers of a job do together, with those that are there.  Collective: it waits for the others, or for those that train
    already, which take it in.

    state: of what every worker has the same, by name: objects with state_dict() and load_state_dict() (or set_state_dict()), of numbers,
        texts, lists, mappings, arrays and tensors.  A worker that comes back gets it from one that is there.
    data: batches of the whole job (Reader).
    on_loss: what becomes of a step in which a worker died before the others had all gradients: "repeat" it without that worker, or
        "skip" its batch.
    values: numbers and texts of yours that belong to the state, in .values; a repeated step finds them as they were before it.
    min_workers: with fewer the others wait, after a step, for some to come back.
    start_timeout: seconds to wait for the others, or for an invitation; call_timeout: as a Group's, after which a worker that is alive but
        does not take part is left out.

    In a step the state changes behind the last call that waits for others: a step that is repeated finds it as it was.

    A worker that is lost is left out within a second.  What a program does between two `with`s is its own; a call of `.group` there
    may raise PeerLostError.  At the end of the data all workers leave the loop.
    """

    _optimizers = 0                           # whose steps are counted

    def __init__(self, state: Mapping[str, Stateful], data: Reader, *, job: Job | None = None, on_loss: str = "repeat",
                 values: Mapping[str, Any] | None = None, min_workers: int = 1, start_timeout: float = 600, call_timeout: float = 600) -> None:
        self._state = dict(instance("state", state, Mapping))
        for name, what in self._state.items():
            if not hasattr(what, "state_dict") or not (hasattr(what, "load_state_dict") or hasattr(what, "set_state_dict")):
                raise TypeError(f"state[{name!r}] is a {type(what).__name__}, expected an object with state_dict() and load_state_dict()")
        self._skips = bool(chosen("on_loss", on_loss, ON_LOSS))
        self.values: dict[str, Any] = {} if values is None else dict(instance("values", values, Mapping))
        self._data = _Data(data)
        self.steps = 0                        # that are done
        self.samples = 0                      # in these
        self.skipped = 0                      # batches, by on_loss="skip"
        self._whole = True                    # the last step ended without an error on this rank
        self._clean = True                    # no optimizer has done its part of a step that others had not
        self._began = False                   # the batch that is next
        self._synced = False                  # has what the group has
        self._before = copy.deepcopy(self.values)
        self._stepped: set[int] = set()       # optimizers, in this step
        self._closed = False
        job = Job() if job is None else instance("job", job, Job)
        self._min = number("min_workers", min_workers, ctypes.c_uint32, 1)
        if self._min > job.worker_num:
            raise ValueError(f"min_workers is {min_workers}, but the job has {job.worker_num}: with fewer it would wait forever")
        self._described = (f"{self._data.described()}, state {', '.join(sorted(self._state))}, on_loss {on_loss}, "
                           f"min_workers {self._min}").encode()
        self._admission = Admission(job, *(option_value(name, "_ms", None, value) / 1000
                                       for name, value in (("start_timeout", start_timeout), ("call_timeout", call_timeout))))
        first = self._form()
        try:
            self._settle(first)
        except BaseException:
            self.close()
            raise

    # ---- what a framework's class says ----

    def _array_of(self, value: Any) -> tuple[str, Array] | None:
        """A tensor's kind, and its bytes, uint8; None: it is no tensor."""
        return None

    def _tensor_of(self, kind: str, array: Array) -> Any:
        raise UnsupportedError("the state has tensors of a framework, expected its own class: paddlert.torch.Elastic or paddlert.paddle.Elastic")

    def _leave(self) -> None:
        """Nothing uses the group any more."""

    def _enter(self) -> None:
        """Collective: what uses a group uses this one."""

    def _weigh(self, weight: float) -> None:
        """Of this rank's gradients."""

    # ---- steps ----

    def __iter__(self) -> Iterator[Step]:
        """Until the data ends."""
        while self._next():
            step = Step(self, self._data.batch())
            yield step
            if not step._entered:
                raise InvalidError("a step was not done, expected `with step as part:` in the loop")

    def _next(self) -> bool:
        """Whether there is another batch."""
        while True:
            try:
                self._admit()
                if self._data.batch() is not None:
                    return True
                self.group.barrier()
                return False
            except LOST as e:
                if not self._was_lost(e):
                    raise
                self._recover(e)

    def _begin(self, weight: float) -> None:
        self._began = True
        self._stepped.clear()
        self._before = copy.deepcopy(self.values)
        self._weigh(weight)

    def _end(self, whole: bool, skipped: bool = False) -> None:
        """Of a batch."""
        samples = _length(self._data.batch())
        self._data.done()
        self._whole, self._began = whole, False
        self._stepped.clear()
        if skipped:
            self.skipped += 1
        else:
            self.steps += 1
            self.samples += samples

    def _optimized(self, i: int) -> None:
        """Optimizer i has changed the parameters."""
        if self._began:
            self._stepped.add(i)

    def _was_lost(self, error: BaseException) -> bool:
        """Whether the group is broken by what happened to another worker."""
        if not isinstance(error, LOST) or self.group._group is None:
            return False
        try:
            self.group.check()
        except LOST:
            return True
        except Exception:
            return False
        return False

    def _lost(self, error: BaseException) -> None:
        """In a step.  All gradients were there where the optimizers have used them: then it is done."""
        if self._stepped and len(self._stepped) == self._optimizers:
            self._end(whole=False)
        else:
            self._clean = not self._stepped
            self.values = self._before
        self._recover(error)

    # ---- the group ----

    def _form(self) -> bool:
        """Joins the others.  Whether all begin now."""
        self._admission.stop()
        self.group, first = self._admission.form()
        return first

    def _recover(self, error: BaseException) -> None:
        logger.warning("%s; the others continue", error)
        first = self._shrink()
        self._settle(first)

    def _shrink(self) -> bool:
        """The group is that of those that live; of another one, if this rank was left out of it.  Whether that is the first one."""
        self._leave()
        old = self.group
        try:
            self.group, gone = old._shrink()
            self._admission.shrunk(gone)
            return False
        except LOST as e:
            logger.warning("this worker was left out, and waits to be invited: %s", e)
            old.close()
            self._synced = False
            return self._form()
        finally:
            old.close()

    def _settle(self, first: bool) -> None:
        """All of the group have the same, and nobody has died meanwhile."""
        while True:
            try:
                if self._sync(first):
                    self._enter()
                    if self.group.rank == 0:
                        self._admission.lead()
                    return
                self._leave()
                self.group.close()                    # nobody in here trains: another group may, or all begin again
                first = self._form()
            except LOST as e:
                if not self._was_lost(e):
                    raise
                logger.warning("%s; the others continue", e)
                first = self._shrink()

    def _sync(self, first: bool) -> bool:
        """Everybody gets what the rank has that is farthest.  False: no rank has anything."""
        mark = int.from_bytes(hashlib.sha256(self._described).digest()[:8], "little") >> 1
        said: Array = np.array([self.steps + self.skipped, self._whole, self._synced, self._clean, self._began, mark], np.int64)
        all_said = self.group.all_gather(said)
        usable = [r for r in range(self.group.size) if all_said[r][3] and (first or all_said[r][2])]
        if not usable:
            if any(row[2] for row in all_said):
                raise InvalidError("a worker was lost when some of the optimizers had done a step and others had not, on all workers: expected all calls that "
                              "wait for other workers before the first optimizer's step")
            return False
        source = max(usable, key=lambda r: (*(int(n) for n in all_said[r][:3]), -r))
        self._agree([row[5] == all_said[source][5] for row in all_said], source, first)
        best = [int(n) for n in all_said[source][:2]]
        lacks = [not row[2] or not row[3] or [int(n) for n in row[:2]] != best for row in all_said]
        lacks[source] = False
        if any(lacks):
            self._receive(source, lacks[self.group.rank])
        self._synced = self._clean = self._whole = True
        if self._skips and any(row[4] and int(row[0]) == best[0] for row in all_said):
            if self._data.batch() is not None:
                self._end(whole=True, skipped=True)
        self._began = False
        return True

    def _agree(self, same: Sequence[Any], source: int, first: bool) -> None:
        """Who trains otherwise than the others would change what they train, and nobody would see it: it is refused, and at the beginning all
        are, as none of them is the right one."""
        if all(same):
            return
        texts = self.group.all_gather(np.frombuffer(self._described[:DESCRIBED_MAX].ljust(DESCRIBED_MAX, b"\0"), np.uint8))
        own, other = self.group.rank, source if not same[self.group.rank] else next(r for r, equal in enumerate(same) if not equal)
        has = {r: f"worker {self._admission.homes[r]} has {texts[r].tobytes().rstrip(bytes(1)).decode(errors='replace')}" for r in (own, other)}
        if first or not same[own]:
            raise InvalidError(f"workers train in different ways: {has[other]}; {has[own]}; expected the same of all")
        logger.warning("worker %d is refused, as it trains in another way: %s", self._admission.homes[other], has[other])

    def _receive(self, source: int, lacks: bool) -> None:
        """source's state, for those that lack it.  It travels in pieces, and is taken when all of it is there."""
        group, pack, unpack = self.group, _Pack(self._array_of), _Unpack(self._tensor_of)
        text: Array = np.zeros(0, np.uint8)
        if group.rank == source:
            packed = pack.pack({"steps": self.steps, "samples": self.samples, "skipped": self.skipped, "position": self._data.position,
                                "values": self.values, "state": {name: what.state_dict() for name, what in self._state.items()}}, "state")
            text = np.frombuffer(json.dumps(packed).encode(), np.uint8).copy()
        size = int(group.broadcast(np.array([text.size]), source)[0])
        text = text if group.rank == source else np.zeros(size, np.uint8)
        _spread(group, source, [text])
        found = json.loads(text.tobytes())
        arrays = pack.arrays if group.rank == source else [np.empty(n, np.uint8) for n in unpack.sizes(found)]
        _spread(group, source, arrays)
        if not lacks:
            return
        found = unpack.unpack(found, iter(arrays))
        for name, what in self._state.items():
            load = what.load_state_dict if hasattr(what, "load_state_dict") else what.set_state_dict
            load(found["state"][name])
        self.steps, self.samples, self.skipped, self.values = (found[name] for name in ("steps", "samples", "skipped", "values"))
        self._data.restore(found["position"])

    def _admit(self) -> None:
        """Those that wait at their homes are taken in, one by one; each then makes the next of these rounds with the others.  Collective."""
        admission, said = self._admission, 0.0
        while not admission.alone:
            few = self.group.size < self._min
            if few and self.group.rank == 0 and (now := time.monotonic()) >= said + SAY:
                said = now
                logger.warning("%d of %d workers are there, waiting for more, as min_workers is %d", self.group.size, len(admission.endpoints),
                               self._min)
            packed = Roster.nobody(len(admission.endpoints))
            if self.group.rank == 0:
                if few:
                    admission.wait(1)
                roster = admission.invite()
                packed = roster.pack(len(admission.endpoints)) if roster else packed
            roster = Roster.unpack(self.group.broadcast(packed))
            if roster:
                grown = admission.grow(self.group, roster)
                if grown is not None:
                    self._leave()
                    self.group.close()
                    self.group = grown
                    self._settle(False)
            elif not few:
                return

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        ends = error is None or (isinstance(error, SystemExit) and not error.code)
        if not ends and not self._closed and self.group._group and self.group.process == os.getpid():
            C.rt_group_abort(self.group._group, f"{type(error).__name__}: {error}".encode(errors="replace"))
        self.close()

    def close(self) -> None:
        """Leaves the others."""
        if not self._closed:
            self._closed = True
            self._admission.stop()
            self._leave()
            self.group.close()


def solo() -> Group:
    """Of this process alone: what a model has that is not in the others' group yet."""
    return Group(endpoints=[ANYWHERE], name="alone")


class ModelOptions(TypedDict, total=False):
    """Of an ElasticModel.

    data, on_loss, values, min_workers, start_timeout, call_timeout, job: as of paddlert.elastic.Elastic
    others: more that belongs to the state, by name: schedules, scalers
    compression, broadcast_buffers: as of the wrapper, DistributedDataParallel or DataParallel, and so are the sizes of its buckets
    """
    job: Job | None
    on_loss: str | None
    values: Mapping[str, Any] | None
    min_workers: int | None
    start_timeout: float | None
    call_timeout: float | None
    others: Mapping[str, Any] | None
    compression: str | None
    broadcast_buffers: bool | None


class ElasticModel(Elastic):
    """Data parallel training that continues when workers die, and takes in those that come back, without a checkpoint.  Collective.

    A with of the loop is a step.  Its backward leaves the average over all samples of the job's batch in .grad, however they are dealt out:
    the loss is the mean over this worker's part.  What waits for other workers comes before the first optimizer's step.

    model: trained in place; .model is the wrapper to call.  optimizer: one, or a list; all of them step in each step.
    """
    model: Any                                # the wrapper
    _parallel: Parallel
    _tensor: type
    _optimizer: type

    def __init__(self, model: Any, optimizer: Any, data: Reader, wrapped: Callable[..., Any], options: ModelOptions) -> None:
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        of_wrapper = {name: given.pop(name) for name in ("compression", "broadcast_buffers") if name in given}
        others = given.pop("others", None)
        if unknown := sorted(given.keys() - ModelOptions.__annotations__.keys()):
            raise TypeError(f"there is no option {unknown[0]!r} of {type(self).__name__}, expected one of "
                            f"{', '.join(sorted(ModelOptions.__annotations__))}, or the size of a bucket")
        optimizers = listed("optimizer", optimizer, self._optimizer)
        self._optimizers = len(optimizers)
        with solo() as alone:
            self.model = wrapped(model, alone, **of_wrapper)
            self._parallel = self.model._parallel
            self._parallel.detach()
        try:
            super().__init__(states(model, optimizers, others), data, **given)
        except BaseException:
            self.model.close()                # the next wrapper has the model for itself
            raise
        for i, o in enumerate(optimizers):
            self._watch(i, o)

    def _watch(self, i: int, optimizer: Any) -> None:
        """Notes each step of optimizer i."""
        raise NotImplementedError

    def _array_of(self, value: Any) -> tuple[str, Array] | None:
        parallel = self._parallel
        return (parallel._kind(value), parallel._bytes(value)) if isinstance(value, self._tensor) else None

    def _leave(self) -> None:
        self._parallel.detach()

    def _enter(self) -> None:
        self._parallel.attach(self.group)

    def _weigh(self, weight: float) -> None:
        self._parallel.weight = weight

    def close(self) -> None:
        """Leaves the others; the model is by itself again."""
        super().close()
        self.model.close()


def listed(name: str, value: Any, kind: type) -> list[Any]:
    """One of a kind, or several."""
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    if not found:
        raise ValueError(f"{name} is empty, expected one at least")
    return [instance(name, v, kind) for v in found]


def states(model: Any, optimizers: Sequence[Any], others: Mapping[str, Any] | None) -> dict[str, Any]:
    """By name."""
    more = {} if others is None else dict(instance("others", others, Mapping))
    own = {"model": model, **{f"optimizer {i}": o for i, o in enumerate(optimizers)}}
    if taken := sorted(set(own) & set(more)):
        raise ValueError(f"others has {taken[0]!r}, expected another name")
    return {**own, **more}
