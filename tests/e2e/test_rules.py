"""A job in a namespace that has every rule at once: users prescribed, LimitRange, quota, Pod Security restricted, sidecars that a
webhook puts before and behind, more Services than an environment holds, traffic denied by default."""
import base64
import concurrent.futures
import http.server
import json
import ssl
import subprocess
import threading

import pytest

from cluster import ROOT, SERVE_BRIEFLY, SHELL, make, role, wait

USER, SERVICES = 1000680007, 1700
RULES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NS}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: "(object.spec.containers + object.spec.?initContainers.orValue([])).all(c,
      c.?securityContext.?runAsUser.orValue(1000680000) >= 1000680000)"
    message: users below 1000680000
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NS}
spec:
  policyName: NS
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: NS}
spec:
  limits:
  - type: Container
    min: {cpu: 30m, memory: 24Mi}
    max: {cpu: "1", memory: 256Mi}
    default: {cpu: 60m, memory: 32Mi}
    defaultRequest: {cpu: 30m, memory: 32Mi}
    maxLimitRequestRatio: {cpu: "2"}
  - {type: Pod, max: {cpu: "2", memory: 512Mi}}
  - {type: PersistentVolumeClaim, max: {storage: 1Gi}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: NS}
spec:
  hard: {pods: "3", requests.cpu: "1", requests.memory: 1Gi, limits.cpu: "2", limits.memory: 1Gi, configmaps: "2", secrets: "1",
         services: "2000", count/pods: "3"}
"""


def obeys(command, cpu="30m"):
    """A container that obeys; with a shell."""
    return {"image": SHELL, "command": ["/bin/sh", "-c", command],
            "resources": {"requests": {"cpu": cpu, "memory": "24Mi"}, "limits": {"cpu": "60m", "memory": "24Mi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsUser": USER}}


FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
# Of both kinds, before and behind what the template has.
INJECTED = [
    ("/spec/initContainers/0", {"name": "native-first", "restartPolicy": "Always", **obeys(FOREVER)}),
    ("/spec/initContainers/-", {"name": "native-last", "restartPolicy": "Always", **obeys(FOREVER)}),
    ("/spec/containers/0", {"name": "proxy-first", **obeys("sleep 1")}),
    ("/spec/containers/-", {"name": "proxy-last", **obeys("sleep 1")})]


class Injector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        patch = [{"op": "add", "path": path, "value": value} for path, value in INJECTED]
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": {
            "uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode()}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def injector(space, tmp_path):
    """A webhook that adds sidecars to the pods of the namespace, served by the test."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=injector", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Injector)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": space.name},
            "webhooks": [{
                "name": "injector.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/",
                                 "caBundle": base64.b64encode(cert.read_bytes()).decode()},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]}
    space.c.kubectl("apply", "-f", "-", stdin=json.dumps(hook))
    yield
    space.c.kubectl("delete", "mutatingwebhookconfiguration", space.name)
    server.shutdown()


@pytest.fixture
def rules(space, injector):
    k = space.c.kubectl
    k("apply", "-f", "-", stdin=RULES.replace("NS", space.name))
    k("-n", space.name, "apply", "-f", ROOT / "deploy/kustomize/components/network-policies/default-deny.yaml")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: space.c.core.create_namespaced_service(space.name, {
            "metadata": {"name": f"service-of-somebody-{i}"}, "spec": {"ports": [{"port": 80, "name": "p"}]}}), range(SERVICES)))
    k("label", "ns", space.name, "pod-security.kubernetes.io/enforce=restricted")
    wait("quota in force", 30, lambda: (space.c.core.read_namespaced_resource_quota("quota", space.name).status or {}).hard)
    yield
    k("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", space.name)


def test_a_job_runs_in_a_namespace_with_every_rule(space, rules):
    container = {k: v for k, v in obeys("", "40m").items() if k in ("resources", "securityContext")}
    container["securityContext"].pop("runAsUser")       # the pod's
    pod = {"securityContext": {"runAsNonRoot": True, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}}}
    space.create(make("ruled", cleanPodPolicy="Never", peerAuth="Token",
                      worker=role("echo $PADDLE_TRAINER_ENDPOINTS; sleep 2", 2, container=container, **pod),
                      ps=role(SERVE_BRIEFLY, 1, container=dict(container), **pod)))
    space.wait_completed("ruled", 120)
    for p in space.pods("ruled-worker"):
        (gate,) = [c for c in p.spec.init_containers if c.name == "coord-paddle"]
        assert gate.security_context.run_as_user is None and gate.resources.requests == gate.resources.limits
        assert p.spec.enable_service_links is False
        assert [c.name for c in p.spec.containers] == ["proxy-first", "paddle", "proxy-last"]
    # The next one is beyond the quota, and says so.
    space.c.kubectl("-n", space.name, "delete", "pdj", "ruled")
    space.wait_gone("ruled")
    space.create(make("more", worker=role("sleep 1", 4, container=container, **pod)))
    wait("a reason", 40, lambda: space.status("more").get("reason") == "QuotaExceeded", lambda: space.show("more"))
