"""A real control plane, operators as processes beside it, and a kubelet's part played by a thread."""
import concurrent.futures
import contextlib
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import kubernetes
import yaml
from kubernetes import client
from kubernetes.client.rest import ApiException

from ports import free_port
from supervise import Patience
from proxy import Proxy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PADDLE_BIN", ROOT / "build/bin"))
SANITIZED = "PADDLE_SANITIZED" in os.environ     # memory then says more about the sanitizer
FEWER = 4 if SANITIZED else 1                    # of many, where only memory asks for so many: the same code, in a quarter of the time
SLOW = 2 if SANITIZED else 1                     # and "never" comes later
GROUP = ("batch.paddlepaddle.org", "v1")
NODE = {"4": "10.250.0.10", "6": "fd00:250::10"}    # the address of every node


def wait_for(what, seconds=40 * SLOW, why="", every=0.02):
    """The first true value of what(); asserts when there is none in time, which is longer on a machine with much else to do."""
    patience = Patience(seconds)
    while True:
        value = what()
        if value:
            return value
        assert not patience.over(), f"not within {seconds} s: {why() if callable(why) else why}"
        time.sleep(max(every, min((seconds - patience.left) / 20, .2)))    # asking costs an API server, and this machine, as much as what is waited for


def logistic_loss(data, values):
    """Of logistic's model, w0 to w3 and b, over the folder's lines: what its own lines say depends on when they are printed."""
    *w, b = values
    losses = []
    for line in "".join(file.read_text() for file in sorted(data.iterdir())).splitlines():
        label, *x = map(float, line.split(","))
        z = b + sum(a * c for a, c in zip(w, x, strict=True))
        losses.append(math.log1p(math.exp(-z if label > 0 else z)))
    return sum(losses) / len(losses)


def stand_still(p):
    """Stops a child, and waits until it is: each of its threads stops in its own time."""
    p.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def state_of(pid):
    """As in /proc: R, S, T (stopped), Z; None: it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]
    return None


def listens(port, host="127.0.0.1"):
    with contextlib.suppress(OSError), socket.create_connection((host, port), 10):
        return True
    return False


def fetch(port, path="/metrics"):
    """What 127.0.0.1 answers to a GET: urllib's errors for what is no 200."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as r:
        return r.read().decode()


