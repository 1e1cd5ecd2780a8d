"""Samples that are kept in memory, for fleet's InMemoryDataset: ragged ids and numbers, in any order."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .arrays import Array
from .data import Batch, Ragged


def _picked(whole: Ragged, order: Array) -> Ragged:
    """The ids of those samples, in that order."""
    begins, sizes = whole.offsets[:-1][order], np.diff(whole.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Ragged(whole.values[places], offsets)


def _joined(parts: Sequence[Ragged]) -> Ragged:
    sizes = [np.diff(p.offsets) for p in parts]
    return Ragged(np.concatenate([p.values for p in parts]), np.concatenate([[0], np.cumsum(np.concatenate(sizes))]))


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

    def batches(self, size: int) -> Iterator[Batch]:
        for i in range(0, len(self), size):
            order = self._order[i:i + size]
            yield self._like.made(self._dense[order], [_picked(s, order) for s in self._slots])
