"""Elastic jobs: kubectl scale within bounds, and those who stay are left alone."""
from rig import wait_for
from test_operator import configmap


def job(plane, ns, replicas, **bounds):
    template = {"spec": {"containers": [{"name": "paddle", "image": "x"}]}}
    plane.custom.create_namespaced_custom_object("batch.paddlepaddle.org", "v1", ns, "paddlejobs", {
        "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j"},
        "spec": {"elastic": 1, "worker": {"replicas": replicas, **bounds, "template": template}}})


def scale(plane, ns, replicas):
    plane.kubectl("-n", ns, "scale", "pdj/j", f"--replicas={replicas}")


def names(plane, ns):
    return {n: p.metadata.uid for n, p in plane.pods(ns).items() if not p.metadata.deletion_timestamp}


def np(pod):
    return {e.name: e.value for e in pod.spec.containers[0].env}["PADDLE_ELASTIC_NP"]


def test_scale_within_bounds_leaves_survivors_alone(plane, operator, kubelet, ns):
    operator()
    job(plane, ns, 2, requests=1, limits=4)
    plane.wait_phase(ns, "j", "Running")
    before = names(plane, ns)
    assert {np(p) for p in plane.pods(ns).values()} == {"1:4"}
    scale(plane, ns, 3)
    wait_for(lambda: len(names(plane, ns)) == 3)
    scale(plane, ns, 9)
    wait_for(lambda: len(names(plane, ns)) == 4)
    plane.wait_phase(ns, "j", "Running")
    wait_for(lambda: configmap(plane, ns, "j").data["PADDLE_TRAINERS_NUM"] == "4", why="the number now")
    assert before.items() <= names(plane, ns).items()
    assert {np(p) for p in plane.pods(ns).values()} == {"1:4"}      # the same words in old and new pods
    assert plane.wait_event(ns, "ReplicasBounded") == "spec.worker.replicas is 9, spec.worker.limits allow 4"
    scale(plane, ns, 0)
    wait_for(lambda: sorted(names(plane, ns)) == ["j-worker-0"])
    assert names(plane, ns)["j-worker-0"] == before["j-worker-0"]
    plane.wait_event(ns, "ReplicasBounded", "is 0, spec.worker.requests ask for 1")
    conditions = {c["type"]: c for c in plane.job(ns, "j")["status"]["conditions"]}
    assert conditions["ReplicasBounded"]["message"] == "spec.worker.replicas is 0, spec.worker.requests ask for 1"
    scale(plane, ns, 2)
    wait_for(lambda: {c["type"]: c for c in plane.job(ns, "j")["status"]["conditions"]}["ReplicasBounded"]["status"] == "False")
    # A worker that is lost comes back under its name; nobody else is touched.
    uid = names(plane, ns)["j-worker-1"]
    plane.core.delete_namespaced_pod("j-worker-1", ns, grace_period_seconds=0)
    wait_for(lambda: names(plane, ns).get("j-worker-1", uid) != uid)
    assert names(plane, ns)["j-worker-0"] == before["j-worker-0"]


def test_bounds_that_contradict_each_other_are_said(plane, operator, ns):
    operator()
    job(plane, ns, 2, requests=5, limits=4)
    wait_for(lambda: "greater than spec.worker.limits" in (plane.job(ns, "j").get("status") or {}).get("message", ""),
             why=lambda: plane.job(ns, "j").get("status"))
    assert not plane.pods(ns)
