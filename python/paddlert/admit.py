"""When an id gets a row, as objects: printed by python/interface from the rows of docs/rules.md (tools/generate).

str() of one is the text that `admit` of a table takes, too.
"""
from __future__ import annotations

from ._rules import Admission

__all__ = ["Count", "Probability", "ShowClick"]


class Count(Admission):
    """An id gets a row with its n-th push.

    n: pushes before the row
    """
    rule = "count"
    n: float

    def __init__(self, n: float = 10.0) -> None:
        super().__init__(n=n)


class Probability(Admission):
    """An id gets a row with a push at random.

    p: probability of a row with each push
    """
    rule = "probability"
    p: float

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)


class ShowClick(Admission):
    """An id gets a row when its shows and clicks reach a score.

    threshold: the score for a row
    nonclk_coeff: what a show without a click adds to the score
    click_coeff: what a click adds to the score
    """
    rule = "show_click"
    threshold: float
    nonclk_coeff: float
    click_coeff: float

    def __init__(self, threshold: float = 10.0, nonclk_coeff: float = 0.1, click_coeff: float = 1.0) -> None:
        super().__init__(threshold=threshold, nonclk_coeff=nonclk_coeff, click_coeff=click_coeff)