class ControlPlane:
    def __init__(self, *apiserver_args, up=()):
        """up: more options of deploy/local/up."""
        self.dir, self.port = tempfile.mkdtemp(prefix="pdj", dir="/tmp"), free_port()
        self.apiserver_args = [a for arg in apiserver_args for a in ("--apiserver-arg", arg)]
        self.up_args = up
        self.up()
        self.kubeconfig = f"{self.dir}/kubeconfig"
        config = yaml.safe_load(open(self.kubeconfig))
        self.server = config["clusters"][0]["cluster"]["server"]
        if not apiserver_args:          # that of all tests is the one that clients find by themselves
            kubernetes.config.load_kube_config(self.kubeconfig)
        settings = client.Configuration()
        settings.connection_pool_maxsize = 64       # threads of a test; beyond that each request makes a new TLS handshake
        api = kubernetes.config.new_client_from_config(self.kubeconfig, client_configuration=settings)
        self.core, self.custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
        wait_for(self._served, why="PaddleJobs served")
        self.end("controller-manager")      # its collector knows the kinds that it finds when it starts, others half a minute later
        self.up()

    def _served(self):
        try:
            return self.custom.list_cluster_custom_object(*GROUP, "paddlejobs")
        except ApiException:
            return None

    def up(self):
        """Starts what does not run; once more if that fails, as a process that was killed may linger."""
        for attempt in (1, 2):
            # No collector of pods: it deletes by name alone, seconds after it looked, and then it is a later pod of that name.
            p = subprocess.run([ROOT / "deploy/local/up", "--control-plane-only", "--controller-manager", "--port", str(self.port),
                                "--controllers", "*,-pod-garbage-collector-controller", *self.apiserver_args, *self.up_args,
                                self.dir], capture_output=True, text=True, timeout=900)
            if p.returncode == 0:
                return
            print(f"deploy/local/up, attempt {attempt}, ended with {p.returncode}:\n{p.stdout}{p.stderr}")
        raise AssertionError(f"deploy/local/up: {p.stderr[-2000:]}")

    def down(self):
        subprocess.run([ROOT / "deploy/local/down", self.dir], capture_output=True, timeout=60)
        shutil.rmtree(self.dir, ignore_errors=True)

    def kill(self, what, signo=signal.SIGKILL):
        """A signal to "apiserver", "etcd" or "controller-manager"."""
        os.kill(int((pathlib.Path(self.dir) / "pid" / what).read_text().split()[0]), signo)

    def kill_apiserver(self):
        self.kill("apiserver")

    def etcd(self, path, body):
        """A call of etcd's JSON gateway."""
        p = subprocess.run(["curl", "-sS", "--fail", "--unix-socket", f"{self.dir}/etcd.sock", f"http://localhost/v3/{path}",
                            "-d", json.dumps(body)], capture_output=True, text=True, timeout=20)
        assert p.returncode == 0, p.stderr + p.stdout
        return json.loads(p.stdout)

    def compact(self):
        """Versions of before now are no more."""
        revision = self.etcd("maintenance/status", {})["header"]["revision"]
        self.etcd("kv/compaction", {"revision": revision, "physical": True})

    def end(self, *programs):
        for what in programs:
            pid = int((pathlib.Path(self.dir) / "pid" / what).read_text().split()[0])
            self.kill(what)
            wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists() or "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:3],
                     10, f"{what} ends")

    def back_up(self):
        """What etcd holds now, for restore."""
        self.end("controller-manager", "apiserver", "etcd")
        shutil.rmtree(f"{self.dir}/etcd.saved", ignore_errors=True)
        shutil.copytree(f"{self.dir}/etcd", f"{self.dir}/etcd.saved")
        self.up()

    def restore(self):
        """Back to what back_up saved: versions continue from there, too."""
        self.end("controller-manager", "apiserver", "etcd")
        shutil.rmtree(f"{self.dir}/etcd")
        shutil.copytree(f"{self.dir}/etcd.saved", f"{self.dir}/etcd")
        self.up()

    def kubectl(self, *args, stdin=None):
        cache = pathlib.Path(os.environ.get("LOCAL_CLUSTER_CACHE", os.path.expanduser("~/.cache/local-cluster")))
        program = next(cache.glob("kubernetes-*/kubectl"))
        p = subprocess.run([program, "--kubeconfig", f"{self.dir}/kubeconfig", *map(str, args)], input=stdin, text=True,
                           capture_output=True, timeout=60)
        assert p.returncode == 0, f"kubectl {args}: {p.stderr}"
        return p.stdout

    def proxy(self, rng):
        host, port = re.match(r"https://([^:]+):(\d+)", self.server).groups()
        pki = f"{self.dir}/pki"
        return Proxy(host, int(port), f"{pki}/admin.crt", f"{pki}/admin.key", f"{pki}/ca.crt", rng)

    def certificate(self, directory):
        """Of a server on loopback, signed as the API server's own."""
        pathlib.Path(directory).mkdir()
        subprocess.run(["openssl", "req", "-x509", "-CA", f"{self.dir}/pki/ca.crt", "-CAkey", f"{self.dir}/pki/ca.key",
                        "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=loopback",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
                        "-keyout", f"{directory}/tls.key", "-out", f"{directory}/tls.crt"], check=True, capture_output=True)

    # ---- jobs

    def namespace(self, name):
        self.core.create_namespace({"metadata": {"name": name}})
        wait_for(lambda: self._has_account(name), why="default ServiceAccount")
        return name

    def _has_account(self, ns):
        try:
            return self.core.read_namespaced_service_account("default", ns)
        except ApiException:
            return None

    def create(self, ns, name, ps=1, worker=1, image="x", **spec):
        roles = {role: {"replicas": n, "template": {"spec": {"containers": [{"name": "paddle", "image": image}]}}}
                 for role, n in (("ps", ps), ("worker", worker)) if n is not None}
        body = {"apiVersion": "/".join(GROUP), "kind": "PaddleJob", "metadata": {"name": name}, "spec": {**roles, **spec}}
        return self.custom.create_namespaced_custom_object(*GROUP, ns, "paddlejobs", body)

    def job(self, ns, name):
        return self.custom.get_namespaced_custom_object(*GROUP, ns, "paddlejobs", name)

    def jobs(self, ns):
        return self.custom.list_namespaced_custom_object(*GROUP, ns, "paddlejobs")["items"]

    def patch(self, ns, name, body):
        return self.custom.patch_namespaced_custom_object(*GROUP, ns, "paddlejobs", name, body)

    def delete(self, ns, name):
        self.custom.delete_namespaced_custom_object(*GROUP, ns, "paddlejobs", name, propagation_policy="Background")

    def phase(self, ns, name):
        return self.job(ns, name).get("status", {}).get("phase")

    def wait_phase(self, ns, name, phase, seconds=60):
        """The status that says so: the next one may say something else."""
        seen = {}

        def there():
            seen.update(status=self.job(ns, name).get("status", {}))
            return seen["status"].get("phase") == phase
        wait_for(there, seconds, lambda: f"{name} is {json.dumps(seen['status'])[:1500]}, expected {phase}")
        return seen["status"]

    def pods(self, ns):
        return {p.metadata.name: p for p in self.core.list_namespaced_pod(ns).items}

    def events(self, ns):
        return [(e.reason, e.message) for e in self.core.list_namespaced_event(ns).items]

    def wait_event(self, ns, reason, *words):
        """Its message: an event is written after the status that it reports, good news some seconds after, half a minute under load."""
        return wait_for(lambda: next((m for r, m in self.events(ns) if r == reason and all(w in m for w in words)), None), 80,
                        why=lambda: f"no event {reason} with {words} in {self.events(ns)}")


