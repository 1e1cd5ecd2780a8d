"""Samples of text files, batch by batch: threads of C read and parse ahead, and batches are NumPy's without a copy.

    from paddlert.data import Dataset

    data = Dataset("criteo/*.gz", "criteo", batch=512, shuffle=100_000, seed=1)
    for batch in data:                     # one pass over this worker's share
        batch.ids                          # uint64 [n][26]
        batch.dense                        # float32 [n][13]
        batch.labels                       # float32 [n]

Formats: "slots" ("click:1 user:17 tag:3 tag:9"), "criteo", "csv" and "tsv" with a header or `columns`, "multislot" (Paddle's
MultiSlotDataFeed: "1 17 2 3 9").  Files are text, as it is or packed by gzip.
"""
from __future__ import annotations

import copy
import ctypes
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from . import _abi
from ._lib import C, InvalidError, Owner, call, call_long, check, chosen, instance, items, number, texts, whole_number
from ._lib import path as path_of
from ._lib import text
from .arrays import Array
from .job import Job

FORMATS = {"slots": _abi.RT_DATA_SLOTS, "criteo": _abi.RT_DATA_CRITEO, "csv": _abi.RT_DATA_CSV, "tsv": _abi.RT_DATA_TSV,
           "multislot": _abi.RT_DATA_MULTISLOT}
SHARES = {"files": _abi.RT_SHARE_FILES, "blocks": _abi.RT_SHARE_BLOCKS, "suffix": _abi.RT_SHARE_SUFFIX, "mixed": _abi.RT_SHARE_MIXED}
PADDED = ("criteo", "csv", "tsv")            # each slot has one id, unless the caller says otherwise
FOREVER = (1 << 64) - 1


class Ragged(NamedTuple):
    """Ids of one slot: those of sample i are values[offsets[i]:offsets[i + 1]]."""
    values: Array                            # uint64 [n_ids]
    offsets: Array                           # int64 [n + 1]


class Counts(NamedTuple):
    """Of the running pass, as far as lines were taken for batches."""
    epoch: int
    samples: int
    bad: int                                 # lines that could not be used
    text: str                                # "17 skipped (16 columns, 1 label), first: FILE:LINE: why", or that this worker has no line; "": neither


class Field(NamedTuple):
    """What a name or column becomes: `size` numbers from `first` on, or slot `first`."""
    kind: int
    first: int
    size: int


class _Memory:
    """A batch of C, until no array is left that lies in it."""

    def __init__(self, batch: ctypes.c_void_p) -> None:
        self.batch = batch

    def __del__(self) -> None:
        C.rt_data_batch_free(self.batch)


class _Lies:
    """What NumPy makes an array of, which keeps this."""

    def __init__(self, memory: _Memory, address: int, shape: tuple[int, ...], kind: str) -> None:
        self.memory = memory
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": shape, "typestr": kind}


def _array(memory: _Memory, address: int | None, shape: tuple[int, ...], kind: str) -> Array:
    if not address or 0 in shape:
        return np.empty(shape, kind)
    return np.asarray(_Lies(memory, address, shape, kind))


