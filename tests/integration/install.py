"""The ways to install the operator, rendered by the programs that users have: kubectl kustomize and Helm."""
import functools
import os
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("LOCAL_CLUSTER_CACHE", pathlib.Path(
    os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "local-cluster"))
CHART = ROOT / "deploy/charts/paddle-operator"
ACCOUNT, DEPLOYMENT = "paddle-manager-sa", "paddle-controller-manager"
JOB_ROLE, LOCK_ROLE = "paddle-manager-role", "paddle-leader-election-role"
# An overlay and the values that ask Helm for the same.
WAYS = {"cluster": [], "namespaced": ["scope=namespace"], "ha": ["replicas=2"]}
OF_THE_CLUSTER = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}


def program(name, *args, seconds=60, code=0, stdin=None, env=None):
    """Output of kubectl or helm, with what it says on stderr where it must fail."""
    path = next(CACHE.glob(f"*/{name}"))
    p = subprocess.run([path, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=seconds,
                       env={**os.environ, "HELM_CACHE_HOME": "/nonexistent", **(env or {})})
    assert p.returncode == code, f"{name} {' '.join(map(str, args))}: ended with {p.returncode}: {p.stderr}"
    assert code or "warning" not in p.stderr.lower(), p.stderr
    return p.stdout if not code else p.stderr


def objects(text):
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)      # the CRD takes the other a second
    return [o for o in yaml.load_all(text, loader) if o]


@functools.cache
def committed(path):
    return program("kubectl", "kustomize", path)


def kustomize(way, directory=None, namespace=None):
    """Objects of an overlay; with a namespace, of one over it in directory."""
    if not namespace:
        return objects(committed(ROOT / "deploy/kustomize" / way))
    return overlay(directory, f"kustomize/{way}", namespace=namespace)


def overlay(directory, base, *components, **more):
    """Objects of a kustomization in directory over a folder of deploy, as users write theirs."""
    at = lambda path: os.path.relpath(ROOT / "deploy" / path, directory.resolve())
    (directory / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [at(base)],
        "components": [at(f"kustomize/components/{c}") for c in components], **more}))
    return objects(program("kubectl", "kustomize", directory))


def helm(values=(), namespace="paddle-system"):
    """Objects of the chart."""
    sets = [a for v in values for a in ("--set", v)]
    return objects(program("helm", "template", "paddle-operator", CHART, "-n", namespace, *sets))


def by_name(objs):
    named = {f"{o['kind']}/{o['metadata']['name']}": o for o in objs}
    assert len(named) == len(objs), "two objects of one name"
    return named


def pod_template(objs):
    (operator,) = [o for o in objs if o["kind"] in ("Deployment", "StatefulSet") and o["metadata"]["name"] == DEPLOYMENT]
    return operator["spec"]["template"]


def manager(objs):
    (container,) = pod_template(objs)["spec"]["containers"]
    return container
