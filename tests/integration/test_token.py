"""spec.peerAuth: Token: each job has a secret of its own, which its pods get and nobody else."""
import base64
import json

import pytest
import yaml
from kubernetes.client.rest import ApiException

from install import ACCOUNT, JOB_ROLE, kustomize
from proxy import Fault
from rig import GROUP, account_kubeconfig, fetch, wait_for

POSTED = "POST /api/v1/namespaces/{}/secrets"


def secrets(plane, ns):
    return [s for s in plane.core.list_namespaced_secret(ns).items if "-token-" in s.metadata.name]


def asked(proxy, ns):
    return [r for _, r in proxy.requests() if r == POSTED.format(ns)]


def reference(pod):
    """Where its first container has the token from: the name of the Secret and the key; None: it has none."""
    found = [e for e in pod.spec.containers[0].env if e.name == "PADDLE_JOB_TOKEN"]
    assert len(found) < 2 and not any(e.value for e in found)
    return (found[0].value_from.secret_key_ref.name, found[0].value_from.secret_key_ref.key) if found else None


def test_each_job_has_a_secret_that_only_its_pods_get(plane, operator, kubelet, ns, proxied_rig):
    proxy, config = proxied_rig
    o = operator("--log-level=debug", kubeconfig=config)
    uids = {n: plane.create(ns, n, ps=1, worker=2, peerAuth="Token")["metadata"]["uid"] for n in ("a", "b")}
    plane.create(ns, "plain", ps=1, worker=1)
    for name in (*uids, "plain"):
        plane.wait_phase(ns, name, "Running")
    plane.patch(ns, "a", {"spec": {"worker": {"replicas": 3}}})
    wait_for(lambda: plane.job(ns, "a")["status"].get("readyWorker") == "3/3")
    assert asked(proxy, ns) == [POSTED.format(ns)] * 3          # a, b, and a's third worker
    tokens = {}
    for s in secrets(plane, ns):
        (owner,) = s.metadata.owner_references
        name = owner.name
        assert s.metadata.name == f"{name}-token-{uids[name]}" and owner.uid == uids[name]
        assert owner.kind == "PaddleJob" and owner.controller and owner.block_owner_deletion
        assert s.immutable and list(s.data) == ["token"] and s.type == "Opaque"
        assert s.metadata.labels == {"paddle-res-name": name, "batch.paddlepaddle.org/job-name": name}
        tokens[name] = base64.b64decode(s.data["token"]).decode()
        assert len(base64.b64decode(tokens[name])) == 32
    assert tokens.keys() == uids.keys() and tokens["a"] != tokens["b"]
    pods = plane.pods(ns)
    assert len(pods) == 9
    for name, pod in pods.items():
        job = name.split("-")[0]
        assert reference(pod) == ((f"{job}-token-{uids[job]}", "token") if job in uids else None)
    plane.wait_event(ns, "Running")         # with what was done before
    exposed = {"log": o.text(), "events": json.dumps(plane.events(ns)), "metrics": fetch(o.metrics), "jobs": json.dumps(plane.jobs(ns)),
            "pods": json.dumps([p.to_dict() for p in plane.pods(ns).values()], default=str),
            "configmaps": json.dumps([c.to_dict() for c in plane.core.list_namespaced_config_map(ns).items], default=str)}
    for where, text in exposed.items():
        for token in tokens.values():
            assert token not in text and base64.b64encode(token.encode()).decode() not in text, where
    assert not [r for _, r in proxy.log if "/secrets" in r and not r.startswith("POST ")]
    plane.delete(ns, "a")
    wait_for(lambda: [s.metadata.name for s in secrets(plane, ns)] == [f"b-token-{uids['b']}"], why="it goes with its job")


@pytest.mark.parametrize("fault", ["none", "lose"])
def test_a_secret_that_is_there_already_is_the_jobs(plane, operator, kubelet, ns, proxied_rig, fault):
    """Made by an operator before this one, or by this one, which received no answer."""
    proxy, config = proxied_rig
    if fault == "lose":
        proxy.faults.append(Fault(POSTED.format(ns), "lose", times=1))
    o = operator(kubeconfig=config)
    plane.create(ns, "j", ps=None, worker=2, peerAuth="Token")
    plane.wait_phase(ns, "j", "Running")
    (made,) = secrets(plane, ns)
    o.kill()
    o.start()
    o.started()
    before = len(asked(proxy, ns))
    assert before == (2 if fault == "lose" else 1)
    uid = plane.pods(ns)["j-worker-1"].metadata.uid
    plane.core.delete_namespaced_pod("j-worker-1", ns, grace_period_seconds=0)
    wait_for(lambda: (p := plane.pods(ns).get("j-worker-1")) and p.metadata.uid != uid and p.status.phase == "Running")
    assert len(asked(proxy, ns)) == before + 1
    (found,) = secrets(plane, ns)
    assert found.metadata.uid == made.metadata.uid and found.data == made.data
    assert not [e for e in plane.events(ns) if e[0] in ("FailedCreate", "NameTaken")]


