"""The local cluster itself: what pods of other tests rely on, and what it leaves behind."""
import contextlib
import json
import os
import pathlib
import subprocess
import time

import pytest

from cluster import BUILD, KUBECTL, LOCAL, SHELL, networks_of, sh, state_of, wait


def test_a_missing_image_fails_at_once(space):
    """No look-up of the registry's name, no connection: on a machine without a network both take half a minute and more."""
    pod = {"metadata": {"name": "absent"}, "spec": {"containers": [{"name": "c", "image": "registry.example/none:1"}]}}
    began = time.monotonic()
    space.c.core.create_namespaced_pod(space.name, pod)

    def said():
        states = space.c.core.read_namespaced_pod("absent", space.name).status.container_statuses or []
        waiting = [s.state.waiting for s in states if s.state.waiting]
        return waiting and waiting[0].reason in ("ErrImagePull", "ImagePullBackOff") and waiting[0]
    wait("the image missed", 5, said)
    print(f"after {time.monotonic() - began:.1f} s")


@pytest.mark.parametrize("policy", ["ClusterFirstWithHostNet", "Default"])
def test_a_pod_on_the_hosts_network_finds_its_own_name(space, policy):
    """As Paddle's gloo does (withGloo, intranet Host): it resolves the host name, which is the node's."""
    env = [{"name": "PADDLE_TRAINER_ENDPOINTS", "value": "node0:1,node1:1,10.0.0.1:1"}, {"name": "PADDLE_TRAINER_ID", "value": "2"},
           {"name": "PADDLE_TRAINERS_NUM", "value": "3"}, {"name": "PADDLE_CURRENT_ENDPOINT", "value": "10.0.0.1:1"}]
    spec = {"hostNetwork": True, "dnsPolicy": policy, "restartPolicy": "Never", "containers": [
        {"name": "c", "image": "paddlejob/runtime:dev", "imagePullPolicy": "IfNotPresent", "command": ["paddlerun", "info"], "env": env}]}
    space.c.core.create_namespaced_pod(space.name, {"metadata": {"name": "named"}, "spec": spec})
    wait("its end", 30, lambda: space.c.core.read_namespaced_pod("named", space.name).status.phase == "Succeeded")
    log = space.c.core.read_namespaced_pod_log("named", space.name)
    assert "not reachable: Connection refused" in log and log.count("Name or service not known") == 1, log    # node1 is none


def test_deploy_local_down_removes_everything(tmp_path):
    """A cluster of its own, taken down while its pods run."""
    state, names = state_of(3), networks_of(3)
    bridge = names["LOCAL_CLUSTER_BRIDGE"]

    def run(*words, **more):
        return subprocess.run([str(w) for w in words], env={**os.environ, **names}, check=True, capture_output=True, text=True, timeout=200, **more).stdout

    def names_state(path):
        with contextlib.suppress(FileNotFoundError):      # pods of other clusters end meanwhile
            return str(state) in path.read_text()

    def traces():
        found = [p for p in pathlib.Path("/var/lib/cni/results").glob("*") if names_state(p)]
        found += list(pathlib.Path("/run/netns").glob(f"{bridge}-*"))
        return found + [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(state) in line or bridge in line]
    try:
        run(LOCAL / "up", state)
        run(LOCAL / "image", "--archive", BUILD / "images/e2e-shell.tar", "--into", state)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stays"}, "spec": {"containers": [
            {"name": "c", "image": SHELL, "imagePullPolicy": "Never", "command": ["sleep", "1000"]}]}}
        k = [KUBECTL, "--kubeconfig", state / "kubeconfig"]
        run(*k, "create", "-f", "-", input=json.dumps(pod))
        run(*k, "wait", "--for=condition=Ready", "pod/stays", "--timeout=60s")
        assert traces() != []       # or there is nothing to see below
    finally:
        run(LOCAL / "down", state)
    assert traces() == [] and not state.exists()


def test_a_static_program_needs_no_libraries(tmp_path):
    sh(LOCAL / "image", "--name", "t:1", "--libs", f"--add={BUILD}/bin/paddlerun-static:/p", "--out", tmp_path / "t.tar")
    index = json.loads(sh("tar", "-xOf", tmp_path / "t.tar", "index.json"))
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "docker.io/library/t:1"


def test_a_root_file_system_has_a_shell(tmp_path):
    sh(LOCAL / "rootfs", "--installed", tmp_path / "r", "coreutils", seconds=120)
    assert sh("chroot", tmp_path / "r", "/bin/sh", "-c", "echo $((6 * 7))") == "42\n"
