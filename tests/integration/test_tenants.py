"""What a tenant writes stays text, and stays in his namespace: not in another's, not in a path, not in a format, no secret in a log.
Nor does what he has much of keep the others waiting."""
import concurrent.futures
import json
import re
import signal
import time

import pytest
import yaml

from rig import GROUP, fetch, stand_still, wait_for

SECRET, TOKEN = "hunter2-of-the-tenant", "token-of-the-operator"
ODD = ["%s%s%n%n", "../../../../api/v1/namespaces/kube-system/secrets", "a\nlevel=error msg=forged", "\u202e\u0007\x1b[31m", "x" * 3000]
NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
# All that the operator has any business to ask for.
PATH = re.compile(rf"(GET|POST|PATCH|PUT|DELETE) /(api/v1|apis/[a-z0-9.]+/v[0-9a-z]+)(/namespaces/{NAME})?/[a-z]+(/{NAME})?(/status)?(\?[-A-Za-z0-9=&%._~]*)?"
                  r"|GET /(version|apis?)(/[a-z0-9./]+)?")


def owned(name, job, uid, **labels):
    """A pod that says that it is the job's."""
    return {"metadata": {"name": name, "labels": {"paddle-res-name": name, "paddle-res-type": "worker", **labels},
                         "ownerReferences": [{"apiVersion": "/".join(GROUP), "kind": "PaddleJob", "name": job, "uid": uid,
                                              "controller": True}]},
            "spec": {"containers": [{"name": "c", "image": "x"}]}}


@pytest.fixture
def other(plane, ns):
    yield plane.namespace(f"{ns}-b")
    plane.core.delete_namespace(f"{ns}-b", grace_period_seconds=0)


def test_a_foreign_pod_that_claims_our_job_from_another_namespace_is_left_alone(plane, operator, kubelet, ns, other, proxied_rig):
    """Owner references name no namespace: this one has the job's name and uid."""
    proxy, config = proxied_rig
    operator(kubeconfig=config)
    uid = plane.create(ns, "j", ps=None, worker=2, cleanPodPolicy="Always")["metadata"]["uid"]
    plane.wait_phase(ns, "j", "Running")
    plane.core.create_namespaced_pod(other, owned("j-worker-7", "j", uid))      # beyond the replicas, were it the job's
    plane.core.create_namespaced_pod(other, owned("j-worker-0", "j", uid))
    plane.patch(ns, "j", {"spec": {"worker": {"replicas": 1}}})
    wait_for(lambda: sorted(plane.pods(ns)) == ["j-worker-0"])
    kubelet.finish = lambda p: (0, "")
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Completed")
    time.sleep(.5)
    assert [r for _, r in proxy.log if f"/namespaces/{other}/" in r] == []


def test_odd_owners_and_statuses_are_only_text(plane, operator, kubelet, ns, proxied_rig):
    proxy, config = proxied_rig
    o = operator("--log-level=debug", kubeconfig=config)
    for i, text in enumerate(ODD):
        name = text.replace("\n", " ")[:200] or "x"
        plane.core.create_namespaced_pod(ns, owned(f"odd-{i}", name, "00000000-0000-0000-0000-00000000000" + str(i)))
        plane.create(ns, f"j{i}", ps=None, worker=1, intranet=text, cleanPodPolicy=text)
        plane.custom.patch_namespaced_custom_object_status(*GROUP, ns, "paddlejobs", f"j{i}", {"status": {
            "reason": text, "message": text, "startTime": "1970-01-01T00:00:00Z",
            "worker": {"refs": [{"name": text, "namespace": text, "uid": text}]},
            "conditions": [{"type": "Running", "status": "True", "reason": "X", "message": text,
                            "lastTransitionTime": "1970-01-01T00:00:00Z"}]}})
    plane.create(ns, "good", ps=1, worker=1)
    plane.wait_phase(ns, "good", "Running")
    for i in range(len(ODD)):
        wait_for(lambda: plane.job(ns, f"j{i}")["status"].get("mode"), why=f"j{i}")
    strange = [r for _, r in proxy.log if not PATH.fullmatch(r)]
    assert not strange, strange
    forged = [line for line in o.text().splitlines() if not line.startswith("time=") or "\x1b" in line]
    assert not forged, forged[:3]
    assert o.p.poll() is None


def test_no_secret_in_a_log_an_event_a_status_or_a_metric(plane, operator, kubelet, ns, proxied_rig):
    """The most talkative log, with requests that fail in all ways; the operator signs in with a token."""
    proxy, config = proxied_rig
    with open(config) as f:
        body = yaml.safe_load(f)
    body["users"][0]["user"] = {"token": TOKEN}
    with open(config, "w") as f:
        yaml.safe_dump(body, f)
    o = operator("--log-level=debug", kubeconfig=config)
    template = {"spec": {"containers": [{"name": "paddle", "image": "x", "args": ["--password", SECRET],
                                         "env": [{"name": "PASSWORD", "value": SECRET}]}]}}
    for name, image in (("good", "x"), ("bad", "")):        # the API server refuses the second one's pods
        template["spec"]["containers"][0]["image"] = image
        plane.custom.create_namespaced_custom_object(*GROUP, ns, "paddlejobs", {
            "apiVersion": "/".join(GROUP), "kind": "PaddleJob", "metadata": {"name": name, "annotations": {"note": SECRET}},
            "spec": {"worker": {"replicas": 1, "template": template}}})
    plane.wait_phase(ns, "good", "Running")
    # The templates that an attempt began with are the spec's own text, for those who may read ConfigMaps and pods.
    assert SECRET in json.dumps(plane.core.read_namespaced_config_map("good", ns).metadata.annotations)
    wait_for(lambda: plane.job(ns, "bad").get("status", {}).get("message"))
    kubelet.finish = lambda p: (3, "it failed")
    kubelet.look(ns)
    plane.wait_phase(ns, "good", "Failed")
    exposed = {"log": o.text(), "events": json.dumps(plane.events(ns)), "metrics": fetch(o.metrics),
            "status": json.dumps([j.get("status") for j in plane.jobs(ns)])}
    for where, text in exposed.items():
        assert SECRET not in text and TOKEN not in text, where
    assert any(SECRET in json.dumps(p.to_dict(), default=str) for p in plane.pods(ns).values()), "the test planted nothing"


def test_many_jobs_of_a_namespace_do_not_delay_the_job_of_another(plane, operator, kubelet, ns, other):
    """The operator stands still until all of them have been created, so that it sees them at once, the other's last."""
    crowd, pods = [f"crowd-{i}" for i in range(300)], ["late-ps-0", "late-worker-0"]
    kubelet.hold = {*(f"{name}-worker-0" for name in crowd), *pods}       # so that a pod's version is that of its creation
    o = operator()
    plane.create(ns, "first", ps=None)
    plane.wait_phase(ns, "first", "Running")
    stand_still(o.p)
    try:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: plane.create(ns, name, ps=None), crowd))
        plane.create(other, "late")
    finally:
        o.p.send_signal(signal.SIGCONT)
    wait_for(lambda: len(plane.pods(ns)) == len(crowd) + 1 and len(plane.pods(other)) == len(pods))
    late = max(int(p.metadata.resource_version) for p in plane.pods(other).values())
    before = sum(int(p.metadata.resource_version) < late for name, p in plane.pods(ns).items() if name.startswith("crowd"))
    assert before < len(crowd) / 2, f"{before} of {len(crowd)} pods were created before"
    plane.delete(other, "late")
