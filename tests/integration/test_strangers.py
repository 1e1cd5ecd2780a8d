"""Strangers on the network: connections that only stand there take neither the listeners nor the operator's memory."""
import contextlib
import http.client
import resource
import socket

import pytest

from rig import SANITIZED, free_port, wait_for

STRANGER, OTHER = "127.0.0.1", "127.0.0.2"


@contextlib.contextmanager
def held(port, n, say=b""):
    """n connections of the stranger's, each with the beginning of a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(n):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20, (STRANGER, 0)))
            with contextlib.suppress(OSError):  # closed by then: that is what it is for
                s.sendall(say)
        yield


def status(port, path, source=OTHER):
    c = http.client.HTTPConnection("127.0.0.1", port, 5, (source, 0))
    with contextlib.closing(c):
        c.request("GET", path)
        return c.getresponse().status


@pytest.mark.parametrize("say", [b"", b"GET /"], ids=["silent", "begun"])
def test_probes_and_metrics_are_answered_beside_idle_connections(operator, say):
    o = operator()
    for port, path in ((o.health, "/healthz"), (o.metrics, "/metrics")):
        with held(port, 300, say):
            assert status(port, path) == 200
        assert status(port, path) == 200
        assert status(port, path, STRANGER) == 200


@pytest.mark.memory
def test_a_flood_of_the_gate_is_bounded_and_others_are_answered(plane, operator, kubelet, ns):
    gate = free_port()
    o = operator("--initImage=gate", f"--gate-bind-address=127.0.0.1:{gate}", f"--gate-address=127.0.0.1:{gate}")
    before = o.rss()
    with held(gate, 8192, b"GET /gate/v1/a/b/c?wait=60 HTTP/1.1\r\nHost: x\r\n\r\n"):
        print(f"RSS {before} KiB, {o.rss()} KiB beside 8,192 connections")
        assert SANITIZED or o.rss() < 40 * 1024
        plane.create(ns, "j", ps=None, worker=1)
        pod = wait_for(lambda: plane.pods(ns).get("j-worker-0"))
        wait_for(lambda: status(gate, f"/gate/v1/{ns}/j-worker-0/{pod.metadata.uid}?wait=0") == 200)
        assert status(o.health, "/healthz") == 200
    def answered():
        with contextlib.suppress(ConnectionError):  # until the gate has seen that the 8,192 are gone
            return status(gate, f"/gate/v1/{ns}/j-worker-0/{pod.metadata.uid}?wait=0", STRANGER) == 200

    wait_for(answered)
