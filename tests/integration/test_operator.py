"""The operator against a real API server: what a user does, and what must not happen."""
import json
import time

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from rig import fetch, wait_for


def done(pod):
    """Workers end at once, servers when asked."""
    return (0, "") if pod.metadata.labels.get("paddle-res-type") != "ps" else None


def refs(pods, ns):
    return {name: p.metadata.uid for name, p in pods.items()}


def test_ps_job_from_create_to_completed(plane, operator, kubelet, ns):
    operator("--server-grace=1s")
    plane.create(ns, "j", ps=2, worker=2, withGloo=1)
    plane.wait_phase(ns, "j", "Running")
    pods = plane.pods(ns)
    assert sorted(pods) == ["j-ps-0", "j-ps-1", "j-worker-0", "j-worker-1"]
    data = plane.core.read_namespaced_config_map("j", ns).data
    port = data["PADDLE_PORT"]
    assert data["PADDLE_PSERVERS_IP_PORT_LIST"] == ",".join(f"{pods[f'j-ps-{i}'].status.pod_ip}:{port}" for i in (0, 1))
    assert data["PADDLE_TRAINERS"] == ",".join(pods[f"j-worker-{i}"].status.pod_ip for i in (0, 1))
    assert data["PADDLE_TRAINERS_NUM"] == "2" and data["TRAINER_PORTS_NUM"] == "20"
    assert data["PADDLE_GLOO_HTTP_ENDPOINT"] == f"{pods['j-ps-0'].status.pod_ip}:{int(port) + 18}"
    kubelet.finish = done
    kubelet.look(ns)
    status = plane.wait_phase(ns, "j", "Completed")
    assert status["startTime"] and status["completionTime"] and status["mode"] == "PS"
    assert status["observedGeneration"] == 1
    assert {c["type"]: c["status"] for c in status["conditions"]}["Succeeded"] == "True"
    wait_for(lambda: not plane.pods(ns), why="pods cleaned")
    assert status["worker"]["succeeded"] == 2
    assert plane.job(ns, "j")["status"]["worker"]["succeeded"] == 2
    plane.kubectl("-n", ns, "wait", "--for=condition=Succeeded", "pdj/j", "--timeout=30s")
    assert not kubelet.twice(ns)


@pytest.mark.parametrize("form", ["vnd.kubernetes.protobuf", "json"])
def test_first_failure_is_named(plane, operator, kubelet, ns, form):
    operator(f"--kube-api-content-type=application/{form}")
    kubelet.finish = lambda p: (37, "lost\nbad data in line 12") if p.metadata.name == "j-worker-1" else None
    plane.create(ns, "j", ps=1, worker=2)
    status = plane.wait_phase(ns, "j", "Failed")
    for part in ("j-worker-1", "paddle", "37", "bad data in line 12"):
        assert part in status["message"], status["message"]
    plane.wait_event(ns, "Failed", "37")


@pytest.mark.parametrize("policy,phase,kept", [
    ("Always", "Completed", False), ("Never", "Completed", True), ("OnFailure", "Completed", True),
    ("OnCompletion", "Completed", False), (None, "Completed", False), ("OnFailed", "Completed", True),
    ("Always", "Failed", False), ("Never", "Failed", True), ("OnFailure", "Failed", False),
    ("OnCompletion", "Failed", True), (None, "Failed", True), ("OnFailed", "Failed", True),
])
def test_clean_pod_policy(plane, operator, kubelet, ns, policy, phase, kept):
    operator()
    kubelet.finish = lambda p: (0 if phase == "Completed" else 1, "")
    plane.create(ns, "j", ps=None, worker=2, **({"cleanPodPolicy": policy} if policy else {}))
    plane.wait_phase(ns, "j", phase)
    if kept:
        time.sleep(0.5)
        assert len(plane.pods(ns)) == 2
    else:
        wait_for(lambda: not plane.pods(ns), why="pods cleaned")


def test_service_mode_publishes_names_at_once(plane, operator, kubelet, ns):
    operator()
    kubelet.hold = {"j-ps-0", "j-worker-0"}
    plane.create(ns, "j", intranet="Service", withGloo=1)
    data = wait_for(lambda: configmap(plane, ns, "j")).data
    assert data["PADDLE_PSERVERS_IP_PORT_LIST"] == "j-ps-0:36000" and data["PADDLE_PORT"] == "36000"
    assert data["PADDLE_GLOO_HTTP_ENDPOINT"] == "j-ps-0:36018"
    services = wait_for(lambda: (lambda found: len(found) == 2 and found)(plane.core.list_namespaced_service(ns).items))
    assert sorted(s.metadata.name for s in services) == ["j-ps-0", "j-worker-0"]
    assert services[0].spec.cluster_ip == "None" and services[0].spec.publish_not_ready_addresses
    assert [(p.name, p.port) for p in services[0].spec.ports] == [(f"p-{i}", 36000 + i) for i in range(20)]