def test_no_secret_is_requested_without_a_pod_to_create(plane, operator, kubelet, ns, proxied_rig):
    proxy, config = proxied_rig
    o = operator(kubeconfig=config)
    plane.create(ns, "j", ps=None, worker=2, peerAuth="Token")
    plane.wait_phase(ns, "j", "Running")
    o.kill()
    o.start()
    o.started()
    plane.create(ns, "other", ps=None, worker=1)
    plane.wait_phase(ns, "other", "Running")
    assert len(asked(proxy, ns)) == 1


def test_a_deleted_secret_is_made_again_with_the_next_pod(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=None, worker=2, peerAuth="Token")
    plane.wait_phase(ns, "j", "Running")
    (old,) = secrets(plane, ns)
    plane.core.delete_namespaced_secret(old.metadata.name, ns)
    plane.core.delete_namespaced_pod("j-worker-1", ns, grace_period_seconds=0)
    new = wait_for(lambda: secrets(plane, ns))
    assert new[0].metadata.name == old.metadata.name and new[0].data != old.data


def test_an_operator_with_the_rights_of_before_says_what_it_lacks(plane, operator, kubelet, ns, tmp_path):
    objs = [o for o in kustomize("namespaced") if o["kind"] in ("ServiceAccount", "Role", "RoleBinding")]
    for o in objs:
        o["metadata"]["namespace"] = ns
        for s in o.get("subjects", []):
            s["namespace"] = ns
    (role,) = [o for o in objs if o["kind"] == "Role" and o["metadata"]["name"] == JOB_ROLE]
    (right,) = [r for r in role["rules"] if r["resources"] == ["secrets"]]
    assert right == {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
    role["rules"].remove(right)
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objs))
    operator(f"--namespace={ns}", kubeconfig=account_kubeconfig(plane, ns, ACCOUNT, tmp_path / "kubeconfig"))
    plane.create(ns, "j", ps=None, worker=1, peerAuth="Token")
    plane.create(ns, "plain", ps=None, worker=1)
    plane.wait_phase(ns, "plain", "Running")
    status = wait_for(lambda: (s := plane.job(ns, "j").get("status", {})).get("reason") and s)
    assert status["reason"] == "FailedCreate" and 'cannot create resource "secrets"' in status["message"]
    plane.wait_event(ns, "FailedCreate", "Secret j-token-", 'cannot create resource "secrets"')
    assert not [n for n in plane.pods(ns) if n.startswith("j-")]
    role["rules"].append(right)
    plane.kubectl("replace", "-f", "-", stdin=yaml.safe_dump(role))
    plane.wait_phase(ns, "j", "Running")


def test_the_users_own_token_is_left_alone(plane, operator, kubelet, ns):
    operator()
    own = {"name": "PADDLE_JOB_TOKEN", "value": "mine"}
    plane.custom.create_namespaced_custom_object(*GROUP, ns, "paddlejobs", {
        "apiVersion": "/".join(GROUP), "kind": "PaddleJob", "metadata": {"name": "j"}, "spec": {"peerAuth": "Token", "worker": {
            "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x", "env": [own]}]}}}}})
    plane.wait_phase(ns, "j", "Running")
    env = plane.pods(ns)["j-worker-0"].spec.containers[0].env
    assert [e.value for e in env if e.name == "PADDLE_JOB_TOKEN"] == ["mine"]


def test_an_unknown_value_of_peer_auth_is_reported(plane, operator, kubelet, ns):
    """As one whose CRD is newer than its operator."""
    operator()
    crd = yaml.safe_load(plane.kubectl("get", "crd", "paddlejobs.batch.paddlepaddle.org", "-o", "yaml"))
    field = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["peerAuth"]
    rules = field.pop("x-kubernetes-validations")
    patch = lambda value: plane.kubectl("patch", "crd", "paddlejobs.batch.paddlepaddle.org", "--type=json", "-p", json.dumps([
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/peerAuth", "value": value}]))

    def created():
        try:
            return plane.create(ns, "j", ps=None, worker=1, peerAuth="TLS")
        except ApiException as e:
            assert e.status == 422
            return None
    patch(field)
    try:
        wait_for(created)
        status = wait_for(lambda: (s := plane.job(ns, "j").get("status", {})).get("reason") and s)
    finally:
        plane.delete(ns, "j")
        patch({**field, "x-kubernetes-validations": rules})
    assert (status["reason"], status["message"]) == ("InvalidSpec", 'spec.peerAuth is "TLS": use None, Token or Encrypted')
    assert not plane.pods(ns) and not secrets(plane, ns)
