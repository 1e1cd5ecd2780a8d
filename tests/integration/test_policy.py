"""The run policy against a real API server: restarts of a group, suspension, deadline, time to live, scale."""
import datetime
import json
import os
import signal
import threading
import time

import pytest
from kubernetes import client, watch
from kubernetes.client.rest import ApiException

from rig import GROUP, stand_still, wait_for

FAST = "--restart-backoff=1s"
ATTEMPT = "batch.paddlepaddle.org/attempt"


def end(plane, kubelet, ns, name, code, message=""):
    """The pod's container ends with this code."""
    pod = plane.core.read_namespaced_pod(name, ns)
    kubelet.status(pod, "Failed" if code else "Succeeded", pod.status.pod_ip, (code, message))


def status(plane, ns, name="j"):
    return plane.job(ns, name).get("status", {})


def wait_status(plane, ns, seconds=60, **fields):
    wait_for(lambda: all(status(plane, ns).get(k) == v for k, v in fields.items()), seconds,
             lambda: f"{json.dumps(status(plane, ns))[:1500]}, expected {fields}")


def uids(plane, ns):
    return {name: p.metadata.uid for name, p in plane.pods(ns).items()}


class Story(threading.Thread):
    """The phases that `kubectl get -w` would show, one for each line."""

    def __init__(self, plane, ns):
        super().__init__(daemon=True)
        self.plane, self.ns, self.lines, self.w = plane, ns, [], watch.Watch()
        self.start()

    def run(self):
        for e in self.w.stream(self.plane.custom.list_namespaced_custom_object, *GROUP, self.ns, "paddlejobs",
                               timeout_seconds=600):
            self.lines.append(e["object"].get("status", {}).get("phase"))

    def phases(self):
        return [p for i, p in enumerate(self.lines) if p and p != self.lines[i - 1]]


def test_a_failed_pod_restarts_the_whole_group_until_the_budget_is_spent(plane, operator, kubelet, ns):
    operator(FAST)
    story = Story(plane, ns)
    plane.create(ns, "j", ps=1, worker=2, backoffLimit=1)
    plane.wait_phase(ns, "j", "Running")
    before, ips = uids(plane, ns), plane.core.read_namespaced_config_map("j", ns).data["PADDLE_TRAINERS"]
    end(plane, kubelet, ns, "j-worker-1", 3, "lost\nbad data in line 12")
    wait_status(plane, ns, restarts=1, attempt=1, phase="Running")
    after = uids(plane, ns)
    assert after.keys() == before.keys() and not set(after.values()) & set(before.values())
    assert {p.metadata.labels[ATTEMPT] for p in plane.pods(ns).values()} == {"1"}
    published = plane.core.read_namespaced_config_map("j", ns)
    assert published.metadata.labels[ATTEMPT] == "1" and published.data["PADDLE_TRAINERS"] != ips
    restarting = next(c for c in status(plane, ns)["conditions"] if c["type"] == "Restarting")
    assert restarting["status"] == "False" and "exit code 3 (Error): bad data in line 12" in restarting["message"]
    plane.wait_event(ns, "Restarting", "restart 1 of 1")
    end(plane, kubelet, ns, "j-ps-0", 1)
    plane.wait_phase(ns, "j", "Failed")
    wait_status(plane, ns, reason="BackoffLimitExceeded", restarts=1, attempt=1)
    # What still runs is stopped; what failed is kept, as cleanPodPolicy says.
    wait_for(lambda: sorted(plane.pods(ns)) == ["j-ps-0"], why=lambda: sorted(plane.pods(ns)))
    assert all(len(uids) == 2 for uids in kubelet.seen(ns).values())
    wait_for(lambda: story.phases()[-1:] == ["Failed"], why=lambda: story.lines)
    story.w.stop()
    phases = story.phases()     # before it runs, some are passed too fast to be worth a line
    assert phases[-4:] == ["Running", "Restarting", "Running", "Failed"] and set(phases[:-4]) <= {"Pending", "Starting"}, story.lines