class Batch:
    """n samples; len() is n.  batch["name"] is what one name or column has: numbers [n] or [n][size], ids, or a Ragged.

    labels: float32 [n], [n][labels] where there are several.  dense: float32 [n][numbers].
    Padded: ids uint64 [n][slots], with pad above 1 [n][slots][pad], and counts uint32 [n][slots], how many are not fill.
    Ragged: values uint64 [n_ids], those of one slot after those of another, and offsets int64 [slots][n + 1], each slot's
    from 0."""

    def __init__(self, address: ctypes.c_void_p, fields: dict[str, Field], sizes: tuple[int, int, int], pad: int) -> None:
        b, memory = _abi.rt_data_batch.from_address(address.value or 0), _Memory(address)
        n, (labels, dense, slots) = int(b.n), sizes
        self._n, self._fields, self._pad = n, fields, pad
        self._labels = _array(memory, b.labels, (n, labels), "<f4")
        self.labels: Array = self._labels[:, 0] if labels == 1 else self._labels
        self.dense: Array = _array(memory, b.dense, (n, dense), "<f4")
        self.ids: Array | None = None
        self.counts: Array | None = None
        self.values: Array | None = None
        self.offsets: Array | None = None
        if pad:
            self.ids = _array(memory, b.ids, (n, slots) if pad == 1 else (n, slots, pad), "<u8")
            self.counts = _array(memory, b.counts, (n, slots), "<u4")
        else:
            self.values = _array(memory, b.ids, (int(b.n_ids),), "<u8")
            self.offsets = _array(memory, b.offsets, (slots, n + 1), "<i8")

    def __len__(self) -> int:
        return self._n

    def arrays(self) -> dict[str, Array]:
        """labels, dense, and ids, or values and offsets, ids as int64: what frameworks make tensors of.  Without what no
        field becomes."""
        named = {"labels": self.labels, "dense": self.dense, "ids": self.ids, "values": self.values, "offsets": self.offsets}
        return {name: a.view(np.int64) if a.dtype == np.uint64 else a for name, a in named.items() if a is not None and 0 not in a.shape[1:]}

    def keys(self) -> list[str]:
        return list(self._fields)

    def __getitem__(self, name: str) -> Array | Ragged:
        if name not in self._fields:
            raise KeyError(f"{name}: expected one of {', '.join(self._fields)}")
        kind, first, size = self._fields[name]
        if kind == _abi.RT_DATA_IDS:
            return self._slot(first)
        numbers = self._labels if kind == _abi.RT_DATA_LABEL else self.dense
        return numbers[:, first] if size == 1 else numbers[:, first:first + size]

    def _slot(self, slot: int) -> Array | Ragged:
        if self.ids is not None:
            ids: Array = self.ids[:, slot]
            return ids
        return self.ragged(slot)

    def ragged_slots(self) -> range:
        return range(len(self.offsets) if self.offsets is not None else 0)

    def rows(self, which: Array) -> Batch:
        """Some of the samples, copied; which: their numbers, int64."""
        found = copy.copy(self)
        found._n, found.dense, found._labels = len(which), self.dense[which], self._labels[which]
        found.labels = self.labels[which]
        if self.ids is not None and self.counts is not None:
            found.ids, found.counts = self.ids[which], self.counts[which]
        elif self.offsets is not None:
            slots = [self.ragged(s) for s in self.ragged_slots()]
            sizes = [np.diff(s.offsets)[which] for s in slots]
            found.values = np.concatenate([np.empty(0, np.uint64), *(
                s.values[np.repeat(s.offsets[:-1][which] - (np.cumsum(n) - n), n) + np.arange(int(n.sum()))] for s, n in zip(slots, sizes))])
            found.offsets = np.stack([np.concatenate([np.zeros(1, np.int64), np.cumsum(n)]) for n in sizes]) if sizes else np.empty((0, len(which) + 1), np.int64)
        return found

    def made(self, dense: Array, slots: Sequence[Ragged]) -> Batch:
        """Another one with the same fields, ragged and without labels."""
        found = copy.copy(self)
        found._n, found.dense, found._labels = len(dense), dense, np.empty((len(dense), 0), np.float32)
        found.labels = found._labels
        found.values = np.concatenate([s.values for s in slots]) if slots else np.empty(0, np.uint64)
        found.offsets = np.stack([s.offsets for s in slots]) if slots else np.empty((0, len(dense) + 1), np.int64)
        return found

    def ragged(self, slot: int) -> Ragged:
        assert self.values is not None and self.offsets is not None
        begin = int(self.offsets[:slot, -1].sum())
        return Ragged(self.values[begin:begin + int(self.offsets[slot, -1])], self.offsets[slot])