class Seen:
    """An object as the API server sent it, read like one of the client's models (pod.metadata.deletion_timestamp), each of
    which takes milliseconds to make: the nodes of many pods are to be no slower than the operator."""

    def __init__(self, fields):
        self._fields = fields

    def __getattr__(self, name):
        value = self._fields.get(re.sub("_(ip$|.)", lambda m: m[1].upper(), name))
        if isinstance(value, dict) and name not in ("labels", "annotations"):
            return Seen(value)
        return [Seen(v) if isinstance(v, dict) else v for v in value] if isinstance(value, list) else value


class Kubelet(threading.Thread):
    """Plays the nodes: gives pods addresses, runs them, ends them when `finish` says so."""

    def __init__(self, plane):
        super().__init__(daemon=True)
        self.plane, self.n, self.created = plane, itertools.count(1), {}
        self.hold = set()           # names that stay Pending
        self.dead = set()           # names of pods whose node is dead: nobody acts for them
        self.family = "4"           # of the pods' addresses: 4, 6, 46
        self.finish = None          # pod -> (exit code, message) or None
        self.enders = {}            # namespace -> such a function
        self.stopping = False
        self.newest, self.pool = {}, concurrent.futures.ThreadPoolExecutor(6)   # uid -> an event that nobody has acted on
        self.waiting, self.waits = set(), {}    # uids of pods that wait for a ConfigMap; uid -> for how long, in seconds
        self.start()

    def ip(self):
        """A pod's addresses, the first one first, joined by commas."""
        n = next(self.n)
        v = {"4": f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}", "6": f"fd00::{n:x}"}
        return ",".join(v[f] for f in self.family)

    def run(self):
        while not self.stopping:
            try:
                for line in self.plane.core.list_pod_for_all_namespaces(watch=True, timeout_seconds=5, _preload_content=False):
                    event = json.loads(line)
                    self.see({**event, "object": Seen(event["object"])})
            except Exception:       # the API server may be down: that is what some tests are about
                time.sleep(0.1)

    def see(self, event):
        """Acts on a pod's newest event, many pods at a time: nodes do not wait for one another either."""
        meta = event["object"].metadata
        self.created.setdefault((meta.namespace, meta.name), set()).add(meta.uid)
        self.newest[meta.uid] = event
        self.pool.submit(self.act, meta.uid)

    def act(self, uid):
        event = self.newest.pop(uid, None)
        if event:
            with contextlib.suppress(Exception):
                self.on(event)

    def on(self, event):
        """Acts on what the pod was then.  Others do, too (a test, again()): who has seen an old state changes nothing, as the
        newer one comes as an event of its own."""
        pod = event["object"]
        version = pod.metadata.resource_version
        if event["type"] == "DELETED" or pod.metadata.name in self.dead:
            return
        if pod.metadata.deletion_timestamp:
            if pod.metadata.finalizers is None:
                self.remove(pod)
        elif pod.status.phase == "Pending" and pod.metadata.name not in self.hold:
            ip = ",".join(i.ip for i in pod.status.pod_i_ps or []) or self.ip()
            if not self.sources(pod):
                self.status(pod, "Pending", ip, version=version)
                self.later(pod)
            else:
                self.status(pod, "Running", ip, version=version)
        elif pod.status.phase == "Running":
            finish = self.enders.get(pod.metadata.namespace, self.finish)
            end = finish(pod) if finish else None
            if end:
                self.status(pod, "Failed" if end[0] else "Succeeded", ",".join(i.ip for i in pod.status.pod_i_ps), end,
                            version)

    def later(self, pod):
        """Once a pod at a time, however many events there are: those that wait are not to keep others waiting."""
        uid = pod.metadata.uid
        if uid not in self.waiting:
            self.waits[uid] = min(2 * self.waits.get(uid, .05), 1)
            self.waiting.add(uid)
            threading.Timer(self.waits[uid], self.again, (pod,)).start()

    def again(self, pod):
        self.waiting.discard(pod.metadata.uid)
        with contextlib.suppress(Exception):
            answer = self.plane.core.read_namespaced_pod(pod.metadata.name, pod.metadata.namespace, _preload_content=False)
            self.on({"type": "MODIFIED", "object": Seen(json.loads(answer.data))})

    def look(self, ns):
        """At all pods, now: what holds or ends them may be new."""
        for pod in self.plane.pods(ns).values():
            self.on({"type": "MODIFIED", "object": pod})

    def sources(self, pod):
        """What its first container's environment comes from is there."""
        core, container, ns = self.plane.core, pod.spec.containers[0], pod.metadata.namespace
        refs = [e.value_from.secret_key_ref for e in container.env or [] if e.value_from and e.value_from.secret_key_ref]
        try:
            for s in container.env_from or []:
                core.read_namespaced_config_map(s.config_map_ref.name, ns, _preload_content=False).data
            for s in refs:
                core.read_namespaced_secret(s.name, ns, _preload_content=False).data
        except Exception:
            return False
        return True

    def remove(self, pod):
        try:
            self.plane.core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0,
                                                  body={"preconditions": {"uid": pod.metadata.uid}}, _preload_content=False).data
        except ApiException:
            pass

    def status(self, pod, phase, ip, end=None, version=None):
        running = phase == "Running"
        state = {"running": {}} if running else {"waiting": {"reason": "ContainerCreating"}}
        if end:
            state = {"terminated": {"exitCode": end[0], "reason": "Error" if end[0] else "Completed", "message": end[1]}}
        # With the uid: not about another pod that has the name by now.
        body = {"metadata": {"uid": pod.metadata.uid, **({"resourceVersion": version} if version else {})},
                "status": {"phase": phase, "podIP": ip.split(",")[0], "podIPs": [{"ip": i} for i in ip.split(",")], "hostIP": NODE[self.family[0]],
                           "containerStatuses": [{"name": c.name, "ready": running, "restartCount": 0, "image": c.image,
                                                  "imageID": "x", "state": state} for c in pod.spec.containers]}}
        try:
            self.plane.core.patch_namespaced_pod_status(pod.metadata.name, pod.metadata.namespace, body, _preload_content=False).data
        except ApiException:
            pass

    def twice(self, ns):
        """Names under which more than one pod was ever seen."""
        return {k: v for k, v in self.seen(ns).items() if len(v) > 1}

    def seen(self, ns):
        """(namespace, name) -> uids of the pods so far."""
        return {k: set(v) for k, v in list(self.created.items()) if k[0] == ns}


