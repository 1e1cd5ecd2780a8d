"""A real one-machine cluster with the operator in it, and what the tests ask of it.

Nothing here sleeps for a fixed time: every wait asks again until a deadline.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib3

import kubernetes
from kubernetes import client, watch

from supervise import Patience

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL = ROOT / "deploy/local"
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
# Seconds in these tests are those of a quiet machine; on any other the same may take so many times as long.
SLOW = 3
SHELL = "paddlejob-e2e/shell:dev"
# Which of the clusters that tests have at a time: the first for most, the second for those marked `alone`; test_cluster.py has a third.
NUMBER = int(os.environ.get("E2E_CLUSTER", "1"))
# What is added to their numbers: a second checkout on the machine has others.
FIRST = int(os.environ.get("E2E_CLUSTERS_FROM", "0"))
GROUP, VERSION, PLURAL = "batch.paddlepaddle.org", "v1", "paddlejobs"
SYSTEM, DEPLOYMENT = "paddle-system", "paddle-controller-manager"
SERVICE_ACCOUNT = f"system:serviceaccount:{SYSTEM}:paddle-manager-sa"
AUDIT_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["{SERVICE_ACCOUNT}"]
- level: None
"""


def state_of(number):
    return pathlib.Path(f"/var/tmp/paddlejob-e2e-{FIRST + number}")


def networks_of(number):
    """Names and networks of its own, beside the others and a demo."""
    number += FIRST
    return {"LOCAL_CLUSTER_BRIDGE": f"pje2e{number}", "LOCAL_CLUSTER_NODE_NET": f"10.252.{number}",
            "LOCAL_CLUSTER_POD_NET": f"10.{150 + number}", "LOCAL_CLUSTER_SERVICE_CIDR": f"10.{97 + number}.0.0/16"}


STATE, NETWORKS = state_of(NUMBER), networks_of(NUMBER)


def program(name):
    """Of those that deploy/local/build builds."""
    return subprocess.run([LOCAL / "build", "--where", name], check=True, capture_output=True, text=True).stdout.strip()


KUBECTL = program("kubectl")
live = contextlib.nullcontext       # conftest.py: what is printed inside is not captured


def say(line):
    with live():
        print(line, file=sys.stderr, flush=True)        # stdout of xdist's processes leads nowhere


def sh(*cmd, seconds=60, stdin=None, check=True):
    """Output of a command; an AssertionError with its last lines if it fails or does not end."""
    try:
        r = subprocess.run([str(c) for c in cmd], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, errors="replace", timeout=SLOW * seconds, env={**os.environ, **NETWORKS})
    except subprocess.TimeoutExpired as e:
        raise AssertionError(f"{e}\n{(e.stdout or b'')[-3000:]}") from None
    if check and r.returncode:
        raise AssertionError(f"{' '.join(map(str, cmd))}: exit {r.returncode}\n" + r.stdout[-3000:])
    return r.stdout


def wait(what, seconds, ask, show=None):
    """What ask() returns as soon as it is true; an AssertionError after so many seconds of a quiet machine."""
    patience = Patience(SLOW * seconds)
    while True:
        got = ask()
        if got:
            return got
        if patience.over():
            raise AssertionError(f"not after {SLOW * seconds} s: {what}" + (f"\n{show()}" if show else f"; last: {got!r}"))
        time.sleep(0.1)


