"""Collective communication between the workers of a job, on arrays of NumPy and of frameworks that speak DLPack, in place
where they lie."""
from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from . import _abi
from ._lib import C, Error, InvalidError, Owner, Started, addresses, call, call_long, chosen, instance, number, option_value, shown, text
from .arrays import Memory, as_array, empty
from .job import Job

TRANSPORTS = {"auto": _abi.RT_TRANSPORT_AUTO, "tcp": _abi.RT_TRANSPORT_TCP, "shm": _abi.RT_TRANSPORT_SHM}
OPS = {"sum": _abi.RT_SUM, "prod": _abi.RT_PROD, "max": _abi.RT_MAX, "min": _abi.RT_MIN, "avg": _abi.RT_AVG}


def _end(inp: Memory | None, out: Memory | None) -> None:
    if out:
        out.end()


def _listed(endpoints: Sequence[str]) -> Any:
    """For C."""
    found = addresses("endpoints", endpoints)
    if not found:
        raise ValueError("endpoints is [], expected one for each rank, or None: those of the job")
    return (ctypes.c_char_p * len(found))(*(text("endpoints", e) for e in found))


class Work(Started):
    """A call in flight."""

    def __init__(self, group: Group, handle: ctypes.c_void_p, out: Any, keep: tuple[Memory | None, Memory | None]) -> None:
        super().__init__(group, handle)
        self._group, self._out, self._keep = group, out, keep
        group.works.add(self)

    def done(self) -> bool:
        return self._handle is None or bool(C.rt_work_test(self._handle))

    def writes_before(self, inp: Memory | None, out: Memory | None) -> bool:
        """Whether a call that uses these has to wait for this one."""
        to = self._keep[1]
        return self._handle is not None and to is not None and bool(inp and inp.comes_after(to) or out and out.comes_after(to))

    def end(self) -> None:
        """Waits until the call has ended; what it says is for wait()."""
        if super()._end("rt_work_wait"):
            _end(*self._keep)

    def wait(self) -> Any:
        """The result."""
        self.end()
        self._check()
        return self._out

    def __del__(self) -> None:
        if self._handle is not None:
            self._group.dropped.append((self._handle, self._keep))           # may still be written to


