"""How far a loop over batches is: a bar where a person watches, lines in a log."""
from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar

from ._lib import real, shown

T = TypeVar("T")


def _bar() -> Any:
    """tqdm's, as it is fit for here; None: it is not installed, or what is printed goes to a log."""
    notebook = "ipykernel" in sys.modules
    if not notebook and not sys.stderr.isatty():
        return None
    try:
        if notebook and importlib.util.find_spec("ipywidgets"):
            from tqdm.notebook import tqdm
        else:
            from tqdm.std import tqdm               # not tqdm.auto, which warns where there are no widgets
    except ImportError:
        return None
    return tqdm


class Progress(Generic[T]):
    """The same batches, one after another, and how many of them are done: for ids, y in (progress := paddlert.Progress(batches)).

    In a notebook or a terminal it is a bar of tqdm, where that is installed; elsewhere a line once in a while.

    batches: a list, a data loader, a generator
    total: how many there are; None: len() of them, or it is not known
    name: what stands before it
    seconds: from one line to the next
    """

    def __init__(self, batches: Iterable[T], total: int | None = None, name: str = "", *, seconds: float = 5) -> None:
        if not isinstance(batches, Iterable):
            raise TypeError(f"batches is {shown(batches)}, expected something to iterate over")
        self._batches, self._name, self._seconds = batches, name, real("seconds", seconds)
        self._total = len(batches) if total is None and isinstance(batches, Sized) else total
        self._values: dict[str, float] = {}
        self._bar: Any = None

    def __iter__(self) -> Iterator[T]:
        make, n, begun = _bar(), 0, time.monotonic()
        said, last = begun, 0
        self._bar = make(total=self._total, desc=self._name or None, unit=" batches") if make else None
        try:
            for batch in self._batches:
                yield batch
                n += 1
                if self._bar is not None:
                    self._bar.update()
                elif time.monotonic() - said >= self._seconds:
                    said, last = time.monotonic(), n
                    self._say(n, said - begun)
        finally:                                        # a loop that is left early, too
            if self._bar is not None:
                self._bar.close()
            elif n > last:
                self._say(n, time.monotonic() - begun)

    def show(self, **values: Any) -> None:
        """Numbers, or tensors of one, that stand beside it from now on: show(loss=loss)."""
        self._values.update({name: real(name, value) for name, value in values.items()})
        if self._bar is not None:
            self._bar.set_postfix({name: f"{value:.4g}" for name, value in self._values.items()}, refresh=False)

    def _say(self, n: int, took: float) -> None:
        of = f" of {self._total}" if self._total is not None else ""
        values = "".join(f", {name} {value:.4g}" for name, value in self._values.items())
        print(f"{f'{self._name}: ' if self._name else ''}{n}{of} batches, {n / max(took, 1e-9):.1f} a second{values}", flush=True)
