"""Which rows are erased, as objects: printed by python/interface from the rows of docs/rules.md (tools/generate).

str() of one is the text that `evict` of a table takes, too.
"""
from __future__ import annotations

from ._rules import Eviction

__all__ = ["TTL", "LFU", "CTR"]


class TTL(Eviction):
    """Rows that were not pushed to for long are erased.

    seconds: time without a push; either this
    steps: or this, the same in steps
    """
    rule = "ttl"
    seconds: float
    steps: float

    def __init__(self, seconds: float = 0.0, steps: float = 0.0) -> None:
        super().__init__(seconds=seconds, steps=steps)


class LFU(Eviction):
    """Beyond its capacity a table loses rows that are pushed to least often.

    capacity: rows of the whole table, all servers together
    """
    rule = "lfu"
    capacity: float

    def __init__(self, capacity: float = 0.0) -> None:
        super().__init__(capacity=capacity)


class CTR(Eviction):
    """Shrink erases rows by shows, clicks and age: Paddle's CtrCommonAccessor.

    nonclk_coeff: what a show without a click adds to the score
    click_coeff: what a click adds to the score
    base_threshold: least score of rows that a BASE or DELTA save has
    delta_threshold: least score since the last save, of rows that a DELTA save has
    delta_keep_days: days without a push, at most, of rows that such saves have
    show_click_decay_rate: each shrink multiplies counts by it
    delete_threshold: rows of a lower score are erased
    delete_after_unseen_days: rows without a push for longer are erased
    """
    rule = "ctr"
    nonclk_coeff: float
    click_coeff: float
    base_threshold: float
    delta_threshold: float
    delta_keep_days: float
    show_click_decay_rate: float
    delete_threshold: float
    delete_after_unseen_days: float

    def __init__(self, nonclk_coeff: float = 0.1, click_coeff: float = 1.0, base_threshold: float = 1.5,
                 delta_threshold: float = 0.25, delta_keep_days: float = 16.0, show_click_decay_rate: float = 0.98,
                 delete_threshold: float = 0.8, delete_after_unseen_days: float = 30.0) -> None:
        super().__init__(nonclk_coeff=nonclk_coeff, click_coeff=click_coeff, base_threshold=base_threshold,
                         delta_threshold=delta_threshold, delta_keep_days=delta_keep_days,
                         show_click_decay_rate=show_click_decay_rate, delete_threshold=delete_threshold,
                         delete_after_unseen_days=delete_after_unseen_days)
