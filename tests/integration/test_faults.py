"""Deaths of operator and API server, a connection that says nothing: every job ends.  The matrix: tests/chaos."""
import random
import re
import time

import pytest

from proxy import Fault
from rig import wait_for

JOBS = 6


def converge(plane, kubelet, ns, seconds=60):
    """All jobs end Completed; no pod was ever doubled; what is left is what should be."""
    for i in range(JOBS):
        plane.wait_phase(ns, f"j{i}", "Completed", seconds)
    names = {k[1] for k in kubelet.seen(ns)}
    assert names == {f"j{i}-{r}" for i in range(JOBS) for r in ("ps-0", "worker-0", "worker-1")}
    assert not kubelet.twice(ns), "a role and index had two pods"
    wait_for(lambda: not plane.pods(ns), why="pods cleaned")


def start_jobs(plane, ns):
    for i in range(JOBS):
        plane.create(ns, f"j{i}", ps=1, worker=2)


def test_half_open_watch_is_noticed(plane, operator, kubelet, ns, proxied_rig):
    """Bytes stop, the connection stays: found by the missing bookmarks' deadline, here cut short by a test flag."""
    proxy, config = proxied_rig
    proxy.faults = [Fault("watch=", "stall", times=4, after=0)]
    operator("--watch-idle=2s", kubeconfig=config)
    wait_for(lambda: proxy.faults[0].hits == 4)
    start_jobs(plane, ns)
    kubelet.finish = lambda p: (0, "")
    converge(plane, kubelet, ns)


def test_api_server_killed_in_the_middle(plane, operator, kubelet, ns):
    o = operator("--server-grace=0s")
    start_jobs(plane, ns)
    plane.kill_apiserver()
    plane.up()
    kubelet.finish = lambda p: (0, "")
    converge(plane, kubelet, ns)
    assert o.p.poll() is None


def test_pod_that_comes_after_its_job_has_ended_is_deleted(plane, operator, kubelet, ns, proxied_rig):
    """The operator gave up its create; the server receives it once the deadline is over and the end stored."""
    proxy, config = proxied_rig
    late = Fault("POST .*/pods", "late", times=1, delay=60)
    proxy.faults = [late, Fault("POST .*/pods", "reset")]
    operator("--server-grace=0s", kubeconfig=config)
    plane.create(ns, "j", ps=None, worker=1, activeDeadlineSeconds=2)
    wait_for(lambda: late.hits, why="a pod's create")
    proxy.cut()
    plane.wait_phase(ns, "j", "Failed")
    assert not kubelet.seen(ns)
    proxy.faults = []
    wait_for(lambda: kubelet.seen(ns), why="the pod made")
    wait_for(lambda: not plane.pods(ns), why="the pod deleted")


@pytest.mark.deadline(240)
def test_operator_killed_at_random_moments(plane, operator, kubelet, ns, seed):
    """50 job starts, a SIGKILL between any two requests of them."""
    rng = random.Random(seed)
    kubelet.finish = lambda p: (0, "")
    o = operator("--server-grace=0s")
    for i in range(50):
        plane.create(ns, f"k{i}", ps=1, worker=1)
        time.sleep(rng.random() * 0.15)
        o.kill()
        o.start()
    for i in range(50):
        plane.wait_phase(ns, f"k{i}", "Completed", 60)
    assert not kubelet.twice(ns)
    names = {k[1] for k in kubelet.seen(ns)}
    assert names == {f"k{i}-{r}-0" for i in range(50) for r in ("ps", "worker")}


def test_sigterm_finishes_and_ends_with_0(plane, operator, kubelet, ns):
    o = operator()
    start_jobs(plane, ns)
    assert o.stop() == 0
    o.start()
    for i in range(JOBS):
        plane.wait_phase(ns, f"j{i}", "Running")
    assert not kubelet.twice(ns)


def test_new_jobs_begin_before_the_pods_of_all_are_listed(plane, operator, kubelet, ns, proxied_rig):
    """Whoever died in the middle left a job without a status that has its pods; nothing is done for it that was done before."""
    proxy, config = proxied_rig
    proxy.faults = [Fault("PATCH .*/half/status", "reset")]
    o = operator("--server-grace=0s", kubeconfig=config)
    plane.create(ns, "old")
    plane.create(ns, "half")
    plane.wait_phase(ns, "old", "Running")
    wait_for(lambda: {"half-ps-0", "half-worker-0"} <= set(plane.pods(ns)), why="pods of half")
    o.kill()
    plane.create(ns, "new")
    plane.create(ns, "host", intranet="Host")
    began = time.monotonic()
    proxy.faults = [Fault(r"GET .*/pods\?limit=\d+&labelSelector=paddle-res-name( |$)", "late", delay=600)]
    o.start()
    wait_for(lambda: {"new-ps-0", "new-worker-0"} <= set(plane.pods(ns)), why=o.text)
    wait_for(lambda: plane.phase(ns, "half"), why=o.text)       # its pods were listed: the plan is complete
    assert "in sync" not in o.text().split("paddle-operator")[-1]
    made = {proxy.names[at] for at, line in proxy.requests(began) if re.match(r"POST .*/pods$", line)}
    assert not any(name.startswith(("old", "half", "host")) for name in made), made
    proxy.faults = []
    for job in ("old", "half", "new", "host"):
        plane.wait_phase(ns, job, "Running")
    assert not kubelet.twice(ns)