class _Reader(Owner):
    """An open struct rt_data."""

    def __init__(self, options: _abi.rt_data_options, began: int) -> None:
        super().__init__()
        self.began = began                   # the first pass of the iteration
        self.ended: int | None = None        # the pass after the last one, once that has ended
        self.data = ctypes.c_void_p()
        self.lock = threading.Lock()
        call("rt_data_open", ctypes.byref(options), ctypes.byref(self.data))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        data, self.data = getattr(self, "data", None), ctypes.c_void_p()
        if data:
            self.free(C.rt_data_close, data)

    def next(self) -> ctypes.c_void_p:
        """A batch's address, None in it at the end."""
        if self.process != os.getpid():
            raise InvalidError("the reader of samples belongs to the process that opened it: iterate over the Dataset again")
        if not self.lock.acquire(blocking=False):
            raise InvalidError("another thread reads from this iterator: each thread needs a Dataset of its own")
        try:
            batch = ctypes.c_void_p()
            call_long(self, "rt_data_next", self.data, -1, ctypes.byref(batch))
            return batch
        finally:
            self.lock.release()

    def position(self) -> dict[str, int]:
        at = _abi.rt_data_position()
        C.rt_data_tell(self.data, ctypes.byref(at))
        if self.ended is not None:
            return {**dict.fromkeys((*LINE, *SAMPLE), 0), "check": int(at.check), "pass": self.ended, BEGAN: self.ended}
        return {**{name: int(getattr(at.at, name)) for name in LINE}, **{name: int(getattr(at, name)) for name in SAMPLE},
                BEGAN: self.began}

    def seek(self, position: Mapping[str, int]) -> None:
        at = _abi.rt_data_position()
        for part, names in ((at.at, LINE), (at, SAMPLE)):
            for name in names:
                setattr(part, name, position[name])
        call("rt_data_seek", self.data, ctypes.byref(at))

    def counts(self) -> Counts:
        c = _abi.rt_data_counts()
        C.rt_data_count(self.data, ctypes.byref(c))
        return Counts(int(getattr(c, "pass")), int(c.samples), int(c.bad), c.text.decode(errors="replace"))

    def describe(self) -> str:
        return str(C.rt_data_describe(self.data).decode())


LINE = [row[0] for row in _abi.rt_position._fields_]
BEGAN = "began"
SAMPLE = [row[0] for row in _abi.rt_data_position._fields_ if row[0] not in ("at", "_spare")]


def _paths(files: Any) -> list[bytes]:
    given = items(files)
    return [path_of("files", f) for f in ([files] if given is None else given)]


def _named(name: str, value: Any) -> list[str]:
    return [value] if isinstance(value, str) else texts(name, value)


def _count_or_names(name: str, value: Any) -> list[str]:
    """26 is "1" to "26", as PaddleRec names slots."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return [str(i + 1) for i in range(number(name, value, ctypes.c_uint16))]
    return _named(name, value)


def _sizes(name: str, value: Any) -> dict[str, int]:
    """Names of numbers, or a mapping of them to how many there are of each."""
    if isinstance(value, Mapping):
        return {instance(name, k, str): number(f"{name}[{k!r}]", v, ctypes.c_uint32, 1) for k, v in value.items()}
    return dict.fromkeys(_named(name, value), 1)


CRITEO: list[tuple[str, int, int]] = [("label", _abi.RT_DATA_LABEL, 1), *((f"I{i}", _abi.RT_DATA_DENSE, 1) for i in range(1, 14)),
                                      *((f"C{i}", _abi.RT_DATA_IDS, 0) for i in range(1, 27))]


def _fields(kind: str, label: Any, dense: Any, slots: Any, columns: list[str]) -> list[tuple[str, int, int]]:
    """Name, kind, numbers: in the order of C's fields."""
    if kind == "criteo":
        if dense is not None or slots is not None or columns:
            raise ValueError("dense, slots and columns of \"criteo\" are fixed, expected none of them")
        return CRITEO
    found = [(name, _abi.RT_DATA_LABEL, n) for name, n in (_sizes("label", label) if label is not None else {}).items()]
    found += [(name, _abi.RT_DATA_DENSE, n) for name, n in _sizes("dense", dense if dense is not None else ()).items()]
    found += [(name, _abi.RT_DATA_IDS, 0) for name in _count_or_names("slots", slots if slots is not None else ())]
    if kind == "multislot" and columns:
        known = {name: row for row in found for name in row[:1]}
        if sorted(known) != sorted(columns) or len(columns) != len(found):
            raise ValueError(f"columns are {columns}, expected the names of label, dense and slots, in the order of a line: {sorted(known)}")
        return [known[name] for name in columns]
    return found


