"""What happens to a job when something happens to it."""
import pytest

from cluster import SERVE, SERVE_BRIEFLY, SLOW, Follower, make, role, wait

# Works until somebody ends it: wait_running() is reached for certain.
WORK = "trap 'exit 0' TERM; echo working; while :; do sleep 0.1; done"
# Ends well once it has run a little.
SHORT = "sleep 1; echo done"


def test_killed_worker_fails_the_job_and_is_named(space):
    space.create(make("killed", worker=role(WORK, 2), ps=role(SERVE, 1), cleanPodPolicy="Never"))
    victim = space.wait_running("killed-worker-1")
    space.wait_running("killed-worker-0")
    space.c.kill(victim)
    space.wait_phase("killed", "Failed", 30)
    c = wait("condition Failed", 10, lambda: space.condition("killed", "Failed"))
    assert c["status"] == "True"
    for word in ("killed-worker-1", "paddle", "137"):
        assert word in c["message"], c
    assert (space.job("killed")["status"].get("worker") or {}).get("failed") == 1
    wait("an event that names it", 30, lambda: any(
        e.type == "Warning" and "killed-worker-1" in e.message for e in space.events("killed")), lambda: space.show("killed"))
    # Terminal: nothing is made again, the others are kept as the policy says.
    assert space.pod("killed-worker-1").status.phase == "Failed"


def test_killed_worker_restarts_the_group_and_the_job_completes(space):
    # Ends when it reaches its own address among those of the group: one of the first attempt is not among them.
    script = ("echo $POD_IP $PADDLE_TRAINERS >/dev/termination-log; case ,$PADDLE_TRAINERS, in *,$POD_IP,*) ;; *) exit 9; esac; "
              "[ ${ATTEMPT:-0} = 0 ] && while :; do sleep 0.1; done; sleep 1")
    env = [{"name": "ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.paddlepaddle.org/attempt']"}}}]
    follower = Follower(space)
    try:
        space.create(make("group", worker=role(script, 2, container={"env": env}), ps=role(SERVE, 1), backoffLimit=1,
                          cleanPodPolicy="Never"))
        victim = space.wait_running("group-worker-1")
        space.wait_running("group-worker-0")
        space.c.kill(victim)
        wait("a restart", 20, lambda: space.condition("group", "Restarting"), lambda: space.show("group"))
        # The group starts again 10 s after the failure, servers included.
        space.wait_completed("group", 90)
        follower.stop()
        status = space.job("group")["status"]
        assert status["restarts"] == 1 and status["attempt"] == 1
        for word in ("restart 1 of 1", "group-worker-1", "137"):
            assert word in space.condition("group", "Restarting")["message"], status
        assert {n: len(u) for n, u in follower.uids.items()} == {"group-ps-0": 2, "group-worker-0": 2, "group-worker-1": 2}
        said = [p.status.container_statuses[0].state.terminated.message.split() for p in space.pods("group-worker")]
        assert len({peers for _, peers in said}) == 1 and {ip for ip, _ in said} == set(said[0][1].split(",")), said
    finally:
        follower.stop()


def test_containers_that_their_template_restarts_in_place_are_no_failure(space):
    """restartPolicyRules (Kubernetes 1.35); the second time the container finds what the first has left."""
    script = "[ -e /scratch/again ] && { sleep 1; exit 0; }; : >/scratch/again; exit 42"
    rules = {"restartPolicy": "Never", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}], "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}
    follower = Follower(space)
    try:
        space.create(make("inplace", worker=role(script, 2, container=rules, volumes=[{"name": "scratch", "emptyDir": {}}]),
                          ps=role(SERVE, 1), backoffLimit=1, cleanPodPolicy="Never"))
        space.wait_phase("inplace", "Completed", 60, never=("Failed", "Restarting"))
        status = space.job("inplace")["status"]
        assert (status["restarts"], status["containerRestarts"], status.get("attempt", 0)) == (0, 2, 0), status
        follower.stop()
        assert {n: len(u) for n, u in follower.uids.items()} == {f"inplace-{n}": 1 for n in ("ps-0", "worker-0", "worker-1")}
    finally:
        follower.stop()