class Operator:
    def __init__(self, kubeconfig, *flags, env=None, files=None):
        """files: so many it may have open."""
        self.metrics, self.health = free_port(), free_port()
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        self.args = [*(["prlimit", f"--nofile={files}"] if files else []), BIN / "paddle-operator", f"--kubeconfig={kubeconfig}", "--initImage=", "--gate-bind-address=0",
                     f"--metrics-bind-address=127.0.0.1:{self.metrics}",
                     f"--health-probe-bind-address=127.0.0.1:{self.health}", *os.environ.get("PADDLE_OPERATOR_FLAGS", "").split(), *flags]
        self.env = {**os.environ, **(env or {})}
        self.expected = False           # the test itself ended the process
        self.p, self.died = None, None  # the exit code of one that ended before it was to
        self.start()

    def start(self):
        if self.p and not self.expected and self.p.poll() is not None:
            self.died = self.p.returncode
        self.expected = False
        self.p = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.env)

    def started(self):
        """Once it serves, or has ended: what a test asks of it from then on is answered."""
        wait_for(lambda: self.p.poll() is not None or self.serves(), why=self.text)

    def serves(self):
        try:
            return fetch(self.health, "/healthz")
        except OSError:
            return None

    def kill(self):
        p, known = self.p, self.expected    # start() may follow from another thread
        self.expected = True
        p.kill()
        if p.wait() != -signal.SIGKILL and not known:
            self.died = p.returncode

    def stop(self, seconds=60):
        """SIGTERM, not before it listens to signals; the exit code."""
        self.expected = True
        wait_for(lambda: self.p.poll() is not None or self.handles_sigterm(), seconds, "the operator's handlers")
        self.p.terminate()
        return self.p.wait(seconds)

    def handles_sigterm(self):
        status = pathlib.Path(f"/proc/{self.p.pid}/status").read_text()
        return int(re.search(r"SigCgt:\s+(\w+)", status).group(1), 16) >> (signal.SIGTERM - 1) & 1

    def text(self):
        """Nothing, when it has ended well: its file is gone."""
        log = pathlib.Path(self.log.name)
        return log.read_text(errors="replace") if log.exists() else ""

    def rss(self, row="VmRSS"):
        """KiB; VmHWM: the most that it ever was."""
        status = pathlib.Path(f"/proc/{self.p.pid}/status").read_text()
        return int(re.search(rf"{row}:\s+(\d+)", status).group(1))

    def cpu(self):
        """Seconds used."""
        times = pathlib.Path(f"/proc/{self.p.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        """Ends it if it runs; it must end with 0, and no sanitizer may have a word to say."""
        running, code = self.p.poll() is None, self.p.returncode
        try:
            if running:
                code = self.stop()
            report = re.search(r"[^\n]*(?:ERROR: \w*Sanitizer|runtime error:)[\s\S]*", self.text())
            assert not report, report.group(0)[:6000]
            assert code == 0 or (self.expected and not running), f"the operator ended with {code}"
            assert self.died is None, f"the operator ended by itself with {self.died}"
        finally:
            if self.p.poll() is None:
                self.p.kill()
                self.p.wait()
            os.unlink(self.log.name)


def proxied(plane, proxy, directory):
    """A kubeconfig that leads through the proxy."""
    path = f"{directory}/proxied.kubeconfig"
    with open(path, "w") as f:
        yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "p",
                        "clusters": [{"name": "p", "cluster": {"server": f"http://127.0.0.1:{proxy.port}"}}],
                        "users": [{"name": "p", "user": {}}],
                        "contexts": [{"name": "p", "context": {"cluster": "p", "user": "p"}}]}, f)
    return path


def account_kubeconfig(plane, ns, account, path):
    """A kubeconfig of a ServiceAccount, with no more rights than it has."""
    token = plane.core.create_namespaced_service_account_token(account, ns, {"spec": {"expirationSeconds": 3600}})
    config = yaml.safe_load(open(plane.kubeconfig))
    config["users"][0]["user"] = {"token": token.status.token}
    path.write_text(yaml.safe_dump(config))
    return str(path)