@pytest.mark.parametrize("rules,code,restarts,phase,reason", [
    ([{"action": "Fail", "exitCodes": "1-127"}], 3, 0, "Failed", "FailurePolicy"),
    ([{"action": "Fail", "exitCodes": "1-127"}], 130, 1, "Running", None),
    ([{"action": "Ignore", "exitCodes": "42", "role": "worker"}], 42, 0, "Running", None),
])
def test_exit_codes_decide(plane, operator, kubelet, ns, rules, code, restarts, phase, reason):
    operator(FAST)
    plane.create(ns, "j", ps=None, worker=2, backoffLimit=3, failurePolicy=rules)
    plane.wait_phase(ns, "j", "Running")
    before = uids(plane, ns)
    end(plane, kubelet, ns, "j-worker-0", code)
    wait_for(lambda: phase == "Failed" or not set(uids(plane, ns).values()) & set(before.values()))
    wait_status(plane, ns, phase=phase, restarts=restarts, reason=reason)


def test_a_pod_that_is_taken_away_restarts_the_group_and_is_not_counted(plane, operator, kubelet, ns):
    operator(FAST)
    plane.create(ns, "j", ps=None, worker=2, backoffLimit=0)
    plane.wait_phase(ns, "j", "Running")
    before = uids(plane, ns)
    plane.core.create_namespaced_pod_eviction("j-worker-1", ns, {"metadata": {"name": "j-worker-1"}})
    wait_status(plane, ns, attempt=1, restarts=0, phase="Running")
    assert not set(uids(plane, ns).values()) & set(before.values())
    plane.core.patch_namespaced_pod_status("j-worker-0", ns, {"status": {
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}})
    wait_status(plane, ns, attempt=2, restarts=0, phase="Running")


def test_without_a_policy_a_failed_pod_fails_the_job_and_the_others_stay(plane, operator, kubelet, ns):
    operator(FAST)
    plane.create(ns, "j", ps=None, worker=2)
    plane.wait_phase(ns, "j", "Running")
    before = uids(plane, ns)
    end(plane, kubelet, ns, "j-worker-0", 1)
    plane.wait_phase(ns, "j", "Failed")
    time.sleep(0.5)
    assert uids(plane, ns) == before


def test_a_worker_that_has_succeeded_is_not_trained_again(plane, operator, kubelet, ns):
    """Nor after a restart of the operator, which has only the status to go by."""
    o = operator(FAST)
    plane.create(ns, "j", ps=None, worker=3, backoffLimit=0, cleanPodPolicy="Never")
    plane.wait_phase(ns, "j", "Running")
    wait_for(lambda: status(plane, ns)["readyWorker"] == "3/3")
    end(plane, kubelet, ns, "j-worker-1", 0)
    wait_for(lambda: status(plane, ns)["worker"].get("completedIndexes") == "1", why=lambda: status(plane, ns))
    o.kill()
    plane.core.delete_namespaced_pod("j-worker-1", ns, grace_period_seconds=0)
    o.start()
    wait_for(lambda: status(plane, ns)["worker"]["replicas"] == 2, why=lambda: status(plane, ns))
    for name in ("j-worker-0", "j-worker-2"):
        end(plane, kubelet, ns, name, 0)
    plane.wait_phase(ns, "j", "Completed")
    s = status(plane, ns)
    assert (s["worker"]["succeeded"], s["readyWorker"], s["restarts"], s.get("attempt")) == (3, "3/3", 0, None)
    assert not kubelet.twice(ns)


def test_a_worker_that_ends_and_is_deleted_between_two_looks_is_not_trained_again(plane, operator, kubelet, ns):
    """The watch reports both at once, so that no reconcile has seen the pod succeed."""
    o = operator(FAST)
    plane.create(ns, "j", ps=None, worker=2)
    plane.wait_phase(ns, "j", "Running")
    stand_still(o.p)
    end(plane, kubelet, ns, "j-worker-1", 0)
    plane.core.delete_namespaced_pod("j-worker-1", ns, grace_period_seconds=0)
    wait_for(lambda: "j-worker-1" not in plane.pods(ns))
    os.kill(o.p.pid, signal.SIGCONT)
    wait_for(lambda: status(plane, ns)["worker"].get("replicas") == 1, why=lambda: status(plane, ns))
    assert status(plane, ns)["worker"].get("completedIndexes") == "1"
    end(plane, kubelet, ns, "j-worker-0", 0)
    plane.wait_phase(ns, "j", "Completed")
    assert not kubelet.twice(ns)


def test_a_restart_survives_an_operator_that_is_killed_all_the_time(plane, operator, kubelet, ns, seed):
    import random
    rng = random.Random(seed)
    o = operator(FAST)
    plane.create(ns, "j", ps=2, worker=4, backoffLimit=1)
    plane.wait_phase(ns, "j", "Running")
    end(plane, kubelet, ns, "j-worker-2", 9)
    for _ in range(12):
        time.sleep(rng.random() * 0.4)
        o.kill()
        o.start()
    wait_status(plane, ns, restarts=1, attempt=1, phase="Running")
    assert all(len(uids) == 2 for uids in kubelet.seen(ns).values()), kubelet.twice(ns)


