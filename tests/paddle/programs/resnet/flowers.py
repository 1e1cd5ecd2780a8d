"""Pictures in the place of the flowers that Paddle would download: a colour for each kind, and noise.  Of each process its own."""
import os

import numpy as np

KINDS, SIDE = 102, 32


def train(count):
    """A reader, as paddle.dataset.flowers.train(): (picture, kind), always the same ones."""
    def reader():
        rng = np.random.default_rng(int(os.environ.get("PADDLE_TRAINER_ID", 0)))
        colours = np.random.default_rng(1).normal(size=(KINDS, 3, 1, 1))
        for _ in range(count):
            kind = int(rng.integers(KINDS))
            yield (colours[kind] + rng.normal(size=(3, SIDE, SIDE))).reshape(-1), kind
    return reader
