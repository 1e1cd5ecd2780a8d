"""The moments: what a job is going through while a fault lasts.  Each row: before it, during it, and how it must end.

A moment's jobs live in the round's namespace under names that begin with the moment's; `m` is the Moment."""
import json
import time
from dataclasses import dataclass, field
from typing import Callable

from kubernetes.client.rest import ApiException

from rig import GROUP

NOTHING = lambda m: None


@dataclass
class Row:
    before: Callable
    during: Callable
    ends: dict          # job -> phase, or None for "no such job"
    pods: dict = field(default_factory=dict)        # job -> names of its live pods at the end, where it matters
    says: str = ""                                  # in the status' message at the end
    status: dict = field(default_factory=dict)      # of it, at the end
    after: Callable = NOTHING                       # once the fault is over, before the end is looked at


def running(*names, **spec):
    """Jobs that run before the fault."""
    def before(m):
        for n in names:
            m.create(n, **spec)
        for n in names:
            m.wait(n, "Running")
    return before


def end(m, name, code=0, message="", only=None):
    """The pods of a job end (only: the one of that name)."""
    m.ends[name] = lambda pod: (code, message) if only in (None, pod.metadata.name) else None
    m.poke()


def end_one(m):
    """A pod of the first group fails; those of the next run."""
    first = {p.metadata.uid for p in m.call(lambda: m.plane.core.list_namespaced_pod(m.ns)).items}
    m.ends["j"] = lambda pod: (3, "lost") if pod.metadata.uid in first and pod.metadata.name.endswith("-1") else None
    m.poke()


def start(m):
    m.create("ps", ps=1, worker=2)
    m.create("svc", ps=None, worker=2, intranet="Service", peerAuth="Token")
    m.create("host", ps=None, worker=2, intranet="Host")


def suspended(m):
    m.create("j", ps=1, worker=2, suspend=True)
    m.wait("j", "Suspended")


def suspend(m, on):
    m.patch("j", {"spec": {"suspend": on}})


def scale(m):
    for n, pause in ((4, .3), (1, .3), (3, 0)):
        m.patch("j", {"spec": {"worker": {"replicas": n}}})
        time.sleep(pause)


def again(m):
    m.delete("j")
    m.until(lambda: not m.job("j"), 10)
    m.create("j", ps=1, worker=2)


def lose_pods(m):
    """One deleted, one evicted, one stuck (its node is lost), released later."""
    core, ns, name = m.plane.core, m.ns, m.name("j")
    m.attempt(lambda: core.patch_namespaced_pod(f"{name}-worker-2", ns, {"metadata": {"finalizers": ["example.com/held"]}}))
    m.attempt(lambda: core.delete_namespaced_pod(f"{name}-worker-0", ns, grace_period_seconds=0))
    m.attempt(lambda: core.create_namespaced_pod_eviction(f"{name}-worker-1", ns, {"metadata": {"name": f"{name}-worker-1"}}))
    m.attempt(lambda: core.delete_namespaced_pod(f"{name}-worker-2", ns))
    time.sleep(1)


def remove_finalizer(m, pod="worker-2"):
    m.attempt(lambda: m.plane.core.patch_namespaced_pod(f"{m.name('j')}-{pod}", m.ns, {"metadata": {"finalizers": None}}))


