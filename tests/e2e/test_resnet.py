"""deploy/examples/resnet.yaml and deploy/elastic/resnet.yaml without the GPUs that they ask for: the program computes on the CPU."""
import re

import pytest
import yaml

from cluster import ROOT, STATE, wait


def job_of(file, *more):
    """The file's job, with more arguments (the last of a name counts)."""
    job = yaml.safe_load((ROOT / "deploy" / file).read_text())
    job["metadata"].pop("namespace", None)
    container = job["spec"]["worker"]["template"]["spec"]["containers"][0]
    assert container.pop("resources") == {"limits": {"nvidia.com/gpu": 1}}
    container["args"] += more
    return job


def log(space, pod):
    return space.c.kubectl("-n", space.name, "logs", pod, check=False)


def test_two_workers_train_to_the_end(space):
    # A thread each: the two share a machine, and OpenMP spins for a core that does not come.
    space.create(job_of("examples/resnet.yaml", "--test", "--threads=1"))
    space.wait_completed("resnet", 110)
    assert re.search(r"\[Epoch 1, .*\n(.*\n)*\[Test\] loss", log(space, "resnet-worker-0"))


@pytest.mark.deadline(300)
def test_an_elastic_job_survives_a_kill_and_a_scale(space):
    """Three workers; one is killed and comes back; two run to the end.  Each time from the newest checkpoint."""
    job = job_of("elastic/resnet.yaml", "--depth=10", "--width=16", "--image-size=32", "--batch-size=8", "--epochs=100",
                 "--checkpoint-every=10", "--threads=1")
    job["spec"]["intranet"] = "Service"     # the launchers meet at worker 0: no etcd
    job["spec"]["worker"].update(requests=1, limits=3)
    volumes = job["spec"]["worker"]["template"]["spec"]["volumes"]
    next(v for v in volumes if v["name"] == "checkpoint")["hostPath"] = {
        "path": f"{STATE}.volumes/{space.name}", "type": "DirectoryOrCreate"}
    name = space.create(job)["metadata"]["name"]

    def began():
        """Steps at which worker 0, whose container is never restarted, has resumed."""
        return [int(s) for s in re.findall(r'resuming from a checkpoint" step=(\d+)', log(space, f"{name}-worker-0"))]

    def wait_resumed(times):
        wait(f"training goes on for time {times}", 60, lambda: len(began()) >= times,
             lambda: log(space, f"{name}-worker-0")[-4000:] + space.show(name))

    space.wait_running(f"{name}-worker-0")
    space.wait_said(f"{name}-worker-0", r"\[Epoch 2, ")
    before = len(began())                   # workers that came late
    space.c.kill(space.wait_running(f"{name}-worker-1"))
    wait_resumed(before + 1)
    space.wait_said(f"{name}-worker-1", "resuming from a checkpoint")
    times = len(began())
    space.c.kubectl("-n", space.name, "scale", f"pdj/{name}", "--replicas=2")
    wait_resumed(times + 1)
    space.wait_completed(name, 150)
    steps = began()
    assert steps == sorted(steps) and steps[0] > 0, steps
    assert "[Epoch 99, " in log(space, f"{name}-worker-0")
