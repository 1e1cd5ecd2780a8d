"""Jobs in namespaces with rules, the other ways to start, and a pod's variables."""
import json

import pytest
from kubernetes import client

from cluster import DEPLOYMENT, SERVE_BRIEFLY, SHELL, SLOW, SYSTEM, make, role, say, uptime, wait

SHORT = "sleep 1; echo done"


def test_pod_security_restricted(space):
    """The operator's own pod, and a job whose container obeys: the start gate must, too."""
    k = space.c.kubectl
    rule = "pod-security.kubernetes.io/enforce=restricted"
    out = k("label", "--dry-run=server", "--overwrite", "ns", SYSTEM, rule)
    assert "Warning" not in out, out
    k("label", "ns", space.name, rule)
    space.create(make("strict", worker=role(SHORT, 2, securityContext={
        "runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        container={"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}})))
    space.wait_completed("strict", 40)


def test_quota_that_demands_limits(space):
    hard = {"requests.cpu": "2", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "1Gi"}
    space.c.core.create_namespaced_resource_quota(space.name, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    wait("quota in force", 20, lambda: space.c.core.read_namespaced_resource_quota("q", space.name).status.hard)
    limits = {"limits": {"cpu": "200m", "memory": "64Mi"}}
    space.create(make("limited", worker=role(SHORT, 2, container={"resources": limits})))
    space.wait_completed("limited", 40)


@pytest.mark.parametrize("intranet", ["PodIP", "Service", "Host"])
def test_the_variables_of_a_pod(space, intranet):
    # Host: its pods never share a node, and there is one.
    n = 1 if intranet == "Host" else 2
    ps = None if intranet == "Host" else role(SERVE_BRIEFLY, 2)
    space.create(make("told", worker=role("env; sleep 1", n), ps=ps, intranet=intranet, withGloo=1,
                      cleanPodPolicy="Never"))
    space.wait_completed("told", 60)
    ips = {p.metadata.name: p.status.pod_ip for p in space.pods("told")}
    for i in range(n):
        name = f"told-worker-{i}"
        log = space.c.core.read_namespaced_pod_log(name, space.name)
        env = dict(line.split("=", 1) for line in log.splitlines() if "=" in line)
        assert env["POD_IP"] == (name if intranet == "Service" else ips[name])
        assert env["PADDLE_TRAINER_ID"] == str(i)
        assert env["PADDLE_TRAINERS_NUM"] == str(n)
        assert env["TRAINING_ROLE"] == env["PADDLE_TRAINING_ROLE"] == "TRAINER"
        port = env["PADDLE_PORT"]
        hosts = [f"told-worker-{j}" if intranet == "Service" else ips[f"told-worker-{j}"] for j in range(n)]
        assert env["PADDLE_TRAINER_ENDPOINTS"] == ",".join(f"{h}:{port}" for h in hosts)
        if ps:
            hosts = [f"told-ps-{j}" if intranet == "Service" else ips[f"told-ps-{j}"] for j in range(2)]
            assert env["PADDLE_PSERVERS_IP_PORT_LIST"] == ",".join(f"{h}:{port}" for h in hosts)


@pytest.mark.deadline(180)
def test_a_pod_says_whether_it_can_train(space):
    """paddlerun check in a job's pod, as in docs/clouds.md: with the names of the job, and all that needs the training library."""
    check = {"image": "paddlejob/runtime:dev", "imagePullPolicy": "IfNotPresent",
             "command": ["paddlerun", "check", "--json", "--timeout=120s", "--dir=/tmp"]}
    space.create(make("check", worker=role("", 2, container=check), intranet="Service", cleanPodPolicy="Never"))
    space.wait_completed("check", 120)
    for i in range(2):
        said = json.loads(space.c.core.read_namespaced_pod_log(f"check-worker-{i}", space.name, _preload_content=False).data)
        results = {c["check"]: c["result"] for c in said["checks"]}
        assert said["ok"] and set(results.values()) == {"ok"}, said
        assert {"memory", "disk", "names", "servers", "reduce-shm", "reduce-tcp"} <= set(results), said


@pytest.mark.parametrize("intranet", ["PodIP", "DNS"])
def test_pods_without_a_launcher_have_torchruns_variables(space, intranet):
    """WORLD_SIZE is the template's own, which goes before the operator's."""
    worker = role("env; sleep 1", 2, container={"env": [{"name": "WORLD_SIZE", "value": "5"}]})
    space.create(make("torch", worker=worker, intranet=intranet, cleanPodPolicy="Never"))
    space.wait_completed("torch", 60)
    first = next(p.status.pod_ip for p in space.pods("torch") if p.metadata.name == "torch-worker-0")
    for i in range(2):
        log = space.c.core.read_namespaced_pod_log(f"torch-worker-{i}", space.name)
        env = dict(line.split("=", 1) for line in log.splitlines() if "=" in line)
        want = {"RANK": str(i), "GROUP_RANK": str(i), "WORLD_SIZE": "5", "GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": first if intranet == "PodIP" else "torch-worker-0.torch", "MASTER_PORT": str(int(env["PADDLE_PORT"]) + 19),
                "TORCHELASTIC_RUN_ID": "torch", "TORCHELASTIC_RESTART_COUNT": "0"}
        assert {k: env.get(k) for k in want} == want


def args_of_operator(cluster, change):
    """Changes the arguments of the running operator; returns what puts them back."""
    k = cluster.kubectl
    path = "/spec/template/spec/containers/0/args"
    apps = client.AppsV1Api()
    before = apps.read_namespaced_deployment(DEPLOYMENT, SYSTEM).spec.template.spec.containers[0].args

    def put(args):
        k("-n", SYSTEM, "patch", "deployment", DEPLOYMENT, "--type=json", "-p",
          json.dumps([{"op": "replace", "path": path, "value": args}]))
        k("-n", SYSTEM, "rollout", "status", f"deployment/{DEPLOYMENT}", f"--timeout={60 * SLOW}s", seconds=70)
        # The one before acts until it is gone.
        wait("one operator", 30, lambda: len(cluster.operator_pods()) == 1)

    put(change(before))
    return lambda: put(before)


@pytest.mark.alone
def test_without_start_gate_kubelet_holds_the_containers(space):
    restore = args_of_operator(space.c, lambda args: [
        "--initImage=" if a.startswith("--initImage") else a for a in args])
    try:
        begin = uptime()
        space.create(make("held", worker=role("cat /proc/uptime; sleep 1", 2), cleanPodPolicy="Never"))
        space.wait_completed("held", 60)
        pods = space.pods("held")
        assert all(not p.spec.init_containers for p in pods)
        started = max(float(space.c.core.read_namespaced_pod_log(p.metadata.name, space.name).split()[0])
                      for p in pods)
        say(f"\n  without start gate: created -> all started {started - begin:.2f} s")
    finally:
        restore()


def test_volumes_and_node_choice_reach_the_pod(space):
    """What a template says arrives, fields unknown to the operator included."""
    space.create(make("kept", worker=role(
        "test -d /data && test -d /dev/shm && echo ok", 1,
        nodeSelector={"kubernetes.io/os": "linux"}, terminationGracePeriodSeconds=7,
        volumes=[{"name": "d", "emptyDir": {}}, {"name": "s", "emptyDir": {"medium": "Memory"}}],
        container={"volumeMounts": [{"name": "d", "mountPath": "/data"}, {"name": "s", "mountPath": "/dev/shm"}],
                   "env": [{"name": "MINE", "value": "1"}], "imagePullPolicy": "Never", "image": SHELL}),
        cleanPodPolicy="Never"))
    space.wait_completed("kept", 40)
    p = space.pod("kept-worker-0")
    assert p.spec.termination_grace_period_seconds == 7
    assert p.spec.node_selector == {"kubernetes.io/os": "linux"}
    assert p.spec.containers[0].env[0].name == "MINE"
