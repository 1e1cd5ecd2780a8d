"""What paddlert.torch and paddlert.paddle share: rows that are asked for ahead, and the parameters of a model as one
dense table.  Knows NumPy arrays only; how a framework's parameters are read and written its module says."""
from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from . import ps
from ._lib import InvalidError, instance, whole_number, with_options
from ._options import ClientOptions, TableOptions
from ._rules import Optimizer
from .arrays import Array, write_arrays
from .job import Job

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Mode

AHEAD_MAX = 64
MATRIX_MAX = 1 << 28                   # floats of a table that becomes one of its framework: 1 GiB
T = TypeVar("T")
Self = TypeVar("Self", bound="Synchroniser")


class Rows:
    """The rows of one sparse table: pulled when they are needed, or ahead of that."""

    def __init__(self, table: ps.Sparse, padding: int | None = None) -> None:
        self.table, self.padding = table, None if padding is None else np.uint64(whole_number("padding_idx", padding) % 2**64)
        self._source: ps.Client | ps.Model | None = None
        self._ahead: deque[tuple[Array, ps.Pending | None]] = deque()
        self._later: deque[tuple[Array, ps.Pending | None]] = deque()        # not travelling yet
        self._unused = 0                                   # prefetched since one was used

    def __deepcopy__(self, memo: dict[int, Any]) -> Rows:
        """A copied model has the same rows, on the same servers."""
        copy = Rows(self.table, None if self.padding is None else int(self.padding))
        copy._source = self._source
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """A pickled one has none until it is connected."""
        return {"table": self.table, "padding": self.padding}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["table"], None if state["padding"] is None else int(state["padding"]))      # type: ignore[misc]

    def attach(self, source: ps.Client | ps.Model | None) -> None:
        """source: a Client or a Model; None: none any more."""
        self._ahead.clear()
        self._later.clear()
        self._source, self._unused = source, 0

    def _open(self) -> ps.Client | ps.Model:
        if self._source is None:
            raise InvalidError(f"table {self.table.name!r} has no servers yet, expected DistributedModel(model).connect() or .predict() before")
        return self._source

    def prefetch(self, ids: Array) -> None:
        source = self._open()
        if isinstance(source, ps.Model):
            return
        if len(self._ahead) + len(self._later) >= AHEAD_MAX:
            if self._unused >= AHEAD_MAX:
                raise ValueError(f"{AHEAD_MAX} batches of table {self.table.name!r} are prefetched and none of them was used")
            (self._ahead or self._later).popleft()         # of a loop that was left early
        self._unused += 1
        ids = np.array(ids)
        if source.mode == "sync":
            self._later.append((ids, None))                # what they are after this step
        else:
            self._start(source, ids)

    def _start(self, client: ps.Client, ids: Array) -> None:
        self._ahead.append((ids, client.pull_start(self.table.name, ids)))

    def step(self) -> None:
        """A step has ended.  Sync: what travelled is older than it, and of what was asked for the next one may travel."""
        source = self._open()
        if isinstance(source, ps.Client) and source.mode == "sync":
            self._ahead.clear()
            if self._later:
                self._start(source, self._later.popleft()[0])

    def pull(self, ids: Array) -> Array:
        """[*ids.shape, dim], nobody else's memory."""
        source = self._open()
        if isinstance(source, ps.Model):
            rows = source.sparse(self.table.name, ids)
        else:
            taken = self._take(ids)
            rows = source.pull(self.table.name, ids) if taken is None else taken
        if self.padding is not None:
            rows[ids == self.padding] = 0
        return rows

    def _take(self, ids: Array) -> Array | None:
        """What was prefetched for these ids; None: nothing, or it has not begun to travel."""
        for queue in (self._ahead, self._later):
            for i, (asked, pending) in enumerate(queue):
                if np.array_equal(asked, ids):
                    # no deadline: a call of the client, which has its time limit
                    del queue[i]
                    self._unused = 0
                    return pending.wait() if pending else None
        return None

    def matrix(self, n: int | None) -> Array:
        """[n][dim]: the rows of ids 0 to n - 1; None: up to the largest that has a row."""
        source, name, dim = self._open(), self.table.name, self.table.dim
        if n is None:
            ids = (source if isinstance(source, ps.Model) else source.model()).ids(name)
            n = int(ids[-1]) + 1 if ids.size else 1
        if not 0 < whole_number("num_embeddings", n) <= MATRIX_MAX // dim:
            raise InvalidError(f"table {name!r} would be a matrix of {n} rows of {dim}, expected 1 to {MATRIX_MAX // dim}: paddlert.Model has the rows by id")
        return self.pull(np.arange(n, dtype=np.uint64))

    def push(self, ids: Array, gradients: Array) -> None:
        source = self._open()
        if isinstance(source, ps.Model):
            raise InvalidError(f"table {self.table.name!r} is a saved one and cannot be trained, expected model.eval() and no gradients")
        if self.padding is not None:
            keep = ids != self.padding
            ids, gradients = ids[keep], gradients[keep]
        if ids.size:
            source.push(self.table.name, ids, gradients)


