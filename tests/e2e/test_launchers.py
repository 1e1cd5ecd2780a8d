"""Paddle's launchers inside pods, by ours: jobs with servers, collective jobs, and nodes that meet without an operator."""
import re

import pytest

from cluster import SHELL, make, wait
from test_plain import apply, logs, pod

SHOW = ["/usr/local/bin/paddlerun", "info", "--timeout=0"]       # the image has no shell


def role(n, *command):
    container = {"name": "paddle", "image": "paddlejob/runtime:dev", "imagePullPolicy": "IfNotPresent", "command": list(command)}
    return {"replicas": n, "template": {"spec": {"containers": [container]}}}


def of(space, name):
    return space.c.core.read_namespaced_pod_log(name, space.name)


def roles(texts):
    return sorted(m for text in texts for m in re.findall(r"^role +(.*)$", text, re.M))


@pytest.mark.deadline(120)
def test_a_job_with_servers_under_the_launcher(space):
    """The FleetX quick start's program under `launch` in every pod; Paddle's own launcher waits for ever there."""
    words = ["paddlerun", "launch", "--log_dir=", "/usr/local/bin/wide_and_deep", "--lines=4000", "--test-lines=500", "--save="]
    space.create(make("ps", ps=role(1, *words), worker=role(2, *words), cleanPodPolicy="Never"))
    space.wait_completed("ps", 100)
    assert "TRAIN --->" in of(space, "ps-worker-0") and "TRAIN --->" in of(space, "ps-worker-1")


@pytest.mark.deadline(120)
def test_a_collective_job_under_the_launcher(space):
    """Each pod's launcher has two processes; all four know each other by the operator's list alone."""
    words = ["paddlerun", "launch", "--nproc_per_node=2", "--log_dir=", *SHOW]
    space.create(make("coll", worker=role(2, *words), cleanPodPolicy="Never"))
    space.wait_completed("coll", 100)
    assert roles(of(space, f"coll-worker-{i}") for i in range(2)) == [f"worker {i} of 4" for i in range(4)]


@pytest.mark.deadline(120)
@pytest.mark.parametrize("words, cause", [
    (["/no/such/program"], 'cannot start "/no/such/program": .*No such file or directory'),
    (["/usr/local/bin/paddlerun", "info", "--no-such-flag"], "worker 0: exit code 2: .*--no-such-flag"),
])
def test_a_failed_launcher_says_why_in_the_jobs_status(space, words, cause):
    space.create(make("why", worker=role(1, "paddlerun", "launch", *words)))
    space.wait_phase("why", "Failed", 100, never=("Completed",))
    message = space.job("why")["status"]["message"]
    assert re.search(cause, message), message


def with_shell(role):
    """The image has none."""
    mount = {"name": "sh", "mountPath": "/sh"}
    spec = role["template"]["spec"]
    spec["volumes"] = [{"name": "sh", "emptyDir": {}}]
    spec["containers"][0]["volumeMounts"] = [mount]
    spec["initContainers"] = [{"name": "shell", "image": SHELL, "imagePullPolicy": "IfNotPresent", "volumeMounts": [mount],
                               "command": ["/bin/busybox", "cp", "/bin/busybox", "/sh/busybox"]}]
    return role


SERVE = "trap 'echo told to end; exit 7' TERM; echo serving; while :; do /sh/busybox sleep 0.1; done"


@pytest.mark.deadline(180)
def test_servers_that_never_end_are_ended_with_their_workers(space):
    """As real Paddle's: stopped by the operator, not deleted."""
    first = {"exec": ["paddlerun", "exec", "--"], "launch": ["paddlerun", "launch", "--log_dir="]}
    for name, words in first.items():
        space.create(make(name, ps=with_shell(role(1, *words, "/sh/busybox", "sh", "-c", SERVE)), cleanPodPolicy="Never",
                          worker=with_shell(role(1, "/sh/busybox", "sleep", "5"))))
    for name in first:
        space.wait_completed(name, 90)
        server = space.pod(f"{name}-ps-0")
        end = server.status.container_statuses[0].state.terminated
        assert server.status.phase == "Succeeded" and end.exit_code == 0, space.show(name)
        assert "told to end" in of(space, f"{name}-ps-0") and "training is over" in of(space, f"{name}-ps-0")
        ended = next(e.first_timestamp for e in space.events(name) if "all workers have succeeded" in e.message)
        assert (end.finished_at - ended).total_seconds() < 30, space.show(name)     # --server-grace


# A worker that trains until it was one of three and is alone again.
TRAIN = """
trap 'echo saved by $PADDLE_TRAINER_ID; exit 0' TERM
echo rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM
echo $PADDLE_TRAINERS_NUM >> /sh/seen
until /sh/busybox grep -q 3 /sh/seen && [ $PADDLE_TRAINERS_NUM = 1 ]; do /sh/busybox sleep 0.1; done
echo trained
"""


@pytest.mark.deadline(240)
def test_elastic_jobs_follow_kubectl_scale(space):
    """No etcd: the pods' launchers meet at worker 0, and the operator says by making and deleting pods who belongs to them."""
    jobs = {"named": "Service", "el": "DNS"}
    for name, intranet in jobs.items():
        worker = with_shell(role(2, "paddlerun", "launch", "--log_dir=", "/sh/busybox", "sh", "-c", TRAIN))
        worker.update(requests=1, limits=3)
        space.create(make(name, worker=worker, elastic=1, intranet=intranet, cleanPodPolicy="Never"))

    def says(pod, line):
        def ask():                       # a container that has not started has no log, which is an error of kubectl
            return space.c.kubectl("-n", space.name, "logs", pod, check=False)
        wait(f"{pod} says {line!r}", 100, lambda: line in ask(), lambda: ask() + space.show(pod.rsplit("-", 2)[0]))

    def are(n):
        for name in jobs:
            for i in range(n):
                says(f"{name}-worker-{i}", f"rank {i} of {n}")

    def scale(n):
        for name in jobs:
            space.c.kubectl("-n", space.name, "scale", f"pdj/{name}", f"--replicas={n}")

    are(2)
    scale(3)
    are(3)
    uids = {name: space.pod(f"{name}-worker-0").metadata.uid for name in jobs}
    scale(1)
    are(1)
    for name, uid in uids.items():
        space.wait_completed(name, 60)
        pod_0 = space.pod(f"{name}-worker-0")
        assert pod_0.metadata.uid == uid and pod_0.status.container_statuses[0].restart_count == 0
        text = of(space, f"{name}-worker-0")
        assert "saved by 0" in text and "trained" in text


@pytest.mark.deadline(120)
def test_nodes_of_a_plain_job_meet(space):
    """No operator: --master names the first pod of an indexed Job."""
    template = pod("meet", restartPolicy="Never")
    template["spec"]["containers"][0]["command"] = [
        "paddlerun", "launch", "--master=meet-0.meet:36777", "--nnodes=3", "--log_dir=", *SHOW]
    apply(space, "Job", "batch/v1", "meet", {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 0, "template": template})
    batch = space.c.kubectl

    def done():
        return batch("-n", space.name, "get", "job", "meet", "-o", "jsonpath={.status.conditions[*].type}").split()

    wait("the Job ends", 100, done, lambda: str(logs(space, "meet")))
    assert "Complete" in done(), logs(space, "meet")
    assert roles(logs(space, "meet").values()) == [f"worker {i} of 3" for i in range(3)], logs(space, "meet")