def configmap(plane, ns, name):
    try:
        return plane.core.read_namespaced_config_map(name, ns)
    except ApiException:
        return None


def test_scaling_and_deleted_pods(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=2)
    plane.wait_phase(ns, "j", "Running")
    plane.patch(ns, "j", {"spec": {"worker": {"replicas": 3}}})
    wait_for(lambda: "j-worker-2" in plane.pods(ns))
    wait_for(lambda: configmap(plane, ns, "j").data["PADDLE_TRAINERS_NUM"] == "3")
    plane.wait_phase(ns, "j", "Running")
    plane.patch(ns, "j", {"spec": {"worker": {"replicas": 1}}})
    wait_for(lambda: sorted(plane.pods(ns)) == ["j-ps-0", "j-worker-0"], why=lambda: sorted(plane.pods(ns)))
    before = plane.pods(ns)["j-worker-0"].metadata.uid
    plane.core.delete_namespaced_pod("j-worker-0", ns, grace_period_seconds=0)
    wait_for(lambda: (lambda pod: pod and pod.metadata.uid != before)(plane.pods(ns).get("j-worker-0")))
    plane.wait_phase(ns, "j", "Running")


def test_replicas_zero(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=0, worker=1)
    plane.wait_phase(ns, "j", "Running")
    kubelet.finish = done
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Completed")


@pytest.mark.parametrize("phase", ["Pending", "Running", "Completed"])
def test_deleted_job_leaves_nothing(plane, operator, kubelet, ns, phase):
    operator()
    if phase == "Pending":
        kubelet.hold = {"j-worker-0"}
    if phase == "Completed":
        kubelet.finish = done
    plane.create(ns, "j", ps=None, worker=1, cleanPodPolicy="Never")
    plane.wait_phase(ns, "j", phase)
    created = wait_for(lambda: kubelet.seen(ns))
    plane.delete(ns, "j")
    wait_for(lambda: not plane.pods(ns) and not plane.jobs(ns), why="pods gone")
    assert kubelet.seen(ns) == created


def test_upstreams_finalizer_is_removed(plane, operator, kubelet, ns):
    plane.create(ns, "j", ps=None, worker=1)
    plane.patch(ns, "j", {"metadata": {"finalizers": ["finalizers.paddlepaddle.org"]}})
    plane.delete(ns, "j")
    operator()
    wait_for(lambda: not plane.jobs(ns))


