"""Real Paddle under our launcher, and beside its own. `make paddle-test` installs what is needed."""
import os
import re
import pathlib
import subprocess
import sys
import time

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parents[1])]

from nodes import ROOT, Nodes, listens, wheels
from ports import free_port


@pytest.fixture(scope="session")
def all_wheels():
    return wheels()


@pytest.fixture
def nodes(all_wheels, tmp_path, monkeypatch):
    """An empty folder, and nothing in the environment that would show a launcher another job."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if re.match(r"PADDLE_(?!PYTHON|BIN)|POD_|TRAINING_|FLAGS_|CUDA_|DISTRIBUTED_|OMP_", name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    all = Nodes(all_wheels)
    yield all
    for n in all.list:
        n.end()


@pytest.fixture
def etcd(tmp_path):
    """--master of an etcd that runs as long as the test."""
    subprocess.run([ROOT / "deploy/local/build", "etcd"], check=True, capture_output=True, timeout=900)
    program = subprocess.run(["bash", "-c", f". {ROOT}/deploy/local/lib.sh; bin etcd"], check=True, capture_output=True,
                             text=True).stdout.strip()
    client, peer = free_port(), free_port()
    mine, its_own = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    p = subprocess.Popen([program, "--data-dir", tmp_path / "etcd", "--listen-client-urls", mine, "--advertise-client-urls", mine,
                          "--listen-peer-urls", its_own, "--initial-advertise-peer-urls", its_own, "--initial-cluster",
                          f"default={its_own}", "--unsafe-no-fsync", "--log-level", "error"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not listens(client):
        assert time.monotonic() < end and p.poll() is None, "etcd does not serve"
        time.sleep(0.05)
    yield f"etcd://127.0.0.1:{client}"
    p.kill()
    p.wait()