def test_suspend_and_resume(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=2, intranet="Service")
    plane.wait_phase(ns, "j", "Running")
    before = uids(plane, ns)
    plane.kubectl("-n", ns, "patch", "pdj", "j", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    wait_for(lambda: not plane.pods(ns), why=lambda: sorted(plane.pods(ns)))
    plane.wait_phase(ns, "j", "Suspended")
    plane.kubectl("-n", ns, "wait", "--for=condition=Suspended", "pdj/j", "--timeout=30s")
    time.sleep(1)
    assert not plane.pods(ns)
    plane.kubectl("-n", ns, "patch", "pdj", "j", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    plane.wait_phase(ns, "j", "Running")
    after = uids(plane, ns)
    assert after.keys() == before.keys() and not set(after.values()) & set(before.values())
    assert status(plane, ns)["restarts"] == 0 and status(plane, ns)["attempt"] == 1
    plane.wait_event(ns, "Suspended")
    plane.wait_event(ns, "Resumed")


def test_a_job_that_is_suspended_from_the_beginning_creates_nothing(plane, operator, kubelet, ns):
    operator("--services=all")
    plane.create(ns, "j", ps=1, worker=1, suspend=True)
    plane.wait_phase(ns, "j", "Suspended")
    time.sleep(1)
    assert not plane.pods(ns) and not plane.core.list_namespaced_service(ns).items
    assert [m.metadata.name for m in plane.core.list_namespaced_config_map(ns).items if m.metadata.name == "j"] == []
    plane.patch(ns, "j", {"spec": {"suspend": False}})
    plane.wait_phase(ns, "j", "Running")


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_a_deadline_is_kept_also_over_restarts_of_the_operator(plane, operator, kubelet, ns):
    o = operator()
    created = seconds(plane.create(ns, "j", ps=None, worker=2, cleanPodPolicy="Never")["metadata"]["creationTimestamp"])
    plane.wait_phase(ns, "j", "Running")
    active = int(time.time() - created) + 30            # however long the pods took
    plane.patch(ns, "j", {"spec": {"activeDeadlineSeconds": active}})
    due = created + active
    time.sleep(max(0, due - 2 - time.time()))           # counted from here it would be over half a minute too late
    o.kill()
    o.start()
    s = plane.wait_phase(ns, "j", "Failed")
    assert s["reason"] == "DeadlineExceeded" and 0 <= seconds(s["completionTime"]) - due < 25
    wait_for(lambda: not plane.pods(ns), why="pods that run are stopped")


def test_time_in_suspension_does_not_count_for_the_deadline(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=None, worker=1, activeDeadlineSeconds=3, suspend=True)
    plane.wait_phase(ns, "j", "Suspended")
    time.sleep(4)
    assert plane.phase(ns, "j") == "Suspended"
    resumed = time.time()
    plane.patch(ns, "j", {"spec": {"suspend": False}})
    assert plane.wait_phase(ns, "j", "Failed")["reason"] == "DeadlineExceeded"
    assert 2 < time.time() - resumed


def test_a_job_is_deleted_when_its_time_to_live_is_over(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=None, worker=1, ttlSecondsAfterFinished=5, cleanPodPolicy="Never")
    plane.wait_phase(ns, "j", "Running")
    end(plane, kubelet, ns, "j-worker-0", 0)
    ended = seconds(plane.wait_phase(ns, "j", "Completed")["completionTime"])
    wait_for(lambda: not plane.jobs(ns))
    assert 5 <= time.time() - ended
    wait_for(lambda: not plane.pods(ns), why="the garbage collector")


def test_kubectl_scale_and_what_an_autoscaler_reads(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=1)
    plane.wait_phase(ns, "j", "Running")
    plane.kubectl("-n", ns, "scale", "pdj/j", "--replicas=3")
    wait_for(lambda: "j-worker-2" in plane.pods(ns))
    url = f"/apis/{'/'.join(GROUP)}/namespaces/{ns}/paddlejobs/j/scale"
    scale = wait_for(lambda: (lambda s: s if s["status"].get("replicas") == 3 else None)(
        json.loads(plane.kubectl("get", "--raw", url))))
    assert scale["spec"]["replicas"] == 3
    pods = plane.core.list_namespaced_pod(ns, label_selector=scale["status"]["selector"]).items
    assert sorted(p.metadata.name for p in pods) == ["j-worker-0", "j-worker-1", "j-worker-2"]
    plane.kubectl("-n", ns, "scale", "pdj/j", "--replicas=1")
    wait_for(lambda: sorted(plane.pods(ns)) == ["j-ps-0", "j-worker-0"])


def test_a_job_of_another_controller_is_left_alone(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "theirs", ps=1, worker=1, managedBy="kueue.x-k8s.io/multikueue")
    plane.create(ns, "j", ps=None, worker=1, managedBy="batch.paddlepaddle.org/paddle-operator")
    plane.wait_phase(ns, "j", "Running")
    assert "status" not in plane.job(ns, "theirs") and sorted(plane.pods(ns)) == ["j-worker-0"]


def test_the_jobs_priority_is_that_of_its_pods(plane, operator, kubelet, ns):
    operator()
    try:
        client.SchedulingV1Api().create_priority_class({"metadata": {"name": "policy-high"}, "value": 7})
    except ApiException as e:
        assert e.status == 409
    plane.create(ns, "j", ps=None, worker=1, priorityClassName="policy-high")
    plane.wait_phase(ns, "j", "Running")
    assert plane.pods(ns)["j-worker-0"].spec.priority == 7


def test_the_status_of_an_ended_job_does_not_change(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=None, worker=2)
    plane.wait_phase(ns, "j", "Running")
    for i in (0, 1):
        end(plane, kubelet, ns, f"j-worker-{i}", 0)
    plane.wait_phase(ns, "j", "Completed")
    wait_for(lambda: not plane.pods(ns))
    plane.patch(ns, "j", {"spec": {"worker": {"replicas": 1}, "suspend": True}})
    wait_status(plane, ns, observedGeneration=2)
    s = status(plane, ns)
    assert (s["phase"], s["mode"], s["readyWorker"], s["worker"]["succeeded"]) == ("Completed", "Collective", "2/2", 2)
    row = plane.kubectl("-n", ns, "get", "pdj", "j", "-o", "wide", "--no-headers").split()
    assert row[:3] == ["j", "Completed", "Collective"] and "2/2" in row


def node_dies(plane, kubelet, ns, name):
    """What Kubernetes says of a pod whose node does not answer: Ready is False, and all else as kubelet left it."""
    pod = plane.core.read_namespaced_pod(name, ns)
    kubelet.dead.add(name)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    plane.core.patch_namespaced_pod_status(name, ns, {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [
        {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False", "lastTransitionTime": now}]}})


def test_a_pod_whose_node_is_dead_is_named_and_its_group_continues_without_it(plane, operator, kubelet, ns):
    operator(FAST)
    node = f"{ns}-n1"
    plane.core.create_node({"metadata": {"name": node}})
    kubelet.hold = {"j-worker-1"}
    plane.create(ns, "j", ps=None, worker=2)
    wait_for(lambda: "j-worker-1" in plane.pods(ns))
    plane.core.create_namespaced_binding(ns, {"metadata": {"name": "j-worker-1"}, "target": {"kind": "Node", "name": node}},
                                         _preload_content=False)
    kubelet.hold = set()
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Running")
    before = uids(plane, ns)
    node_dies(plane, kubelet, ns, "j-worker-1")
    wait_for(lambda: status(plane, ns).get("reason") == "NodeLost", why=lambda: status(plane, ns))
    s = status(plane, ns)
    assert s["message"].startswith(f"pod j-worker-1: node {node} does not answer since ")
    assert (s["worker"]["unknown"], s["worker"]["running"], s["readyWorker"]) == (1, 1, "1/2")
    assert [c["status"] for c in s["conditions"] if c["type"] == "Running"] == ["False"]
    plane.wait_event(ns, "NodeLost", "j-worker-1", node)
    # Its kubelet will never say that it has ended.
    plane.patch(ns, "j", {"spec": {"nodeLostAfter": 0}})
    wait_for(lambda: uids(plane, ns).get("j-worker-1", "") != before["j-worker-1"], why=lambda: status(plane, ns))
    kubelet.dead = set()
    kubelet.look(ns)
    wait_status(plane, ns, attempt=1, phase="Running", restarts=0)
    plane.core.delete_node(node)
