"""One job, one node of which Paddle's own launcher runs."""
import contextlib
import socket
import subprocess

import pytest

from nodes import PROGRAMS, ROOT, free_port
from test_collective import SUMS, sums

VERSION = "3.3.1"


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def start(nodes, who, i, *words, **more):
    run = nodes.ours if who == "ours" else nodes.paddles
    return run(VERSION, "--nnodes", "2", "--rank", str(i), *words, PROGRAMS / "allreduce.py", ip=f"127.0.0.{i + 1}", **more)


@pytest.mark.parametrize("first,second", [("ours", "Paddle's"), ("Paddle's", "ours")])
def test_whoever_comes_first_serves(nodes, first, second):
    port = free_port()
    start(nodes, first, 0, "--master", f"127.0.0.1:{port}")
    nodes.wait(lambda: listens(port), "the first node serves")
    start(nodes, second, 1, "--master", f"127.0.0.1:{port}")
    nodes.finish()
    nodes.expect(SUMS, sums(2))


@pytest.fixture
def etcd(tmp_path):
    subprocess.run([ROOT / "deploy/local/build", "etcd"], check=True, capture_output=True, timeout=900)
    program = subprocess.run(["bash", "-c", f". {ROOT}/deploy/local/lib.sh; bin etcd"], check=True, capture_output=True,
                             text=True).stdout.strip()
    client, peer = free_port(), free_port()
    p = subprocess.Popen([program, "--data-dir", tmp_path / "etcd", "--listen-client-urls", f"http://127.0.0.1:{client}",
                          "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                          "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster",
                          f"default=http://127.0.0.1:{peer}", "--unsafe-no-fsync", "--log-level", "error"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield client
    p.kill()
    p.wait()


@pytest.mark.parametrize("second", ["ours", "Paddle's"])
def test_nodes_meet_by_an_etcd(nodes, etcd, second):
    nodes.wait(lambda: listens(etcd), "etcd serves")
    # The client library that Paddle asks for is older than the protobuf that Paddle brings.
    env = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    for i, who in enumerate(["ours", second]):
        start(nodes, who, i, "--master", f"etcd://127.0.0.1:{etcd}", "--job_id", "j", env=env)
    nodes.finish()
    nodes.expect(SUMS, sums(2))
