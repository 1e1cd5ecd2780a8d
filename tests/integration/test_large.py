"""Jobs that are large, or many: the operator's memory has a bound, and others get their pods."""
import concurrent.futures
import json

import pytest

from rig import FEWER, SANITIZED, free_port, wait_for
from test_control import body, metric, post, worker
from test_gate import ask, known

JOBS = 80 // FEWER


def large(ns, name, i):
    """1 MB of text; or 100 and 300 KB that are 8 and 23 MB as a tree."""
    spec = worker(2, args=["x" * 1000000] if i % 3 else [])
    if i % 3 == 0:
        spec["template"]["spec"]["tolerations"] = [{}] * (100000 if i % 2 else 33000)
    return json.dumps(body(ns, name, {"suspend": True, "worker": spec}))


@pytest.fixture
def other(plane, ns):
    yield plane.namespace(f"{ns}-b")
    plane.core.delete_namespace(f"{ns}-b", grace_period_seconds=0)


@pytest.mark.memory
@pytest.mark.deadline(300)
def test_large_jobs_of_one_tenant_cost_bounded_memory_and_no_one_else(plane, operator, kubelet, ns, other):
    o = operator("--memory=200Mi")      # the Deployment's
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(lambda i: post(plane, ns, large(ns, f"large{i}", i)), range(JOBS)))
    for again in range(2):
        if again:
            o.kill()
            o.start()
            o.started()
        plane.create(other, f"small{again}", ps=None, worker=2)
        plane.wait_phase(other, f"small{again}", "Running", 30)
        wait_for(lambda: metric(o.metrics, 'paddlejob_jobs{phase="Suspended"}') == JOBS, 120, o.text)
        print(f"RSS {o.rss()} KiB, at most {o.rss('VmHWM')}; {metric(o.metrics, 'paddlejob_jobs_not_cached')} jobs not cached")
        assert SANITIZED or o.rss("VmHWM") < 90 * 1024
    plane.patch(ns, "large7", {"spec": {"suspend": False}})
    wait_for(lambda: sorted(plane.pods(ns)) == ["large7-worker-0", "large7-worker-1"], 60)
    plane.wait_phase(ns, "large7", "Running", 60)
    plane.patch(ns, "large9", {"spec": {"suspend": False}})
    status = plane.wait_phase(ns, "large9", "Pending", 60)
    print(status["reason"], status["message"])
    assert status["reason"] == "TooLarge" and "has 12 MiB for one job" in status["message"]


def test_an_uncached_job_runs_as_others_do(plane, operator, kubelet, ns):
    """With next to no memory no job is."""
    port = free_port()
    address = f"127.0.0.1:{port}"       # jobs of former tests may still be on their way out: its own namespace alone
    o = operator(f"--namespace={ns}", "--memory=1Ki", "--initImage=gate", f"--gate-bind-address={address}", f"--gate-address={address}")
    kubelet.hold = {"j-worker-1"}
    plane.create(ns, "j", ps=None, worker=2, cleanPodPolicy="Always")
    uid = known(plane, port, ns, "j-worker-0")
    assert metric(o.metrics, "paddlejob_jobs_not_cached") == metric(o.metrics, "paddlejob_jobs_not_at_hand") == 1
    assert ask(port, ns, "j-worker-0", uid)[0] != 200
    kubelet.hold = set()
    kubelet.look(ns)
    assert ask(port, ns, "j-worker-0", uid, wait=30)[0] == 200
    plane.wait_phase(ns, "j", "Running")
    kubelet.finish = lambda p: (0, "")
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Completed")
    wait_for(lambda: not plane.pods(ns))
