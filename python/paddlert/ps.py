"""Tables on parameter servers: the trainer's side, a server for tests and notebooks, a saved model."""
from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _abi
from ._lib import (C, CanceledError, Here, InvalidError, Owner, Started, TimeoutError, UnavailableError, call, call_long, instance, items,
                   milliseconds, number, path, real, shown, struct_of, text, with_options)
from ._options import ClientOptions, ServerOptions, SparseOptions, TableOptions
from ._rules import KINDS, Initializer, Optimizer, text_of
from .arrays import FLOATS, Array, pointer, shaped, target, view, whole, write_arrays
from .job import Job

if TYPE_CHECKING:
    import socket

    from typing_extensions import Unpack

    from ._options import Mode

Path = Union[str, "os.PathLike[str]"]

MODES: dict[int, Mode] = {_abi.RT_ASYNC: "async", _abi.RT_SYNC: "sync", _abi.RT_GEO: "geo"}


class Table:
    """A table's specification.  The same list, in the same order, in all trainers of a job."""

    def __init__(self, kind: int, name: str, *, size: int = 0, dim: int = 0, seed: int = 0, options: Mapping[str, Any]) -> None:
        own = {"init", "seed", *SparseOptions.__annotations__} if kind == _abi.RT_SPARSE else set()
        known = {"optimizer", "mode", *TableOptions.__annotations__, *own}
        unknown = sorted(options.keys() - known)
        if unknown and unknown[0] in ("lr", "learning_rate"):
            raise TypeError(f"there is no option {unknown[0]!r} of a table, expected the optimizer to have it: "
                            f"paddlert.optim.SGD(lr={shown(options[unknown[0]])})")
        if unknown:
            raise TypeError(f"there is no option {unknown[0]!r} of a {'sparse' if kind == _abi.RT_SPARSE else 'dense'} table, expected one of "
                            f"{', '.join(sorted(known))}")
        if not isinstance(name, str):
            raise TypeError(f"name is {shown(name)}, expected a text, the table's name")
        for what, value in {"size": size, "dim": dim, "seed": seed}.items():
            if value is None:
                raise TypeError(f"{what} of table {name!r} is None, expected a whole number")
        self.kind, self.name, self.size, self.dim = kind, name, size, dim
        rules = {option: text_of(option, given) for option, given in options.items() if option in KINDS}
        self._options = {"name": name, "kind": kind, "size": size, "dim": dim, "seed": seed, **options, **rules}
        self.spec = struct_of(_abi.rt_table_spec, self._options)

    @property
    def _counts_shows(self) -> bool:
        """Whether it counts the shows and clicks of a push."""
        rules = (self._options.get("admit") or "").partition(":")[0], (self._options.get("evict") or "").partition(":")[0]
        return "show_click" in rules or "ctr" in rules

    def _made(self, kind: int, name: str, **more: Any) -> Table:
        """Of a class whose own __init__ has other arguments."""
        Table.__init__(self, kind, name, **more)
        return self

    def __repr__(self) -> str:
        shown = f"{self.size}" if self.kind == _abi.RT_DENSE else f"{self.dim}"
        options = "".join(f", {k}={v!r}" for k, v in self._options.items() if v is not None and k not in ("name", "kind", "size", "dim", "seed"))
        return f"paddlert.{type(self).__name__}({self.name!r}, {shown}{options}{f', seed={s}' if (s := self._options['seed']) else ''})"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "spec"}         # which has addresses of this process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.spec = struct_of(_abi.rt_table_spec, self._options)


class Dense(Table):
    """One flat vector of `size` floats, trained by `optimizer`, zeros before Client.init.

    name: 1 to 63 of A-Z a-z 0-9 _ . -; names the files in checkpoints.  optimizer: an object of paddlert.optim, or its text (docs/rules.md).
    mode: "async", "sync" or "geo"; None: the client's.
    """

    @with_options(TableOptions)
    def __init__(self, name: str, size: int, optimizer: str | Optimizer = "sgd:lr=0.01", *, mode: Mode | None = None,
                 **options: Unpack[TableOptions]) -> None:
        super().__init__(_abi.RT_DENSE, name, size=size, options={"optimizer": optimizer, "mode": mode, **options})


