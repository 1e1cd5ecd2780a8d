"""Every job of deploy/examples and deploy/elastic, as a user creates it: with kubectl."""
import pytest

from cluster import ROOT, wait

# What becomes of each here.  A file that is not in the table is expected to complete.
NO_GPU = "Insufficient nvidia.com/gpu"      # these nodes have none, and no other node comes
PENDING = {"resnet.yaml": NO_GPU, "elastic/resnet.yaml": NO_GPU}
VOLCANO = "wide_and_deep_volcano.yaml"
FILES = sorted(p.name for p in (ROOT / "deploy/examples").glob("*.yaml")) + ["elastic/resnet.yaml"]


def path(file):
    return ROOT / "deploy" / file if "/" in file else ROOT / "deploy/examples" / file


def create(space, file, text=None):
    k = space.c.kubectl
    text = text or path(file).read_text()
    return k("-n", space.name, "create", "-f", "-", "-o", "jsonpath={.metadata.name}", stdin=text)


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
    if "wide" in file:
        log = k("-n", space.name, "logs", f"{job}-worker-0").lower()
        assert "auc" in log and "loss" in log, log[-2000:]
        assert f"secret/{job}-token-" in k("-n", space.name, "get", "secrets", "-o", "name")    # until the job is deleted


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
