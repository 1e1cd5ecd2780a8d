"""paddlert in pods: the job of docs/python.md, and examples/python in Paddle 3.3.1 and in PyTorch.

Not among the tests of `make test`: Paddle and PyTorch are 6 GB.  `make python-pods` installs and runs.
"""
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap

import pytest
import yaml

from cluster import BUILD, LOCAL, ROOT, STATE, sh, wait
from expected import check_expected
from paddle_root import PACKAGES, SITE, paddle_root

PAGE = (ROOT / "docs/python.md").read_text()
EXAMPLE = ROOT / "examples/python"
PROGRAMS = ROOT / "tests/python/programs"
IMAGE = "train:1"                           # as the page calls it
pytestmark = pytest.mark.deadline(500)      # nine hundred megabytes are read by every pod


@pytest.fixture(scope="session")
def image(cluster):
    """What the page's Dockerfile and the example's make, in one: the wheel, Paddle, the scripts and data."""
    with tempfile.TemporaryDirectory(dir=BUILD) as d:
        home, root = pathlib.Path(d), pathlib.Path(d) / "root"
        paddle_root(root)
        (root / "usr/bin/python").symlink_to("python3")
        sh("make", "-s", "-C", ROOT, "build/lib/libpaddlert.so.1", seconds=200)
        sh(ROOT / "python/wheel", "v1.2", home, BUILD / "lib/libpaddlert.so.1")
        sh(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", root / PACKAGES, *home.glob("paddlert-*.whl"))
        (root / "workspace/train.py").write_text(PAGE.split("```python\n")[1].split("```")[0])
        for script in [*EXAMPLE.glob("*.py"), PROGRAMS / "ddp.py", PROGRAMS / "members.py", PROGRAMS / "gate.py"]:
            shutil.copy(script, root / "workspace")
        sh(BUILD / "bin/wide_and_deep", "--generate", root / "workspace/data")
        sh(LOCAL / "image", "--name", IMAGE, "--workdir", "/workspace", "--out", home / "image.tar", root, seconds=600)
        sh(LOCAL / "image", "--archive", home / "image.tar", "--into", STATE, seconds=600)
    return IMAGE


def create(space, text):
    return space.c.kubectl("-n", space.name, "create", "-f", "-", "-o", "jsonpath={.metadata.name}", stdin=text)


def said(space, pod):
    return space.c.kubectl("-n", space.name, "logs", pod)


def test_the_job_of_the_page_trains_a_model(space, image):
    """To the letter."""
    name = create(space, textwrap.dedent(PAGE[PAGE.index("    apiVersion:"):PAGE.index("    kubectl create -f job.yaml")]))
    space.wait_completed(name, 200)
    right = re.findall(r"^accuracy ([0-9.]+)", said(space, f"{name}-worker-0"), re.M)
    assert len(right) == 1 and float(right[0]) > 0.9
    assert "loss" in said(space, f"{name}-worker-1")
    assert f"secret/{name}-token-" in space.c.kubectl("-n", space.name, "get", "secrets", "-o", "name")


def with_torch(job, *more):
    """PyTorch from a folder of this machine, which all nodes are, as its libraries for GPUs are too much for an image here."""
    for role in job["spec"].keys() & {"worker", "ps"}:
        spec = job["spec"][role]["template"]["spec"]
        spec["volumes"] = [{"name": "torch", "hostPath": {"path": str(BUILD / "torch" / SITE), "type": "Directory"}}]
        spec["containers"][0] |= {"volumeMounts": [{"name": "torch", "mountPath": "/torch", "readOnly": True}],
                                  "env": [{"name": "PYTHONPATH", "value": "/torch"}, *more]}
    return job


@pytest.mark.parametrize("file", ["job.yaml", "job_paddle.yaml"])
def test_wide_and_deep(space, image, file):
    job = yaml.safe_load((EXAMPLE / file).read_text().replace("wide-and-deep-python:dev", image))
    name = create(space, yaml.safe_dump(job if "paddle" in file else with_torch(job)))
    space.wait_completed(name, 300)
    pods = [f"{name}-worker-{i}" for i in range(2)]
    check_expected("\n".join(f"{p} {line}" for p in pods for line in said(space, p).splitlines()), "python")


@pytest.mark.parametrize("fails", ["", "1"])
def test_torchs_own_ddp_without_a_launcher(space, image, fails):
    """The job of docs/torchrun.md; rank 1 fails at its first start, and the group restarts."""
    page = (ROOT / "docs/torchrun.md").read_text()
    job = yaml.safe_load(textwrap.dedent(page[page.index("    apiVersion:"):page.index("    kubectl create")]))
    job["spec"]["cleanPodPolicy"] = "Never"
    job = with_torch(job, {"name": "FAILS", "value": fails})
    job["spec"]["worker"]["template"]["spec"]["containers"][0]["command"] = ["python", "ddp.py"]
    name = create(space, yaml.safe_dump(job))
    space.wait_completed(name, 300)
    for i in range(2):
        assert f"rank {i} of 2, {len(fails)} restarts: the same" in said(space, f"{name}-worker-{i}")


def test_workers_of_elastic_training_come_back(space, image):
    """The page's job with NumPy's program: a container that is killed, then a pod that is deleted, while the others train on."""
    page = PAGE.split("## Workers that die and come back\n")[1].split("\n## ")[0]
    job = yaml.safe_load(textwrap.dedent(page[page.index("    apiVersion:"):].split("\n\n")[0]))
    with tempfile.TemporaryDirectory(dir=BUILD) as d:
        shared = pathlib.Path(d)
        shared.chmod(0o777)
        gate = shared / "gate"

        def log(worker):
            file = shared / f"log.{worker}"
            return file.read_text() if file.exists() else ""

        def opened(step):
            """At once: workers read it all the time."""
            (shared / "next").write_text(f"{step} 1000")
            (shared / "next").rename(gate)

        def train(step, *workers):
            """These do all steps before that one."""
            opened(step)
            wait(f"step {step - 1}", 120, lambda: all(re.search(rf"^{step - 1} ", log(w), re.M) for w in workers), lambda: space.show("elastic"))

        def back(worker, step, *others):
            """The others do one step after another until it has come back; the step that is next."""
            while log(worker).count("in ") < 2:
                step += 1
                train(step, *others)
            return step

        job["spec"]["cleanPodPolicy"] = "Never"
        opened(20)
        spec = job["spec"]["worker"]["template"]["spec"]
        spec["volumes"] = [{"name": "shared", "hostPath": {"path": d, "type": "Directory"}}]
        spec["containers"][0] |= {"command": ["python", "members.py", "repeat", "/shared/log", "10"],
                                  "env": [{"name": "GATE", "value": "/shared/gate"}],
                                  "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
        name = create(space, yaml.safe_dump(job))
        train(20, 0, 1, 2)
        space.c.kill(space.pod(f"{name}-worker-1"))
        step = back(1, 20, 0, 2)
        train(step + 5, 0, 1, 2)
        space.c.kubectl("-n", space.name, "delete", "pod", f"{name}-worker-2", "--grace-period=0", "--force")
        back(2, step + 5, 0, 1)
        opened(1000)
        space.wait_completed(name, 200)
        for i in range(3):
            # 10 passes over 600 numbers, in batches of 20
            assert f"done 300 6000 0 {10 * 600 * 599 // 2} " in said(space, f"{name}-worker-{i}")
        assert [log(i).count("in ") for i in range(3)] == [1, 2, 2]