class Sparse(Table):
    """Rows of `dim` floats by uint64 id, made when first pushed to.

    name, optimizer, mode: as Dense's.  init: first value of a row, an object of paddlert.init or its text: a function of seed, id and place
    alone, so that it is the same on any number of servers.
    """

    @with_options(TableOptions, SparseOptions)
    def __init__(self, name: str, dim: int, optimizer: str | Optimizer = "sgd:lr=0.01", init: str | Initializer = "uniform:min=-0.01,max=0.01",
                 seed: int = 0, *, mode: Mode | None = None, **options: Unpack[SparseOptions]) -> None:
        super().__init__(_abi.RT_SPARSE, name, dim=dim, seed=seed, options={"optimizer": optimizer, "init": init, "mode": mode, **options})


def _array(tables: Sequence[Table]) -> Any:
    return (_abi.rt_table_spec * len(tables))(*(t.spec for t in tables))


def _counts(values: Any, ids: Array, name: str) -> Array:
    """A number a row, or one for all of them."""
    given = view(values, np.float32, name)
    try:
        return np.broadcast_to(given, ids.shape).copy()
    except ValueError:
        raise ValueError(f"{name} are of shape {given.shape}, expected {ids.shape}, or one number for all rows") from None


class Pending(Started):
    """Rows that travel while something else is computed."""

    def __init__(self, client: Client, handle: ctypes.c_void_p, rows: Array) -> None:
        super().__init__(client, handle)
        self._client, self._rows = client, rows

    def wait(self) -> Array:
        """The rows."""
        self._client.begin()
        try:
            if self._handle is not None and not self._client.is_open:
                raise InvalidError("the client is closed")
            self._end("rt_wait")
        finally:
            self._client.end()
        self._check()
        return self._rows

    def __del__(self) -> None:
        if self._handle is None:
            return
        self._client.begin()
        try:
            if self._client.is_open and self._client.process == os.getpid():
                call("rt_wait", self._handle)
            else:
                self._client.left.append(self._rows)
        except Exception:                     # nobody can handle it any more
            pass
        finally:
            self._client.end()


# Of this process: by servers and trainer's number.
_clients: weakref.WeakValueDictionary[tuple[Any, ...], Client] = weakref.WeakValueDictionary()


