"""Taking over from upstream's operator.

testdata/upstream-0.3.5.json is what upstream, run for it, had in a cluster at one moment: jobs in all modes, running, ended
and half made, with their finalizers, pods, Services without labels and ConfigMaps, and its lock.  The objects are made
again here with the owner references that upstream gives them; from then on the operator is on its own.
"""
import json
import pathlib

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from rig import GROUP, wait_for

LEFT = json.loads((pathlib.Path(__file__).parent / "testdata/upstream-0.3.5.json").read_text())
RUNNING = [j["metadata"]["name"] for j in LEFT["jobs"] if j["status"]["phase"] == "Running"]
ENDED = {j["metadata"]["name"]: j["status"]["phase"] for j in LEFT["jobs"] if j["status"]["phase"] in ("Completed", "Failed")}
HALF = "waits"                      # its last pod has no address yet
SECONDS = 8                         # of its lease, 15 in truth


def restore(plane, kubelet, ns, without=(), only=None):
    """Makes what upstream left (only: of that job); names in `without` it had not come to yet."""
    kubelet.hold |= {p["metadata"]["name"] for j in LEFT["jobs"] for p in j["pods"]}     # addresses are upstream's
    for j in LEFT["jobs"]:
        if only and j["metadata"]["name"] != only:
            continue
        body = {"apiVersion": "/".join(GROUP), "kind": "PaddleJob", "metadata": j["metadata"], "spec": j["spec"]}
        made = plane.custom.create_namespaced_custom_object(*GROUP, ns, "paddlejobs", body)
        plane.custom.patch_namespaced_custom_object_status(*GROUP, ns, "paddlejobs", j["metadata"]["name"],
                                                           {"status": j["status"]})
        owner = {"apiVersion": "/".join(GROUP), "kind": "PaddleJob", "name": j["metadata"]["name"],
                 "uid": made["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}

        def owned(o, **more):
            return {"metadata": {**o["metadata"], "ownerReferences": [owner]}, **more}
        for p in j["pods"]:
            if f"pod {p['metadata']['name']}" in without:
                continue
            plane.core.create_namespaced_pod(ns, owned(p, spec=p["spec"]))
            plane.core.patch_namespaced_pod_status(p["metadata"]["name"], ns, {"status": p["status"]})
        for s in j["services"]:
            if f"service {s['metadata']['name']}" not in without:
                plane.core.create_namespaced_service(ns, owned(s, spec={**s["spec"], "ports": LEFT["servicePorts"]}))
        for c in j["configmaps"]:
            plane.core.create_namespaced_config_map(ns, owned(c, data=c["data"]))


def lock_of_upstream(plane, ns):
    lock = json.loads(json.dumps(LEFT["lock"]))
    note = lock["configmap"]["metadata"]["annotations"]
    (key,) = note
    note[key] = json.dumps(json.loads(note[key]) | {"leaseDurationSeconds": SECONDS})
    lock["lease"]["spec"]["leaseDurationSeconds"] = SECONDS
    plane.core.create_namespaced_config_map(ns, lock["configmap"])
    client.CoordinationV1Api().create_namespaced_lease(ns, lock["lease"])
    return json.loads(note[key])["holderIdentity"]


def versions(plane, ns):
    """resourceVersion of everything that a job has."""
    objs = [*plane.core.list_namespaced_pod(ns).items, *plane.core.list_namespaced_service(ns).items,
            *(c for c in plane.core.list_namespaced_config_map(ns).items if c.metadata.owner_references)]
    return ({f"{type(o).__name__} {o.metadata.name}": o.metadata.resource_version for o in objs}
            | {j["metadata"]["name"]: j["metadata"]["resourceVersion"] for j in plane.jobs(ns)})


@pytest.fixture
def upstream(plane, kubelet, ns):
    """Its objects in place, and a function that starts ours beside its lock and waits until ours leads."""
    def take_over(operator, without=()):
        restore(plane, kubelet, ns, without)
        holder = lock_of_upstream(plane, ns)
        before = versions(plane, ns)
        o = operator("--leader-elect", f"--leader-elect-namespace={ns}", f"--namespace={ns}")
        wait_for(lambda: "in sync" in o.text() and f"holder={holder}" in o.text(), why=o.text)
        assert versions(plane, ns) == before and "msg=leading" not in o.text()
        # Its ConfigMap and its Lease run out together, not one after the other.
        wait_for(lambda: "msg=leading" in o.text(), SECONDS + 6, o.text)
        return o
    yield take_over
    kubelet.hold = set()


def finish_deletions(plane, kubelet, ns):
    kubelet.hold = set()
    kubelet.look(ns)


def test_running_jobs_are_left_alone(plane, operator, kubelet, ns, upstream):
    o = upstream(operator)
    wait_for(lambda: not any(j["metadata"].get("finalizers") for j in plane.jobs(ns)), why=o.text)
    wait_for(lambda: all("conditions" in j["status"] for j in plane.jobs(ns)), why=o.text)
    for name in RUNNING:
        assert plane.phase(ns, name) == "Running", plane.job(ns, name)["status"]
        conditions = {c["type"]: c["status"] for c in plane.job(ns, name)["status"]["conditions"]}
        assert conditions["Running"] == "True" and "Blocked" not in conditions, conditions
    for name, phase in ENDED.items():
        assert plane.phase(ns, name) == phase
    # What it published stays, whatever it was: containers that start again must read what their peers have read.
    for j in LEFT["jobs"]:
        for c in j["configmaps"]:
            assert plane.core.read_namespaced_config_map(c["metadata"]["name"], ns).data == c["data"]
    left = {p["metadata"]["name"] for j in LEFT["jobs"] for p in j["pods"]}
    assert set(plane.pods(ns)) == left and not kubelet.twice(ns)
    assert not [p for p in plane.pods(ns).values() if p.metadata.deletion_timestamp]
    assert "level=warn" not in o.text() and "level=error" not in o.text(), o.text()

    finish_deletions(plane, kubelet, ns)
    plane.wait_phase(ns, HALF, "Running")
    kubelet.finish = lambda pod: (0, "")
    kubelet.look(ns)
    for name in [*RUNNING, HALF]:
        plane.wait_phase(ns, name, "Completed")
    assert not kubelet.twice(ns)


def test_half_created_jobs_of_upstream_are_completed(plane, operator, kubelet, ns, upstream):
    """Pods that upstream has ask for names wait for Services that it never came to make."""
    without = {f"pod {HALF}-worker-1", f"service {HALF}-worker-0", f"service {HALF}-worker-1"}
    upstream(operator, without)
    # Wanted by no mode of ours; the one that is there is taken over and is not made twice.
    names = [f"{HALF}-ps-0", f"{HALF}-worker-0", f"{HALF}-worker-1"]

    def labelled():
        have = {s.metadata.name: s.metadata.labels or {} for s in plane.core.list_namespaced_service(ns).items}
        return all(have.get(n, {}).get("paddle-res-name") == n for n in names)
    wait_for(labelled, why=lambda: str(plane.core.list_namespaced_service(ns)))
    wait_for(lambda: f"{HALF}-worker-1" in plane.pods(ns))
    finish_deletions(plane, kubelet, ns)
    plane.wait_phase(ns, HALF, "Running")
    assert not kubelet.twice(ns)


def test_a_deleted_job_of_upstream_goes_with_all_that_it_had(plane, operator, kubelet, ns, upstream):
    upstream(operator)
    plane.delete(ns, "service")
    kubelet.hold = set()

    def left():
        names = [p for p in plane.pods(ns) if p.startswith("service-")]
        return names + [s.metadata.name for s in plane.core.list_namespaced_service(ns).items
                        if s.metadata.name.startswith("service-")]
    wait_for(lambda: not left(), why=lambda: str(left()))
    with pytest.raises(ApiException):
        plane.job(ns, "service")
