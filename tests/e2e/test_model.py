"""What a job is for: the model that was trained in pods, on a disk that outlives them, used outside."""
import re
import shutil
import subprocess

import pytest

from cluster import BUILD, SLOW, make


def auc(labels, scores):
    """Exact: the chance that a positive is ranked above a negative."""
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    ranks, i = {}, 0
    while i < len(order):
        j = i
        while j < len(order) and scores[order[j]] == scores[order[i]]:
            j += 1
        for k in range(i, j):
            ranks[order[k]] = (i + j + 1) / 2
        i = j
    positive = [i for i, y in enumerate(labels) if y]
    n, m = len(positive), len(labels) - len(positive)
    return (sum(ranks[i] for i in positive) - n * (n + 1) / 2) / (n * m)


@pytest.mark.deadline(180)
def test_real_input_trained_in_pods_predicts_outside(space, tmp_path):
    """Criteo files and the model's directory on a volume; two servers, two workers; then prediction on this machine."""
    disk = tmp_path / "disk"
    disk.mkdir()
    disk.chmod(0o777)
    program = BUILD / "bin/wide_and_deep"
    subprocess.run([program, "--generate", disk / "data", "--lines", "30000", "--test-lines", "4000", "--seed", "11"],
                   check=True, capture_output=True, timeout=SLOW * 60)
    container = {"name": "paddle", "image": "paddlejob/runtime:dev", "imagePullPolicy": "IfNotPresent",
                 "command": ["paddlerun", "exec", "--", "wide_and_deep"],
                 "args": ["--train", "/disk/data/train", "--test", "/disk/data/test", "--save", "/disk/model"],
                 "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}
    role = {"replicas": 2, "template": {"spec": {
        "containers": [container], "volumes": [{"name": "disk", "hostPath": {"path": str(disk)}}]}}}
    space.create(make("m", worker=role, ps=role, cleanPodPolicy="Never"))
    space.wait_completed("m", 150)
    assert (disk / "model/MANIFEST").exists()
    test = sorted((disk / "data/test").iterdir())
    out = subprocess.run([program, "--predict", "--load", disk / "model", "--test", disk / "data/test", "--log-level", "error"],
                         check=True, capture_output=True, text=True, timeout=SLOW * 60).stdout
    scores = [float(x) for x in re.findall(r"^([0-9.e+-]+)$", out, re.M)]
    labels = [int(line[0]) for f in test for line in f.read_text().splitlines()]
    assert len(scores) == len(labels) == 4000
    assert auc(labels, scores) >= 0.75
    shutil.rmtree(disk)
