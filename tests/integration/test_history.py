"""What chaos looks at can be seen to be wrong: each of its rules, broken by hand."""
import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "chaos"))

from history import History, unpublished          # noqa: E402

ATTEMPT = "batch.paddlepaddle.org/attempt"


def written(fields, sent):
    """What the API server says of a request that the proxy received then; of one that was not the proxy's."""
    return {"manager": str(sent) if sent else "kubectl", "fieldsV1": fields}


def job(version, phase, suspend=False, sent=None, whole=False, **status):
    return "MODIFIED", {"kind": "PaddleJob", "metadata": {"name": "j", "uid": "u", "resourceVersion": str(version), "managedFields": [
        written({"f:status": {} if whole else {"f:phase": {}}}, sent), written({"f:spec": {"f:worker": {}}}, 99.5)]},
                        "spec": {"suspend": suspend, "worker": {"replicas": 2}}, "status": {"phase": phase, **status}}


def pod(version, index=0, kind="ADDED", attempt=0, made="2026-01-01T00:00:00Z", uid=None, ip="10.0.0.1", sent=None, **meta):
    return kind, {"kind": "Pod", "status": {"phase": "Running", "podIP": ip}, "metadata": {
        "managedFields": [written({"f:metadata": {"f:ownerReferences": {".": {}}}}, sent)], "name": f"j-worker-{index}", "uid": uid or f"p{version}", "resourceVersion": str(version), "creationTimestamp": made,
        "labels": {ATTEMPT: str(attempt), "paddle-res-type": "worker", "paddle-res-index": str(index)},
        "ownerReferences": [{"uid": "u", "name": "j", "controller": True}], **meta}}


def verdict(events):
    nothing = lambda *_, **__: 1 / 0
    h = History(types.SimpleNamespace(custom=types.SimpleNamespace(list_namespaced_custom_object=nothing),
                                      core=types.SimpleNamespace(list_namespaced_pod=nothing)), "ns")
    for kind, obj in events:
        (h.on_pod if obj["kind"] == "Pod" else h.on_job)(kind, obj)
    h.close()
    return " | ".join(what for _, what in h.verdict(False, 2))


DONE = {"completionTime": "2026-01-01T00:00:10Z"}


@pytest.mark.parametrize("events,words", [
    ([pod(1), job(2, "Running"), job(3, "Suspended", True, attempt=1), job(4, "Suspended", attempt=1), ("DELETED", pod(1)[1]),
      pod(5, attempt=1),
      job(6, "Restarting", attempt=2, restarts=1), pod(7, 1, attempt=2), job(8, "Completed", attempt=2, restarts=1, **DONE),
      pod(9, 2, "SEEN", 2, "2026-01-01T00:00:09Z")], ""),
    ([job(2, "Completed", **DONE), job(3, "Running")], "Running after Completed"),
    ([job(2, "Running", restarts=2), job(3, "Running", restarts=1)], "restarts fell from 2 to 1"),
    ([job(2, "Running", attempt=1), job(3, "Running")], "attempt fell from 1 to 0"),
    ([job(2, "Completed", **DONE), pod(3)], "made for a job that had ended"),
    ([job(2, "Completed", **DONE), pod(3, kind="SEEN", made="2026-01-01T00:00:20Z")], "made for a job that had ended"),
    ([job(2, "Completed", sent=7.25, **DONE), pod(3, sent=7.5)], "made for a job that had ended"),
    ([job(2, "Completed", **DONE), pod(3, sent=7.5)], "made for a job that had ended"),
    ([job(2, "Completed", sent=7.25, **DONE), pod(3, sent=7), ("DELETED", pod(3)[1])], ""),     # on its way
    ([job(2, "Completed", sent=7.25, whole=True, **DONE), pod(3, sent=7), ("DELETED", pod(3)[1])], ""),
    ([job(2, "Completed", sent=7.25, **DONE), pod(3, sent=7)], "was on its way when its job ended, and lives on"),
    ([job(2, "Suspended", True), pod(3), ("DELETED", pod(3)[1])], "made for a job that was suspended"),
    ([job(2, "Suspended", True, attempt=1), pod(3)], ""),       # its create was on its way
    ([pod(1), pod(2)], "two live pods"),
    ([pod(1, deletionTimestamp="2026-01-01T00:00:00Z"), pod(2)], ""),
])
def test_of_all_that_happened(events, words):
    assert bool(words) == bool(verdict(events)) and words in verdict(events)


def configmap(attempt=0, **data):
    hosts = "10.0.0.1,10.0.0.2"
    return {"metadata": {"name": "j", "labels": {ATTEMPT: str(attempt)}}, "data": {
        "PADDLE_PORT": "36000", "PADDLE_TRAINERS": hosts, "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ENDPOINTS": ",".join(f"{h}:36000" for h in hosts.split(",")), **data}}


@pytest.mark.parametrize("have,attempt,words", [
    (configmap(), 0, None),
    (configmap(PADDLE_TRAINERS="10.0.0.1,10.0.0.9"), 0, "PADDLE_TRAINERS is 10.0.0.1,10.0.0.9, by its pods 10.0.0.1,10.0.0.2"),
    (configmap(PADDLE_TRAINERS_NUM="3"), 0, "PADDLE_TRAINERS_NUM is 3, by its pods 2"),
    (configmap(attempt=1), 0, "j is of attempt 1, the job at 0"),
    (configmap(attempt=1), 1, "j-worker-0 is of attempt 0, the job at 1"),
])
def test_of_what_is_published(have, attempt, words):
    pods = {f"j-worker-{i}": pod(i, i, ip=f"10.0.0.{i + 1}")[1] for i in range(2)}
    assert unpublished(job(9, "Running", attempt=attempt)[1], pods, {("ConfigMap", "j"): have}) == words