def lose_node(m):
    """A pod is evicted by its kubelet, another one's node never reports again: its pod stays, Terminating."""
    core, ns, name = m.plane.core, m.ns, m.name("j")
    pods = {p.metadata.name: p.metadata.uid for p in m.call(lambda: core.list_namespaced_pod(ns)).items}
    m.attempt(lambda: core.patch_namespaced_pod(f"{name}-ps-0", ns, {"metadata": {
        "uid": pods[f"{name}-ps-0"], "finalizers": ["example.com/held"]}}))
    m.attempt(lambda: core.patch_namespaced_pod_status(f"{name}-worker-1", ns, {
        "metadata": {"uid": pods[f"{name}-worker-1"]}, "status": {
            "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}}))
    m.attempt(lambda: core.delete_namespaced_pod(f"{name}-ps-0", ns, body={"preconditions": {"uid": pods[f"{name}-ps-0"]}}))


def template(n, image="x"):
    return {"replicas": n, "template": {"spec": {"containers": [{"name": "paddle", "image": image}]}}}


def edit(m):
    """Every field, any value that the API server takes."""
    rng = m.rng
    fields = [
        lambda: {"ps": rng.choice([None, template(rng.randrange(3))])},
        lambda: {"worker": rng.choice([None, template(rng.randrange(4)), {"replicas": 1}])},
        lambda: {"heter": rng.choice([None, template(rng.randrange(2))])},
        lambda: {"worker": template(rng.randrange(4), rng.choice(["y", "", "z"]))},
        lambda: {"cleanPodPolicy": rng.choice(["Always", "Never", "OnFailure", "OnCompletion", "x", None])},
        lambda: {"intranet": rng.choice(["Service", "Host", "PodIP", "x", None])},
        lambda: {"withGloo": rng.choice([0, 1, 2, None])},
        lambda: {"successPolicy": rng.choice(["AllPods", "AllWorkers", None])},
        lambda: {"elastic": rng.choice([0, 1, None])},
        lambda: {"suspend": rng.choice([True, False, None])},
        lambda: {"backoffLimit": rng.choice([0, 5, None])},
        lambda: {"failurePolicy": rng.choice([[{"action": "Ignore", "exitCodes": "42"}], [], None])},
        lambda: {"activeDeadlineSeconds": rng.choice([3600, None])},
        lambda: {"ttlSecondsAfterFinished": rng.choice([0, 3600, None])},
        lambda: {"schedulingPolicy": rng.choice([{"queue": "q", "minAvailable": 1}, {}, None])},
        lambda: {"peerAuth": rng.choice(["Token", "Encrypted", "None", None])},
        lambda: {"priorityClassName": rng.choice(["nobody-made-it", None])},
    ]
    for _ in range(12):
        m.attempt(lambda: m.patch("j", {"spec": rng.choice(fields)()}))
        time.sleep(rng.random() * .2)
    m.patch("j", {"spec": {"ps": template(1), "worker": template(2), "heter": None, "intranet": None, "elastic": None,
                           "successPolicy": None, "withGloo": None, "cleanPodPolicy": None, "suspend": None,
                           "backoffLimit": None, "failurePolicy": None, "activeDeadlineSeconds": None,
                           "ttlSecondsAfterFinished": None, "schedulingPolicy": None, "priorityClassName": None, "peerAuth": None}})


def foreign(m):
    """All names that a job needs are taken by objects that are none of ours."""
    core, ns, name = m.plane.core, m.ns, m.name("j")
    m.attempt(lambda: core.create_namespaced_pod(ns, {"metadata": {"name": f"{name}-worker-0"},
                                                      "spec": {"containers": [{"name": "c", "image": "x"}]}}))
    m.attempt(lambda: core.create_namespaced_config_map(ns, {"metadata": {"name": name}, "data": {"whose": "mine"}}))
    m.attempt(lambda: core.create_namespaced_service(ns, {"metadata": {"name": f"{name}-worker-1"},
                                                          "spec": {"clusterIP": "None"}}))
    m.create("j", ps=None, worker=2, intranet="Service")


def still_foreign(m):
    core, ns, name = m.plane.core, m.ns, m.name("j")
    m.until(lambda: (m.job("j") or {}).get("status", {}).get("reason"), 30, "a reason why foreign-j does not run")
    assert core.read_namespaced_config_map(name, ns).data == {"whose": "mine"}
    assert core.read_namespaced_pod(f"{name}-worker-0", ns).metadata.owner_references is None
    core.delete_namespaced_pod(f"{name}-worker-0", ns, grace_period_seconds=0)
    core.delete_namespaced_config_map(name, ns)
    core.delete_namespaced_service(f"{name}-worker-1", ns)


GARBAGE = {
    "no-template": {"worker": {"replicas": 2}},
    "template-empty": {"worker": {"replicas": 1, "template": {}}},
    "containers-text": {"worker": {"replicas": 1, "template": {"spec": {"containers": "x"}}}},
    "containers-null": {"worker": {"replicas": 1, "template": {"spec": {"containers": [None, 7, "x"]}}}},
    "metadata-list": {"worker": {"replicas": 1, "template": {"metadata": ["a"], "spec": {"containers": [None]}}}},
    "env-10000": {"worker": {"replicas": 1, "template": {"spec": {"containers": [
        {"name": "c", "image": "", "env": [{"name": f"V{i}", "value": "x" * 20} for i in range(10000)]}]}}}},
    "nul": {"worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c\0", "image": "\0", "args": ["a\0b"]}]}}}},
    "odd-text": {"cleanPodPolicy": "\ud83d\ude00\u202e\u0007%s%n", "intranet": "../..\n", "worker": {"replicas": 1}},
    "numbers": {"worker": {"replicas": 2147483647, "x": [99999999999999999999, -10 ** 20, 1e300]}},
    "negative": {"worker": {"replicas": -1}},
    "nothing": {},
    "null": {"ps": None, "worker": None, "elastic": None},
}