class Group(Owner):
    """The workers of the job (PADDLE_TRAINER_ENDPOINTS), or those of `endpoints`, of which this is `rank`.

    job: whose workers these are; with endpoints it may be None
    endpoints: "host:port" of each rank
    rank: which of the endpoints this process is
    name: of the group; one of another name is refused
    token, encrypt: as Job's, and by default those of job
    form_timeout: seconds until all ranks have joined; None: 600
    call_timeout: seconds of a call; None: 600
    transport: "auto" is shared memory between ranks of one machine and TCP elsewhere; "tcp"; "shm"
    generation: of a group that forms again from endpoints, a number that they had not before (grow)

    Every rank makes the same calls in the same order, with arrays of the same shape and type: if they differ, all get InvalidError within a
    second.  Arrays are NumPy's or have __dlpack__ (tensors in main memory), of float32, float64, float16, bfloat16, int64, int32 or uint8;
    contiguous ones are used where they lie, others are copied; results are of the same kind.  out=: an array of the result's shape and type,
    which is written to and returned, in place of a new one.  start=True: the call returns at once, a Work whose .wait() has the result.

    One thread at a time: a call beside another thread's is InvalidError, and so is one in a forked child.  PeerLostError: a rank is gone, the
    same one on all ranks; TimeoutError: one has not done its part.  After either the group is broken: see shrink.  As a context manager it is
    closed at the end; an exception gives it up, on all ranks and at once.
    """

    def __init__(self, job: Job | None = None, *, endpoints: Sequence[str] | None = None, rank: int = 0, name: str | None = None,
                 token: str | None = None, encrypt: bool | None = None, form_timeout: float | None = None,
                 call_timeout: float | None = None, transport: str = "auto", generation: int = 0,
                 _handle: ctypes.c_void_p | None = None, _waits_for: str | None = None) -> None:
        super().__init__()
        self.works: weakref.WeakSet[Work] = weakref.WeakSet()
        self.dropped: list[tuple[ctypes.c_void_p, tuple[Memory | None, Memory | None]]] = []
        self.reducers: list[ctypes.c_void_p] = []         # rt_reducers of this group
        self._group, self._job = _handle, job
        if _handle:
            return
        if job is not None:
            instance("job", job, Job)
        how = chosen("transport", transport, TRANSPORTS)
        options = _abi.rt_group_options(
            rank=number("rank", rank, ctypes.c_uint32), form_timeout_ms=option_value("form_timeout", "_ms", None, form_timeout or 0),
            call_timeout_ms=option_value("call_timeout", "_ms", None, call_timeout or 0),
            generation=number("generation", generation, ctypes.c_uint64),
            name=option_value("name", "", ctypes.c_char_p, name) or None if name is not None else None,
            token=option_value("token", "", ctypes.c_char_p, token) if token is not None else None)
        options.transport = how or options.transport
        options.waits_for = _waits_for.encode() if _waits_for else None
        if encrypt is not None:
            options.encrypt = option_value("encrypt", "encrypt", None, encrypt)
        if endpoints is not None:
            array = _listed(endpoints)
            options.endpoints, options.size = ctypes.cast(array, ctypes.c_void_p), len(array)
        elif job is not None:
            if rank not in (0, job.worker_index):
                raise InvalidError(f"rank is {rank}, but this process is worker {job.worker_index} of the job, expected endpoints, of which it is one")
        else:
            raise InvalidError("job and endpoints are None, expected a paddlert.Job, whose workers these are, or an endpoint for each rank")
        group = ctypes.c_void_p()
        call_long(self, "rt_group_open", job._job if job else None, ctypes.byref(options), ctypes.byref(group))
        self._group = group

    def __repr__(self) -> str:
        return f"<paddlert.Group, rank {self.rank} of {self.size}>" if self._group else "<paddlert.Group, closed>"

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        """After an exception, a program that only ends excepted: the others are notified, and what was started ends at once."""
        ends = error is None or (isinstance(error, SystemExit) and not error.code)
        if not ends and self._group and self.process == os.getpid():
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            C.rt_group_abort(self._group, reason.encode(errors="replace"))
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Finishes what was started, and leaves the others.  A Work's wait() still has its result."""
        self._end_works()
        while getattr(self, "_group", None) and self.reducers and self.may_close():
            C.rt_reducer_close(self.reducers.pop())
        group, self._group = getattr(self, "_group", None), None
        if group:
            self.free(C.rt_group_close, group)

    def _end_works(self) -> None:
        """Before C frees what they use."""
        if getattr(self, "_group", None) and self.may_close():
            for work in list(self.works):
                work.end()
            self._end_dropped(wait=True)

    def _end_dropped(self, wait: bool = False) -> None:
        """Calls whose Work the program keeps no longer.  An array that was given as out has its result all the same, once a
        later call of this group has ended."""
        for item in list(self.dropped):
            handle, memory = item
            if not wait and not C.rt_work_test(handle):
                continue
            self.dropped.remove(item)
            try:
                call_long(self, "rt_work_wait", handle)
            except Error:
                continue                    # later calls fail for the same reason
            _end(*memory)

    def _end_before(self, inp: Memory | None, out: Memory | None) -> None:
        """Calls in flight whose results this one reads, or writes over, and that are not written in the order of C's calls."""
        before = [work for work in list(self.works) if work.writes_before(inp, out)]
        for work in before:
            work.end()
        dropped = any(to and (inp and inp.comes_after(to) or out and out.comes_after(to)) for _, (_, to) in self.dropped)
        if dropped:
            self._end_dropped(wait=True)
        if inp and (before or dropped):
            inp.pack()

    def _open(self) -> ctypes.c_void_p:
        if not self._group:
            raise InvalidError("the group is closed")
        return self._group

    def _use(self, name: str, *arguments: Any) -> None:
        """A call that waits for other ranks."""
        self.begin()
        try:
            call_long(self, name, self._open(), *arguments)
        finally:
            self.end()
        self._end_dropped()

    @property
    def rank(self) -> int:
        """This process, from 0."""
        return int(C.rt_group_rank(self._open()))

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return int(C.rt_group_size(self._open()))

    def _make(self, kind: int, n: int, inp: Memory | None, out: Memory | None = None, result: Any = None, op: str = "sum", root: int = 0,
              start: bool = False) -> Any:
        """inp, out: Memory or None; result: what the caller gets."""
        given = inp or out
        assert given
        self._end_before(inp, out)
        c = _abi.rt_coll(kind=kind, dtype=given.dtype, op=chosen("op", op, OPS), root=root, n=n)
        setattr(c, "in", inp and inp.address)
        c.out = out and out.address
        if not start:
            self._use("rt_coll_run", ctypes.byref(c))
            _end(inp, out)
            return result
        self._end_dropped()
        handle = ctypes.c_void_p()
        call("rt_coll_start", self._open(), ctypes.byref(c), ctypes.byref(handle))
        return Work(self, handle, result, (inp, out))

    def _peer(self, name: str, rank: Any) -> int:
        """The number of a rank: C would take -1 for 4294967295."""
        if not isinstance(rank, Integral) or isinstance(rank, bool) or not 0 <= int(rank) < self.size:
            raise ValueError(f"{name} is {shown(rank)}, expected a rank from 0 to {self.size - 1}")
        return int(rank)

    def _other(self, name: str, rank: Any) -> int:
        if self._peer(name, rank) == self.rank:
            raise ValueError(f"{name} is {rank!r}, which is this rank, expected another one")
        return int(rank)

    def _rows(self, array: Any) -> tuple[Memory, int]:
        """Of an array [size][...]: its memory, and the values of a row."""
        inp = Memory(array, "array")
        if not inp.shape or inp.shape[0] != self.size:
            raise ValueError(f"the array is {inp.shape}, expected a first dimension of {self.size}")
        return inp, inp.size // self.size

    @staticmethod
    def _out(out: Any, shape: Sequence[int], array: Any, inp: Memory) -> tuple[Any, Memory]:
        """Where a result goes, as the caller gets it and as C does: a new array like `array`, or the caller's own."""
        made = empty(shape, array) if out is None else out
        to = Memory(made, "out", write=True)
        if (to.dtype, to.shape) != (inp.dtype, tuple(shape)):
            raise ValueError(f"out is {made.dtype} {tuple(to.shape)}, expected {array.dtype} {tuple(shape)}")
        return made, to

    def all_reduce(self, array: Any, op: str = "sum", out: Any = None, start: bool = False) -> Any:
        """The sum ("prod", "max", "min", "avg"; this not of whole numbers) of all ranks' arrays, of their shape.  out: the array itself is in
        place."""
        array = as_array(array)
        inp = Memory(array, "array")
        out, to = self._out(out, inp.shape, array, inp)
        return self._make(_abi.RT_ALL_REDUCE, inp.size, inp, to, out, op, start=start)

    def reduce(self, array: Any, root: int = 0, op: str = "sum", out: Any = None, start: bool = False) -> Any:
        """On root: as all_reduce.  Elsewhere: None, and out is not touched."""
        array, root = as_array(array), self._peer("root", root)
        inp = Memory(array, "array")
        out, to = self._out(out if self.rank == root else None, inp.shape, array, inp)
        return self._make(_abi.RT_REDUCE, inp.size, inp, to, out if self.rank == root else None, op, root, start)

    def broadcast(self, array: Any, root: int = 0, start: bool = False) -> Any:
        """root's array into everybody's, in place."""
        at = Memory(array, "array", write=True)
        return self._make(_abi.RT_BROADCAST, at.size, at, at, array, root=self._peer("root", root), start=start)

    def all_gather(self, array: Any, out: Any = None, start: bool = False) -> Any:
        """[size][...]: the arrays of all ranks."""
        array = as_array(array)
        inp = Memory(array, "array")
        out, to = self._out(out, (self.size, *inp.shape), array, inp)
        return self._make(_abi.RT_ALL_GATHER, inp.size, inp, to, out, start=start)

    def gather(self, array: Any, root: int = 0, out: Any = None, start: bool = False) -> Any:
        """On root: [size][...], the arrays of all ranks.  Elsewhere: None, and out is not touched."""
        array, root = as_array(array), self._peer("root", root)
        inp, to = Memory(array, "array"), None
        if self.rank == root:
            out, to = self._out(out, (self.size, *inp.shape), array, inp)
        return self._make(_abi.RT_GATHER, inp.size, inp, to, out if to else None, root=root, start=start)

    def scatter(self, array: Any = None, root: int = 0, out: Any = None, start: bool = False) -> Any:
        """root's array [size][...]: row i to rank i.  Elsewhere array is None, and out says shape and type."""
        root = self._peer("root", root)
        if self.rank == root:
            array = as_array(array)
            inp, n = self._rows(array)
            out, to = self._out(out, inp.shape[1:], array, inp)
            return self._make(_abi.RT_SCATTER, n, inp, to, out, root=root, start=start)
        if array is not None or out is None:
            raise TypeError(f"scatter on rank {self.rank} got {'no out' if array is None else 'an array'}, expected an array on rank {root} alone, "
                            "and an out for the row of this one")
        to = Memory(out, "out", write=True)
        return self._make(_abi.RT_SCATTER, to.size, None, to, out, root=root, start=start)

    def reduce_scatter(self, array: Any, op: str = "sum", out: Any = None, start: bool = False) -> Any:
        """array [size][...]: of the sums over the ranks, this rank's row."""
        array = as_array(array)
        inp, n = self._rows(array)
        out, to = self._out(out, inp.shape[1:], array, inp)
        return self._make(_abi.RT_REDUCE_SCATTER, n, inp, to, out, op, start=start)

    def all_to_all(self, array: Any, out: Any = None, start: bool = False) -> Any:
        """array [size][...]: row i goes to rank i, and row i of the result is what rank i sent here.  out: not the array itself."""
        array = as_array(array)
        inp, n = self._rows(array)
        out, to = self._out(out, inp.shape, array, inp)
        return self._make(_abi.RT_ALL_TO_ALL, n, inp, to, out, start=start)

    def send(self, array: Any, to: int, start: bool = False) -> Any:
        """The array to that rank, which calls recv."""
        inp = Memory(array, "array")
        return self._make(_abi.RT_SEND, inp.size, inp, root=self._other("to", to), start=start)

    def recv(self, array: Any, source: int, start: bool = False) -> Any:
        """What that rank sends, into the array, which is also the result."""
        to = Memory(array, "array", write=True)
        return self._make(_abi.RT_RECV, to.size, None, to, array, root=self._other("source", source), start=start)

    def barrier(self) -> None:
        """Waits until all ranks have called it."""
        self._use("rt_group_barrier")

    def split(self, colour: int, key: int = 0) -> Group | None:
        """Collective: ranks of the same colour make a group, ordered by key, then by rank; None for a negative colour.  This group stays."""
        handle = ctypes.c_void_p()
        self._use("rt_group_split", number("colour", colour, ctypes.c_int32),
                  number("key", key, ctypes.c_int32), ctypes.byref(handle))
        return Group(_handle=handle) if handle else None

    def shrink(self) -> Group:
        """After PeerLostError, by all ranks that live: the group of those, in the old order.  This one can only be closed then."""
        return self._shrink()[0]

    def _shrink(self) -> tuple[Group, list[bool]]:
        """And which ranks of this group are not in it."""
        handle, gone = ctypes.c_void_p(), (ctypes.c_bool * self.size)()
        self._end_works()
        self._use("rt_group_shrink", gone, ctypes.byref(handle))
        return Group(_handle=handle), list(gone)

    def check(self) -> None:
        """Raises the error that has broken the group, if one has; never waits."""
        call("rt_group_check", self._open())

    def grow(self, endpoints: Sequence[str], rank: int, *, generation: int, form_timeout: float = 0) -> Group:
        """Collective: the group of these ranks and new ones, which open theirs by Group(endpoints=, rank=, generation=) meanwhile.

        endpoints: of all its ranks, "host:port"; rank: of this one in it.  generation: not used before with these endpoints.
        TimeoutError: a new rank has not joined within form_timeout seconds.  This group stays as it is, and in use after an error."""
        handle, array = ctypes.c_void_p(), _listed(endpoints)
        options = _abi.rt_group_options(
            rank=number("rank", rank, ctypes.c_uint32), form_timeout_ms=option_value("form_timeout", "_ms", None, form_timeout),
            generation=number("generation", generation, ctypes.c_uint64), size=len(array))
        options.endpoints = ctypes.cast(array, ctypes.c_void_p)
        self._use("rt_group_grow", ctypes.byref(options), ctypes.byref(handle))
        return Group(_handle=handle)
