"""What a failed pod means, as a real kubelet says that it failed."""
import base64
import contextlib
import http.server
import json
import re
import ssl
import subprocess
import threading

import pytest
import yaml

from cluster import BUILD, ROOT, SERVE, SHELL, make, role, sh, wait

IDLE = "trap 'exit 15' TERM; while :; do sleep 0.1; done"
POLICY = {"backoffLimit": 1, "cleanPodPolicy": "Never"}


def migrated(script):
    """The example of docs/migrate.md, through `convert`; its pods run this script."""
    page = (ROOT / "docs/migrate.md").read_text()
    job = re.search(r"^cat >job.yaml <<END\n(.*?)^END$", page, re.M | re.S).group(1)
    job = job.replace("image: train:1", f"image: {SHELL}").replace("command: [python, train.py]", f"command: [sh, -c, {json.dumps(script)}]")
    assert SHELL in job and script in yaml.safe_load(job)["spec"]["paddleReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    out = subprocess.run([BUILD / "bin/paddle-operator", "convert", "-"], input=job, capture_output=True, text=True, check=True)
    return yaml.safe_load(out.stdout)


@pytest.mark.deadline(240)
def test_the_migration_guides_example_fails_after_as_many_restarts_as_it_says(space):
    job = migrated("echo no data; exit 1")
    job["spec"]["backoffLimit"] = 1         # of 3: 10 s of backoff, not 70
    space.create(job)
    space.wait_phase("train", "Failed", 70, never=("Completed",))
    status = space.status("train")
    assert (status["reason"], status["restarts"]) == ("BackoffLimitExceeded", 1), status
    assert status["message"].startswith("after 1 restart: pod train-worker-") and "exit code 1 (Error): no data" in status["message"], status


def test_the_migration_guides_example_completes(space):
    space.create(migrated("sleep 1; exit 0"))
    space.wait_completed("train", 60)
    assert space.status("train")["restarts"] == 0


@pytest.mark.deadline(150)
@pytest.mark.parametrize("spec", [{"intranet": "Service"}, {"elastic": 1}, {}], ids=["service", "elastic", "onfailure"])
def test_a_rule_for_an_exit_code_holds_whatever_restarts_containers(space, spec):
    worker = role("exit 3", 2, restartPolicy="OnFailure")
    space.create(make("rule", worker=worker, failurePolicy=[{"action": "Fail", "exitCodes": "3"}], **POLICY, **spec))
    space.wait_phase("rule", "Failed", 50)
    assert space.status("rule")["reason"] == "FailurePolicy", space.status("rule")


@pytest.mark.deadline(150)
def test_a_policy_that_is_set_later_ends_a_crash_loop(space):
    """Its pods have restartPolicy OnFailure."""
    space.create(make("later", worker=role("echo no data; exit 3"), intranet="Service"))
    wait("a crash loop in the reason column", 40, lambda: re.search(
        "CrashLoopBackOff|ContainerRestarted", space.c.kubectl("-n", space.name, "get", "pdj", "later", "-o", "wide")), lambda: space.show("later"))
    wait("restarts of the container", 40, lambda: space.status("later").get("containerRestarts", 0) > 2, lambda: space.show("later"))
    events = [e for e in space.events("later") if e.reason == "ContainerRestarted"]
    assert len(events) == 1 and events[0].type == "Warning" and "exit code 3 (Error): no data" in events[0].message, events
    space.c.kubectl("-n", space.name, "patch", "pdj", "later", "--type=merge", "-p", '{"spec":{"backoffLimit":0}}')
    space.wait_phase("later", "Failed", 30)
    assert space.status("later")["reason"] == "BackoffLimitExceeded", space.status("later")


@pytest.mark.deadline(240)
def test_a_pod_that_overfills_its_own_volume_has_failed_by_itself(space):
    worker = role("busybox dd if=/dev/zero of=/s/x bs=1M count=20; " + IDLE, volumes=[{"name": "s", "emptyDir": {"sizeLimit": "1Mi"}}],
                  container={"volumeMounts": [{"name": "s", "mountPath": "/s"}]}, terminationGracePeriodSeconds=1)
    space.create(make("full", worker=worker, backoffLimit=0, cleanPodPolicy="Never"))
    space.wait_phase("full", "Failed", 70)
    status = space.status("full")
    assert status["reason"] == "BackoffLimitExceeded" and 'Usage of EmptyDir volume "s" exceeds the limit "1Mi"' in status["message"], status


@pytest.mark.deadline(150)
def test_the_suggested_command_shows_the_failed_probe(space):
    probe = {"exec": {"command": ["/bin/sh", "-c", "echo stands still; exit 1"]}, "periodSeconds": 1, "failureThreshold": 2}
    space.create(make("train", worker=role("sleep 1000", container={"livenessProbe": probe}, terminationGracePeriodSeconds=1)))
    space.wait_phase("train", "Failed", 60, never=("Completed",))
    said = re.fullmatch(r"pod train-worker-0, container paddle: exit code 137 \(SIGKILL\); "
                        r"has its livenessProbe failed\? kubectl (events .*)", space.status("train")["message"])
    assert said, space.status("train")
    # kubelet's events come when they come.
    wait("the event of the probe", 30, lambda: "Liveness probe failed: stands still" in space.c.kubectl(*said[1].split()))


@pytest.mark.deadline(150)
def test_an_eviction_is_seen_while_it_lasts_and_is_no_exit_code(space):
    slow = "trap 'sleep 5; exit 15' TERM; while :; do sleep 0.1; done"
    rules = [{"action": "Fail", "exitCodes": "1-127"}]
    space.create(make("drained", worker=role(slow, 2)))
    space.create(make("ruled", worker=role(IDLE, 2), failurePolicy=rules, **POLICY))
    for name in ("drained", "ruled"):
        space.wait_phase(name, "Running", 60)
        space.c.core.create_namespaced_pod_eviction(f"{name}-worker-1", space.name, {"metadata": {"name": f"{name}-worker-1"}})
    wait("the eviction in the reason column", 4, lambda: "PodDisrupted" in space.c.kubectl("-n", space.name, "get", "pdj", "drained", "-o", "wide"),
         lambda: space.show("drained"))
    wait("a Warning", 20, lambda: [e for e in space.events("drained") if e.reason == "PodDisrupted" and e.type == "Warning"])
    wait("another attempt", 40, lambda: space.status("ruled").get("attempt") == 1, lambda: space.show("ruled"))
    status = space.status("ruled")
    assert status["phase"] != "Failed" and status["restarts"] == 0, status
    assert space.condition("ruled", "Restarting")["reason"] == "PodDisrupted", status


# ---- a proxy that a webhook puts first --------------------------------------------------------

class Webhook(http.server.BaseHTTPRequestHandler):
    proxy = {"name": "proxy", "image": SHELL, "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", SERVE]}

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = [{"op": "add", "path": "/spec/containers/0", "value": self.proxy}]
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": request["uid"], "allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode()}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def proxied(space, tmp_path):
    """The space, in whose pods a webhook puts another container first."""
    key, cert = tmp_path / "key", tmp_path / "cert"
    sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=webhook",
       "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": space.name}, "webhooks": [{
        "name": "proxy.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": base64.b64encode(cert.read_bytes()).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}}}]}
    with contextlib.ExitStack() as stack:
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        space.c.kubectl("create", "-f", "-", stdin=json.dumps(config))
        stack.callback(space.c.kubectl, "delete", "mutatingwebhookconfiguration", space.name)
        # The API server learns of it with a delay: until a pod that nobody keeps is changed.
        wait("the webhook at work", 30, lambda: len(space.c.core.create_namespaced_pod(space.name, {
            "metadata": {"generateName": "probe-"}, "spec": role("exit 0")["template"]["spec"]}, dry_run="All").spec.containers) == 2)
        yield space


@pytest.mark.deadline(150)
@pytest.mark.parametrize("code,phase,spec", [(0, "Completed", {}), (7, "Failed", {}), (7, "Failed", {"backoffLimit": 0}),
                                             (0, "Completed", {"intranet": "Service"})])
def test_a_proxy_put_first_keeps_no_job_from_its_end(proxied, code, phase, spec):
    proxied.create(make("side", worker=role(f"echo done; sleep 1; exit {code}", 2), cleanPodPolicy="Never", **spec))
    proxied.wait_phase("side", phase, 60, never={"Completed", "Failed"} - {phase})
    if code:
        assert "container paddle: exit code 7 (Error): done" in proxied.condition("side", "Failed")["message"], proxied.status("side")