def garbage(m):
    for kind, spec in GARBAGE.items():
        body = {"apiVersion": "/".join(GROUP), "kind": "PaddleJob", "metadata": {"name": m.name(kind)}, "spec": spec}
        m.attempt(lambda: m.plane.custom.create_namespaced_custom_object(*GROUP, m.ns, "paddlejobs", body), 400, 413, 422)
    large = {"apiVersion": "/".join(GROUP), "kind": "PaddleJob", "spec": {}, "metadata": {
        "name": m.name("large"), "annotations": {f"a{i}": "\u00e4" * 8000 for i in range(16)}}}
    m.attempt(lambda: m.plane.custom.create_namespaced_custom_object(*GROUP, m.ns, "paddlejobs", large), 400, 413, 422)
    m.create("good", ps=None, worker=2)


ROWS = {
    "start": Row(NOTHING, start, {"ps": "Running", "svc": "Running", "host": "Running"},
                 {"ps": ["ps-0", "worker-0", "worker-1"], "svc": ["worker-0", "worker-1"]}),
    "finish": Row(running("j", ps=1, worker=2), lambda m: end(m, "j"), {"j": "Completed"}, {"j": []}),
    "finish-many": Row(running("j", ps=None, worker=9), lambda m: end(m, "j"), {"j": "Completed"}, {"j": []}),
    "keep": Row(running("j", ps=None, worker=2, cleanPodPolicy="Never"), lambda m: end(m, "j"), {"j": "Completed"},
                {"j": ["worker-0", "worker-1"]}),
    "fail": Row(running("j", ps=None, worker=3, cleanPodPolicy="Always"),
                lambda m: end(m, "j", 37, "bad data in line 12", f"{m.name('j')}-worker-1"), {"j": "Failed"}, {"j": []},
                says="bad data in line 12"),
    "scale": Row(running("j", ps=None, worker=2), scale, {"j": "Running"}, {"j": ["worker-0", "worker-1", "worker-2"]}),
    "delete": Row(running("j", ps=1, worker=2, intranet="Service"), lambda m: m.delete("j"), {"j": None}),
    "delete-young": Row(NOTHING, lambda m: (m.create("j", ps=1, worker=4), m.delete("j")), {"j": None}),
    "again": Row(running("j", ps=1, worker=2), again, {"j": "Running"}, {"j": ["ps-0", "worker-0", "worker-1"]}),
    "pods-lost": Row(running("j", ps=None, worker=3), lose_pods, {"j": "Running"},
                     {"j": ["worker-0", "worker-1", "worker-2"]}, after=remove_finalizer),
    "edit": Row(running("j", ps=1, worker=2), edit, {"j": "Running"}, {"j": ["ps-0", "worker-0", "worker-1"]}),
    "restart": Row(running("j", ps=1, worker=2, backoffLimit=3), end_one, {"j": "Running"},
                   {"j": ["ps-0", "worker-0", "worker-1"]}, status={"restarts": 1, "attempt": 1}),
    "node-lost": Row(running("j", ps=1, worker=2, backoffLimit=0), lose_node, {"j": "Running"},
                     {"j": ["ps-0", "worker-0", "worker-1"]}, status={"restarts": 0, "attempt": 1}, after=lambda m: remove_finalizer(m, "ps-0")),
    "spent": Row(running("j", ps=None, worker=3, backoffLimit=0), lambda m: end(m, "j", 3, "lost", f"{m.name('j')}-worker-1"),
                 {"j": "Failed"}, {"j": ["worker-1"]}, says="lost"),
    "suspend": Row(running("j", ps=1, worker=2), lambda m: suspend(m, True), {"j": "Suspended"}, {"j": []}),
    "resume": Row(suspended, lambda m: suspend(m, False), {"j": "Running"}, {"j": ["ps-0", "worker-0", "worker-1"]}),
    "deadline": Row(NOTHING, lambda m: m.create("j", ps=None, worker=2, activeDeadlineSeconds=2), {"j": "Failed"}, {"j": []},
                    status={"reason": "DeadlineExceeded"}),
    "ttl": Row(running("j", ps=None, worker=2, ttlSecondsAfterFinished=1), lambda m: end(m, "j"), {"j": None}),
    "foreign": Row(NOTHING, foreign, {"j": "Running"}, {"j": ["worker-0", "worker-1"]}, after=still_foreign),
    "garbage": Row(NOTHING, garbage, {"good": "Running"}, {"good": ["worker-0", "worker-1"]}),
}