def _places(fields: list[tuple[str, int, int]]) -> tuple[dict[str, Field], tuple[int, int, int]]:
    totals = [0] * _abi.RT_DATA_KINDS
    found = {}
    for name, kind, n in fields:
        found[name] = Field(kind, totals[kind], n)
        totals[kind] += n or 1
    return found, (totals[_abi.RT_DATA_LABEL], totals[_abi.RT_DATA_DENSE], totals[_abi.RT_DATA_IDS])


def _strings(values: Sequence[bytes]) -> Any:
    return (ctypes.c_char_p * len(values))(*values)


class Dataset:
    """Samples of text files; each iteration is one more pass over this worker's share, with its own order if it is shuffled.

    files: a file, folder, pattern ("part-*"), FILE.list, or several.  format: see above.
    batch: samples in each; drop_last: not those that do not fill one at the end of a pass.
    label, dense, slots: names of what becomes labels, numbers and ids.  dense={"dense_feature": 13}: so many of one name.
        slots=26: "1" to "26".  label=None: lines need none.  "criteo" has its own.
    columns: of CSV and TSV without a header, the names of all; of "multislot", the names in the order of a line.
    pad: ids of each slot, padded with `fill`; a line with more cannot be used.  0: ragged.  By default 1 for "criteo", "csv"
        and "tsv", and 0 for others.
    ids: in "csv" and "tsv", "hash" (64 bits of column and text, as "criteo") or "number".  vocabulary: ids are modulo this.
    scale: "criteo": numbers are scaled as in the models of examples/ctr.
    shuffle: runs of so many samples are put in an order that follows from seed and pass; two runs are in memory.
    rank, world: this worker, of how many; by default those of `job`, or of the environment (paddlert.Job()).
    share: how files are dealt out: "files" (file i to worker i modulo world), "blocks", "suffix"; with fewer files than workers,
        lines are.  "mixed": each worker reads all files, and has other lines of them in each pass.
    repeat: passes of one iteration; None: no end.
    prefetch: batches that are read ahead.  threads: that parse.
    pipe_command: of a shell; its output is read in place of each file, which is its input and "$1".
    max_bad: with more bad lines in a pass, an error (InvalidError); None: none.  Those of a pass are also a warning at its end.
    """

    def __init__(self, files: Any, format: str, *, batch: int = 1, drop_last: bool = False, label: Any = "label", dense: Any = None,
                 slots: Any = None, columns: Sequence[str] | None = None, pad: int | None = None, fill: int = 0, ids: str = "hash",
                 vocabulary: int | None = None, scale: bool = True, shuffle: int = 0, seed: int = 0, rank: int | None = None,
                 world: int | None = None, job: Job | None = None, share: str = "files", repeat: int | None = 1, prefetch: int = 8,
                 threads: int = 0, max_bad: int | None = None, pipe_command: str | None = None) -> None:
        self.files = _paths(files)
        self._kind = chosen("format", format, FORMATS)
        self._columns = _named("columns", columns) if columns is not None else []
        label = "click" if format == "slots" and label == "label" else label
        self._given = _fields(format, label, dense, slots, self._columns)
        self._fields, self._sizes = _places(self._given)
        self._pad = number("pad", int(format in PADDED) if pad is None else pad, ctypes.c_uint32)
        self._whole = {"hash": False, "number": True}[chosen_word("ids", ids, ("hash", "number"))]
        self._bad_max = 0 if max_bad is None else number("max_bad", max_bad, ctypes.c_int64, 0) + 1
        self._repeat = None if repeat is None else number("repeat", repeat, ctypes.c_uint32, 1)
        self._share = chosen("share", share, SHARES)
        self.rank, self.world = _place(rank, world, job)
        self._numbers = {"batch": number("batch", batch, ctypes.c_int32, 1), "fill": number("fill", fill, ctypes.c_uint64),
                         "vocabulary": 0 if vocabulary is None else number("vocabulary", vocabulary, ctypes.c_uint64, 1),
                         "shuffle": number("shuffle", shuffle, ctypes.c_int32, 0), "seed": number("seed", seed, ctypes.c_uint64),
                         "threads": number("threads", threads, ctypes.c_uint16), "ahead": number("prefetch", prefetch, ctypes.c_int32, 0)}
        self._flags = {"raw": not scale, "drop_last": bool(drop_last), "unlabelled": label is None}
        self._multislot = format == "multislot"
        self._command = None if pipe_command is None else text("pipe_command", instance("pipe_command", pipe_command, str))
        self._epoch = 0
        self._start: dict[str, int] | None = None
        self._reader: _Reader | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For another process: it continues at this position, with a reader of its own."""
        return {**self.__dict__, "_start": self._state(), "_reader": None}

    @property
    def slots(self) -> list[str]:
        """Names of the slots, in the order of ids."""
        return [name for name, f in self._fields.items() if f.kind == _abi.RT_DATA_IDS]

    def part(self, index: int, count: int, seed: int = 0) -> Dataset:
        """One of `count` parts of this worker's share, as a DataLoader's processes have them; seed changes the order."""
        if not 0 <= whole_number("index", index) < number("count", count, ctypes.c_uint16, 1):
            raise ValueError(f"index is {index}, expected 0 to {count - 1}, as count is {count}")
        found = copy.copy(self)
        found._start = found._reader = None
        found.rank, found.world = self.rank * count + index, self.world * count
        found._numbers = {**self._numbers, "seed": (self._numbers["seed"] + whole_number("seed", seed)) % (1 << 64)}
        return found

    def _decides(self) -> str:
        """What decides which batches there are, beside what position()'s check is of."""
        own = {**self._numbers, **self._flags, "repeat": self._repeat, "pipe_command": self._command}
        return ", ".join(f"{name} {value!r}" for name, value in own.items() if name not in ("threads", "ahead", "seed"))

    def _options(self, passes: int) -> tuple[_abi.rt_data_options, list[Any]]:
        """For C, and what of Python they refer to."""
        made, own = self._given if self._kind != _abi.RT_DATA_CRITEO else [], [text("names", name) for name, *_ in self._given]
        fields = (_abi.rt_data_field * len(made))(*(_abi.rt_data_field(name=n, kind=k, n=size) for n, (_, k, size) in zip(own, made)))
        paths, columns = _strings(self.files), _strings([text("columns", c) for c in self._columns])
        named = len(self._columns) if not self._multislot else 0
        o = _abi.rt_data_options(
            paths=ctypes.addressof(paths), n_paths=len(self.files), format=self._kind, fields=ctypes.addressof(fields) if made else None,
            n_fields=len(made), columns=ctypes.addressof(columns) if named else None, n_columns=named, pad=self._pad, whole=self._whole,
            passes=passes, bad_max=self._bad_max, pipe_command=self._command, **self._numbers, **self._flags)
        o.share.worker, o.share.workers, o.share.by = self.rank, self.world, self._share
        return o, [own, fields, paths, columns]

    def _open(self, start: dict[str, int] | None) -> _Reader:
        """At a position, or for the next passes."""
        began = start[BEGAN] if start is not None else self._epoch
        options, _keep = self._options(FOREVER if self._repeat is None else began + self._repeat)
        reader = _Reader(options, began)
        if start is not None or began > 0:
            reader.seek(start if start is not None else {**reader.position(), "pass": began})
        return reader

    def __iter__(self) -> Iterator[Batch]:
        start, self._start = self._start, None
        self._reader = reader = self._open(start)
        epoch = reader.counts().epoch
        self._epoch = epoch + 1
        return self._batches(reader, epoch)

    def _batches(self, reader: _Reader, epoch: int) -> Iterator[Batch]:
        counts = Counts(epoch, 0, 0, "")
        while address := reader.next():
            if (now := reader.counts()).epoch > counts.epoch:
                self._warn(counts)
                self._epoch = now.epoch + 1
            counts = now
            yield Batch(address, self._fields, self._sizes, self._pad)
        counts = reader.counts()
        reader.ended = self._epoch = counts.epoch + 1
        self._warn(counts)

    def _warn(self, counts: Counts) -> None:
        if counts.bad:
            warnings.warn(f"lines that cannot be used: {counts.text}, {counts.samples} samples", stacklevel=3)
        elif counts.text:
            warnings.warn(f"{counts.text}, and others that wait for this one in each step would wait", stacklevel=3)

    def _state(self) -> dict[str, int] | None:
        if self._start is not None:
            return self._start
        return self._reader.position() if self._reader is not None and self._reader.data else None

    def position(self) -> dict[str, int]:
        """Where the batch that came last ends, or, once an iteration has ended, where the next one begins: numbers, to be stored
        as one likes.  The same options and files give the same samples from there on."""
        return dict(self._state() or self._open(None).position())

    def restore(self, position: Mapping[str, int]) -> None:
        """The next iteration continues there.  Reads `shuffle` samples again, at most."""
        at = {name: number(f"position[{name!r}]", instance("position", position, Mapping).get(name), ctypes.c_uint64)
              for name in (*LINE, *SAMPLE, BEGAN)}
        if at[BEGAN] > at["pass"]:
            raise ValueError(f"position is in pass {at['pass']} of an iteration that begins with pass {at[BEGAN]}, expected one of position()")
        self._open(at).close()                 # is it one of these files?
        self._start = at

    def counts(self) -> Counts:
        """Samples and bad lines of the running pass."""
        return self._reader.counts() if self._reader is not None and self._reader.data else Counts(self._epoch, 0, 0, "")

    def describe(self) -> str:
        """How files are shared: "2 of 5 files", "1/4 of the lines of 1 file"."""
        return (self._reader if self._reader is not None and self._reader.data else self._open(None)).describe()


def chosen_word(name: str, value: Any, words: Sequence[str]) -> str:
    chosen(name, value, dict.fromkeys(words, 0))
    return str(value)


def _place(rank: int | None, world: int | None, job: Job | None) -> tuple[int, int]:
    """Rank and world: as given, else of the job, else of the environment's."""
    if rank is None and world is None:
        found = Job() if job is None else instance("job", job, Job)
        return found.worker_index, found.worker_num
    ranks = number("world", 1 if world is None else world, ctypes.c_uint32, 1)
    if not 0 <= whole_number("rank", 0 if rank is None else rank) < ranks:
        raise ValueError(f"rank is {rank}, expected 0 to {ranks - 1}, as world is {ranks}")
    return rank or 0, ranks


def process_part(dataset: Dataset, info: Any) -> Dataset:
    """What a process of a framework's DataLoader reads: info is its get_worker_info(), None in the program's own process.  The
    seed that all of them have in common is another one in each epoch."""
    if info is None:
        return dataset
    seed = int(getattr(info, "seed", None) or info.id) - int(info.id)
    return dataset.part(info.id, info.num_workers, seed)
