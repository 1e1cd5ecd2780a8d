"""Elastic training from Python: workers that die and come back, at random moments, beside one that nothing happens to."""
import json
import os
import random

import numpy as np
import pytest

from wheel import ROOT, finish, package, python  # noqa: F401
from workers import NEVER, SECONDS, Workers, alone, losses

PROGRAM = ROOT / "tests/python/programs/members.py"
BATCHES = 30                                    # an epoch's
KILLS = 100 if "CASES_ALL" in os.environ else 12


@pytest.mark.parametrize("on_loss,kills", [("repeat", KILLS), ("skip", KILLS // 2)])
def test_workers_die_and_come_back(python, tmp_path, on_loss, kills):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)

    def start(folder, **env):
        return python("", PROGRAM, on_loss, folder / "log", 10 ** 6, **env)
    workers = Workers(lambda **env: start(tmp_path, **env), tmp_path)
    end = workers.disturb(rng, kills, BATCHES)
    out = finish(*workers.at, seconds=SECONDS)
    ends = {tuple(o.splitlines()[-1].split(" ", 5)) for o in out}
    assert len(ends) == 1, (seed, ends)
    done, steps, samples, skipped, total, weights = ends.pop()
    assert (int(steps), int(samples)) == (end, end * 20), (seed, steps, samples)
    if on_loss == "skip":
        assert 0 < int(skipped) <= 2 * kills, (seed, skipped)
        return
    want, = finish(alone(start, tmp_path / "alone", end), seconds=SECONDS)
    *numbers, own_weights = want.splitlines()[-1].split(" ", 5)
    assert [done, steps, samples, skipped, total] == numbers, seed
    own = dict(losses([line.split() for line in (tmp_path / "alone/log.0").read_text().splitlines()]))
    for step, loss in losses(workers.lines()):
        assert np.isclose(loss, own[step], rtol=1e-9), (seed, step, loss, own[step])
    assert np.allclose(json.loads(weights), json.loads(own_weights), rtol=1e-9), (seed, weights)


def test_the_others_continue_without_those_that_stay_away(python, tmp_path):
    workers = Workers(lambda **env: python("", PROGRAM, "repeat", tmp_path / "log", 2, **env), tmp_path)
    workers.join()
    for home in (0, 2, 3):
        workers.kill(home, again=False)
    workers.gate(NEVER)
    last, = finish(workers.at[1], seconds=SECONDS)
    assert last.splitlines()[-1].split(" ")[1:5] == ["60", "1200", "0", str(2 * sum(range(600)))]
