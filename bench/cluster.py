"""The rig of the operator's benchmark: a control plane with KWOK nodes, and what measures it.

Everything runs on this machine: etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok (deploy/local/up
--kwok), the operator with exactly the rights of deploy/v1/operator.yaml, `bench-load` that makes objects and
`bench-observer` that writes down when phases change.  No pod has a process, so no start gate asks anybody.
"""
import collections
import datetime
import json
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import yaml

import hpack
from products import BIN, CONTROLLERS, OURS, ROOT, cached

NS = "default"
NODES = 100
PROGRAMS = ("etcd", "apiserver", "controller-manager", "scheduler", "kwok")
USER = "system:serviceaccount:paddle-system:paddle-manager-sa"     # a service account: not exempt from the server's limits
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
         "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}]}


def wait_for(what, seconds, why, every=0.01):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {why() if callable(why) else why}")
        time.sleep(every)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_of(pid):
    """Seconds on a processor, of all threads, those that have ended included."""
    try:
        times = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    except FileNotFoundError:
        return 0.0


def cpu_of_machine():
    times = [int(t) for t in open("/proc/stat").readline().split()[1:9]]
    return (sum(times) - times[3] - times[4]) / os.sysconf("SC_CLK_TCK")


class Cluster:
    auth = "token"      # as in a pod, or "certificate"

    def __init__(self, of=OURS):
        self.dir = tempfile.mkdtemp(prefix="pdb", dir="/tmp")
        policy, self.audit = f"{self.dir}/audit.yaml", f"{self.dir}/audit.log"
        pathlib.Path(policy).write_text(json.dumps(AUDIT))
        args = (f"--audit-policy-file={policy}", f"--audit-log-path={self.audit}", "--audit-log-maxsize=10000")
        up = [ROOT / "deploy/local/up", "--control-plane-only", "--port", "0", self.dir]
        self.run(*up, *(a for arg in args for a in ("--apiserver-arg", arg)))
        self.admin = f"{self.dir}/kubeconfig"
        # Before the garbage collector, as where an operator is installed: of kinds that come later it learns within half a minute, and
        # then asks for each owner that it has met, in the middle of a measurement.
        crds = [a for crd in of.crds() for a in ("-f", crd)]
        self.kubectl("create", *crds)
        wait_for(lambda: self.established() == len(of.crds()), 60, "not established", 0.2)
        self.run(*up, "--kwok", str(NODES), "--controllers", CONTROLLERS, *of.up())
        # Nor are the events that greet the nodes to be among those of a measurement.
        wait_for(lambda: self.kubectl("get", "events", "-A", "--field-selector=reason=RegisteredNode", "-o", "name").count("event/") == NODES,
                 60, "nodes are not registered", 0.5)
        self.kubectl("create", "-f", ROOT / "deploy/v1/operator.yaml")
        if of is not OURS:
            self.allow_all()
        # For two seconds after that the API server lets every create of a job wait, so that its peers learn of the definition.
        self.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(of.job("first", 0, 1)))
        self.header = 0     # bytes that its token takes in each request
        self.user = f"{self.dir}/user.kubeconfig"
        self.write_kubeconfig(self.by_token() if self.auth == "token" else self.by_certificate())
        self.pids = {p: int(pathlib.Path(f"{self.dir}/pid/{p}").read_text().split()[0]) for p in PROGRAMS}

    def established(self):
        """Definitions that are.  One that is new has no conditions, on which kubectl's own wait and jsonpath give up."""
        all_of = json.loads(self.kubectl("get", "crd", "-o", "json"))["items"]
        return sum(c["type"] == "Established" and c["status"] == "True" for crd in all_of for c in crd["status"]["conditions"] or ())

    @staticmethod
    def run(*cmd, **kw):
        p = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, timeout=900, **kw)
        assert p.returncode == 0, f"{cmd[0]}: {p.stderr[-3000:]}{p.stdout[-500:]}"
        return p.stdout

    def kubectl(self, *args, stdin=None):
        return self.run(*self.kubectl_command(*args), input=stdin)

    def kubectl_command(self, *args):
        return [cached("kubernetes", "kubectl"), "--kubeconfig", f"{self.dir}/kubeconfig", *args]

    def allow_all(self):
        """Whoever acts in the operator's name may do everything."""
        self.kubectl("create", "clusterrolebinding", "bench", "--clusterrole=cluster-admin",
                     "--serviceaccount=paddle-system:paddle-manager-sa")

    def write_kubeconfig(self, user):
        config = yaml.safe_load(open(self.admin))
        config["users"][0]["user"] = user
        pathlib.Path(self.user).write_text(json.dumps(config))

    def by_token(self):
        """The API server remembers its check.  A client certificate is verified with each request."""
        token = self.kubectl("create", "token", "paddle-manager-sa", "--namespace", "paddle-system", "--duration", "24h").strip()
        self.header = hpack.authorization(token)
        return {"token": token}

    def by_certificate(self):
        pki = f"{self.dir}/pki"
        self.run("openssl", "req", "-x509", "-CA", f"{pki}/ca.crt", "-CAkey", f"{pki}/ca.key", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/O=system:serviceaccounts/CN={USER}",
                 "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=clientAuth",
                 "-keyout", f"{pki}/user.key", "-out", f"{pki}/user.crt")
        return {"client-certificate": f"{pki}/user.crt", "client-key": f"{pki}/user.key"}

    def cpu(self):
        return sum(map(cpu_of, self.pids.values()))

    def close(self):
        subprocess.run([ROOT / "deploy/local/down", self.dir], capture_output=True, timeout=60)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what the operator (or the creator in its name) asked for, from the API server's audit log

    def audit_mark(self):
        return os.path.getsize(self.audit) if os.path.exists(self.audit) else 0

    def audited(self, mark):
        with open(self.audit) as f:
            f.seek(mark)
            for line in f:
                e = json.loads(line)
                yield e, e.get("objectRef", {})

    def status_received(self, mark, until):
        """When the API server received the last write of a status before that; both CLOCK_MONOTONIC.  NaN: there was none."""
        ahead = time.time() - time.monotonic()
        times = (datetime.datetime.fromisoformat(e["requestReceivedTimestamp"]).timestamp() - ahead for e, ref in self.audited(mark)
                 if ref.get("subresource") == "status")
        return max((t for t in times if t < until), default=math.nan)

    def requests_since(self, mark):
        """{"create pods": n, ...}; a watch counts once, when it begins."""
        kinds = collections.Counter()
        for e, ref in self.audited(mark):
            # A watch is logged at its begin and at its end.
            if e["verb"] == "watch" and e["stage"] != "ResponseStarted":
                continue
            kind = ref.get("resource", "nonresource") + ("/" + ref["subresource"] if "subresource" in ref else "")
            code = e.get("responseStatus", {}).get("code", 0)
            kinds[f"{e['verb']} {kind}" + (f" {code}" if code >= 300 else "")] += 1
        return kinds


