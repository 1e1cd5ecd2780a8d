"""What `validate` says of labels, annotations and selectors, beside what a real API server says of a Pod with the same template."""
import json
import subprocess

import pytest
import yaml

from rig import BIN

X63 = "x" * 63
DNS253 = ".".join(["a" * 62] * 4) + "bb"
POD_TERM = {"topologyKey": "kubernetes.io/hostname"}


def chooses(role, **selector):
    """An affinity to pods, or, of role nodeAffinity, to nodes."""
    if role == "nodeAffinity":
        terms = {"nodeSelectorTerms": [selector]}
    else:
        terms = [{**POD_TERM, "labelSelector": selector}]
    return {"spec": {"affinity": {role: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}


def expects(key, *values):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}


def labels(**kv):
    return {"metadata": {"labels": kv}}


def spreads(**kv):
    return {"spec": {"topologySpreadConstraints": [
        {**POD_TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": kv}}]}}


def volume(metadata=None, **spec):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": metadata or {}, "spec": claim}}}]}}


def near(**kv):
    """Pod affinity by a term with these fields."""
    term = {**POD_TERM, "labelSelector": {"matchLabels": {"app": "a"}}, **kv}
    return {"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}}


def spread(**kv):
    part = spreads(app="a")
    part["spec"]["topologySpreadConstraints"][0].update(kv)
    return part


GOOD = [
    {}, labels(app="a"), labels(app=""), labels(**{"A_b.c-9": "B_c.d-1"}), labels(**{"x.io/a": "1"}), labels(**{X63: X63}),
    labels(**{f"{DNS253}/{X63}": "a"}), labels(**{"1.2/a": "a"}),
    {"metadata": {"annotations": {"X.io/a": "any text: \u00e4\n", "b": ""}}},
    {"metadata": {"annotations": {"a": "x" * (256 * 1024 - 1)}}},
    {"spec": {"nodeSelector": {"disk": "ssd", "x.io/b": ""}}},
    chooses("podAffinity", matchLabels={"app": "a"}), chooses("podAntiAffinity", **expects("x.io/app", "a", "")),
    chooses("nodeAffinity", **expects("x.io/disk", "ssd")), spreads(app="a"),
    near(topologyKey="x.io/rack"), near(matchLabelKeys=["x.io/a"], mismatchLabelKeys=["b"]),
    spread(topologyKey="rack", matchLabelKeys=["x.io/a"]),
    volume({"labels": {"x.io/a": "b"}, "annotations": {"X.io/a": "any text"}}, selector={"matchLabels": {"a": "b"}}),
]
BAD = [  # and a part of the path
    *[({"metadata": {"labels": {key: "a"}}}, 'template.metadata.labels["') for key in (
        "a b", "-a", "a-", "", "x" + X63, "x.io/", "/a", "a/b/c", "X.io/a", "x..io/a", ".io/a", "io./a", "x.-io/a", "x_y/a", f"{DNS253}c/a", "\u00e4")],
    *[(labels(app=value), 'template.metadata.labels["app"]') for value in ("a b", "a.", "-", "a/b", "\u00e4", "x" + X63)],
    *[({"metadata": {"annotations": {key: "a"}}}, 'template.metadata.annotations["') for key in ("a b", "", "a/b/c", "x" + X63, "x_y/a")],
    ({"metadata": {"annotations": {"a": "x" * (256 * 1024)}}}, "template.metadata.annotations has 262145 bytes"),
    ({"spec": {"nodeSelector": {"disk": "a b"}}}, 'template.spec.nodeSelector["disk"]'),
    ({"spec": {"nodeSelector": {"di sk": "a"}}}, 'template.spec.nodeSelector["di sk"]'),
    (chooses("podAffinity", matchLabels={"app": "a b"}), 'labelSelector.matchLabels["app"]'),
    (chooses("podAntiAffinity", matchLabels={"a b": "a"}), 'labelSelector.matchLabels["a b"]'),
    (chooses("podAffinity", **expects("a b", "a")), "matchExpressions.0.key"),
    (chooses("podAffinity", **expects("a", "a b")), "matchExpressions.0.values.0"),
    (chooses("nodeAffinity", **expects("a b", "a")), "matchExpressions.0.key"),
    (chooses("nodeAffinity", **expects("a", "a b")), "matchExpressions.0.values.0"),
    (spreads(app="a b"), 'topologySpreadConstraints.0.labelSelector.matchLabels["app"]'),
    *[(near(topologyKey=key), "0.topologyKey has a key") for key in ("a b", "", "X.io/a")],
    (spread(topologyKey=""), "topologySpreadConstraints.0.topologyKey has a key"),
    (near(matchLabelKeys=["a", "b c"]), "0.matchLabelKeys.1 has a key"),
    (near(mismatchLabelKeys=["b c"]), "0.mismatchLabelKeys.0 has a key"),
    (spread(matchLabelKeys=["b c"]), "topologySpreadConstraints.0.matchLabelKeys.0 has a key"),
    *[(volume(metadata), f"volumes.0.ephemeral.volumeClaimTemplate.metadata.{what}") for metadata, what in (
        ({"labels": {"a b": "c"}}, 'labels["a b"]'), ({"labels": {"a": "b c"}}, 'labels["a"]'), ({"annotations": {"a b": "c"}}, 'annotations["a b"]'))],
    (volume(selector={"matchLabels": {"a": "b c"}}), 'volumeClaimTemplate.spec.selector.matchLabels["a"]'),
    (volume(selector=expects("a b", "c")), "volumeClaimTemplate.spec.selector.matchExpressions.0.key"),
]


def template(part):
    return {"metadata": part.get("metadata", {}), "spec": {"containers": [{"name": "main", "image": "x"}], **part.get("spec", {})}}


def says(tmp_path, part):
    """What `validate` says of a job with that template, and its exit code."""
    job = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j"},
           "spec": {"worker": {"replicas": 1, "template": template(part)}}}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job, allow_unicode=True))
    r = subprocess.run([BIN / "paddle-operator", "validate", file], capture_output=True, text=True, timeout=60)
    return r.stdout, r.returncode


def refused(plane, ns, part):
    """The API server's words about a Pod of that template; None: it takes it."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template(part)}
    pod["metadata"] = {**pod["metadata"], "name": "j"}
    try:
        plane.kubectl("-n", ns, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    except AssertionError as e:
        return str(e)
    return None


@pytest.mark.parametrize("part", GOOD, ids=range(len(GOOD)))
def test_templates_that_the_api_server_takes_are_no_problem(plane, ns, tmp_path, part):
    assert refused(plane, ns, part) is None
    assert says(tmp_path, part) == ("1 job, 0 problems\n", 0)


@pytest.mark.parametrize("part,path", BAD, ids=range(len(BAD)))
def test_templates_that_the_api_server_rejects_are_one_problem(plane, ns, tmp_path, part, path):
    said = refused(plane, ns, part)
    assert said and any(w in said for w in ("Invalid value", "Required value", "Too long")), said
    out, code = says(tmp_path, part)
    assert code == 1 and out.endswith("1 job, 1 problem\n"), out
    assert " spec.worker.template." in out and path in out, out


@pytest.mark.parametrize("key", ["a b", "X.io/a"])
def test_pods_are_not_spread_over_what_no_node_can_have(plane, ns, tmp_path, key):
    """The API server takes such a pod, but no node has a label of that name: it would be Pending for ever."""
    assert refused(plane, ns, spread(topologyKey=key)) is None
    out, code = says(tmp_path, spread(topologyKey=key))
    assert code == 1 and "topologySpreadConstraints.0.topologyKey has a key" in out, out


def test_labels_of_the_job_itself_too(plane, ns, tmp_path):
    job = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j", "labels": {"team": "a b"}},
           "spec": {"worker": {"replicas": 1, "template": template({})}}}
    with pytest.raises(AssertionError, match="metadata.labels: Invalid value"):
        plane.kubectl("-n", ns, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(job))
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job, indent=1))
    r = subprocess.run([BIN / "paddle-operator", "validate", file], capture_output=True, text=True, timeout=60)
    assert ':7: metadata.labels["team"] is "a b", expected letters' in r.stdout and r.returncode == 1, r.stdout
