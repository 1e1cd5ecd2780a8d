"""deploy/v1/crd.yaml, and the manifests that rely on it, on a real API server.

Uses a control plane of its own (no controllers, no nodes); with CRD_TEST_KUBECONFIG that one, which
must have no PaddleJobs that matter.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest
import yaml

from rig import free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRD = ROOT / "deploy/v1/crd.yaml"
NAME = "paddlejobs.batch.paddlepaddle.org"
EXAMPLES = [*sorted((ROOT / "deploy/examples").glob("*.yaml")), *sorted((ROOT / "deploy/examples/paddle").glob("*.yaml")), ROOT / "deploy/elastic/resnet.yaml",
            *sorted((ROOT / "examples").glob("*/job.yaml"))]
SECONDS = 60


class Cluster:
    def __init__(self, kubectl, kubeconfig, namespace):
        self.kubectl, self.kubeconfig, self.namespace = kubectl, kubeconfig, namespace

    def run(self, *args, stdin=None, namespace=None):
        """(exit code, output, errors) of kubectl."""
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        p = subprocess.run([self.kubectl, "--kubeconfig", self.kubeconfig, "-n", namespace or self.namespace, *args],
                           input=text, text=True, capture_output=True, timeout=SECONDS)
        return p.returncode, p.stdout, p.stderr

    def ok(self, *args, **kw):
        code, out, err = self.run(*args, **kw)
        assert code == 0, f"kubectl {' '.join(args)}: {err}"
        assert "Warning" not in err, f"kubectl {' '.join(args)}: {err}"
        return out

    def get(self, what, *args):
        return json.loads(self.ok("get", what, *args, "-o", "json"))

    def create(self, name, spec=None, *args):
        """Creates a job and gives it back as the API server stored it."""
        return json.loads(self.ok("create", "-o", "json", "-f", "-", *args, stdin=job(name, spec)))

    def refused(self, name, spec):
        code, _, err = self.run("create", "-f", "-", stdin=job(name, spec))
        assert code != 0, f"{name} with {spec} was accepted"
        return err

    def delete(self, name):
        self.ok("delete", "pdj", name, "--wait=true")


def job(name, spec=None):
    body = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": name}}
    return body if spec is None else {**body, "spec": spec}


def pods(replicas=1, **pod):
    return {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": "x"}], **pod}}}


def bin_dir():
    """Where the local control plane has its kubectl."""
    out = subprocess.run(["bash", "-c", '. deploy/local/lib.sh; bin kubectl'], cwd=ROOT, text=True,
                         capture_output=True, check=True)
    return out.stdout.strip()


@pytest.fixture(scope="module")
def cluster():
    kubeconfig, state = os.environ.get("CRD_TEST_KUBECONFIG"), None
    if not kubeconfig:
        state = tempfile.mkdtemp(prefix="crd", dir="/tmp")
        subprocess.run([ROOT / "deploy/local/up", "--control-plane-only", "--port", str(free_port()), state], check=True, timeout=900)
        kubeconfig = f"{state}/kubeconfig"
    try:
        kubectl = bin_dir()
        c = Cluster(kubectl if os.access(kubectl, os.X_OK) else shutil.which("kubectl"), kubeconfig,
                    f"crd-{os.getpid()}")
        code, _, err = c.run("apply", "-f", str(CRD))
        assert code == 0, err
        end = time.monotonic() + SECONDS         # `kubectl wait` fails on a CRD that has no conditions yet
        while ("Established", "True") not in [(i["type"], i["status"]) for i in c.get("crd", NAME).get("status", {}).get("conditions") or []]:
            assert time.monotonic() < end, "the CRD is not established"
        c.ok("create", "namespace", c.namespace)
        yield c
        c.run("delete", "namespace", c.namespace, "--wait=false")
    finally:
        if state:
            subprocess.run([ROOT / "deploy/local/down", state], check=True, timeout=60)


def test_crd_is_structural_and_applies_again(cluster):
    conditions = {c["type"]: c["status"] for c in cluster.get("crd", NAME)["status"]["conditions"]}
    assert conditions["Established"] == "True" and conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert "unchanged" in cluster.ok("apply", "-f", str(CRD))


def test_get_prints_name_status_mode_age(cluster):
    cluster.create("columns", {"worker": pods()})
    assert cluster.ok("get", "pdj", "columns").splitlines()[0].split() == ["NAME", "STATUS", "MODE", "AGE"]
    wide = cluster.ok("get", "pdj", "columns", "-o", "wide").splitlines()[0].split()
    assert wide == ["NAME", "STATUS", "MODE", "AGE", "PS", "WORKER", "RESTARTS", "CONTAINER-RESTARTS", "REASON", "MESSAGE"]
    for alias in ("pdj", "paddlejob", "paddlejobs", "paddlejobs.batch.paddlepaddle.org"):
        assert "columns" in cluster.ok("get", alias, "-o", "name")
    cluster.delete("columns")


def schema_paths(schema, path):
    """Paths of all objects of a schema, and of fields without a description."""
    inner = schema.get("items", schema)
    for name, field in inner.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from schema_paths(field, f"{path}.{name}")


def test_every_field_is_explained(cluster):
    def schemas():      # the API server publishes them some time after it serves the kind
        code, text, _ = cluster.run("get", "--raw", "/openapi/v3/apis/batch.paddlepaddle.org/v1")
        return {} if code else json.loads(text)["components"]["schemas"]

    root = wait_for(lambda: schemas().get("org.paddlepaddle.batch.v1.PaddleJob"), why="the schema is published")["properties"]
    fields = [f for part in ("spec", "status") for f in schema_paths(root[part], part)]
    assert len(fields) > 200
    assert [path for path, field in fields if not field.get("description")] == []
    wait_for(lambda: cluster.run("explain", "pdj")[0] == 0, why="kubectl knows the kind")      # it remembers for some seconds what was served
    for path in ("spec", "spec.worker", "spec.ps.template.spec.containers.env", "status", "status.conditions", "status.worker.refs"):
        text = cluster.ok("explain", f"pdj.{path}")
        assert "<no description>" not in text and "DESCRIPTION" in text
    recursive = cluster.ok("explain", "pdj.spec", "--recursive")
    for word in ("cleanPodPolicy", "intranet", "withGloo", "heter", "elastic", "schedulingPolicy", "template"):
        assert word in recursive


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_example_is_accepted_as_it_is(cluster, path):
    wanted = yaml.safe_load(path.read_text())
    stored = json.loads(cluster.ok("create", "--validate=strict", "-o", "json", "-f", str(path)))
    cluster.delete(wanted["metadata"]["name"])
    assert stored["spec"] == wanted["spec"]


# What paddle-operator v0.3.5 let in, however odd.
ACCEPTED = {
    "no-spec": None,
    "empty-spec": {},
    "no-template": {"worker": {"replicas": 2}},
    "empty-template": {"worker": {"replicas": 2, "template": {}}},
    "no-containers": {"worker": {"replicas": 1, "template": {"spec": {"containers": []}}}},
    "nameless-image": {"worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}},
    "clean-on-failed": {"cleanPodPolicy": "OnFailed", "worker": pods()},
    "clean-empty": {"cleanPodPolicy": "", "worker": pods()},
    "clean-odd": {"cleanPodPolicy": "sometimes, if it rains", "worker": pods()},
    "intranet-odd": {"intranet": "carrier pigeon", "worker": pods()},
    "elastic-zero": {"elastic": 0, "worker": pods()},
    "elastic-negative": {"elastic": -1, "worker": pods()},
    "gloo-odd": {"withGloo": -7, "ps": pods(), "worker": pods()},
    "gloo-large": {"withGloo": 99, "ps": pods(), "worker": pods()},
    "replicas-zero": {"ps": pods(0), "worker": pods(0), "heter": pods(0)},
    "replicas-many": {"worker": pods(100000)},
    "role-bounds": {"worker": {**pods(), "requests": -1, "limits": 4}},
    "volcano": {"schedulingPolicy": {"minAvailable": -1, "queue": "", "priorityClass": "none",
                                     "minResources": {"cpu": 2, "memory": "10m", "nvidia.com/gpu": "1"}},
                "worker": pods()},
    "success-odd": {"successPolicy": "whatever", "worker": pods()},
    "restart-odd": {"worker": pods(restartPolicy="Perhaps")},
    "n" * 63: {"worker": pods(0)},
    "n" * 54: {"worker": pods(10)},
    "p" * 58: {"ps": pods(10)},
    "h" * 55: {"heter": pods(10)},
}


@pytest.mark.parametrize("name", ACCEPTED, ids=lambda n: n[:20])
def test_specs_of_earlier_versions_are_stored_unchanged(cluster, name):
    spec = ACCEPTED[name]
    stored = cluster.create(name, spec)
    cluster.delete(name)
    assert stored.get("spec") == spec


def test_unknown_field_of_the_job_is_dropped_as_before(cluster):
    stored = cluster.create("dropped", {"cleanPolicy": "Never", "worker": pods()}, "--validate=ignore")
    cluster.delete("dropped")
    assert stored["spec"] == {"worker": pods()}


def test_pod_fields_of_any_version_survive(cluster):
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "generateName": "x-", "ownerReferences": []},
        "spec": {
            "hostUsers": False,
            "schedulingGates": [{"name": "example.com/wait"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "resources": {"limits": {"cpu": "4"}},
            "initContainers": [{"name": "log", "image": "x", "restartPolicy": "Always"}],
            "containers": [{
                "name": "main",
                "image": "x",
                "env": [{"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}}],
                "envFrom": [{"prefix": "x", "configMapRef": {"name": "m", "optional": True}}],
                "ports": [{"containerPort": 80, "hostIP": "127.0.0.1"}],
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "resources": {"claims": [{"name": "gpu", "request": "r"}], "limits": {"cpu": 1, "memory": "1.5e3"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "IfPossible"}],
                "lifecycle": {"stopSignal": "SIGUSR1"},
            }],
            "volumes": [{"name": "v", "image": {"reference": "x:1", "pullPolicy": "Never"}}],
            "tolerations": [{"key": "k", "operator": "NumericGreaterThan", "future": 1}],
            "notYetInvented": {"deep": [{"er": [1, 2.5, None, True, "x"]}]},
        },
        "alsoNotYet": {"x": 1},
    }
    stored = cluster.create("survive", {role: {"replicas": 1, "template": template} for role in ("ps", "worker", "heter")})
    cluster.delete("survive")
    for role in ("ps", "worker", "heter"):
        assert stored["spec"][role]["template"] == template


# What could never have worked, with what the message must say.
REFUSED = {
    "negative-replicas": ({"worker": pods(-1)}, ["spec.worker.replicas", "must not be negative", "use 0"]),
    "negative-servers": ({"ps": pods(-2), "worker": pods()}, ["spec.ps.replicas", "must not be negative"]),
    "a.dot": ({"worker": pods()}, ["metadata.name", "no dots", "my-job-1"]),
    "1digit": ({"worker": pods()}, ["metadata.name", "begin with a letter"]),
    "n" * 55: ({"worker": pods(1)}, ["metadata.name is too long", "-worker-", "at most 54 characters"]),
    "n" * 54: ({"worker": pods(11)}, ["metadata.name is too long", "-worker-", "11 replicas"]),
    "p" * 59: ({"ps": pods(1)}, ["metadata.name is too long", "-ps-", "at most 58 characters"]),
    "h" * 56: ({"heter": pods(1)}, ["metadata.name is too long", "-heter-", "at most 55 characters"]),
    "no-replicas": ({"worker": {"template": {"spec": {"containers": []}}}}, ["spec.worker.replicas", "Required value"]),
    "value-number": ({"worker": {"replicas": 1, "template": {"spec": {"containers": [
        {"name": "a", "env": [{"name": "A", "value": 1}]}]}}}}, ["env[0].value", "must be of type string"]),
    "deadline": ({"activeDeadlineSeconds": 0, "worker": pods()}, ["activeDeadlineSeconds must be 1 or more"]),
    "ttl": ({"ttlSecondsAfterFinished": -1, "worker": pods()}, ["ttlSecondsAfterFinished must not be negative"]),
    "limit": ({"backoffLimit": -1, "worker": pods()}, ["backoffLimit must not be negative"]),
    "action": ({"failurePolicy": [{"action": "Retry"}], "worker": pods()}, ["must be Fail, Restart or Ignore"]),
    "codes": ({"failurePolicy": [{"action": "Fail", "exitCodes": "1..3"}], "worker": pods()}, ["numbers and ranges"]),
    "role": ({"failurePolicy": [{"action": "Fail", "role": "chief"}], "worker": pods()}, ["ps, worker or heter"]),
    "peer-auth": ({"peerAuth": "token", "worker": pods()}, ["peerAuth must be None, Token or Encrypted"]),
    "quantity": ({"schedulingPolicy": {"minResources": {"cpu": "two"}}, "worker": pods()}, ["minResources"]),
}


@pytest.mark.parametrize("name", REFUSED, ids=lambda n: n[:20])
def test_specs_that_cannot_work_are_refused_with_a_remedy(cluster, name):
    spec, words = REFUSED[name]
    message = cluster.refused(name, spec)
    for word in words:
        assert word in message


def merge(cluster, name, patch, *args):
    return cluster.run("patch", "pdj", name, "--type=merge", "-p", json.dumps(patch), *args)


def test_job_of_long_name_scales_as_far_as_its_pods_have_names(cluster):
    name = "s" * 54
    cluster.create(name, {"worker": pods(2)})
    assert merge(cluster, name, {"status": {"phase": "Running"}}, "--subresource=status")[0] == 0
    assert merge(cluster, name, {"spec": {"worker": {"replicas": 10}}})[0] == 0
    code, _, err = merge(cluster, name, {"spec": {"worker": {"replicas": 11}}})
    assert code != 0 and "spec.worker.replicas is too large" in err and "use fewer replicas" in err
    assert merge(cluster, name, {"spec": {"worker": {"replicas": 1}}})[0] == 0
    cluster.delete(name)


def test_managed_by_cannot_be_changed(cluster):
    cluster.create("mine", {"worker": pods()})
    cluster.create("theirs", {"worker": pods(), "managedBy": "kueue.x-k8s.io/multikueue"})
    for name, manager in (("mine", "a/b"), ("theirs", "a/b"), ("theirs", None)):
        code, _, err = merge(cluster, name, {"spec": {"managedBy": manager}})
        assert code != 0 and "managedBy cannot be changed" in err
        assert merge(cluster, name, {"spec": {"suspend": True, "managedBy": cluster.get("pdj", name)["spec"].get("managedBy")}})[0] == 0
        cluster.ok("patch", "pdj", name, "--type=json", "-p", '[{"op": "remove", "path": "/spec/suspend"}]')
    cluster.delete("mine")
    cluster.delete("theirs")


def until(what, seconds=SECONDS):
    """The API server takes over a changed CRD a moment later."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "the changed CRD does not come into effect"


