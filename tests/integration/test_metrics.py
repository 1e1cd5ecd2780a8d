"""What is counted, and that a real Prometheus reads it: names, alerts and the dashboard."""
import concurrent.futures
import json
import re
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml
from kubernetes import client

from install import by_name, manager, overlay
from proxy import Fault
from rig import ROOT, SANITIZED, account_kubeconfig, fetch, free_port, listens, wait_for

MONITORING = ROOT / "deploy/monitoring"
# What controller-runtime gave paddle-operator, read by its users' dashboards.
EARLIER = """controller_runtime_reconcile_total controller_runtime_reconcile_errors_total
controller_runtime_reconcile_time_seconds controller_runtime_max_concurrent_reconciles
controller_runtime_active_workers workqueue_depth workqueue_adds_total workqueue_queue_duration_seconds
workqueue_work_duration_seconds workqueue_unfinished_work_seconds workqueue_longest_running_processor_seconds
workqueue_retries_total rest_client_requests_total process_cpu_seconds_total process_resident_memory_bytes
process_open_fds process_max_fds process_start_time_seconds""".split()


def value(port, series):
    """Of a series as it is printed; None when it is not."""
    m = re.search(rf"^{re.escape(series)} (\S+)$", fetch(port), re.M)
    return m and float(m.group(1))