def test_first_cause_is_the_last_line_of_the_termination_message(space):
    script = "echo 'batch 7: weight is not a number' >/dev/termination-log; exit 3"
    space.create(make("cause", worker=role(script)))
    space.wait_phase("cause", "Failed", 40)
    message = space.condition("cause", "Failed")["message"]
    for word in ("cause-worker-0", "3", "weight is not a number"):
        assert word in message, message


def test_deleted_pod_comes_back_and_the_job_continues(space):
    follower = Follower(space)
    try:
        space.create(make("again", worker=role(WORK, 2), ps=role(SERVE_BRIEFLY, 1), cleanPodPolicy="Never"))
        old = space.wait_running("again-worker-1")
        space.c.core.delete_namespaced_pod("again-worker-1", space.name, grace_period_seconds=0)
        new = wait("another again-worker-1 that runs", 40, lambda: next((
            p for p in space.pods("again-worker")
            if p.metadata.name == "again-worker-1" and p.metadata.uid != old.metadata.uid
            and p.status.phase == "Running"), None), lambda: space.show("again"))
        assert new.status.pod_ip
        for i in (0, 1):
            space.wait_said(f"again-worker-{i}", "^working$")       # from here on it heeds the signal
            space.c.kill(space.wait_running(f"again-worker-{i}"), signal="TERM")
        space.wait_completed("again", 60)
        follower.stop()
        assert len(follower.uids["again-worker-1"]) == 2
    finally:
        follower.stop()


@pytest.mark.parametrize("phase", ["Pending", "Starting", "Running", "Completed", "Failed"])
def test_deleted_job_leaves_nothing(space, phase):
    name = phase.lower()
    workers = {
        "Pending": lambda: role(WORK, 2, nodeSelector={"no": "such-node"}),
        # Held: running, but never ready.
        "Starting": lambda: role(WORK, 2, container={"readinessProbe": {
            "exec": {"command": ["/bin/cat", "/nothing"]}, "periodSeconds": 1}}),
        "Running": lambda: role(WORK, 2),
        "Completed": lambda: role(SHORT, 2),
        "Failed": lambda: role("exit 1", 2, restartPolicy="Never"),
    }
    follower = Follower(space)
    try:
        space.create(make(name, worker=workers[phase](), ps=role(SERVE_BRIEFLY if phase == "Completed" else SERVE),
                          intranet="Service", cleanPodPolicy="Never"))
        space.wait_phase(name, phase, 40)
        space.delete_job(name)
        space.wait_gone(name, 40)
        follower.stop()
        # Nothing was made for it while it went.
        assert {n: len(u) for n, u in follower.uids.items() if len(u) != 1} == {}, follower.uids
    finally:
        follower.stop()


def test_job_created_again_at_once_gets_pods_of_its_own(space):
    space.create(make("twice", worker=role(WORK, 2)))
    old = {space.wait_running(f"twice-worker-{i}").metadata.uid for i in (0, 1)}
    space.delete_job("twice")
    wait("the old job gone", 20, lambda: not space.job("twice"))
    uid = space.create(make("twice", worker=role(SHORT, 2)))["metadata"]["uid"]
    space.wait_completed("twice", 60)
    for p in space.pods("twice"):
        assert p.metadata.uid not in old
        assert p.metadata.owner_references[0].uid == uid