class Cluster:
    """The cluster; made by up(), once for all tests, and used after connect()."""

    policy = pathlib.Path(f"{STATE}.policy.yaml")
    up_command = [LOCAL / "up", "--max-pods", "250", "--restart-backoff", "1",
                  "--apiserver-arg", f"--audit-policy-file={policy}",
                  "--apiserver-arg", f"--audit-log-path={STATE}.audit", STATE]

    def connect(self):
        kubernetes.config.load_kube_config(str(STATE / "kubeconfig"))
        self.core = client.CoreV1Api()
        self.objects = client.CustomObjectsApi()

    def up(self):
        if os.geteuid() != 0:
            raise AssertionError("tests/e2e need root: they bring up a cluster with real pods")
        self.policy.write_text(AUDIT_POLICY)
        start = time.monotonic()
        say("  local cluster: programs (the first time takes minutes)")
        with live():
            subprocess.run([LOCAL / "build"], check=True, timeout=SLOW * 400, stdin=subprocess.DEVNULL)
        sh(*self.up_command, seconds=180)
        say(f"  local cluster: up after {time.monotonic() - start:.1f} s in {STATE}")
        sh(LOCAL / "images", "--bin", BUILD / "bin", "--out", BUILD / "images", "--into", STATE, seconds=180)
        self.shell_image()
        say(f"  images: imported after {time.monotonic() - start:.1f} s")
        self.connect()
        self.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
        # Not kubectl wait: it gives up on an object that has no status yet.
        wait("the CRD served", 30, lambda: "error" not in self.kubectl("get", PLURAL, check=False))
        self.kubectl("apply", "-f", ROOT / "deploy/v1/operator.yaml")
        # Of a cluster that was kept: the operator must be the one just built.
        self.kubectl("-n", SYSTEM, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
        wait("the operator ready", 60, self.operator_ready, lambda: "\n".join(
            self.kubectl("-n", SYSTEM, *args, check=False)[-3000:] for args in (
                ("describe", "pods"), ("logs", f"deployment/{DEPLOYMENT}", "--tail=40"))))
        say(f"  operator: ready after {time.monotonic() - start:.1f} s, RSS {self.operator_rss() / 1024:.1f} MiB")

    def down(self):
        if not os.environ.get("E2E_KEEP"):
            sh(LOCAL / "down", STATE, seconds=120)
            pathlib.Path(f"{STATE}.audit").unlink(missing_ok=True)
            self.policy.unlink(missing_ok=True)
            shutil.rmtree(f"{STATE}.volumes", ignore_errors=True)

    def shell_image(self):
        """A shell and little else, for pods that only run a script."""
        archive = BUILD / "images/e2e-shell.tar"
        if not archive.exists():
            with tempfile.TemporaryDirectory() as d:
                root = pathlib.Path(d) / "root"
                sh(LOCAL / "rootfs", root, "busybox-static", seconds=120)
                for tool in ("sleep", "cat", "echo", "env", "kill", "sort", "hostname"):
                    (root / "bin" / tool).symlink_to("busybox")
                sh(LOCAL / "image", "--name", SHELL, "--out", f"{archive}.{NUMBER}", root)
                os.replace(f"{archive}.{NUMBER}", archive)      # the other cluster's may be at the same
        sh(LOCAL / "image", "--archive", archive, "--into", STATE)

    def restart_apiserver(self):
        """KILL it and start it again: some two seconds without an API server."""
        pid = int((STATE / "pid/apiserver").read_text().split()[0])
        os.kill(pid, 9)
        sh(*self.up_command, seconds=120)

    @contextlib.contextmanager
    def without_kubelet(self):
        """The one node does not answer; its containers run on."""
        os.kill(int((STATE / "pid/kubelet0").read_text().split()[0]), 9)
        try:
            yield
        finally:
            sh(*self.up_command, seconds=180)

    # --- asking ---

    def kubectl(self, *args, seconds=60, stdin=None, check=True):
        return sh(KUBECTL, "--kubeconfig", STATE / "kubeconfig", *args,
                  seconds=seconds, stdin=stdin, check=check)

    def ctr(self, *args):
        return sh("ctr", "-a", STATE / "node0/containerd.sock", "-n", "k8s.io", *args)

    def kill(self, pod, container=None, signal="KILL"):
        """Signals process 1 of a container (the first where no name is given); returns its id."""
        s = next(s for s in pod.status.container_statuses if container in (None, s.name))
        self.ctr("tasks", "kill", "--signal", signal, s.container_id.split("//")[1])
        return s.container_id

    def pid(self, pod):
        ident = pod.status.container_statuses[0].container_id.split("//")[1]
        return int(re.search(rf"^{ident}\s+(\d+)", self.ctr("tasks", "ls"), re.M).group(1))

    def operator_pods(self):
        return self.core.list_namespaced_pod(SYSTEM, label_selector="control-plane=controller-manager").items

    def operator_pod(self):
        """The operator's pod that runs, or None."""
        for p in self.operator_pods():
            s = (p.status.container_statuses or [None])[0]
            if not p.metadata.deletion_timestamp and s and s.state.running:
                return p
        return None

    def operator_ready(self):
        p = self.operator_pod()
        return p if p and p.status.container_statuses[0].ready else None

    def operator_rss(self):
        """Resident KiB of the operator."""
        status = pathlib.Path(f"/proc/{self.pid(self.operator_pod())}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def requests(self, since=0):
        """What the operator asked of the API server, from byte `since` of the audit log on: (rows, new offset)."""
        rows = []
        with open(f"{STATE}.audit", "rb") as f:
            f.seek(since)
            data = f.read()
        end = data.rfind(b"\n") + 1
        for line in data[:end].splitlines():
            e = json.loads(line)
            ref = e.get("objectRef", {})
            rows.append((e["verb"], ref.get("resource", e["requestURI"]) +
                         ("/" + ref["subresource"] if ref.get("subresource") else ""),
                         e.get("responseStatus", {}).get("code"), ref.get("namespace", ""), ref.get("name", "")))
        return rows, since + end


class Space:
    """A namespace of a test, with its jobs."""

    def __init__(self, cluster, name):
        self.c, self.name = cluster, name
        cluster.core.create_namespace({"metadata": {"name": name}})
        wait("default ServiceAccount", 20, lambda: self.quiet(
            lambda: cluster.core.read_namespaced_service_account("default", name)))

    def delete(self):
        self.quiet(lambda: self.c.core.delete_namespace(self.name, grace_period_seconds=0))

    @staticmethod
    def quiet(ask):
        """ask(), or None where there is no such object or, for a moment, no API server."""
        try:
            return ask()
        except (client.ApiException, urllib3.exceptions.HTTPError) as e:
            if getattr(e, "status", 0) in (404, 0, 500, 503):
                return None
            raise

    def create(self, job):
        return self.c.objects.create_namespaced_custom_object(GROUP, VERSION, self.name, PLURAL, job)

    def status(self, name):
        return (self.job(name) or {}).get("status") or {}

    def job(self, name):
        return self.quiet(lambda: self.c.objects.get_namespaced_custom_object(GROUP, VERSION, self.name, PLURAL, name))

    def jobs(self):
        return self.c.objects.list_namespaced_custom_object(GROUP, VERSION, self.name, PLURAL)["items"]

    def delete_job(self, name):
        self.c.objects.delete_namespaced_custom_object(GROUP, VERSION, self.name, PLURAL, name)

    def phase(self, name):
        return self.status(name).get("phase", "")

    def condition(self, name, kind):
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), None)

    def pods(self, job=""):
        return [p for p in self.c.core.list_namespaced_pod(self.name).items
                if p.metadata.name.startswith(f"{job}-" if job else "")]

    def pod(self, name):
        return self.quiet(lambda: self.c.core.read_namespaced_pod(name, self.name))

    def events(self, name):
        return [e for e in self.c.core.list_namespaced_event(self.name).items if e.involved_object.name == name]

    def wait_phase(self, name, phase, seconds, never=()):
        """Until the job is in that phase; fails at once in one of `never`."""
        def ask():
            now = self.phase(name)
            assert now not in never, f"job {name} is {now}\n{self.show(name)}"
            return now == phase
        wait(f"job {name} {phase}", seconds, ask, lambda: self.show(name))

    def wait_completed(self, name, seconds):
        self.wait_phase(name, "Completed", seconds, never=("Failed",))

    def wait_running(self, pod, seconds=60):
        def ask():
            p = self.pod(pod)
            return p if p and p.status.phase == "Running" and not p.metadata.deletion_timestamp else None
        return wait(f"pod {pod} Running", seconds, ask, lambda: self.show(pod.rsplit("-", 2)[0]))

    def wait_said(self, pod, pattern, seconds=60):
        """Until a line of the pod's log, which begins after the pod runs, is like this; the match."""
        def log():
            return self.quiet(lambda: self.c.core.read_namespaced_pod_log(pod, self.name)) or ""
        return wait(f"pod {pod} says {pattern!r}", seconds, lambda: re.search(pattern, log(), re.M), log)

    def wait_gone(self, job, seconds=60):
        """Until nothing of the job is left."""
        def left():
            names = [p.metadata.name for p in self.pods(job)]
            names += [s.metadata.name for s in self.c.core.list_namespaced_service(self.name).items
                      if s.metadata.name.startswith(job)]
            names += [m.metadata.name for m in self.c.core.list_namespaced_config_map(self.name).items
                      if m.metadata.name == job]
            return names + ([job] if self.job(job) else [])
        wait(f"nothing left of job {job}", seconds, lambda: not left(), lambda: f"left: {left()}\n{self.show(job)}")

    def show(self, job):
        """All that helps to see why; what says most comes first, as a summary shows the beginning."""
        k = self.c.kubectl
        pods = k("-n", self.name, "get", "pods", "--no-headers", check=False)[-3000:]
        return "\n".join([
            re.sub(" +", " ", pods),
            *(f"{p.split()[0]}: " + k("-n", self.name, "logs", p.split()[0], "--tail=4", check=False)[-500:]
              for p in pods.splitlines()[:8]),
            k("-n", self.name, "get", "events", "--sort-by=.lastTimestamp", "--no-headers", check=False)[-2000:],
            k("-n", self.name, "describe", "pdj", job, check=False)[-6000:],
            "operator: " + k("-n", SYSTEM, "logs", f"deployment/{DEPLOYMENT}", "--tail=30", check=False)[-4000:]])