class Client(Owner):
    """A trainer's connection to all servers of its job; a context manager that finishes, or leaves after an exception.

    job: this process's place, a worker's; without servers the tables live in this process
    tables: the same list, in the same order, in all trainers of the job
    mode: "async", "sync" or "geo"; None: what PADDLE_PS_STRATEGY says, or async

    An option that is not given is the environment's, or has its default; times are in seconds.  Any thread may call; step, barrier and
    finish: one thread.  TimeoutError names servers that are not ready, DeniedError one that refused this trainer.  Every call that waits for
    others may raise PeerLostError, TimeoutError or, in mode sync, RolledBackError; all of them InvalidError once the client is closed.
    """

    @with_options(ClientOptions)
    def __init__(self, job: Job, tables: Iterable[Table], *, mode: Mode | None = None, **options: Unpack[ClientOptions]) -> None:
        super().__init__()
        self._client: ctypes.c_void_p | None = None
        given = items(tables)
        if given is None:
            raise TypeError(f"tables is {shown(tables)}, expected a list of tables")
        self.job, self.tables = instance("job", job, Job), [instance("table", t, Table) for t in given]
        self._place = {t.name: i for i, t in enumerate(self.tables)}
        self._w: dict[int, Array] = {}                 # by table: where its next values go
        self._options = struct_of(_abi.rt_client_options, {"mode": mode, **options})
        self._alone()
        client = ctypes.c_void_p()
        call_long(self, "rt_client_open", job._job, ctypes.byref(self._options), _array(self.tables), len(self.tables),
                  ctypes.byref(client))
        self._client = client

    def _alone(self) -> None:
        """A cell of a notebook that runs again, say: the servers would wait for the end of the one before."""
        where = (self.process, *self.job.servers, self.job.worker_index)
        before = _clients.get(where)
        if before is not None and before.is_open and len(where) > 2:
            raise InvalidError(f"{before!r} is open in this process, expected its finish() or close() before another client of trainer "
                               f"{self.job.worker_index}")
        if self.job.server is not None and self.job.server._is_here and self.job.server.ended:      # in a forked child C says what is wrong
            raise InvalidError(f"{self.job.server!r}: it ends with its last trainer, expected a new paddlert.Server()")
        _clients[where] = self

    def __repr__(self) -> str:
        tables, servers = ", ".join(self._place), ", ".join(self.job.servers) or "this process"
        return f"<paddlert.Client of {tables} on {servers}, trainer {self.job.worker_index}{'' if self.is_open else ', closed'}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    def __del__(self) -> None:
        self.close()

    def _table(self, name: str) -> tuple[int, Table]:
        if not isinstance(name, str):
            raise TypeError(f"table is a {type(name).__name__}, expected the name of one: {', '.join(self._place)}")
        if name not in self._place:
            raise KeyError(f"there is no table {name!r}, but {', '.join(self._place)}")
        return self._place[name], self.tables[self._place[name]]

    @staticmethod
    def _vector(t: Table, values: Any, name: str) -> Array:
        """Of a dense table, whatever shape it has in a model."""
        if t.kind != _abi.RT_DENSE:
            raise TypeError(f"table {t.name!r} is sparse, expected a dense one")
        array = view(values, np.float32, name)
        if array.size != t.size:
            raise ValueError(f"{name} of table {t.name!r}: shape {array.shape}, expected {t.size} numbers")
        return array.reshape(t.size)

    def _call(self, name: str, *arguments: Any) -> int:
        self.begin()
        try:
            if not self._client:
                raise InvalidError("the client is closed")
            return call(name, self._client, *arguments)
        finally:
            self.end()

    @property
    def is_open(self) -> bool:
        """Whether neither close nor finish was called."""
        return bool(self._client)

    @property
    def mode(self) -> Mode:
        """How it trains: "async", "sync" or "geo"."""
        self.begin()
        try:
            if not self._client:
                raise InvalidError("the client is closed")
            mode = C.rt_client_mode(self._client)
        finally:
            self.end()
        return MODES[mode]

    def close(self) -> None:
        """Leaves without having finished: servers take this trainer for lost.  Where other threads are in calls, the last of
        these leaves when it ends."""
        client, self._client = getattr(self, "_client", None), None
        if client:
            self.free(C.rt_client_close, client)

    def finish(self) -> None:
        """Sends what is queued and reports to the servers that this trainer is done.  CanceledError: a call of another thread, or one
        whose wait a signal has ended, continues, and uses the client."""
        client, self._client = self._client, None              # first: a call that begins now finds none
        if client and not self.may_close():
            self._client = client
            raise CanceledError("the client cannot finish: a call of another thread, or one that a signal has interrupted, still uses it, "
                                "or it is another process's")
        if client:
            call_long(self, "rt_finish", client)

    def init(self, table: str, values: Any) -> Array:
        """Collective, once a dense table: worker 0's values, [size] in any shape, become the table's; all get them back, [size] of float32."""
        i, t = self._table(table)
        array = np.array(self._vector(t, values, "values"))
        self._call("rt_init_dense", i, pointer(array))
        return array

    def pull(self, table: str, ids: Any = None, out: Any = None) -> Any:
        """Dense: the vector, [size].  Sparse: the rows of ids, [*ids.shape][dim]; one that does not exist reads as its first value.

        ids: whole numbers of 64 bits, in any shape; negative ones modulo 2^64
        out: contiguous float32 of the result's shape, which is written to and returned
        """
        i, t = self._table(table)
        if (ids is None) != (t.kind == _abi.RT_DENSE):
            raise TypeError(f"pull of table {table!r} got {'no ids' if ids is None else 'ids'}, but it is {'dense' if t.kind == _abi.RT_DENSE else 'sparse'}")
        ids = None if ids is None else whole(ids, "ids")
        shape = (t.size,) if ids is None else (*ids.shape, t.dim)
        if out is None:
            out = into = np.empty(shape, FLOATS)
        else:
            into = target(out, FLOATS, shape, "out")
        if ids is None:
            self._call("rt_pull_dense", i, pointer(into))
        else:
            self._call("rt_pull_sparse", i, pointer(ids), ids.size, pointer(into))
        return out

    def pull_start(self, table: str, ids: Any) -> Pending:
        """The pull of rows, split in two, so that they travel while something else is computed: .wait() has them, [*ids.shape][dim]."""
        i, t = self._table(table)
        if t.kind != _abi.RT_SPARSE:
            raise TypeError(f"pull_start of table {table!r}, but it is dense")
        ids = whole(ids, "ids")
        out, handle = np.empty((*ids.shape, t.dim), np.float32), ctypes.c_void_p()
        self._call("rt_pull_sparse_start", i, pointer(ids), ids.size, pointer(out), ctypes.byref(handle))
        return Pending(self, handle, out)

    def push(self, table: str, *what: Any, shows: Any = None, clicks: Any = None) -> None:
        """push(dense, gradient) or push(sparse, ids, gradients): [size], or [n] and [n][dim]; gradients of the same id are summed.

        shows, clicks: one number a row, or one for all: what admit ShowClick and evict CTR count; a warning where a table has neither

        Returns before it is applied.  A failure shows in this or a later call: InvalidError for NaN and Inf that the servers refuse,
        NoResourceError for memory; both name table and server, and the client keeps working.
        """
        i, t = self._table(table)
        if len(what) != (1 if t.kind == _abi.RT_DENSE else 2):
            raise TypeError(f"push to table {table!r} got {len(what)} arrays, expected "
                            f"{'a gradient' if t.kind == _abi.RT_DENSE else 'ids and gradients'}, as it is {'dense' if t.kind == _abi.RT_DENSE else 'sparse'}")
        if len(what) == 1:
            if shows is not None or clicks is not None:
                raise TypeError(f"push to table {table!r} got shows or clicks, but it is dense: they count rows")
            gradient = self._vector(t, what[0], "gradient")
            self._call("rt_push_dense", i, pointer(gradient))
            return
        ids = whole(what[0], "ids")
        gradients = shaped(what[1], f"gradients of {ids.size} ids", (*ids.shape, t.dim), (ids.size, t.dim), (ids.size * t.dim,))
        if shows is None and clicks is None:
            self._call("rt_push_sparse", i, pointer(ids), ids.size, pointer(gradients))
            return
        if not t._counts_shows:
            warnings.warn(f"table {table!r} has neither admit ShowClick nor evict CTR, so that shows and clicks count nothing there", stacklevel=2)
        counts = [_counts(a, ids, name) for a, name in ((1 if shows is None else shows, "shows"), (0 if clicks is None else clicks, "clicks"))]
        self._call("rt_push_sparse_clicks", i, pointer(ids), ids.size, pointer(gradients), *map(pointer, counts))

    def exchange(self, table: str, gradient: Any, w: Any) -> Any:
        """Push and pull in one, into w: the way to train a dense table.  gradient, w: [size]; w is contiguous float32, and is returned.  Sync:
        w is refreshed by the next step()."""
        i, t = self._table(table)
        gradient, into = self._vector(t, gradient, "gradient"), target(w, np.float32, (t.size,), "w")
        self._call("rt_exchange_dense", i, pointer(gradient), pointer(into))
        self._w[i] = into                              # the step writes to it; after a refusal, to the one before
        return w

    def step(self) -> None:
        """End of this trainer's step.  Sync: waits for the others; async: returns at once."""
        self._call("rt_step")

    def no_more(self) -> None:
        """This trainer has no more data: the others' steps do not wait for it.  Before a barrier in sync mode."""
        self._call("rt_no_more")

    def flush(self) -> None:
        """Waits until the servers have applied all that this trainer pushed and exchanged."""
        self._call("rt_flush")

    def barrier(self) -> None:
        """Waits until every trainer that has not finished has called it, and all that they had pushed is applied.  TimeoutError: one did
        not come; InvalidError: one is in a step."""
        self._call("rt_barrier")

    def rate(self, table: str) -> dict[str, float]:
        """{"lr", "steps", "now"} of the table: the optimizer's rate, the steps that its schedule has counted, and the rate of the next updates."""
        r = _abi.rt_rate()
        self._call("rt_get_rate", self._table(table)[0], ctypes.byref(r))
        return {field[0]: getattr(r, field[0]) for field in r._fields_}

    def set_rate(self, table: str, lr: float) -> None:
        """Changes the learning rate during training, for all trainers; one of them calls it.  InvalidError: a table in geo mode."""
        self._call("rt_set_rate", self._table(table)[0], real("lr", lr))

    def shrink(self, table: str) -> int:
        """Erases what the table's evict policy has no more use for, on all servers; how many rows.  InvalidError: it has no policy."""
        n = ctypes.c_uint64()
        self._call("rt_shrink", self._table(table)[0], ctypes.byref(n))
        return n.value

    def keep(self, data: bytes) -> None:
        """Up to 64 KiB that a trainer which is started again gets from resume(): where its reader stands."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data is a {type(data).__name__}, expected bytes")
        data = bytes(data)
        self._call("rt_keep", data, len(data))

    def resume(self) -> tuple[int, bytes]:
        """(steps that are behind this trainer, what it kept there): (0, b"") where it begins.  After RolledBackError: joins all servers
        again; no other thread may use the client meanwhile."""
        data, place = ctypes.create_string_buffer(_abi.RT_KEEP_MAX), _abi.rt_place()
        self._call("rt_resume", data, len(data), ctypes.byref(place))
        return place.step, data.raw[:place.bytes]

    def save(self, directory: Path) -> None:
        """All tables with their optimizers' state, to this machine's disk; the directory is made.  One trainer calls it.  A failure leaves
        what was there as it was.  ExistsError: another save there has not ended."""
        self._call("rt_save", path("directory", directory))

    def load(self, directory: Path) -> None:
        """What was saved, whatever the number of servers was and is.  One trainer calls it, a barrier after it.  NotFoundError: nothing is
        there; DamagedError names a file; InvalidError the table that does not fit."""
        self._call("rt_load", path("directory", directory))

    def checkpoint(self, directory: Path, full: bool = False) -> int:
        """Made by the servers, below a directory that all of them see, during training; its number, from 1.  full: not only what changed since
        the last one.  DeniedError: a server writes elsewhere only; ExistsError: another job's are there."""
        made = _abi.rt_checkpoint()
        instance("full", full, bool)
        self._call("rt_checkpoint", path("directory", directory), ctypes.byref(_abi.rt_checkpoint_options(full=full)), ctypes.byref(made))
        return int(made.number)

    def restore(self, directory: Path) -> int:
        """All tables as in the newest whole checkpoint there; its number.  One trainer calls it, a barrier after it.  NotFoundError, DamagedError
        and InvalidError as of load."""
        found = _abi.rt_checkpoint()
        self._call("rt_restore", path("directory", directory), ctypes.byref(found))
        return int(found.number)

    def model(self) -> Model:
        """What the tables have now, as a Model in this process, for arrays and export; it stays as it is while training continues.  By way
        of a save to a temporary directory, so one trainer calls it."""
        import tempfile                       # a quarter of what importing this package takes, with socket
        with tempfile.TemporaryDirectory(prefix="paddlert-") as folder:
            self.save(folder)
            return Model(folder)

    def stat(self, table: str) -> dict[str, int]:
        """{"rows", "bytes", "pulls", "pushes", "nonfinite", "late", "rows_cold", "bytes_cold"} of the table, over all servers: rows that exist
        and the bytes of them, in memory and on disk (cold); rows or floats that were read and written, had NaN or Inf, came too late."""
        s = _abi.rt_table_stat()
        self._call("rt_stat", self._table(table)[0], ctypes.byref(s))
        return {field[0]: getattr(s, field[0]) for field in s._fields_ if field[0] != "_spare"}