def exported(text):
    """Names that an expression may use."""
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        names |= {name + s for s in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


def used(expr):
    """Names of metrics in an expression."""
    expr = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', " ", expr)
    expr = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", expr)
    return {n for n in re.findall(r"[a-zA-Z_:][\w:]*\b(?!\s*\()", expr)} - {"and", "or", "unless", "bool"}


def expressions(prefix=""):
    """(where, expression) of all alerts and panels."""
    for group in yaml.safe_load((MONITORING / f"{prefix}alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads((MONITORING / f"{prefix}dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], re.sub(r"\$(namespace|paddlejob|job)\b", ".*", target["expr"].replace("$__rate_interval", "1m"))


def promtool(*args, stdin=None):
    p = subprocess.run(["promtool", *map(str, args)], input=stdin, text=True, capture_output=True, timeout=60, cwd=MONITORING)
    assert p.returncode == 0, p.stdout + p.stderr


def bind(plane, ns, name):
    plane.core.create_namespaced_binding(ns, {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}, _preload_content=False)


def test_metrics_count_the_stages_of_a_job(plane, operator, kubelet, ns):
    o = operator("--server-grace=1s", f"--namespace={ns}")
    kubelet.hold = {"j-ps-0", "j-worker-0"}
    start = time.monotonic()
    plane.create(ns, "j")
    wait_for(lambda: len(plane.pods(ns)) == 2)
    wait_for(lambda: value(o.metrics, 'paddlejob_jobs{phase="Pending"}') == 1)
    time.sleep(1)
    for name in kubelet.hold:
        bind(plane, ns, name)
    time.sleep(1)
    kubelet.hold = set()
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Running")
    stage = lambda s, what: value(o.metrics, f'paddlejob_stage_seconds_{what}{{stage="{s}"}}')
    wait_for(lambda: stage("running", "count") == 1)
    sums = {s: stage(s, "sum") for s in ("pods_created", "scheduled", "running")}
    took = time.monotonic() - start + 1                     # the job's age is known in whole seconds
    # A second each; when the operator receives the binding late, the time goes from one to the other.
    assert all(0 < sums[s] < took for s in sums) and sums["scheduled"] > 0.9 and sums["scheduled"] + sums["running"] > 1.9, sums
    assert value(o.metrics, "paddlejob_oldest_waiting_seconds") == 0
    # A pod that is lost: the job is Running again some time later.
    plane.core.delete_namespaced_pod("j-worker-0", ns, grace_period_seconds=0)
    wait_for(lambda: value(o.metrics, 'paddlejob_interruption_seconds_count{cause="other"}') == 1)
    kubelet.finish = lambda p: (0, "") if p.metadata.name == "j-worker-0" else None
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Completed")
    wait_for(lambda: stage("finished", "count") == 1)
    assert stage("running", "count") == 1                       # counted once a job
    assert value(o.metrics, 'paddlejob_phase_changes_total{phase="Completed"}') == 1
    assert value(o.metrics, 'paddlejob_jobs{phase="Completed"}') == 1


def test_restarted_operator_does_not_count_old_jobs_as_new(plane, operator, kubelet, ns):
    o = operator(f"--namespace={ns}")
    plane.create(ns, "j")
    plane.wait_phase(ns, "j", "Running")
    o.stop()
    o.start()
    wait_for(lambda: "in sync" in o.text().split("stopped")[-1])
    plane.patch(ns, "j", {"spec": {"worker": {"replicas": 2}}})
    wait_for(lambda: len(plane.pods(ns)) == 3)
    plane.wait_phase(ns, "j", "Running")
    assert value(o.metrics, 'paddlejob_stage_seconds_count{stage="running"}') == 0


def test_no_label_distinguishes_jobs(plane, operator, kubelet, ns):
    """Ten jobs later there are as many series as after one."""
    o = operator(f"--namespace={ns}")
    series = lambda: sorted(re.findall(r"^([a-z_]+(?:\{[^}]*\})?) ", fetch(o.metrics), re.M))
    seen = []
    for i in range(10):
        plane.create(ns, f"distinct{i}", ps=None, worker=1)
        plane.wait_phase(ns, f"distinct{i}", "Running")
        seen.append(series())
    # Only the API server's answers may bring new ones: a conflict, say.
    known = set(seen[0])
    new = [s for s in seen[-1] if s not in known and not s.startswith(("rest_client_", "paddlejob_api_"))]
    assert not new and ns not in fetch(o.metrics) and "distinct" not in fetch(o.metrics)


@pytest.mark.parametrize("alerts, rule", [("alerts", "prometheusrule"), ("training-alerts", "prometheusrule-training")])
def test_alert_rules(alerts, rule):
    promtool("check", "rules", f"{alerts}.yaml")
    promtool("test", "rules", f"{alerts}_test.yaml")
    wrapped = yaml.safe_load((MONITORING / f"{rule}.yaml").read_text())
    assert wrapped["spec"] == yaml.safe_load((MONITORING / f"{alerts}.yaml").read_text())
    tested = (MONITORING / f"{alerts}_test.yaml").read_text()
    for group in wrapped["spec"]["groups"]:
        for rule in group["rules"]:
            assert tested.count(rule["alert"]) >= 2, f"{rule['alert']} has no test that it fires and one that it does not"


SHARED = ("controller_runtime_", "workqueue_", "rest_client_", "process_", "leader_election_")


def test_only_this_operator_is_looked_at():
    """Kubernetes' own programs and other operators export metrics of these names, too."""
    leader = r'leader_election_master_status\{name=~"b2a304f2'
    for where, expr in expressions():
        for name in (n for n in used(expr) if n.startswith(SHARED)):
            ours = re.search(rf'{name}\{{[^}}]*"(paddlejob|b2a304f2)', expr) or re.search(rf"on \(instance.*\) {leader}", expr)
            assert ours, f"{where}: {name} is anybody's: {expr}"


def test_the_service_monitors_select_the_pods_of_the_gates_service():
    (gate,) = (o for o in yaml.safe_load_all((ROOT / "deploy/v1/operator.yaml").read_text()) if o["kind"] == "Service")
    for file in ("servicemonitor.yaml", "servicemonitor-secure.yaml"):
        service, monitor = yaml.safe_load_all((MONITORING / file).read_text())
        assert service["spec"]["selector"] == gate["spec"]["selector"], file
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items(), file


class Prometheus:
    def __init__(self, directory, target, extra=""):
        self.port = free_port()
        config = directory / "prometheus.yml"
        config.write_text(f"""global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{MONITORING}/alerts.yaml]
scrape_configs:
- job_name: paddle-operator
  static_configs: [{{targets: ["{target}"], labels: {{namespace: paddle-system}}}}]
{extra}""")
        self.log = open(directory / "prometheus.log", "w+")
        self.p = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                                   f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
                                  stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def get(self, path, **params):
        """The answer's data; None while it does not answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(params)}"
        try:
            return json.load(urllib.request.urlopen(url, timeout=60))["data"]
        except urllib.error.HTTPError as e:
            assert e.code == 503, f"{params}: {e.read().decode()}"      # 503: not ready yet
            return None
        except OSError:
            return None

    def scrapes(self):
        """Waits until it has read its target, which may be too slow for a time."""
        targets = lambda: (self.get("targets") or {}).get("activeTargets", [])
        wait_for(lambda: any(t["health"] == "up" and not t["lastError"] for t in targets()), 60, targets)

    def close(self):
        self.p.terminate()
        self.p.wait(60)
        self.log.close()


@pytest.fixture
def prometheus(tmp_path):
    started = []

    def start(target, extra=""):
        started.append(Prometheus(tmp_path, target, extra))
        return started[-1]

    yield start
    for p in started:
        p.close()


def test_a_real_prometheus(plane, operator, kubelet, ns, prometheus):
    o = operator(f"--namespace={ns}")
    plane.create(ns, "j")
    plane.wait_phase(ns, "j", "Running")
    text = fetch(o.metrics)
    promtool("check", "metrics", stdin=text)
    names = exported(text)
    for name in EARLIER:
        assert name in names or f"{name}_bucket" in names, f"{name} is not exported"
    p = prometheus(f"127.0.0.1:{o.metrics}")
    p.scrapes()
    wait_for(lambda: (p.get("query", query="paddlejob_pods") or {}).get("result"), why="samples")
    count = 0
    for where, expr in expressions():
        assert used(expr) and used(expr) <= names, f"{where} uses {sorted(used(expr) - names)}, which nobody exports"
        assert "result" in p.get("query", query=expr), f"{where}: {expr}"
        count += 1
    assert count > 30
    pods = lambda: p.get("query", query='max(paddlejob_pods{namespace=~".*",job=~".*"})')["result"]
    wait_for(lambda: [r["value"][1] for r in pods()] == ["2"], why=pods)
    rules = [r for g in wait_for(lambda: (lambda d: d["groups"] if d and all(
        r["health"] != "unknown" for g in d["groups"] for r in g["rules"]) else None)(p.get("rules"))) for r in g["rules"]]
    assert all(r["health"] == "ok" for r in rules), rules
    # A test's operator leads without a lease: nothing is wrong with it.
    assert [a["labels"]["alertname"] for a in p.get("alerts")["alerts"] if a["state"] == "firing"] == []


def test_watch_lag_is_measured(plane, operator, kubelet, ns):
    o = operator(f"--namespace={ns}")
    for i in range(3):
        plane.create(ns, f"j{i}")
    for i in range(3):
        plane.wait_phase(ns, f"j{i}", "Running")
    for resource in ("paddlejobs", "pods", "configmaps"):
        count = wait_for(lambda: value(o.metrics, f'paddlejob_watch_lag_seconds_count{{resource="{resource}"}}'))
        total = value(o.metrics, f'paddlejob_watch_lag_seconds_sum{{resource="{resource}"}}')
        assert total / count < 60, (resource, count, total)
    asked = lambda what: value(o.metrics, f'paddlejob_api_request_duration_seconds_count{{{what}}}') or 0
    assert asked('verb="create",resource="pods",code="201"') == 6
    wait_for(lambda: asked('verb="patch",resource="paddlejobs/status",code="200"') >= 3)     # the last answer is on its way


# ---- over TLS, for those who may

READER = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %(name)s}
rules:
- nonResourceURLs: [/metrics]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %(name)s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %(name)s}
subjects: [{kind: ServiceAccount, name: reader, namespace: %(ns)s}]
"""


@pytest.fixture
def accounts(plane, ns):
    """Tokens of two accounts: one may read metrics."""
    for name in ("reader", "nobody"):
        plane.core.create_namespaced_service_account(ns, {"metadata": {"name": name}})
    plane.kubectl("apply", "-f", "-", stdin=READER % {"name": f"metrics-{ns}", "ns": ns})
    may = {"spec": {"user": f"system:serviceaccount:{ns}:reader", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
    wait_for(lambda: client.AuthorizationV1Api(plane.core.api_client).create_subject_access_review(may).status.allowed)
    yield {name: plane.kubectl("-n", ns, "create", "token", name).strip() for name in ("reader", "nobody")}
    plane.kubectl("delete", "clusterrole,clusterrolebinding", f"metrics-{ns}")


def https(port, token=None, method="GET"):
    """(status, body, the server's certificate)"""
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", port), 60) as raw, context.wrap_socket(raw) as s:
        certificate = s.getpeercert(True)
        auth = f"Authorization: Bearer {token}\r\n" if token else ""
        s.sendall(f"{method} /metrics HTTP/1.1\r\nHost: x\r\n{auth}Connection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    if not answer:
        raise ConnectionResetError("closed without an answer")
    return int(answer.split()[1]), answer.split("\r\n\r\n", 1)[1], certificate


def served(port):
    """The certificate; None while it is being replaced, which closes connections."""
    try:
        return https(port)[2]
    except OSError:
        return None


def reviews(proxy, start):
    return [r for _, r in proxy.requests(since=start) if "reviews" in r]


def test_secure_metrics(plane, operator, ns, accounts, proxied_rig):
    proxy, config = proxied_rig
    o = operator("--metrics-secure", f"--namespace={ns}", kubeconfig=config)
    start = time.monotonic()
    assert https(o.metrics)[0] == 401 and reviews(proxy, start) == []
    assert https(o.metrics, "made-up")[0] == 401
    assert https(o.metrics, accounts["nobody"])[0] == 403
    status, body, _ = https(o.metrics, accounts["reader"])
    assert status == 200 and "paddlejob_jobs{" in body
    asked = len(reviews(proxy, start))
    assert asked == 5                                       # two each, a made-up token has no user
    for _ in range(5):
        assert https(o.metrics, accounts["reader"])[0] == 200
        assert https(o.metrics, accounts["nobody"])[0] == 403
    again = len(reviews(proxy, start))
    assert again == asked or time.monotonic() - start > 9   # the verdicts are kept: a refusal for ten seconds
    assert https(o.metrics, accounts["reader"], "HEAD")[0] == 403   # another verb
    with pytest.raises(OSError):
        fetch(o.metrics)                                   # no plain HTTP
    for token in accounts.values():
        assert token not in o.text() and token[-40:] not in o.text()
    assert "made-up" not in o.text()


def test_secure_metrics_without_an_api_server(plane, operator, ns, accounts, proxied_rig):
    proxy, config = proxied_rig
    o = operator("--metrics-secure", f"--namespace={ns}", kubeconfig=config)
    assert https(o.metrics, accounts["reader"])[0] == 200
    proxy.faults.append(Fault("reviews", "reset"))
    assert https(o.metrics, accounts["reader"])[0] == 200   # the verdict is kept
    assert https(o.metrics, accounts["nobody"])[0] == 500


@pytest.mark.memory
def test_many_made_up_tokens_are_bounded(plane, operator, ns):
    o = operator("--metrics-secure", f"--namespace={ns}")
    https(o.metrics, "x")
    before = o.rss()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda i: https(o.metrics, f"t{i}" + "x" * 4000)[0], range(300)))
    assert set(codes) <= {401, 503} and codes.count(401) > 10, codes
    assert SANITIZED or o.rss() - before < 6000, (before, o.rss())


def certificate(directory, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", directory / "tls.key",
                    "-out", directory / "tls.crt"], check=True, capture_output=True)
    return ssl.PEM_cert_to_DER_cert((directory / "tls.crt").read_text())


def test_certificate_files_are_read_again(plane, operator, ns, tmp_path):
    o = operator("--metrics-secure", f"--metrics-cert-path={tmp_path}", f"--namespace={ns}")
    assert o.p.poll() == 1                                  # there are no files
    assert "tls.crt" in o.text()
    o.expected = True
    first = certificate(tmp_path, "first")
    o.start()
    wait_for(lambda: listens(o.metrics))
    wait_for(lambda: served(o.metrics) == first)
    (tmp_path / "tls.key").write_text("broken")
    wait_for(lambda: "certificate not renewed" in o.text())
    assert https(o.metrics)[2] == first
    second = certificate(tmp_path, "second")
    wait_for(lambda: served(o.metrics) == second)
    assert https(o.metrics)[0] == 401


def test_prometheus_with_a_token(plane, operator, ns, accounts, prometheus, tmp_path):
    certificate(tmp_path, "paddle-operator")
    o = operator("--metrics-secure", f"--metrics-cert-path={tmp_path}", f"--namespace={ns}")
    (tmp_path / "token").write_text(accounts["reader"])
    p = prometheus(f"127.0.0.1:{o.metrics}", f"""  scheme: https
  authorization: {{credentials_file: {tmp_path}/token}}
  tls_config: {{ca_file: {tmp_path}/tls.crt, server_name: paddle-operator}}
""")
    p.scrapes()


def test_the_component_brings_what_it_needs(plane, operator, ns, accounts, tmp_path):
    """An operator with exactly the rights of the overlay reviews tokens; without the component's it cannot."""
    objs = by_name(overlay(tmp_path, "v1", "secure-metrics"))
    args = manager(objs.values())["args"]
    assert args[-2:] == ["--metrics-secure", "--metrics-bind-address=:8443"]
    roles = [objs["ClusterRole/paddle-manager-role"], objs["ClusterRole/paddle-metrics-review-role"]]
    for role in roles:
        role["metadata"]["name"] += f"-{ns}"
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))
    plane.core.create_namespaced_service_account(ns, {"metadata": {"name": "op"}})
    bind_role = lambda role: plane.kubectl("create", "clusterrolebinding", role["metadata"]["name"], f"--serviceaccount={ns}:op",
                                           f"--clusterrole={role['metadata']['name']}")
    bind_role(roles[0])
    o = operator("--metrics-secure", f"--namespace={ns}", kubeconfig=account_kubeconfig(plane, ns, "op", tmp_path / "config"))
    assert https(o.metrics, accounts["reader"])[0] == 500
    bind_role(roles[1])
    wait_for(lambda: https(o.metrics, accounts["reader"])[0] == 200)
    for role in roles:
        plane.kubectl("delete", "clusterrole,clusterrolebinding", role["metadata"]["name"])
