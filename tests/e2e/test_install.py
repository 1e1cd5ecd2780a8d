"""Other ways to install, with real pods: Helm over what kubectl applied, and an operator of one namespace."""
import json
import re

import pytest
import yaml

from cluster import DEPLOYMENT, PLURAL, ROOT, SERVE, SLOW, STATE, SYSTEM, make, program, role, sh, wait

pytestmark = pytest.mark.alone
SHORT = "sleep 1; echo done"


def uids(space, job):
    return {p.metadata.name: (p.metadata.uid, p.status.container_statuses[0].restart_count) for p in space.pods(job)}


def helm(*args):
    return sh(program("helm"), "--kubeconfig", STATE / "kubeconfig", *args, "--wait",
              f"--timeout={60 * SLOW}s", seconds=70)


@pytest.mark.deadline(240)
def test_helm_adopts_what_kubectl_applied_and_uninstalls_completely(space):
    c, k = space.c, space.c.kubectl
    space.create(make("long", worker=role(SERVE, 2)))
    space.wait_phase("long", "Running", 40)
    before = uids(space, "long")
    try:
        helm("install", "paddle-operator", ROOT / "deploy/charts/paddle-operator", "-n", SYSTEM, "--take-ownership",
             "--skip-crds", "--set", "replicas=2")
        wait("two operators ready", 60, lambda: json.loads(k("-n", SYSTEM, "get", "deployment", DEPLOYMENT, "-o", "json"))
             ["status"].get("readyReplicas") == 2)
        space.create(make("short", worker=role(SHORT, 2)))
        space.wait_completed("short", 60)
        helm("upgrade", "paddle-operator", ROOT / "deploy/charts/paddle-operator", "-n", SYSTEM)
        helm("uninstall", "paddle-operator", "-n", SYSTEM)
        assert DEPLOYMENT not in k("-n", SYSTEM, "get", "deployments")
        assert space.phase("long") == "Running" and uids(space, "long") == before
    finally:
        k("apply", "-f", ROOT / "deploy/v1/operator.yaml")
        wait("the operator ready", 60, c.operator_ready)
    c.kill(space.wait_running("long-worker-0"), signal="TERM")
    c.kill(space.wait_running("long-worker-1"), signal="TERM")
    space.wait_completed("long", 40)


@pytest.mark.deadline(180)
def test_a_namespace_with_its_operator_can_be_deleted(space):
    """No other operator runs; the namespace is deleted with operator, lease, gate and a job that runs."""
    c, k = space.c, space.c.kubectl
    overlay = ROOT / "build" / space.name
    overlay.mkdir(parents=True)
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": space.name,
        "resources": ["../../deploy/kustomize/namespaced"]}))
    k("-n", SYSTEM, "scale", "deployment", DEPLOYMENT, "--replicas=0")
    try:
        wait("no operator", 60, lambda: not c.operator_pods())
        k("apply", "-k", overlay)
        k("-n", space.name, "rollout", "status", f"deployment/{DEPLOYMENT}", f"--timeout={60 * SLOW}s", seconds=70)
        space.create(make("short", worker=role(SHORT, 2)))
        space.wait_completed("short", 60)
        space.create(make("long", worker=role(SERVE, 1)))
        space.wait_phase("long", "Running", 40)
        space.delete()
        wait("the namespace gone", 60, lambda: "NotFound" in k("get", "namespace", space.name, check=False))
    finally:
        k("-n", SYSTEM, "scale", "deployment", DEPLOYMENT, "--replicas=1")
        for f in overlay.iterdir():
            f.unlink()
        overlay.rmdir()
        wait("the operator ready", 60, c.operator_ready)


@pytest.mark.deadline(300)
def test_paddles_document_installs_trains_and_uninstalls(space):
    """The commands of its page on deployment, in their order."""
    c, k = space.c, space.c.kubectl
    crd, operator = ROOT / "deploy/v1/crd.yaml", ROOT / "deploy/v1/operator.yaml"
    uninstall = ("delete", "-f", crd, "-f", operator)
    try:
        k(*uninstall, seconds=100)
        k("create", "-f", crd)
        assert re.search(rf"^NAME +CREATED AT\n(.*\n)*{PLURAL}\.\S+ +20\d\d-", k("get", "crd")), k("get", "crd")
        wait("the CRD served", 30, lambda: "error" not in k("get", PLURAL, check=False))
        k("create", "-f", operator)
        pod = wait("the operator runs", 60, lambda: re.search(r"^(paddle-controller-manager-\S+) +1/1 +Running ", k("-n", SYSTEM, "get", "pods"), re.M),
                   lambda: k("-n", SYSTEM, "describe", "pods")[-3000:])[1]
        assert "level=info" in k("-n", SYSTEM, "logs", pod)
        k("-n", SYSTEM, "create", "-f", ROOT / "deploy/examples/wide_and_deep.yaml")
        wait("the demo completes", 110, lambda: re.search(r"^wide-ande-deep +Completed +PS +\w+$", k("-n", SYSTEM, "get", "pdj"), re.M),
             lambda: k("-n", SYSTEM, "describe", "pdj,pods")[-6000:])
        k(*uninstall, seconds=100)
        assert "NotFound" in k("get", "namespace", SYSTEM, check=False)
    finally:
        k("apply", "-f", crd)
        wait("the CRD served", 30, lambda: "error" not in k("get", PLURAL, check=False))
        k("apply", "-f", operator)
        wait("the operator ready", 60, c.operator_ready)