def _reserved(host: str, port: int) -> socket.socket:
    """A socket with that port, 0: a free one, which nobody else is given until the server, which may take it, listens there."""
    import socket
    place = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind((host, port))
    except OSError as e:
        place.close()
        raise UnavailableError(f"a server cannot listen on port {port} of {host}: {e.strerror or e}") from e
    return place


def _serve(job: Job, options: ServerOptions, failed: list[Exception]) -> None:
    """Does not keep the Server, which ends it when nobody has it any more."""
    try:
        job.serve(handle_signals=False, **options)
    except Exception as e:
        failed.append(e)


class Server(Here):
    """A server on a thread of this process, for tests and notebooks: servers=[server.endpoint] is its job's list.  A context
    manager that closes it.

    workers: how many trainers it serves.  port 0: a free one.  token, encrypt: as Job's; the other options: of Job.serve.  Raises what keeps
    it from starting."""

    @with_options(ServerOptions)
    def __init__(self, workers: int = 1, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None,
                 **options: Unpack[ServerOptions]) -> None:
        encrypt = options.get("encrypt")
        if not text("host", instance("host", host, str)):
            raise ValueError("host is '', expected a name or an address")
        with _reserved(host, number("port", port, ctypes.c_uint16)) as place:
            address = place.getsockname()[:2]
            self.endpoint = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
            self._workers = workers
            self._peers: dict[str, Any] = {"servers": [self.endpoint], "token": token, "encrypt": encrypt}
            self._job = Job(server=0, workers=workers, **self._peers)
            self._failed: list[Exception] = []
            self._thread = threading.Thread(target=_serve, args=(self._job, options, self._failed), daemon=True, name="paddlert-server")
            self._thread.start()
            # no deadline: it accepts trainers, or has failed
            while self._thread.is_alive() and not C.rt_server_accepts(self._job._job):
                self._thread.join(0.005)
        self._check()

    def __repr__(self) -> str:
        state = ", of the process that this one was forked from" if not self._is_here else ", ended" if self.ended else ""
        return f"<paddlert.Server {self.endpoint}{state}>"

    @property
    def _is_here(self) -> bool:
        """Whether it runs in this process, and not in the one that this was forked from."""
        return self._job.process == os.getpid()

    def _check_here(self) -> None:
        if not self._is_here:
            raise InvalidError("the server belongs to the process that this one was forked from")

    @property
    def ended(self) -> bool:
        """Whether its trainers have finished, or were lost, or it was closed.  InvalidError: in a forked child, which does not know."""
        self._check_here()
        return not self._thread.is_alive()

    def _check(self) -> None:
        if self._failed:
            raise self._failed[0]

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """A cell of a notebook that runs again makes another one; trainers of this one keep it."""
        job = getattr(self, "_job", None)
        if job is not None and job._job and job.process == os.getpid():          # in a cycle of garbage the job may be gone first
            C.rt_server_end(job._job)

    def job(self, worker: int = 0, workers: int | None = None) -> Job:
        """The job of a trainer of this server.  workers: how many there are; None: the server's number."""
        job = Job(worker=worker, workers=self._workers if workers is None else workers, **self._peers)
        job.server = self
        return job

    def wait(self, timeout: float | None = None) -> None:
        """Until all trainers have finished; raises what ended it otherwise.  timeout: in seconds, TimeoutError then."""
        self._check_here()
        if timeout is not None:
            milliseconds("timeout", timeout)
            timeout = min(timeout, threading.TIMEOUT_MAX)
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"the server at {self.endpoint} still has trainers after {timeout} s")
        self._check()

    def close(self) -> None:
        # no deadline: rt_server_end has ended what it waits for
        """Ends it, whoever is still there: a trainer's next call fails.  wait() before it where all are to finish."""
        C.rt_server_end(self._job._job)
        self._thread.join()


