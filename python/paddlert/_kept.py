"""Samples that are kept in memory, for fleet's InMemoryDataset: ragged ids and numbers, in any order."""
from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from .arrays import Array
from .data import Batch, Ragged
from .group import Group

ROUND = 16 << 20                             # bytes that a worker sends at a time


def _picked(whole: Ragged, order: Array) -> Ragged:
    """The ids of those samples, in that order."""
    begins, sizes = whole.offsets[:-1][order], np.diff(whole.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Ragged(whole.values[places], offsets)


def _joined(parts: Sequence[Ragged]) -> Ragged:
    sizes = [np.diff(p.offsets) for p in parts]
    return Ragged(np.concatenate([p.values for p in parts]), np.concatenate([[0], np.cumsum(np.concatenate(sizes))]))


def _mix(x: Array) -> Array:
    """SplitMix64's finaliser, as common/mix.h."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed


def _packed(dense: Array, slots: Sequence[Ragged]) -> Array:
    """As bytes: how many samples, their numbers, ids of each in each slot, the ids of each slot."""
    parts = [np.array([len(dense)]), dense, *(np.diff(s.offsets) for s in slots), *(s.values for s in slots)]
    return np.concatenate([p.reshape(-1).view(np.uint8) for p in parts])


def _unpacked(packed: Array, numbers: int, slots: int) -> tuple[Array, list[Ragged]]:
    at = 0

    def take(n: int, kind: str) -> Array:
        nonlocal at
        begin, at = at, at + n * np.dtype(kind).itemsize
        return packed[begin:at].view(kind)
    n = int(take(1, "<i8")[0])
    dense = take(n * numbers, "<f4").reshape(n, numbers)
    offsets = [np.concatenate([[0], np.cumsum(take(n, "<i8"))]) for _ in range(slots)]
    return dense, [Ragged(take(int(o[-1]), "<u8"), o) for o in offsets]


class Kept:
    """len() is the number of samples."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._like = batches[0]
        self._dense: Array = np.concatenate([b.dense for b in batches])
        self._slots = [_joined([b.ragged(i) for b in batches]) for i in range(len(self._like.ragged_slots()))]
        self._order: Array = np.arange(len(self._dense))

    def __len__(self) -> int:
        return len(self._order)

    def shuffle(self, seed: int) -> None:
        np.random.default_rng(seed).shuffle(self._order)

    def _rounds(self) -> list[Array]:
        """The samples, in runs of about ROUND bytes."""
        sizes = 4 * self._dense.shape[1] + 8 * sum((1 + np.diff(s.offsets) for s in self._slots), np.zeros(len(self), np.int64))
        rounds = np.cumsum(sizes) // ROUND
        return np.split(np.arange(len(self)), np.flatnonzero(np.diff(rounds)) + 1) if len(self) else []

    def _alike(self, group: Group) -> None:
        """Workers with other variables would take numbers for ids."""
        own = zlib.crc32(repr((list(self._like.keys()), self._dense.shape[1], len(self._slots))).encode())
        found = group.all_gather(np.array([own]))[:, 0]
        if (found != own).any():
            raise ValueError(f"the variables of rank {int(np.flatnonzero(found != own)[0])} are others than those of rank {group.rank}, "
                             "expected the same use_var on all of them")

    def deal(self, group: Group, seed: int) -> None:
        """Collective: each sample goes to one rank, by a hash of seed, rank and place, and is there in a new order.  If it fails, all is
        as before.  Memory: twice the samples, and rounds of twice ROUND bytes."""
        self._alike(group)
        key = _mix(np.array([seed], np.uint64)) + np.uint64(group.rank)
        owners = _mix(_mix(key) + np.arange(len(self), dtype=np.uint64)) % np.uint64(group.size)
        rounds, parts = self._rounds(), []
        for i in range(int(group.all_reduce(np.array([len(rounds)]), "max")[0])):
            run = rounds[i] if i < len(rounds) else np.arange(0)
            orders = [run[owners[run] == rank] for rank in range(group.size)]
            packed = [_packed(self._dense[order], [_picked(s, order) for s in self._slots]) for order in orders]
            out = np.zeros((group.size, int(group.all_reduce(np.array([max(map(len, packed))]), "max")[0])), np.uint8)
            for row, one in zip(out, packed):
                row[:len(one)] = one
            parts += [_unpacked(row, self._dense.shape[1], len(self._slots)) for row in group.all_to_all(out)]
        if parts:
            self._slots = []                 # before there is a third copy
            self._dense = np.concatenate([dense for dense, _ in parts])
            self._slots = [_joined(slots) for slots in zip(*(slots for _, slots in parts))]
        self._order = np.arange(len(self._dense))
        self.shuffle(seed)

    def batches(self, size: int) -> Iterator[Batch]:
        for i in range(0, len(self), size):
            order = self._order[i:i + size]
            yield self._like.made(self._dense[order], [_picked(s, order) for s in self._slots])
