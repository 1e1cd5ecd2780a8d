"""Elastic jobs: kubectl scale within bounds, and those who stay are left alone."""
import glob
import pathlib

from rig import wait_for
from test_launch import SAVES, finish, free_port, log, script, start
from test_operator import configmap


def job(plane, ns, replicas, **bounds):
    template = {"spec": {"containers": [{"name": "paddle", "image": "x"}]}}
    plane.custom.create_namespaced_custom_object("batch.paddlepaddle.org", "v1", ns, "paddlejobs", {
        "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j"},
        "spec": {"elastic": 1, "worker": {"replicas": replicas, **bounds, "template": template}}})


def scale(plane, ns, replicas):
    plane.kubectl("-n", ns, "scale", "pdj/j", f"--replicas={replicas}")


def names(plane, ns):
    return {n: p.metadata.uid for n, p in plane.pods(ns).items() if not p.metadata.deletion_timestamp}


def np(pod):
    return {e.name: e.value for e in pod.spec.containers[0].env}["PADDLE_ELASTIC_NP"]


def test_scale_within_bounds_leaves_survivors_alone(plane, operator, kubelet, ns):
    operator()
    job(plane, ns, 2, requests=1, limits=4)
    plane.wait_phase(ns, "j", "Running")
    before = names(plane, ns)
    assert {np(p) for p in plane.pods(ns).values()} == {"1:4"}
    scale(plane, ns, 3)
    wait_for(lambda: len(names(plane, ns)) == 3)
    scale(plane, ns, 9)
    wait_for(lambda: len(names(plane, ns)) == 4)
    plane.wait_phase(ns, "j", "Running")
    wait_for(lambda: configmap(plane, ns, "j").data["PADDLE_TRAINERS_NUM"] == "4", why="the number now")
    assert before.items() <= names(plane, ns).items()
    assert {np(p) for p in plane.pods(ns).values()} == {"1:4"}      # the same words in old and new pods
    assert plane.wait_event(ns, "ReplicasBounded") == "spec.worker.replicas is 9, spec.worker.limits allow 4"
    scale(plane, ns, 0)
    wait_for(lambda: sorted(names(plane, ns)) == ["j-worker-0"])
    assert names(plane, ns)["j-worker-0"] == before["j-worker-0"]
    plane.wait_event(ns, "ReplicasBounded", "is 0, spec.worker.requests ask for 1")
    conditions = {c["type"]: c for c in plane.job(ns, "j")["status"]["conditions"]}
    assert conditions["ReplicasBounded"]["message"] == "spec.worker.replicas is 0, spec.worker.requests ask for 1"
    scale(plane, ns, 2)
    wait_for(lambda: {c["type"]: c for c in plane.job(ns, "j")["status"]["conditions"]}["ReplicasBounded"]["status"] == "False")
    # A worker that is lost comes back under its name; nobody else is touched.
    uid = names(plane, ns)["j-worker-1"]
    plane.core.delete_namespaced_pod("j-worker-1", ns, grace_period_seconds=0)
    wait_for(lambda: names(plane, ns).get("j-worker-1", uid) != uid)
    assert names(plane, ns)["j-worker-0"] == before["j-worker-0"]


def test_bounds_that_contradict_each_other_are_reported(plane, operator, ns):
    operator()
    job(plane, ns, 2, requests=5, limits=4)
    wait_for(lambda: "greater than spec.worker.limits" in (plane.job(ns, "j").get("status") or {}).get("message", ""),
             why=lambda: plane.job(ns, "j").get("status"))
    assert not plane.pods(ns)


def test_a_job_without_bounds_scales_with_the_launcher_in_its_pods(plane, operator, kubelet, ns, tmp_path, monkeypatch):
    """In, out again, and beyond what its pods' variables say: each pod is a launcher with the environment that the operator gave it."""
    monkeypatch.chdir(tmp_path)
    operator("--restart-backoff=1s")
    job(plane, ns, 2)
    plane.wait_phase(ns, "j", "Running")
    master, saves, running = f"127.0.0.1:{free_port()}", script("saves.sh", SAVES), {}

    def follow():
        """Launchers for the pods that there are, none for those that are gone."""
        there = {(n, p.metadata.uid): p for n, p in plane.pods(ns).items() if not p.metadata.deletion_timestamp}
        for key in [k for k in running if k not in there]:
            gone = running.pop(key)
            gone.terminate()
            gone.communicate(timeout=60)
        for (name, uid), pod in sorted(there.items(), key=lambda row: row[0]):
            if (name, uid) not in running:
                variables = {e.name: e.value for e in pod.spec.containers[0].env if e.value is not None}
                env = {**variables, "PADDLE_ELASTIC_TIMEOUT": "1", "POD_IP": f"127.0.0.{int(name[-1]) + 1}"}
                running[name, uid] = start("--master", master, "--max_restart=0", "--log_dir", f"{name}-{uid}", saves, env=env)

    def all_run(n):
        follow()
        for name, uid in running:
            wait_for(lambda: glob.glob(f"{name}-{uid}/workerlog.0") and
                     log("workerlog.0", f"{name}-{uid}").endswith(f"rank {name[-1]} of {n}\n"), 60,
                     lambda: [log(f, ".") for f in glob.glob("j-worker-*/workerlog.0")])

    all_run(2)
    before = names(plane, ns)
    for n in (1, 2):
        scale(plane, ns, n)
        wait_for(lambda: len(names(plane, ns)) == n)
        all_run(n)
    assert names(plane, ns)["j-worker-0"] == before["j-worker-0"] and {np(p) for p in plane.pods(ns).values()} == {"1:2"}
    scale(plane, ns, 3)
    wait_for(lambda: len(names(plane, ns)) == 3 and not set(names(plane, ns).values()) & set(before.values()), 60,
             lambda: plane.job(ns, "j")["status"])
    assert {np(p) for p in plane.pods(ns).values()} == {"1:3"} and plane.job(ns, "j")["status"]["restarts"] == 0
    all_run(3)
    pathlib.Path("end").touch()
    assert [d[0] for d in finish(list(running.values()), 60)] == [0, 0, 0]