class Model(Here):
    """A model that was saved, in this process, without servers: for prediction.  Any thread may read.

    directory: of Client.save, or of the servers' checkpoints, of which the newest whole one is read

    NotFoundError: nothing is there; DamagedError names a file.
    """

    def __init__(self, directory: Path) -> None:
        self._model: ctypes.c_void_p | None = ctypes.c_void_p()
        self._directory = path("directory", directory)
        call("rt_model_open", self._directory, ctypes.byref(self._model))

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            C.rt_model_close(self._model)
            self._model = None

    def _table(self, name: str) -> tuple[int, Any]:
        i = ctypes.c_uint32()
        call("rt_model_table", self._model, text("table", name), ctypes.byref(i))
        return i.value, _abi.rt_table_spec.from_address(C.rt_model_spec(self._model, i.value))

    @property
    def tables(self) -> list[Table]:
        """What was saved, in the order of the job's tables: Dense and Sparse with sizes and rules, but for wire, admit and evict, which are not saved."""
        return [self._of(_abi.rt_table_spec.from_address(C.rt_model_spec(self._model, i))) for i in range(C.rt_model_tables(self._model))]

    @staticmethod
    def _of(spec: Any) -> Table:
        texts = {name: value.decode() for name in ("optimizer", "init", "schedule", "storage", "wire", "admit", "evict")
                 if (value := getattr(spec, name))}
        options = {k: v for k, v in texts.items() if spec.kind == _abi.RT_SPARSE or k in ("optimizer", "schedule", "wire")}
        return Table.__new__(Dense if spec.kind == _abi.RT_DENSE else Sparse)._made(spec.kind, spec.name.decode(), size=spec.size, dim=spec.dim,
                                                                                     seed=spec.seed, options=options)

    def ids(self, table: str) -> Array:
        """The ids of a sparse table that have rows, [n] of uint64, ascending."""
        i, spec = self._table(table)
        if spec.kind != _abi.RT_SPARSE:
            raise ValueError(f"table {table!r} is dense, expected a sparse one, which has ids")
        ids = np.empty(C.rt_model_ids(self._model, i, None, 0), np.uint64)
        C.rt_model_ids(self._model, i, pointer(ids), ids.size)
        return np.sort(ids)

    def arrays(self) -> dict[str, Array]:
        """All of it: {"w": [size]} of dense tables, {"embedding.ids": [n], "embedding.rows": [n][dim]} of sparse ones."""
        found: dict[str, Array] = {}
        of: dict[str, str] = {}                        # names may have dots: "e" has "e.ids", and a table of that name another one
        for t in self.tables:
            for name in (t.name,) if t.kind == _abi.RT_DENSE else (f"{t.name}.ids", f"{t.name}.rows"):
                if of.setdefault(name, t.name) != t.name:
                    raise InvalidError(f"tables {of[name]!r} and {t.name!r} both make the array {name!r}, expected names of tables that make "
                                       "different ones: export them one by one, as dense(), ids() and sparse() have them")
        for t in self.tables:
            if t.kind == _abi.RT_DENSE:
                found[t.name] = self.dense(t.name)
            else:
                found[f"{t.name}.ids"] = self.ids(t.name)
                found[f"{t.name}.rows"] = self.sparse(t.name, found[f"{t.name}.ids"])
        return found

    def export(self, file: Path) -> None:
        """arrays() as a file for other programs: of NumPy (.npz), or .safetensors, for which the package safetensors must be installed."""
        write_arrays(file, self.arrays())

    def check(self, table: Table) -> None:
        """Whether what was saved by its name fits that table: rows of another length would be taken for its own."""
        _, spec = self._table(instance("table", table, Table).name)
        saved, wanted = ((f"{n} values" if kind == _abi.RT_DENSE else f"rows of {dim}") for kind, n, dim in
                         ((spec.kind, spec.size, spec.dim), (table.kind, table.size, table.dim)))
        if saved != wanted:
            raise InvalidError(f"table {table.name!r} in {os.fsdecode(self._directory)} has {saved}, expected the model's {wanted}")

    def dense(self, table: str) -> Array:
        """The vector of a dense table, [size] of float32, a copy.  NotFoundError: there is no such table."""
        i, spec = self._table(table)
        address = C.rt_model_dense(self._model, i)
        if not address:
            raise ValueError(f"table {table!r} is sparse, expected a dense one: sparse() has its rows")
        array = np.ctypeslib.as_array((ctypes.c_float * spec.size).from_address(address))
        array.flags.writeable = False
        return np.array(array)

    def sparse(self, table: str, ids: Any) -> Array:
        """The rows of ids, [*ids.shape][dim]; one that was not saved reads as its first value.  NotFoundError: there is no such table."""
        i, spec = self._table(table)
        if spec.kind != _abi.RT_SPARSE:
            raise ValueError(f"table {table!r} is dense, expected a sparse one: dense() has its values")
        ids = whole(ids, "ids")
        out = np.empty((*ids.shape, spec.dim), np.float32)
        C.rt_model_sparse(self._model, i, pointer(ids), ids.size, pointer(out))
        return out