class Synchroniser:
    """The dense parameters of a model as one vector on the servers, and the sparse tables of its embeddings.

    A framework's class says how: _parameters(model) -> [(name, parameter)], _shape(parameter), _read(parameter, out),
    _write(parameter, values), _gradient(parameter, out), which forgets the gradient, and _embeddings(model) -> [Rows].
    """
    model_kind: type = object

    @with_options(TableOptions)
    def __init__(self, model: Any, optimizer: str | Optimizer = "sgd:lr=0.01", *, name: str = "dense", mode: Mode | None = None,
                 **options: Unpack[TableOptions]) -> None:
        self.model, size = instance("model", model, self.model_kind), 0
        self.client: ps.Client | None = None
        self._saved: ps.Model | None = None
        self.job: Job | None = None
        self._parts: list[tuple[str, Any, tuple[int, ...], int, int]] = []     # (name, parameter, shape, from, to)
        for part, parameter in self._parameters(model):
            shape = tuple(self._shape(parameter))
            n = int(np.prod(shape, dtype=np.int64))
            self._parts.append((part, parameter, shape, size, size + n))
            size += n
        self.table = ps.Dense(name, size, optimizer, mode=mode, **options) if size else None
        self._w, self._g = np.zeros(size, np.float32), np.zeros(size, np.float32)
        self._rows = self._embeddings(model)
        named = {r.table.name for r in self._rows} | {name}
        if len(named) < len(self._rows) + 1:
            raise ValueError(f"two tables of the model have the same name, expected different ones in "
                             f"{', '.join([name, *(r.table.name for r in self._rows)])}")

    @staticmethod
    def _parameters(model: Any) -> Iterable[tuple[str, Any]]:
        raise NotImplementedError

    @staticmethod
    def _embeddings(model: Any) -> list[Rows]:
        raise NotImplementedError

    @staticmethod
    def _shape(parameter: Any) -> Iterable[int]:
        raise NotImplementedError

    @staticmethod
    def _read(parameter: Any, out: Array) -> None:
        raise NotImplementedError

    @staticmethod
    def _write(parameter: Any, values: Array) -> None:
        raise NotImplementedError

    @staticmethod
    def _gradient(parameter: Any, out: Array) -> None:
        raise NotImplementedError

    @property
    def tables(self) -> list[ps.Table]:
        """Of the model, in the order in which all trainers have them."""
        return [*([self.table] if self.table else []), *(r.table for r in self._rows)]

    @with_options(ClientOptions)
    def connect(self: Self, job: Job | None = None, *, mode: Mode | None = None, load: ps.Path | None = None,
                **options: Unpack[ClientOptions]) -> Self:
        """Joins the job's servers; collective.  The parameters become worker 0's, or what was saved in load.  job: None is the
        environment's; mode, and what is not described here: as of paddlert.Client."""
        if self.client is not None:
            raise InvalidError("the model is connected already, expected finish() before")
        self.job = Job() if job is None else job
        self.client = ps.Client(self.job, self.tables, mode=mode, **options)
        try:
            self._begin(self.client, load)
        except BaseException:
            self.__exit__(*sys.exc_info())                 # servers do not wait for who has not begun
            raise
        return self

    def _begin(self, client: ps.Client, load: ps.Path | None) -> None:
        for rows in self._rows:
            rows.attach(client)
        if load is not None:
            self.load(load)
        elif self.table:
            for _, parameter, shape, at, end in self._parts:
                self._read(parameter, self._w[at:end].reshape(shape))
            self._w[:] = client.init(self.table.name, self._w)
            self._scatter()

    def predict(self: Self, directory: ps.Path) -> Self:
        """The parameters and rows of a saved model, without servers; for model.eval()."""
        saved = ps.Model(directory)
        for table in self.tables:
            saved.check(table)
        if self.table:
            self._w[:] = saved.dense(self.table.name)
            self._scatter()
        for rows in self._rows:
            rows.attach(saved)
        self._saved = saved
        return self

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: object) -> None:
        if self.client:
            self.client.__exit__(kind, value, trace)
        for rows in self._rows:
            rows.attach(None)
        self.client = None

    def finish(self) -> None:
        """Pushes that are in flight arrive; the servers learn that this trainer is done."""
        self.__exit__(None, None, None)

    def _open(self) -> ps.Client:
        if self.client is None:
            raise InvalidError("there are no servers yet, expected connect() before")
        return self.client

    def _scatter(self) -> None:
        for _, parameter, shape, at, end in self._parts:
            self._write(parameter, self._w[at:end].reshape(shape))

    def step(self) -> None:
        """After backward: hands the gradients over, gets new values; ends the step (sync: waits for the others)."""
        client = self._open()
        if self.table:
            for _, parameter, shape, at, end in self._parts:
                self._gradient(parameter, self._g[at:end].reshape(shape))
            client.exchange(self.table.name, self._g, self._w)
        client.step()
        for rows in self._rows:
            rows.step()                                    # first: they travel while values are copied
        if self.table:
            self._scatter()

    def pull(self) -> None:
        """The parameters as the servers have them now: before evaluating, and after client.resume()."""
        if self.table:
            self._open().pull(self.table.name, out=self._w)
            self._scatter()

    def no_more(self) -> None:
        """This trainer has no more data: steps of the others continue without it.  Training ends with it."""
        self._open().no_more()

    def save(self, directory: ps.Path) -> None:
        """All tables with their optimizers' state, by worker 0; collective."""
        client = self._open()
        client.barrier()
        if client.job.is_first_worker:
            client.save(directory)
        client.barrier()

    def load(self, directory: ps.Path) -> None:
        """What was saved, whatever the number of servers; collective."""
        client = self._open()
        if client.job.is_first_worker:
            client.load(directory)
        client.barrier()
        self.pull()

    def export(self, file: ps.Path) -> None:
        """A file for other programs, of NumPy (.npz) or .safetensors: the dense parameters by their names in the model, rows as "table.ids" [n] and
        "table.rows" [n][dim].  Of a connected model: collective, worker 0 writes it; after predict: of what was saved."""
        if self.client is None and self._saved:
            self._export(file, self._saved)
            return
        client = self._open()
        client.barrier()
        if client.job.is_first_worker:
            self._export(file, client.model())
        client.barrier()

    def _export(self, file: ps.Path, of: ps.Model) -> None:
        arrays = of.arrays()
        dense = arrays.pop(self.table.name) if self.table else self._w
        parts = {name: dense[at:end].reshape(shape) for name, _, shape, at, end in self._parts}
        for name in parts.keys() & arrays.keys():
            raise InvalidError(f"a parameter of the model and a table both make the array {name!r}, expected a table of another name, or each in a "
                               "file of its own: values() has the parameters, and paddlert.Model the tables")
        write_arrays(file, {**parts, **arrays})

    def values(self) -> dict[str, Array]:
        """{name: array}: a copy of the dense parameters of this trainer."""
        return {name: np.array(self._w[at:end].reshape(shape)) for name, _, shape, at, end in self._parts}


def ahead(batches: Iterable[T], prefetch: Callable[[T], object], depth: int = 1) -> Iterator[T]:
    """The batches, each when `depth` more of them have been given to prefetch: for batch in ahead(loader, lambda b:
    embedding.prefetch(b[0]))."""
    waiting: deque[T] = deque()
    depth = whole_number("depth", depth)
    for batch in batches:
        prefetch(batch)
        waiting.append(batch)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting
