"""Real Paddle under our launcher, and beside its own. `make paddle-test` installs what is needed."""
import os
import re

import pytest

from nodes import Nodes, wheels


@pytest.fixture(scope="session")
def all_wheels():
    return wheels()


@pytest.fixture
def nodes(all_wheels, tmp_path, monkeypatch):
    """An empty folder, and nothing in the environment that would tell a launcher of another job."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if re.match(r"PADDLE_(?!PYTHON|BIN)|POD_|TRAINING_|FLAGS_|CUDA_|DISTRIBUTED_|OMP_", name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    all = Nodes(all_wheels)
    yield all
    for n in all.list:
        n.end()
