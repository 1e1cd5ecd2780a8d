"""One job, one node of which Paddle's own launcher runs."""
import pytest

from nodes import PROGRAMS, listens
from ports import free_port
from test_collective import SUMS, sums

VERSION = "3.3.1"


def start(nodes, who, i, *words, **more):
    run = nodes.ours if who == "ours" else nodes.paddles
    return run(VERSION, "--nnodes", "2", "--rank", str(i), *words, PROGRAMS / "allreduce.py", ip=f"127.0.0.{i + 1}", **more)


@pytest.mark.parametrize("first,second", [("ours", "Paddle's"), ("Paddle's", "ours")])
def test_the_first_node_serves(nodes, first, second):
    port = free_port()
    start(nodes, first, 0, "--master", f"127.0.0.1:{port}")
    nodes.wait(lambda: listens(port), "the first node serves")
    start(nodes, second, 1, "--master", f"127.0.0.1:{port}")
    nodes.finish()
    nodes.expect(SUMS, sums(2))


def test_nodes_meet_by_an_etcd(nodes, etcd):
    # The client library that Paddle asks for is older than the protobuf that Paddle brings.
    env = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    for i, who in enumerate(["ours", "Paddle's"]):
        start(nodes, who, i, "--master", etcd, "--job_id", "j", env=env)
    nodes.finish()
    nodes.expect(SUMS, sums(2))
