"""A control plane with schedulers that place gangs: kube-scheduler, and as they are released Volcano, scheduler-plugins
and Kueue, as processes beside it; and nodes that a thread plays."""
import base64
import contextlib
import datetime
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import yaml

from kubernetes.client.rest import ApiException
from rig import ROOT, ControlPlane, Kubelet, free_port, wait_for

NODES, CPUS = 2, 2
NATIVE = ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha1=true"]
NATIVE_SCHEDULER = "--feature-gates=GenericWorkload=true,GangScheduling=true"
# Volcano's own default configuration.
VOLCANO = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
# As scheduler-plugins ships it, under a name of its own: a second scheduler beside kube-scheduler.
SECOND = "scheduler-plugins-scheduler"
COSCHEDULING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [{
        "schedulerName": SECOND,
        "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                    "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}]}]}
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"},
         "spec": {"weight": 1, "reclaimable": True}}


class Program:
    """A process with a log."""

    def __init__(self, plane, name, *args):
        self.log = pathlib.Path(plane.dir) / f"log/{name}.log"
        with self.log.open("w") as log:
            self.p = subprocess.Popen(list(map(str, args)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.name = name

    def alive(self):
        assert self.p.poll() is None, f"{self.name} ended with {self.p.returncode}: {self.log.read_text()[-3000:]}"
        return True

    def stop(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.wait()


def program(name, output=None):
    """The path of what deploy/local/build makes; built when it is not there."""
    cache = pathlib.Path(os.environ.get("LOCAL_CLUSTER_CACHE", pathlib.Path(
        os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "local-cluster"))
    subprocess.run([ROOT / "deploy/local/build", name], check=True, timeout=1800, stdin=subprocess.DEVNULL)
    return max(cache.glob(output or f"*/{name}"))


class Nodes(Kubelet):
    """Runs the pods that a scheduler has given a node."""

    def __init__(self, plane):
        for i in range(NODES):
            plane.core.create_node({"metadata": {"name": f"n{i}"}})
        self.beat(plane)
        super().__init__(plane)
        threading.Thread(target=self.beats, daemon=True).start()

    def beats(self):
        while not self.stopping:
            time.sleep(5)
            with contextlib.suppress(Exception):
                self.beat(self.plane)

    @staticmethod
    def beat(plane):
        """Nodes are ready as long as they say so; after 40 s without a word they are not."""
        size = {"cpu": str(CPUS), "memory": "8Gi", "pods": "110"}
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for i in range(NODES):
            plane.core.patch_node_status(f"n{i}", {"status": {"capacity": size, "allocatable": size, "conditions": [
                {"type": "Ready", "status": "True", "reason": "x", "message": "x", "lastHeartbeatTime": now}]}})

    def on(self, event):
        pod = event["object"]
        if pod.metadata.deletion_timestamp and pod.metadata.finalizers and pod.status.phase in ("Pending", "Running"):
            self.status(pod, "Failed", pod.status.pod_ip or "", (137, "killed"))    # as a kubelet before it removes the pod
        elif pod.spec.node_name:
            super().on(event)
        elif pod.metadata.deletion_timestamp:
            self.remove(pod)


def established(crd):
    return any(c["type"] == "Established" and c["status"] == "True" for c in crd.get("status", {}).get("conditions") or [])


class GangPlane(ControlPlane):
    def __init__(self):
        super().__init__(*NATIVE, up=["--scheduler", "--scheduler-arg", NATIVE_SCHEDULER])
        self.nodes = Nodes(self)
        self.programs = []

    def down(self):
        self.nodes.stopping = True
        for p in self.programs:
            p.stop()
        super().down()

    def run(self, name, *args):
        self.programs.append(Program(self, name, *args))
        return self.programs[-1]

    def install(self, *files):
        """CRDs; server-side, as some are too large for an annotation."""
        self.kubectl("apply", "--server-side", *[a for f in files for a in ("-f", f)])
        # `kubectl wait` fails on one that has no conditions yet.
        wait_for(lambda: all(map(established, json.loads(self.kubectl("get", "crd", "-o", "json"))["items"])), 30,
                 "every CRD is established")

    # ---- what is installed

    def volcano(self):
        scheduler = program("vc-scheduler")
        controllers = program("vc-controller-manager")
        self.install(*sorted((scheduler.parent / "manifests").glob("*.yaml")))
        conf = pathlib.Path(self.dir) / "conf/volcano.yaml"
        conf.write_text(VOLCANO)
        self.kubectl("create", "namespace", "volcano-system")
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(QUEUE))
        common = ["--kubeconfig", self.kubeconfig, "--leader-elect=false", "--logtostderr", "--listen-address=127.0.0.1:0"]
        self.run("vc-controllers", controllers, *common)
        s = self.run("vc-scheduler", scheduler, *common, "--scheduler-conf", conf, "--schedule-period=200ms",
                     "--cache-dumper=false")
        wait_for(lambda: s.alive() and self.queue_open(), 30, lambda: "queue default not open\n" + s.log.read_text()[-2000:])

    def queue_open(self):
        q = self.custom.get_cluster_custom_object("scheduling.volcano.sh", "v1beta1", "queues", "default")
        return q.get("status", {}).get("state") == "Open"

    def coscheduling(self):
        scheduler = program("coscheduling")
        self.install(scheduler.parent / "manifests/crd.yaml")
        conf = pathlib.Path(self.dir) / "conf/coscheduling.yaml"
        conf.write_text(yaml.safe_dump({**COSCHEDULING, "clientConnection": {"kubeconfig": self.kubeconfig}}))
        s = self.run("coscheduling", scheduler, "--config", conf, "--secure-port=0")
        wait_for(lambda: s.alive() and "Starting Kubernetes Scheduler" in s.log.read_text(), 30,
                 lambda: s.log.read_text()[-2000:])

    def kueue(self):
        controller = program("kueue")
        files = sorted((controller.parent / "manifests").glob("kueue.x-k8s.io_*.yaml"))
        self.install(*files)
        self.kubectl("create", "namespace", "kueue-system")
        port = free_port()
        self.certificate(f"{self.dir}/kueue")
        conf = pathlib.Path(self.dir) / "conf/kueue.yaml"
        conf.write_text(yaml.safe_dump({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "webhook": {"port": port, "host": "127.0.0.1", "certDir": f"{self.dir}/kueue"},
            "health": {"healthProbeBindAddress": "127.0.0.1:0"}, "metrics": {"bindAddress": "0"},
            "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "clientConnection": {"qps": 100, "burst": 200}, "integrations": {"frameworks": ["pod"]}}))
        # It looks for another certificate in a fixed place: an /etc of its own.
        etc = f"mount -t tmpfs etc /etc && mkdir -p /etc/kueue/metrics && ln -s {self.dir}/kueue /etc/kueue/metrics/certs"
        k = self.run("kueue", "unshare", "-m", *([] if os.geteuid() == 0 else ["-r"]), "sh", "-c", f'{etc} && exec "$@"', "sh",
                     controller, "--config", conf, "--kubeconfig", self.kubeconfig,
                     "--feature-gates=VisibilityOnDemand=false")
        wait_for(lambda: k.alive() and "Serving webhook server" in k.log.read_text(), 60,
                 lambda: k.log.read_text()[-2000:])
        self.kubectl("apply", "-f", "-", stdin=self.webhooks(controller.parent / "manifests/manifests.yaml", port))

    def webhooks(self, path, port):
        """Kueue's own, for its objects and pods, led to its process; in namespaces labelled for it."""
        ca = base64.b64encode(pathlib.Path(f"{self.dir}/pki/ca.crt").read_bytes()).decode()
        configs = list(yaml.safe_load_all(path.read_text()))
        for c in configs:
            c["webhooks"] = [w for w in c["webhooks"] if "kueue-x-k8s-io" in w["clientConfig"]["service"]["path"] or
                             w["clientConfig"]["service"]["path"].endswith("--v1-pod")]
            for w in c["webhooks"]:
                where = w["clientConfig"].pop("service")["path"]
                w["clientConfig"] = {"url": f"https://127.0.0.1:{port}{where}", "caBundle": ca}
                if where.endswith("--v1-pod"):
                    w["namespaceSelector"] = {"matchLabels": {"queued": "yes"}}
        return yaml.safe_dump_all(configs)

    # ---- asking

    def get(self, ns, group, version, plural, name):
        try:
            return self.custom.get_namespaced_custom_object(group, version, ns, plural, name)
        except ApiException as e:
            if e.status != 404:
                raise
            return None