def uptime():
    """Seconds of a clock that the containers of this machine have, too (/proc/uptime)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Follower(threading.Thread):
    """Remembers every pod that ever was in a namespace: {name: [uid, ...]}, and when it got its address.
    What it has is complete after stop()."""

    def __init__(self, space):
        super().__init__(daemon=True)
        self.space, self.ended = space, False
        self.uids, self.pods, self.address_at = {}, {}, {}
        self.start()

    def note(self, p):
        seen = self.uids.setdefault(p.metadata.name, [])
        if p.metadata.uid not in seen:
            seen.append(p.metadata.uid)
        self.pods[p.metadata.uid] = p
        if p.status.pod_ip:
            self.address_at.setdefault(p.metadata.name, uptime())

    def run(self):
        api, version = client.CoreV1Api(), None
        while not self.ended:
            try:
                for e in watch.Watch().stream(api.list_namespaced_pod, self.space.name, timeout_seconds=2,
                                              resource_version=version):
                    self.note(e["object"])
                    version = e["object"].metadata.resource_version
            except Exception:           # the API server may be away: look again, from what there is now
                version = None
                time.sleep(0.1)

    def reported(self, uids):
        """The last that was seen of pods."""
        return [f"{uid}: {self.pods[uid].status.to_dict()}" for uid in uids]

    def stop(self):
        self.ended = True
        self.join()
        for p in self.space.pods():     # made since the last look
            self.note(p)


def role(script, replicas=1, **pod):
    """A role whose pods run a shell script."""
    container = {"name": "paddle", "image": SHELL, "imagePullPolicy": "IfNotPresent",
                 "command": ["/bin/sh", "-c", script]}
    container.update(pod.pop("container", {}))
    return {"replicas": replicas, "template": {"spec": {"containers": [container], **pod}}}


# Upstream's servers never end; the project's own end when their workers are done, here sooner
# than the workers of a test.
SERVE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
SERVE_BRIEFLY = "sleep 2"


def make(name, worker=None, ps=None, **spec):
    spec = {k: v for k, v in {"worker": worker, "ps": ps, **spec}.items() if v is not None}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "PaddleJob", "metadata": {"name": name}, "spec": spec}
