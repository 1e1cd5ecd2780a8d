"""The operators of the benchmark: ours, and peers of other projects, unmodified (deploy/local/build has their recipes).

All act in the name of our service account, so that requests are counted and limited alike; a peer may do everything.
"""
import json
import os
import pathlib
import shutil
from typing import Callable, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/bin"
# What a PaddleJob needs; without the endpoint controllers, as for the other operators measured on such a rig.
CONTROLLERS = "garbage-collector-controller,namespace-controller,node-lifecycle-controller,serviceaccount-controller"
CACHE = pathlib.Path(os.environ.get("LOCAL_CLUSTER_CACHE", os.path.expanduser("~/.cache/local-cluster")))


def cached(component, file=None):
    """A program of deploy/local/build, or what its module brings beside it."""
    found = sorted(CACHE.glob(f"{component}-v*/{file or component}"))
    assert found, f"not in {CACHE}: {component}; deploy/local/build {component} builds it"
    return found[-1]


class Product(NamedTuple):
    program: Callable           # -> its path
    crds: Callable              # -> files
    flags: Callable             # (directory of the cluster, a free port) -> beside --kubeconfig
    ready: str                  # what its log says when it works
    job: Callable               # (name, ps, workers) -> an object
    up: Callable = list         # -> arguments of deploy/local/up, beside what all need
    scenarios: tuple = ()       # in which it runs beside ours
    # Where its jobs are no PaddleJobs: (resource, JSON path of a count for each role that is 1 when its pods are ready)
    follow: tuple = ()


def job(name, ps, workers, **spec):
    roles = {role: {"replicas": n, "template": {"spec": {"containers": [{"name": "paddle", "image": "x"}]}}}
             for role, n in (("ps", ps), ("worker", workers)) if n}
    return {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": name}, "spec": {**roles, **spec}}


def jobset(name, ps, workers):
    """With what its webhook would fill in, which is not installed."""
    roles = [{"name": role, "replicas": 1, "template": {"spec": {
        "parallelism": n, "completions": n, "completionMode": "Indexed", "template": {"spec": {
            "restartPolicy": "OnFailure", "containers": [{"name": "paddle", "image": "x"}]}}}}}
        for role, n in (("ps", ps), ("worker", workers)) if n]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": {
        "successPolicy": {"operator": "All"}, "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True}, "replicatedJobs": roles}}


def jobset_flags(directory, port):
    """Its own defaults, 500 requests/s among them.  It insists on a webhook server, which nobody asks here."""
    certs = pathlib.Path(directory, "webhook")
    certs.mkdir(exist_ok=True)
    for ending in ("crt", "key"):
        shutil.copy(f"{directory}/pki/apiserver.{ending}", certs / f"tls.{ending}")
    config = certs / "config.json"
    config.write_text(json.dumps({
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration", "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False}, "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certs)}}))
    return [f"--config={config}"]


CRD = ROOT / "deploy/v1/crd.yaml"
OURS = Product(
    program=lambda: BIN / "paddle-operator", crds=lambda: [CRD], job=job, ready="in sync",
    flags=lambda _, port: ["--initImage=", "--gate-bind-address=0", f"--metrics-bind-address=127.0.0.1:{port}",
                           "--health-probe-bind-address=0"])
# By their components in deploy/local/build.  Upstream's takes minutes for a thousand workers, and JobSet cleans nothing.
PEERS = {
    "paddle-operator": Product(
        program=lambda: cached("paddle-operator"), crds=lambda: [cached("paddle-operator", "manifests/crd.yaml")], job=job,
        ready="Starting workers", flags=lambda *_: ["--initImage=", "--metrics-bind-address=0", "--health-probe-bind-address=0"],
        scenarios=("big:100", "life:100", "many:100")),
    "jobset": Product(
        program=lambda: cached("jobset"), crds=lambda: [CRD, cached("jobset", "manifests/jobset.x-k8s.io_jobsets.yaml")], job=jobset,
        ready="Starting workers", flags=jobset_flags, scenarios=("big:100", "big:1000"),
        # Its pods are made by the Job controller, and stay when they run.
        up=lambda: ["--controllers", f"{CONTROLLERS},job-controller", *(a for stage in ("ready", "delete") for a in (
            "--kwok-arg", f"--config={cached('jobset', f'manifests/pod-{stage}.yaml')}"))],
        follow=("jobsets.jobset.x-k8s.io", "{.status.replicatedJobsStatus[*].ready}")),
}