def test_quota_is_shown_and_waited_for(plane, operator, kubelet, ns):
    plane.core.create_namespaced_resource_quota(ns, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    wait_for(lambda: plane.core.read_namespaced_resource_quota("q", ns).status.hard)
    operator()
    plane.create(ns, "j", ps=1, worker=2)
    status = wait_for(lambda: (lambda s: s if "quota" in json.dumps(s.get("conditions", "")) else None)(
        plane.job(ns, "j").get("status", {})), why=lambda: plane.job(ns, "j").get("status"))
    assert status["reason"]
    wait_for(lambda: plane.job(ns, "j")["status"]["reason"] in plane.kubectl("-n", ns, "get", "pdj", "-o", "wide"))
    plane.wait_event(ns, "FailedCreate", "exceeded quota")

    def counted():      # the retry of one pod, and then of another, is one event that is counted
        return [e for e in plane.core.list_namespaced_event(ns).items if e.reason == "FailedCreate" and e.count > 1]
    wait_for(counted, why=lambda: plane.events(ns))
    plane.core.patch_namespaced_resource_quota("q", ns, {"spec": {"hard": {"pods": "10"}}})
    plane.wait_phase(ns, "j", "Running", 60)


def test_a_missing_account_is_shown_and_waited_for(plane, operator, kubelet, ns):
    operator()
    template = {"spec": {"serviceAccountName": "trainer", "containers": [{"name": "paddle", "image": "x"}]}}
    plane.create(ns, "j", ps=None, worker=None, heter={"replicas": 1, "template": template})
    wait_for(lambda: 'serviceaccount "trainer" not found' in (plane.job(ns, "j").get("status") or {}).get("message", ""),
             why=lambda: plane.job(ns, "j").get("status"))
    plane.wait_event(ns, "FailedCreate", 'serviceaccount "trainer" not found')
    plane.core.create_namespaced_service_account(ns, {"metadata": {"name": "trainer"}})
    plane.wait_phase(ns, "j", "Running")


def test_a_silent_webhook_is_reported_and_waited_for(plane, operator, kubelet, ns):
    admission = client.AdmissionregistrationV1Api(plane.core.api_client)
    admission.create_mutating_webhook_configuration({"metadata": {"name": ns}, "webhooks": [{
        "name": "sidecars.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]}]})

    def refuses():
        try:
            plane.core.create_namespaced_pod(ns, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
                                             dry_run="All")
        except ApiException as e:
            return "sidecars.example.com" in e.body
    try:
        wait_for(refuses)
        operator()
        plane.create(ns, "j", ps=None, worker=2)
        wait_for(lambda: "sidecars.example.com" in (plane.job(ns, "j").get("status") or {}).get("message", ""),
                 why=lambda: plane.job(ns, "j").get("status"))
    finally:
        admission.delete_mutating_webhook_configuration(ns)
    plane.wait_phase(ns, "j", "Running")


def test_bad_template_is_a_condition(plane, operator, kubelet, ns):
    o = operator()
    plane.custom.create_namespaced_custom_object("batch.paddlepaddle.org", "v1", ns, "paddlejobs", {
        "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "none"},
        "spec": {"worker": {"replicas": 1}}})
    plane.create(ns, "bad", ps=None, worker=1, image="")     # the API server refuses the pod
    for name in ("none", "bad"):
        wait_for(lambda: "conditions" in plane.job(ns, name).get("status", {}) and plane.job(ns, name)["status"].get("message"),
                 why=lambda: plane.job(ns, name).get("status"))
    assert "template" in plane.job(ns, "none")["status"]["message"]
    assert o.p.poll() is None


def test_warnings_of_the_api_server_are_events(plane, operator, kubelet, ns):
    """A misspelled field is dropped and the pod made without it: who looks for the probe finds why it is not there."""
    plane.core.patch_namespace(ns, {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "baseline"}}})
    operator()
    container = {"name": "paddle", "image": "x"}
    plane.custom.create_namespaced_custom_object("batch.paddlepaddle.org", "v1", ns, "paddlejobs", {
        "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j"},
        "spec": {"ps": {"replicas": 1, "template": {"spec": {"hostPID": True, "containers": [container]}}},
                 "worker": {"replicas": 2, "template": {"spec": {"containers": [{**container, "readynessProbe": {}}]}}}}})
    message = plane.wait_event(ns, "CreateWarned", "Pod j-ps-*: would violate PodSecurity", "(hostPID=true)")
    assert message.endswith('; Pod j-worker-*: unknown field "spec.containers[0].readynessProbe"'), message
    plane.wait_phase(ns, "j", "Running")


def test_foreign_pod_of_our_name_is_not_adopted(plane, operator, kubelet, ns):
    kubelet.hold = {"j-worker-0"}
    plane.core.create_namespaced_pod(ns, {"metadata": {"name": "j-worker-0"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    operator()
    plane.create(ns, "j", ps=None, worker=1)
    wait_for(lambda: "j-worker-0" in plane.job(ns, "j").get("status", {}).get("message", ""),
             why=lambda: plane.job(ns, "j").get("status"))
    assert plane.core.read_namespaced_pod("j-worker-0", ns).metadata.owner_references is None
    plane.core.delete_namespaced_pod("j-worker-0", ns, grace_period_seconds=0)
    kubelet.hold = set()
    plane.wait_phase(ns, "j", "Running", 60)


def test_nothing_happens_when_nothing_changes(plane, operator, kubelet, ns, proxied_rig):
    proxy, config = proxied_rig
    operator(kubeconfig=config)
    for i in range(5):
        plane.create(ns, f"j{i}", ps=1, worker=2)
    for i in range(5):
        plane.wait_phase(ns, f"j{i}", "Running")
    wait_for(lambda: sum(r == "Running" for r, _ in plane.events(ns)) == 5, 80, lambda: plane.events(ns))  # the last event
    start = time.monotonic()
    time.sleep(3)
    assert proxy.requests(since=start) == []
    # A pod's resourceVersion is no change of a job.
    plane.core.patch_namespaced_pod("j0-worker-0", ns, {"metadata": {"annotations": {"a": "b"}}})
    time.sleep(1)
    assert proxy.requests(since=start) == []


def test_requests_of_a_job(plane, operator, kubelet, ns, proxied_rig):
    proxy, config = proxied_rig
    operator(kubeconfig=config)
    start = time.monotonic()
    plane.create(ns, "j", ps=2, worker=2)
    plane.wait_phase(ns, "j", "Running")
    time.sleep(1.5)
    made = [r for _, r in proxy.requests(since=start) if f"/{ns}/" in r]
    took = time.monotonic() - start                 # the pods may take long: counters are written every 2 s, good news every 5 s
    print("\n".join(made))
    statuses = len([r for r in made if "/status" in r])
    assert len([r for r in made if r.startswith("POST") and "/pods" in r]) == 4
    assert len([r for r in made if "/configmaps" in r]) == 1
    assert statuses <= max(4, 3 + took // 2)
    plane.wait_event(ns, "Running")
    events = plane.events(ns)
    gathered = 1 + (time.monotonic() - start) // 5
    assert len(events) <= max(2, gathered), events
    assert all(any(word in m for _, m in events) for word in ("created 4 Pods", "created ConfigMap j", "all 4 pods are running")), events
    assert len(made) - statuses <= 8 + max(2, gathered)


def test_two_operators_one_leader(plane, operator, kubelet, ns):
    plane.core.create_namespace({"metadata": {"name": f"{ns}-lock"}})
    flags = ["--leader-elect", f"--leader-elect-namespace={ns}-lock"]
    a = operator(*flags)
    wait_for(lambda: "msg=leading" in a.text())
    b = operator(*flags)
    wait_for(lambda: "waiting for the lease" in b.text())
    plane.create(ns, "j", ps=1, worker=1)
    plane.wait_phase(ns, "j", "Running")
    holder = lambda: client.CoordinationV1Api().read_namespaced_lease("b2a304f2.paddlepaddle.org", f"{ns}-lock").spec.holder_identity
    before = holder()
    assert a.stop() == 0
    assert holder() != before                       # released, and not expired
    wait_for(lambda: "msg=leading" in b.text())
    plane.create(ns, "k", ps=1, worker=1)
    plane.wait_phase(ns, "k", "Running")
    assert not kubelet.twice(ns)
    plane.core.delete_namespace(f"{ns}-lock")


# As paddle-operator 0.3.5 takes them: with one dash or two, the value behind "=" or a space.
FLAGS_OF_BEFORE = ("-zap-devel=false", "--zap-encoder=console", "--zap-log-level", "2", "--zap-stacktrace-level=error",
                   "--zap-time-encoding=iso8601", "-etcd-server", "http://etcd:2379", "--scheduling=", "--initImage=")


def test_probes_and_metrics(plane, operator, ns):
    o = operator(*FLAGS_OF_BEFORE)
    wait_for(lambda: ready(o), why="readyz")
    assert fetch(o.health, "/healthz") == "ok" and fetch(o.health, "/readyz/check") == "ok"
    assert fetch(o.health, "/healthz/health") == "ok"
    text = fetch(o.metrics)
    for name in ("controller_runtime_reconcile_total", "rest_client_requests_total",
                 "rest_client_request_duration_seconds_bucket", "process_resident_memory_bytes"):
        assert name in text
    assert o.stop() == 0


def ready(o):
    try:
        return fetch(o.health, "/readyz")
    except OSError:
        return False


def test_host_mode_and_heter(plane, operator, kubelet, ns):
    """Two jobs on the network of their nodes get ports apart; heterogeneous trainers are published, too."""
    operator()
    heter = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    for name in ("a", "b"):
        plane.create(ns, name, ps=1, worker=1, intranet="Host", heter=heter, withGloo=1)
    for name in ("a", "b"):
        plane.wait_phase(ns, name, "Running")
    pods = plane.pods(ns)
    assert all(p.spec.host_network for p in pods.values()) and len(pods) == 6
    data = {name: configmap(plane, ns, name).data for name in ("a", "b")}
    assert data["a"]["PADDLE_PORT"] != data["b"]["PADDLE_PORT"]
    for name, d in data.items():
        end = lambda role: f"{pods[f'{name}-{role}-0'].status.pod_ip}:{d['PADDLE_PORT']}"
        assert d["PADDLE_HETER_ENDPOINTS"] == end("heter")
        assert d["PADDLE_PSERVERS_IP_PORT_LIST"] == end("ps") and d["PADDLE_TRAINER_ENDPOINTS"] == end("worker")
        env = {e.name: e.value for e in pods[f"{name}-heter-0"].spec.containers[0].env}
        assert env["TRAINING_ROLE"] == "HETER" and env["PADDLE_TRAINER_ID"] == "0"
    status = plane.job(ns, "a")["status"]
    assert status["readyHeter"] == "1/1" and status["heter"]["running"] == 1


def test_single_and_collective_modes(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "one", ps=None, worker=1)
    plane.create(ns, "many", ps=None, worker=2)
    plane.wait_phase(ns, "one", "Running")
    plane.wait_phase(ns, "many", "Running")
    assert plane.job(ns, "one")["status"]["mode"] == "Single"
    assert plane.job(ns, "many")["status"]["mode"] == "Collective"
    table = plane.kubectl("-n", ns, "get", "pdj")
    assert table.splitlines()[0].split() == ["NAME", "STATUS", "MODE", "AGE"]