def test_quota_that_rejects_a_pod_is_shown_and_outlived(space):
    space.c.core.create_namespaced_resource_quota(
        space.name, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    wait("quota in force", 20, lambda: space.c.core.read_namespaced_resource_quota("q", space.name).status.hard)
    space.create(make("quota", worker=role(SHORT, 2), cleanPodPolicy="Never"))
    wait("an event with the API server's words", 20, lambda: any(
        e.type == "Warning" and "exceeded quota" in e.message for e in space.events("quota")),
        lambda: space.show("quota"))
    wait("a condition with them", 20, lambda: any(
        "exceeded quota" in c.get("message", "")
        for c in space.status("quota").get("conditions", [])), lambda: space.show("quota"))
    assert "exceeded quota" in space.c.kubectl("-n", space.name, "describe", "pdj", "quota")
    space.c.core.patch_namespaced_resource_quota("q", space.name, {"spec": {"hard": {"pods": "5"}}})
    space.wait_completed("quota", 80)


BAD = {
    "no template": ({"replicas": 1}, "template"),
    "no containers": ({"replicas": 1, "template": {"spec": {"containers": []}}}, "containers"),
    "a name that is none": (role(SHORT, container={"name": "No_Name"}), "No_Name"),
    "no such field value": (role(SHORT, restartPolicy="Sometimes"), "Sometimes"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_template_is_shown_and_harms_nobody(space, what):
    worker, word = BAD[what]
    before = wait("the operator ready", 60, space.c.operator_ready).status.container_statuses[0].restart_count
    space.create(make("bad", worker=worker))
    wait("an event that says what is wrong", 20, lambda: any(
        e.type == "Warning" and word in e.message for e in space.events("bad")), lambda: space.show("bad"))
    wait("a condition that says so", 20, lambda: any(
        word in c.get("message", "") for c in space.status("bad").get("conditions", [])), lambda: space.show("bad"))
    space.create(make("good", worker=role(SHORT)))
    space.wait_completed("good", 40)
    assert space.c.operator_pod().status.container_statuses[0].restart_count == before
    space.delete_job("bad")
    space.wait_gone("bad")


def test_scaling_up_and_down(space):
    space.create(make("scaled", worker=role(WORK, 1), intranet="Service"))
    space.wait_running("scaled-worker-0")
    for n in (3, 2):
        space.c.kubectl("-n", space.name, "patch", "pdj", "scaled", "--type=merge", "-p",
                        f'{{"spec":{{"worker":{{"replicas":{n}}}}}}}')
        wait(f"{n} workers run", 40, lambda: sorted(
            p.metadata.name for p in space.pods("scaled") if p.status.phase == "Running" and
            not p.metadata.deletion_timestamp) == [f"scaled-worker-{i}" for i in range(n)],
            lambda: space.show("scaled"))
    space.wait_phase("scaled", "Running", 20)


def test_replicas_zero_waits_to_be_scaled_up(space):
    space.create(make("zero", worker=role(SHORT, 0)))
    space.wait_phase("zero", "Running", 20)
    assert space.pods("zero") == [] and space.status("zero")["reason"] == "NoPods"
    space.c.kubectl("-n", space.name, "patch", "pdj", "zero", "--type=merge", "-p",
                    '{"spec":{"worker":{"replicas":1}}}')
    space.wait_completed("zero", 40)


@pytest.mark.parametrize("policy,kept", [("Always", False), ("Never", True), ("OnFailure", True),
                                         ("OnCompletion", False)])
def test_clean_pod_policy_when_completed(space, policy, kept):
    space.create(make("clean", worker=role(SHORT, 2), cleanPodPolicy=policy))
    space.wait_completed("clean", 40)
    if kept:
        assert len(space.pods("clean")) == 2
    else:
        wait("no pods", 20, lambda: not space.pods("clean"))
    assert space.phase("clean") == "Completed"


def test_servers_that_never_end_are_deleted_when_all_workers_are_done(space):
    """Nothing in their pods asks the operator; with paddlerun: test_launchers.py."""
    space.create(make("grace", worker=role(SHORT, 2), ps=role(SERVE), cleanPodPolicy="Never"))
    space.wait_completed("grace", 60)


def test_kubectl_wait_for_succeeded_and_the_columns(space):
    k = space.c.kubectl
    space.create(make("columns", worker=role(SHORT, 2), ps=role(SERVE_BRIEFLY), cleanPodPolicy="Never"))
    k("-n", space.name, "wait", "--for=condition=Succeeded", "pdj/columns", f"--timeout={60 * SLOW}s", seconds=70)
    header, row = k("-n", space.name, "get", "pdj").splitlines()
    assert header.split() == ["NAME", "STATUS", "MODE", "AGE"]
    assert row.split()[:3] == ["columns", "Completed", "PS"]
    assert len(k("-n", space.name, "get", "pdj", "-o", "wide").splitlines()[0].split()) > 4
    job = space.job("columns")
    assert job["status"].get("completionTime") and job["status"].get("startTime")
    assert all(c.get("observedGeneration") == job["metadata"]["generation"] for c in job["status"]["conditions"])
