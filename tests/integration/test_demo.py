"""`make demo-down CLUSTER=current` on a cluster that is not the demo's: what it asks kubectl to delete."""
import os
import subprocess

import pytest
import yaml

from rig import ROOT

KUBECTL = """#!/bin/sh
case "$*" in
    "config current-context") echo here ;;
    *"get crd/"*jsonpath*) echo true ;;
    *"get crd/"*) echo crd ;;
    *"get namespace paddle-system"*jsonpath*) echo "$NAMESPACE_IS_THE_DEMOS" ;;
    *"delete"*"-f -") cat >>"$DELETED"; echo --- >>"$DELETED" ;;
esac
"""


@pytest.mark.parametrize("made_by_the_demo", [True, False])
def test_a_namespace_that_was_there_before_stays(tmp_path, made_by_the_demo):
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    deleted = tmp_path / "deleted.yaml"
    p = subprocess.run([ROOT / "deploy/demo", "down"], capture_output=True, text=True, timeout=60, env={
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CLUSTER": "current", "BUILD": str(tmp_path / "build"),
        "DELETED": str(deleted), "NAMESPACE_IS_THE_DEMOS": "true" if made_by_the_demo else ""})
    assert p.returncode == 0, p.stderr
    kinds = [o["kind"] for o in yaml.safe_load_all(deleted.read_text()) if o]
    assert ("Namespace" in kinds) == made_by_the_demo
    assert {"CustomResourceDefinition", "ClusterRole", "Deployment"} <= set(kinds)
