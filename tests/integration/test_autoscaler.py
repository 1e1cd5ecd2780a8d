"""kube-controller-manager's HorizontalPodAutoscaler scales a job's workers; this test makes up what it measures."""
import datetime
import http.server
import json
import re
import ssl
import threading
import urllib.parse

import pytest

from kubernetes import client
from rig import wait_for
from test_elastic import job, names

GROUP = "metrics.k8s.io"
RESOURCES = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1beta1", "resources": [
    {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}]}
SECONDS = 60


class Metrics(http.server.ThreadingHTTPServer):
    """The API metrics.k8s.io as a metrics-server's, behind the aggregation layer: every container uses `mebibytes`."""
    daemon_threads = True

    def __init__(self, plane):
        self.plane, self.mebibytes, self.asked = plane, 0, set()
        super().__init__(("127.0.0.1", 0), Request)
        plane.certificate(f"{plane.dir}/metrics")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(f"{plane.dir}/metrics/tls.crt", f"{plane.dir}/metrics/tls.key")
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def pods(self, ns, selector):
        self.asked.add(selector)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"kind": "PodMetricsList", "apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "items": [
            {"metadata": {"name": p.metadata.name, "namespace": ns}, "timestamp": now, "window": "1s",
             "containers": [{"name": c.name, "usage": {"cpu": "1", "memory": f"{self.mebibytes}Mi"}} for c in p.spec.containers]}
            for p in self.plane.core.list_namespaced_pod(ns, label_selector=selector).items if p.status.phase == "Running"]}


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        pods = re.fullmatch(f"/apis/{GROUP}/v1beta1/namespaces/([^/]+)/pods", url.path)
        if pods:
            self.answer(200, self.server.pods(pods[1], urllib.parse.parse_qs(url.query)["labelSelector"][0]))
        elif url.path == f"/apis/{GROUP}/v1beta1":
            self.answer(200, RESOURCES)
        else:
            self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def metrics(plane):
    server = Metrics(plane)
    plane.core.create_namespaced_service("default", {"metadata": {"name": "metrics"}, "spec": {
        "type": "ExternalName", "externalName": "localhost"}})
    apis = client.ApiregistrationV1Api(plane.core.api_client)
    name = f"v1beta1.{GROUP}"
    apis.create_api_service({"metadata": {"name": name}, "spec": {
        "group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "metrics", "port": server.server_port}}})

    def available():
        status = apis.read_api_service(name).status
        return any(c.type == "Available" and c.status == "True" for c in (status and status.conditions) or [])
    wait_for(available, SECONDS, lambda: apis.read_api_service(name).status)
    yield server
    # Others' namespaces cannot be deleted while an API is registered that does not answer.
    apis.delete_api_service(name)
    plane.core.delete_namespaced_service("metrics", "default")
    server.shutdown()
    server.server_close()


@pytest.mark.deadline(240)
def test_workers_follow_the_horizontal_pod_autoscaler(plane, operator, kubelet, metrics, ns):
    operator()
    job(plane, ns, 2, requests=1, limits=4)
    plane.wait_phase(ns, "j", "Running")
    before = names(plane, ns)
    autoscaling = client.AutoscalingV2Api(plane.core.api_client)
    metrics.mebibytes = 300
    autoscaling.create_namespaced_horizontal_pod_autoscaler(ns, {"metadata": {"name": "j"}, "spec": {
        "scaleTargetRef": {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "name": "j"},
        "minReplicas": 1, "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": {
            "name": "memory", "target": {"type": "AverageValue", "averageValue": "200Mi"}}}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}})

    def seen():
        return autoscaling.read_namespaced_horizontal_pod_autoscaler("j", ns).status
    # 2 workers of 300 Mi are 3 of 200.
    wait_for(lambda: plane.job(ns, "j")["spec"]["worker"]["replicas"] == 3, SECONDS, seen)
    wait_for(lambda: plane.job(ns, "j")["status"]["readyWorker"] == "3/3", SECONDS, lambda: plane.job(ns, "j")["status"])
    assert before.items() <= names(plane, ns).items()
    wait_for(lambda: seen().current_replicas == 3, SECONDS, seen)
    assert metrics.asked == {plane.job(ns, "j")["status"]["selector"]}
    # 3 of 50 are 1: the others go, in the order of their numbers.
    metrics.mebibytes = 50
    wait_for(lambda: names(plane, ns) == {"j-worker-0": before["j-worker-0"]}, SECONDS, seen)
    wait_for(lambda: seen().current_replicas == 1, SECONDS, seen)
    assert {c.type: c.status for c in seen().conditions}["ScalingActive"] == "True"
