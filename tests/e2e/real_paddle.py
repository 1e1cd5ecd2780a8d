"""Real Paddle 3.3.1 in pods: deploy/examples/paddle as docs/train.md goes through it.

Not among the tests of `make test`: the wheel and its image are 700 MB.  `make paddle-pods` installs and runs.
"""
import os
import pathlib
import shutil
import tempfile

import pytest

from cluster import BUILD, LOCAL, ROOT, STATE, make, sh
from paddle_root import paddle_root

EXAMPLE = ROOT / "deploy/examples/paddle"
PROGRAMS = ROOT / "tests/paddle/programs"
IMAGE = "paddlejob/train:dev"
pytestmark = pytest.mark.deadline(500)      # seven hundred megabytes are read by every pod


@pytest.fixture(scope="session")
def image(cluster):
    """What the example's Dockerfile makes, of Debian's Python; kept in build/images."""
    archive = BUILD / "images/e2e-paddle.tar"
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=BUILD) as d:
            root = pathlib.Path(d) / "root"
            paddle_root(root)
            shutil.copy(EXAMPLE / "train.py", root / "workspace")
            sh(LOCAL / "image", "--name", IMAGE, "--workdir", "/workspace", f"--add={BUILD}/bin/paddlerun-static:/usr/local/bin/paddlerun",
               "--out", archive, root, seconds=600)
    sh(LOCAL / "image", "--archive", archive, "--into", STATE, seconds=600)
    return IMAGE


def job(space, image, *words):
    """The example's job; all nodes are this machine, so a directory of it is what a shared claim is elsewhere."""
    text = (EXAMPLE / "job.yaml").read_text()
    for old, new in (("REGISTRY/train:1", f"{image}\n          imagePullPolicy: IfNotPresent"),
                     ("persistentVolumeClaim:\n            claimName: training",
                      f"hostPath:\n            path: {STATE}.volumes/{space.name}\n            type: DirectoryOrCreate"),
                     ("/training/digits]", ", ".join(["/training/digits", *words]) + "]")):
        assert old in text
        text = text.replace(old, new)
    space.c.kubectl("-n", space.name, "create", "-f", "-", stdin=text)
    return "digits"


def test_the_example_completes(space, image):
    name = job(space, image)
    space.wait_completed(name, 300)
    space.wait_said(f"{name}-worker-0", r"\[Epoch 2\] acc: (0\.9|1)")
    assert os.path.exists(f"{STATE}.volumes/{space.name}/digits/checkpoint.pdparams")


def test_a_killed_worker_resumes_from_the_checkpoint(space, image):
    name = job(space, image, "--epochs", '"6"')
    space.wait_running(f"{name}-worker-0", 100)
    space.wait_said(f"{name}-worker-0", r"\[Epoch 1\] acc", 300)
    space.c.kill(space.pod(f"{name}-worker-1"))
    space.wait_completed(name, 400)
    assert space.job(name)["status"]["restarts"] == 1
    for i in range(2):
        space.wait_said(f"{name}-worker-{i}", r"resumes with epoch [2-6]")


def programs(image, replicas, program, *words):
    """Pods that run one of tests/paddle/programs under paddlerun."""
    container = {"name": "paddle", "image": image, "imagePullPolicy": "IfNotPresent",
                 "command": ["paddlerun", "launch", "--log_dir=", f"/programs/{program}", *words],
                 "volumeMounts": [{"name": "programs", "mountPath": "/programs", "readOnly": True}]}
    return {"replicas": replicas, "template": {"spec": {"containers": [container], "volumes": [
        {"name": "programs", "hostPath": {"path": str(PROGRAMS), "type": "Directory"}}]}}}


def test_workers_on_the_hosts_network_meet_by_gloo(space, image):
    """Gloo resolves the host's name, which is the node's; a server never ends by itself."""
    space.create(make("meets", worker=programs(image, 2, "gloo.py"), ps=programs(image, 1, "gloo.py"), withGloo=2, intranet="Host",
                      cleanPodPolicy="Never"))
    space.wait_completed("meets", 300)
    for i in range(2):
        space.wait_said(f"meets-worker-{i}", rf"^worker {i} met \[0, 1\]")
    space.wait_said("meets-ps-0", "^server 0 of 1, gloo 2")


def test_an_elastic_job_without_bounds_follows_kubectl_scale(space, image):
    """As upstream's documents have it: neither requests nor limits. It is scaled in, and out beyond what it began with."""
    space.create(make("free", worker=programs(image, 2, "elastic.py", "3"), elastic=1, intranet="Service",
                      cleanPodPolicy="Never"))

    def trains(size):
        space.wait_running("free-worker-0", 100)
        space.wait_said("free-worker-0", rf"^step of {size}: {size}$", 300)

    def scale(n):
        space.c.kubectl("-n", space.name, "scale", "pdj/free", f"--replicas={n}")

    trains(2)
    scale(1)
    trains(1)
    scale(3)
    space.wait_completed("free", 300)
    for i in range(3):
        space.wait_said(f"free-worker-{i}", "^step of 3: 3$")
    assert any("workers are asked for" in e.message for e in space.events("free")), space.show("free")
