"""The short form of `make chaos`: what of the matrix fits into SECONDS, by a seed; TEST_SEED=random: another part of it."""
import pathlib
import sys

import pytest

from rig import SANITIZED

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "chaos"))

SECONDS = 60 if SANITIZED else 20        # no round begins after that; without sanitizers, only to measure memory


@pytest.mark.memory
@pytest.mark.deadline(400)
def test_some_faults_at_all_moments(plane, kubelet, seed, tmp_path):
    import chaos
    runner = chaos.Runner(plane, kubelet, seed, tmp_path, SECONDS)
    runner.matrix()
    print(runner.table())
    assert not runner.bad(), "; ".join(runner.bad())