def test_job_from_before_the_rules_can_still_be_reported_on_edited_and_deleted(cluster):
    bare = yaml.safe_load(CRD.read_text())
    schema = bare["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["x-kubernetes-validations"]
    cluster.ok("replace", "-f", "-", stdin=bare)
    try:
        until(lambda: cluster.run("create", "-f", "-", stdin=job("old.job", {"worker": pods()}))[0] == 0)
        assert merge(cluster, "old.job", {"status": {"phase": "Pending"}}, "--subresource=status")[0] == 0
    finally:
        cluster.ok("replace", "-f", str(CRD))
    until(lambda: cluster.run("create", "--dry-run=server", "-f", "-", stdin=job("new.job", {"worker": pods()}))[0])
    for patch, args in (({"status": {"phase": "Failed", "reason": "InvalidName"}}, ["--subresource=status"]),
                        ({"metadata": {"finalizers": []}}, []), ({"spec": {"worker": {"replicas": 0}}}, [])):
        code, _, err = merge(cluster, "old.job", patch, *args)
        assert code == 0, err
    cluster.delete("old.job")


COUNTS = {"pending": 1, "starting": 2, "running": 3, "failed": 4, "succeeded": 5, "unknown": 6, "replicas": 1, "refs": [
    {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "x-ps-0", "uid": "u", "resourceVersion": "7"}]}
STATUS = {
    "phase": "Completed", "mode": "PS", "ps": COUNTS, "worker": COUNTS, "heter": COUNTS, "elastic": "NONE",
    "startTime": "2023-01-01T00:00:00Z", "completionTime": "2023-01-01T00:00:01Z", "observedGeneration": 3,
    "reason": "PodFailed", "message": "pod x-worker-0 failed", "readyPS": "2/2", "readyWorker": "1/2",
    "readyHeter": "0/0", "restarts": 4, "attempt": 5, "restartTime": "2023-01-01T00:00:00Z", "backoffSeconds": 20,
    "activeSince": "2023-01-01T00:00:00Z", "activeSeconds": 7, "containerRestarts": 1, "selector": "a=b",
    "conditions": [{"type": "Succeeded", "status": "True", "reason": "AllWorkersSucceeded", "message": "",
                    "lastTransitionTime": "2023-01-01T00:00:01Z", "observedGeneration": 3}],
}


def test_the_status_subresource_stores_the_whole_status(cluster):
    stored = json.loads(cluster.ok("create", "-o", "json", "-f", "-",
                                   stdin={**job("status", {"worker": pods()}), "status": STATUS}))
    assert "status" not in stored
    code, _, err = merge(cluster, "status", {"status": STATUS, "spec": {"worker": {"replicas": 9}}}, "--subresource=status")
    assert code == 0, err
    stored = cluster.get("pdj", "status")
    assert stored["status"] == STATUS
    assert stored["spec"]["worker"]["replicas"] == 1
    cluster.ok("wait", "--for=condition=Succeeded", "pdj/status", "--timeout=30s")
    row = cluster.ok("get", "pdj", "status", "-o", "wide", "--no-headers").split(None, 9)
    assert row[:3] == ["status", "Completed", "PS"]
    assert row[4:] and row[4:9] == ["2/2", "1/2", "4", "1", "PodFailed"] and row[9].strip() == "pod x-worker-0 failed"
    cluster.delete("status")


def test_condition_of_a_type_is_there_once(cluster):
    cluster.create("twice", {"worker": pods()})
    code, _, err = merge(cluster, "twice", {"status": {"conditions": STATUS["conditions"] * 2}}, "--subresource=status")
    assert code != 0 and "Duplicate value" in err
    cluster.delete("twice")


OPERATOR = ROOT / "deploy/v1/operator.yaml"


def test_operator_manifest_has_the_known_names_and_obeys_pod_security_restricted(cluster):
    """Admission warns about a Deployment whose pods the namespace would not let in."""
    objects = [o for o in yaml.safe_load_all(OPERATOR.read_text()) if o]
    assert sorted(f"{o['kind']}/{o['metadata']['name']}" for o in objects) == [
        "ClusterRole/paddle-jobs-edit", "ClusterRole/paddle-jobs-view", "ClusterRole/paddle-manager-role", "ClusterRoleBinding/paddle-manager-rolebinding",
        "ConfigMap/paddle-manager-config", "Deployment/paddle-controller-manager", "Namespace/paddle-system",
        "Role/paddle-leader-election-role", "RoleBinding/paddle-leader-election-rolebinding", "Service/paddle-gate",
        "ServiceAccount/paddle-manager-sa"]
    cluster.ok("label", "namespace", cluster.namespace, "pod-security.kubernetes.io/warn=restricted")
    code, _, err = cluster.run("create", "--dry-run=server", "-f", "-", namespace=cluster.namespace,
                               stdin={"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "control"},
                                      "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                                          "metadata": {"labels": {"a": "b"}}, "spec": pods()["template"]["spec"]}}})
    assert code == 0 and "would violate PodSecurity" in err
    for o in objects:
        if o["kind"] != "Namespace":
            if "namespace" in o["metadata"]:
                o["metadata"]["namespace"] = cluster.namespace
            cluster.ok("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
                       stdin=o)
    cluster.ok("label", "namespace", cluster.namespace, "pod-security.kubernetes.io/warn-")


def test_operator_may_do_what_it_needs_and_nothing_else(cluster):
    me = "system:serviceaccount:paddle-system:paddle-manager-sa"
    cluster.ok("apply", "-f", str(OPERATOR), namespace="paddle-system")
    try:
        def can(verb, what, namespace="default", *args):
            return cluster.run("auth", "can-i", verb, what, f"--as={me}", *args, namespace=namespace)[1].strip() == "yes"
        lock = "leases.coordination.k8s.io/b2a304f2.paddlepaddle.org"
        allowed = [("create", "pods"), ("delete", "pods"), ("watch", "pods"), ("create", "services"), ("create", "configmaps"),
                   ("create", "secrets"), ("patch", "paddlejobs.batch.paddlepaddle.org"), ("list", "paddlejobs.batch.paddlepaddle.org"),
                   ("delete", "paddlejobs.batch.paddlepaddle.org"), ("delete", "configmaps"),
                   ("create", "events")]
        for verb, what in allowed:
            assert can(verb, what), f"cannot {verb} {what}"
        assert can("update", lock, "paddle-system") and can("create", "leases.coordination.k8s.io", "paddle-system")
        assert can("patch", "paddlejobs.batch.paddlepaddle.org", "default", "--subresource=status")
        denied = [*((verb, "secrets") for verb in ("get", "list", "watch", "update", "patch", "delete", "deletecollection")),
                  ("update", "paddlejobs.batch.paddlepaddle.org"),
                  ("create", "paddlejobs.batch.paddlepaddle.org"), ("get", "nodes"), ("update", "configmaps"),
                  ("create", "serviceaccounts"), ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
                  ("create", "deployments.apps")]
        for verb, what in denied:
            assert not can(verb, what), f"can {verb} {what}"
        assert not can("create", "pods", "default", "--subresource=exec")
        assert not can("update", lock, "default")
        assert not can("update", "leases.coordination.k8s.io/another", "paddle-system")
    finally:
        cluster.run("delete", "--wait=false", "-f", str(OPERATOR), namespace="paddle-system")


def strip(schema):
    """A schema without what the older API does not know."""
    if isinstance(schema, list):
        return [strip(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    extended = "x-kubernetes-int-or-string" in schema.get("additionalProperties", {})
    return {k: strip(v) for k, v in schema.items()
            if not k.startswith("x-kubernetes-") and not (extended and k == "additionalProperties")}


def test_v1beta1_is_the_same_but_for_what_that_version_does_not_know():
    """No API server of today serves it, so its schema is held to the one that is tested above."""
    new = yaml.safe_load(CRD.read_text())
    old = yaml.safe_load((ROOT / "deploy/v1beta1/crd.yaml").read_text())
    version = new["spec"]["versions"][0]
    assert old["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert old["metadata"] == new["metadata"]
    for key in ("group", "names", "scope"):
        assert old["spec"][key] == new["spec"][key]
    assert old["spec"]["version"] == version["name"] == "v1"
    assert old["spec"]["versions"] == [{"name": "v1", "served": True, "storage": True}]
    assert old["spec"]["subresources"] == version["subresources"]
    assert version["subresources"] == {"status": {}, "scale": {
        "specReplicasPath": ".spec.worker.replicas", "statusReplicasPath": ".status.worker.replicas",
        "labelSelectorPath": ".status.selector"}}
    schema = old["spec"]["validation"]["openAPIV3Schema"]
    for role in ("ps", "worker", "heter"):       # what "anything" is cannot be said there
        refs = schema["properties"]["status"]["properties"][role]["properties"]["refs"]
        assert refs.pop("type") == "array" and "uid" in refs.pop("items")["properties"]
    assert schema == strip(version["schema"]["openAPIV3Schema"])
    columns = [{("jsonPath" if k == "JSONPath" else k): v for k, v in c.items()}
               for c in old["spec"]["additionalPrinterColumns"]]
    assert columns == version["additionalPrinterColumns"]
    assert set(old["spec"]) == {"group", "names", "scope", "version", "versions", "subresources",
                                "additionalPrinterColumns", "validation"}