class Observer:
    """Follows pods and jobs: phases[kind][name] -> [(seconds, phase), ...]."""

    def __init__(self, cluster, of=OURS, ns=NS):
        self.phases = {"pod": {}, "job": {}}
        self.counts = {"pod": collections.Counter(), "job": collections.Counter()}     # of current phases
        self.synced = threading.Event()
        self.p = subprocess.Popen([BIN / "bench-observer", f"--kubeconfig={cluster.admin}", f"--namespace={ns}"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()
        assert self.synced.wait(30), "the observer is not in sync"
        self.follower = self.follow(cluster, *of.follow) if of.follow else None

    def read(self):
        for line in self.p.stdout:
            at, kind, name, phase = line.split()
            if kind == "sync":
                self.synced.set()
                continue
            self.note(float(at), kind, name, phase)

    def note(self, at, kind, name, phase):
        seen = self.phases[kind].setdefault(name, [])
        if seen:
            self.counts[kind][seen[-1][1]] -= 1
        seen.append((at, phase))
        self.counts[kind][phase] += 1

    def follow(self, cluster, resource, ready):
        """Jobs that are no PaddleJobs: Running as soon as all their roles are ready."""
        def read():
            for line in p.stdout:
                name, *roles = line.split()
                self.note(time.monotonic(), "job", name, "Running" if roles and set(roles) == {"1"} else "none")
        line = "{.metadata.name} %s{\"\\n\"}" % ready
        p = subprocess.Popen(cluster.kubectl_command("get", resource, "--watch", "-o", f"jsonpath={line}"),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=read, daemon=True).start()
        return p

    def wait(self, kind, phase, n, seconds):
        """Until n objects are in that phase; returns when each of them got there, in order."""
        wait_for(lambda: self.counts[kind][phase] >= n, seconds, lambda: f"{n} {kind}s {phase}: {dict(self.counts[kind])}")
        return sorted(seen[-1][0] for seen in list(self.phases[kind].values()) if seen[-1][1] == phase)

    def close(self):
        for p in filter(None, (self.p, self.follower)):
            p.kill()
            p.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Operator:
    def __init__(self, cluster, *flags, of=OURS):
        self.of = of
        self.log = open(f"{cluster.dir}/operator.log", "a+")
        self.begin = time.monotonic()
        self.cluster, self.offset = cluster, os.path.getsize(self.log.name)
        self.port = free_port()
        self.p = subprocess.Popen([of.program(), f"--kubeconfig={cluster.user}", *of.flags(cluster.dir, self.port), *flags],
                                  stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def wait_ready(self):
        """In sync, and its watches have begun."""
        def synced():
            assert self.p.poll() is None, f"the operator ended: {self.text()[-2000:]}"
            return self.of.ready in self.text()
        wait_for(synced, 60, self.text)
        time.sleep(1)

    def wait_reported(self):
        """Until no event waits for the load to end: those of what was measured are counted with it.  Peers keep none back that long."""
        def reported():
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as reply:
                return b"\npaddlejob_events_waiting 0\n" in reply.read()
        if self.of is OURS:
            wait_for(reported, 120, "events wait", every=1)

    def text(self):
        with open(self.log.name, errors="replace") as f:
            f.seek(self.offset)
            return f.read()

    def cpu(self):
        return cpu_of(self.p.pid)

    def memory(self, field="VmRSS"):
        """MiB; VmHWM is the peak."""
        status = pathlib.Path(f"/proc/{self.p.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+)", status).group(1)) / 1024

    def wire(self):
        """Bytes sent and received on its connections, TLS and HTTP included."""
        out = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout
        mine = [line for line in out.splitlines() if f"pid={self.p.pid}," in line]
        return [sum(int(n) for line in mine for n in re.findall(rf"\b{field}:(\d+)", line)) for field in ("bytes_sent", "bytes_received")]

    def close(self):
        self.p.terminate()
        try:
            self.p.wait(60)
        finally:
            self.p.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def load(kubeconfig, lines):
    """Sends requests with all connections full; {"start": monotonic, "seconds": until the last answer}."""
    p = subprocess.run([BIN / "bench-load", f"--kubeconfig={kubeconfig}"], input="\n".join(lines) + "\n", capture_output=True, text=True,
                       timeout=1200)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


# ---- objects

PLURALS = {"Pod": "api/v1/namespaces/{}/pods", "Service": "api/v1/namespaces/{}/services", "ConfigMap": "api/v1/namespaces/{}/configmaps",
           "PaddleJob": "apis/batch.paddlepaddle.org/v1/namespaces/{}/paddlejobs",
           "JobSet": "apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"}


def post(obj, ns=NS):
    return f"POST /{PLURALS[obj['kind']].format(ns)} {json.dumps(obj, separators=(',', ':'))}"


def children(a_job):
    """What the operator will make for it, by its own word; without the owner, which is not there."""
    p = subprocess.run([BIN / "paddle-operator", "render", "-"], input=json.dumps(a_job), capture_output=True, text=True, check=True)
    objects = [json.loads(part) for part in p.stdout.split("---\n") if part.strip()]
    for o in objects:
        o["metadata"].pop("ownerReferences", None)
    return objects


def end_pod(name, phase):
    """What a kubelet would report at the end of a pod."""
    code = 0 if phase == "Succeeded" else 1
    state = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
    status = {"phase": phase, "containerStatuses": [{"name": "paddle", "ready": False, "restartCount": 0, "image": "x", "imageID": "x",
                                                     "state": state}]}
    return f"PATCH /api/v1/namespaces/{NS}/pods/{name}/status {json.dumps({'status': status}, separators=(',', ':'))}"


def delete_pod(name):
    return f"DELETE /api/v1/namespaces/{NS}/pods/{name}"
