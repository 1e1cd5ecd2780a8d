"""Every job of deploy/examples, deploy/elastic and examples, as a user creates it: with kubectl."""
import os
import pathlib
import re
import subprocess

import pytest
import yaml

from cluster import BUILD, KUBECTL, ROOT, STATE, wait
from expected import check_expected

# What becomes of each here.  A file that is not in the table is expected to complete.
NO_GPU = "Insufficient nvidia.com/gpu"      # these nodes have none, and no other node comes
PENDING = {"resnet.yaml": NO_GPU, "elastic/resnet.yaml": NO_GPU}
VOLCANO = "wide_and_deep_volcano.yaml"
# Whose output must be what an `expect` file says.
MODELS = {f"examples/{name}/job.yaml": name for name in ("logistic", "ctr_dnn", "word2vec", "recommendation", "resnet50")}
MODELS |= {"wide_and_deep.yaml": "wide_and_deep", "deepfm.yaml": "deepfm"}
FILES = sorted({p.name for p in (ROOT / "deploy/examples").glob("*.yaml")} | {"elastic/resnet.yaml"} | set(MODELS))


def path(file):
    return ROOT / file if file.startswith("examples/") else ROOT / "deploy" / file if "/" in file else ROOT / "deploy/examples" / file


def create(space, file, text=None):
    k = space.c.kubectl
    text = on_this_node(text or path(file).read_text(), space.name)
    return k("-n", space.name, "create", "-f", "-", "-o", "jsonpath={.metadata.name}", stdin=text)


def on_this_node(text, name):
    """All nodes are this machine, so a directory of it is what a claim that many can write to is elsewhere."""
    claim = "persistentVolumeClaim:\n            claimName: checkpoints"
    shared = pathlib.Path(f"{STATE}.volumes/{name}")
    if claim in text:       # fsGroup is for volumes that the kubelet mounts: not for a directory of the node
        shared.mkdir(parents=True, exist_ok=True)
        shared.chmod(0o777)
    return text.replace(claim, f"hostPath:\n            path: {shared}\n            type: DirectoryOrCreate")


def test_every_example_is_known():
    assert len(FILES) >= 8


@pytest.mark.parametrize("file", [f for f in FILES if f not in PENDING and f != VOLCANO])
def test_example_completes(space, file):
    job = create(space, file)
    k = space.c.kubectl
    space.wait_completed(job, 110)
    k("-n", space.name, "wait", "--for=condition=Succeeded", f"pdj/{job}")
    row = k("-n", space.name, "get", "pdj", "--no-headers").split()
    assert row[:2] == [job, "Completed"], row
    wide = k("-n", space.name, "get", "pdj", "-o", "wide")
    assert job in wide
    if file in MODELS:
        logs = [(f"{job}-worker-{i}", k("-n", space.name, "logs", f"{job}-worker-{i}")) for i in range(2)]
        check_expected("\n".join(f"{pod} | {line}" for pod, log in logs for line in log.splitlines()), MODELS[file])
    if file in MODELS or "wide" in file:
        assert "loss" in k("-n", space.name, "logs", f"{job}-worker-0").lower()
        assert f"secret/{job}-token-" in k("-n", space.name, "get", "secrets", "-o", "name")    # until the job is deleted


def test_top_shows_the_pods_of_a_job(space):
    """By its name and a kubeconfig alone, from outside of the cluster, through the API server's proxy."""
    job = yaml.safe_load(path("wide_and_deep.yaml").read_text())
    for role, words in (("ps", []), ("worker", ["--lines=100000000", "--test-lines=100"])):
        job["spec"][role]["replicas"] = 1
        container = job["spec"][role]["template"]["spec"]["containers"][0]
        container["command"] = ["paddlerun", "exec", "--", "wide_and_deep", *words]
        container["env"] = [{"name": "PADDLERT_METRICS", "value": ":9400"}]
    name = space.create(job)["metadata"]["name"]
    kubectl = pathlib.Path(KUBECTL)
    env = {**os.environ, "PATH": f"{kubectl.parent}:{os.environ['PATH']}", "KUBECONFIG": str(STATE / "kubeconfig")}

    def top(*words):
        r = subprocess.run([BUILD / "bin/paddlerun", "top", *words, "--count=1", "--timeout=5s"], env=env, capture_output=True, text=True,
                           timeout=100)
        return r.stdout + r.stderr

    rows = (rf"^{name}-ps-0 +\S+ .* 1/1 ", rf"^{name}-worker-0 +\d+ ")
    wait("both pods in the table", 60, lambda: all(re.search(row, top(name, "-n", space.name), re.M) for row in rows),
         lambda: top(name, "-n", space.name) + space.show(name))
    assert f"{name} no pod of such a job" in top(name)        # in the namespace of kubectl's context
    space.delete_job(name)
    space.wait_gone(name)


def test_a_killed_server_comes_back_and_the_job_completes(space):
    """Both go back to the checkpoint: the one that was killed, and the one that was not."""
    job = create(space, "checkpoints.yaml")
    space.wait_running(f"{job}-worker-0")
    space.wait_said(f"{job}-worker-0", 'checkpoint 2 .* in "/checkpoints/')
    victim = space.wait_running(f"{job}-ps-1")
    space.c.kill(victim)
    space.wait_completed(job, 110)
    assert [space.pod(f"{job}-ps-{i}").status.container_statuses[0].restart_count for i in range(2)] == [0, 1]
    for i in range(2):
        space.wait_said(f"{job}-worker-{i}", "worker goes back")
    assert "auc" in space.c.kubectl("-n", space.name, "logs", f"{job}-worker-0").lower()


@pytest.mark.parametrize("file", PENDING)
def test_example_without_its_gpu_waits_and_says_so(space, file):
    job = create(space, file)
    replicas = space.job(job)["spec"]["worker"]["replicas"]
    wait(f"{replicas} pods", 20, lambda: len(space.pods(job)) == replicas, lambda: space.show(job))
    for i in range(replicas):
        wait(f"the scheduler's word on worker {i}", 20, lambda: any(
            NO_GPU in (e.message or "") for e in space.events(f"{job}-worker-{i}")), lambda: space.show(job))
    space.wait_phase(job, "Pending", 20)
    # A user looks at the job, not at its pods.
    assert NO_GPU in space.c.kubectl("-n", space.name, "describe", "pods")
    space.delete_job(job)
    space.wait_gone(job)


def test_volcano_example_waits_for_volcano_and_runs_without(space):
    """No Volcano here: with it named as scheduler nothing starts; else all is as in the others."""
    job = create(space, VOLCANO)
    wait("4 pods", 20, lambda: len(space.pods(job)) == 4, lambda: space.show(job))
    assert {p.spec.scheduler_name for p in space.pods(job)} == {"volcano"}
    space.wait_phase(job, "Pending", 20)
    space.delete_job(job)
    space.wait_gone(job)
    text = path(VOLCANO).read_text().replace("schedulerName: volcano", "schedulerName: default-scheduler")
    space.wait_completed(create(space, VOLCANO, text), 100)
