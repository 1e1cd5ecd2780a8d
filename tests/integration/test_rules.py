"""Jobs in namespaces with rules of their own, of a real API server: who containers run as, LimitRanges, quotas."""
import json

import pytest

from ports import free_port
from rig import GROUP, wait_for

USERS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NS}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: "(object.spec.containers + object.spec.?initContainers.orValue([])).all(c,
      c.?securityContext.?runAsUser.orValue(1000680000) >= 1000680000)"
    messageExpression: "'users below 1000680000: ' + (object.spec.containers + object.spec.?initContainers.orValue([])).filter(c,
      c.?securityContext.?runAsUser.orValue(1000680000) < 1000680000).map(c, c.name).join(' ')"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NS}
spec:
  policyName: NS
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}}
"""


@pytest.fixture
def gated(operator, ns):
    """Starts an operator of this namespace, whose pods have the start gate."""
    def start(*flags):
        return operator(f"--namespace={ns}", "--initImage=registry/gate:1", f"--gate-bind-address=127.0.0.1:{free_port()}",
                        "--gate-address=10.0.0.1:8082", *flags)
    return start


@pytest.fixture
def users(plane, ns):
    """A policy that prescribes users, in force."""
    plane.kubectl("apply", "-f", "-", stdin=USERS.replace("NS", ns))
    root = {"metadata": {"name": "root"}, "spec": {"containers": [{"name": "c", "image": "x", "securityContext": {"runAsUser": 0}}]}}

    def refused():
        try:
            plane.core.create_namespaced_pod(ns, root, dry_run="All")
        except Exception as e:
            return "users below" in str(e)
    wait_for(refused, why="the policy is in force")
    yield
    plane.kubectl("delete", "-f", "-", stdin=USERS.replace("NS", ns))


def quota(plane, ns, **hard):
    hard = {k.replace("__", "."): v for k, v in hard.items()}
    plane.core.create_namespaced_resource_quota(ns, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    wait_for(lambda: plane.core.read_namespaced_resource_quota("q", ns).status.hard, why="quota in force")


def limits(plane, ns, **limit):
    plane.core.create_namespaced_limit_range(ns, {"metadata": {"name": "lr"}, "spec": {"limits": [{"type": "Container", **limit}]}})


def create(plane, ns, name, worker, replicas=2, **spec):
    container = {"name": "paddle", "image": "x", **worker}
    plane.custom.create_namespaced_custom_object(*GROUP, ns, "paddlejobs", {
        "apiVersion": "/".join(GROUP), "kind": "PaddleJob", "metadata": {"name": name}, "spec": {
            "worker": {"replicas": replicas, "template": {"spec": {"containers": [container]}}}, **spec}})


def gate(plane, ns, pod="j-worker-0"):
    (init,) = wait_for(lambda: plane.pods(ns).get(pod), why=lambda: json.dumps(plane.jobs(ns)[0].get("status"))).spec.init_containers
    return init


def needs(cpu, most):
    return {"resources": {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": most, "memory": "64Mi"}}}


def test_a_namespace_with_every_rule_takes_the_start_gate(plane, gated, users, ns):
    limits(plane, ns, min={"cpu": "100m", "memory": "48Mi"}, max={"cpu": "2", "memory": "1Gi"}, maxLimitRequestRatio={"cpu": "4"})
    quota(plane, ns, pods="2", requests__cpu="400m", limits__cpu="800m", limits__memory="128Mi", configmaps="3")
    plane.core.patch_namespace(ns, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    gated()
    create(plane, ns, "j", {**needs("200m", "400m"), "securityContext": {
        "runAsUser": 1000680007, "runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}}})
    init = gate(plane, ns, "j-worker-1")
    assert init.resources.requests == init.resources.limits == {"cpu": "200m", "memory": "64Mi"}
    assert init.security_context.run_as_user == 1000680007


def test_the_cluster_gives_the_start_gate_its_user(plane, gated, users, ns):
    gated()
    create(plane, ns, "j", {})
    assert gate(plane, ns).security_context.run_as_user is None


@pytest.mark.parametrize("rule", ["minimum", "maximum"])
def test_a_limit_range_that_only_the_start_gate_breaks_is_blamed_on_it(plane, gated, ns, rule):
    limits(plane, ns, **({"min": {"cpu": "100m"}} if rule == "minimum" else {"max": {"memory": "16Mi"}}))
    gated()
    create(plane, ns, "j", {})

    def said():
        s = plane.job(ns, "j").get("status", {})
        return s.get("message") if s.get("reason") == "FailedCreate" else None
    message = wait_for(said, why=lambda: plane.job(ns, "j").get("status"))
    assert "the start gate is meant, init container coord-paddle" in message and "--gate-resources" in message, message
    assert f"{rule} " in message and "per Container is" in message, message
    plane.wait_event(ns, "FailedCreate", "the start gate is meant")


def test_the_start_gate_takes_what_the_flag_says(plane, gated, ns):
    limits(plane, ns, min={"cpu": "100m"})
    gated("--gate-resources=cpu=100m,memory=40Mi")
    create(plane, ns, "j", {})
    init = gate(plane, ns)
    assert init.resources.requests == init.resources.limits == {"cpu": "100m", "memory": "40Mi"}


def test_without_needs_of_its_own_the_start_gate_takes_the_namespaces_defaults(plane, gated, ns):
    limits(plane, ns, default={"cpu": "70m", "memory": "40Mi"}, defaultRequest={"cpu": "60m", "memory": "40Mi"})
    gated("--gate-resources=")
    create(plane, ns, "j", {})
    init = gate(plane, ns)
    assert (init.resources.requests["cpu"], init.resources.limits["cpu"]) == ("60m", "70m")


def condition(plane, ns, name, kind):
    return next((c for c in plane.job(ns, name).get("status", {}).get("conditions", []) if c["type"] == kind), {})


def test_of_two_jobs_that_share_a_quota_the_younger_gives_its_pods_back(plane, operator, kubelet, ns):
    """Each has a part of it, and would wait for the other's forever."""
    quota(plane, ns, pods="4")
    # Neither may have all before the other has some.
    create(plane, ns, "one", {}, replicas=4, suspend=True)
    create(plane, ns, "two", {}, replicas=4, suspend=True)
    first = operator(f"--namespace={ns}", "--give-back-after=0")
    held = [{"metadata": {"name": f"held-{i}"}, "spec": {"containers": [{"name": "c", "image": "x"}]}} for i in range(2)]
    for pod in held:
        plane.core.create_namespaced_pod(ns, pod)
    plane.patch(ns, "one", {"spec": {"suspend": False}})
    wait_for(lambda: plane.job(ns, "one").get("status", {}).get("reason") == "QuotaExceeded")
    for pod in held:
        plane.core.delete_namespaced_pod(pod["metadata"]["name"], ns, grace_period_seconds=0)
    plane.patch(ns, "two", {"spec": {"suspend": False}})
    wait_for(lambda: plane.job(ns, "two").get("status", {}).get("reason") == "QuotaExceeded" and
             {p.split("-")[0] for p in plane.pods(ns)} == {"one", "two"}, why=lambda: list(plane.pods(ns)))
    first.stop()
    operator(f"--namespace={ns}", "--give-back-after=2s", "--restart-backoff=1s")
    # The older one has all of them, and then the younger one.
    plane.wait_phase(ns, "one", "Running")
    said = condition(plane, ns, "two", "GaveBack")
    assert said["status"] == "True" and "back, as nothing was created for" in said["message"], said
    assert "an older job of the namespace waits" in said["message"] and "exceeded quota" in said["message"], said
    assert not condition(plane, ns, "one", "GaveBack")
    plane.wait_event(ns, "GaveBack", "an older job of the namespace waits")
    kubelet.finish = lambda p: (0, "")
    kubelet.look(ns)
    plane.wait_phase(ns, "one", "Completed")
    plane.wait_phase(ns, "two", "Completed", 120)
    assert condition(plane, ns, "two", "GaveBack")["status"] == "False"
