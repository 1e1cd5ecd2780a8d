"""Kubernetes without the operator: an indexed Job and a StatefulSet of the runtime image, as the documents of 0.10 did it."""
import json

import kubernetes
import pytest

from cluster import wait

WORDS = ["k8s", "--size=2", "--port=7164", "--ports_num=1", "--ports_num_for_sparse=1", "--",
         "wide_and_deep", "--mode=sync", "--lines=4000", "--test-lines=500", "--save="]


def pod(subdomain, **spec):
    container = {"name": "paddle", "image": "paddlejob/runtime:dev", "imagePullPolicy": "IfNotPresent",
                 "command": ["paddlerun", *WORDS]}
    return {"metadata": {"labels": {"app": subdomain}}, "spec": {"subdomain": subdomain, "containers": [container], **spec}}


def apply(space, kind, version, name, spec):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
               "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": name}, "ports": [{"port": 7164}]}}
    space.c.core.create_namespaced_service(space.name, service)
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    space.c.kubectl("-n", space.name, "create", "-f", "-", stdin=json.dumps(body))


def log(space, pod, previous):
    """Of the container that runs, or of the one before it; "" where there is none."""
    try:
        return space.c.core.read_namespaced_pod_log(pod, space.name, previous=previous)
    except kubernetes.client.ApiException as e:
        if e.status != 400:
            raise
        return ""


def logs(space, name, label="app"):
    pods = space.c.core.list_namespaced_pod(space.name, label_selector=f"{label}={name}").items
    return {p.metadata.name: log(space, p.metadata.name, True) + log(space, p.metadata.name, False) for p in pods}


def completed(space, name, seconds=100):
    """Until the Job has ended, well; what its pods said."""
    def conditions():
        job = kubernetes.client.BatchV1Api(space.c.core.api_client).read_namespaced_job(name, space.name)
        return {c.type for c in job.status.conditions or []}

    wait(f"the Job {name} has ended", seconds, lambda: conditions() & {"Complete", "Failed"}, lambda: str(logs(space, name, "job-name")))
    assert "Complete" in conditions(), logs(space, name, "job-name")
    return logs(space, name, "job-name")


@pytest.mark.deadline(120)
def test_an_indexed_job_trains_and_completes(space):
    apply(space, "Job", "batch/v1", "plain", {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0,
                                              "template": pod("plain", restartPolicy="Never")})
    text = completed(space, "plain")
    assert len(text) == 2 and all("all 2 trainers have finished" in t and "TRAIN --->" in t for t in text.values()), text


@pytest.mark.deadline(120)
def test_a_stateful_set_trains(space):
    """Its pods are started again when they end: what counts is that they trained together."""
    apply(space, "StatefulSet", "apps/v1", "set", {"replicas": 2, "serviceName": "set", "podManagementPolicy": "Parallel",
                                                   "selector": {"matchLabels": {"app": "set"}}, "template": pod("set")})
    wait("a model", 100, lambda: any("all 2 trainers have finished" in t for t in logs(space, "set").values()),
         lambda: str(logs(space, "set")))
