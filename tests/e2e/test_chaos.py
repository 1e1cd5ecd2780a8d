"""The operator and the API server die at the worst moments; nothing is doubled, nothing lost."""
import random
import threading
import time

import pytest

from cluster import SERVE_BRIEFLY, SYSTEM, Follower, make, role, say, wait

pytestmark = pytest.mark.alone
JOBS = 50


def check_all_complete(space, names, follower, seconds):
    def left():
        done = {j["metadata"]["name"]: (j.get("status") or {}).get("phase", "") for j in space.jobs()}
        assert set(done) == set(names)
        return {n: p for n, p in done.items() if p != "Completed"}

    wait(f"{len(names)} jobs Completed", seconds, lambda: not left(),
         lambda: f"not: {left()}\n" + space.show(next(iter(left()), names[0])))
    follower.stop()
    doubled = {n: u for n, u in follower.uids.items() if len(u) > 1}
    assert doubled == {}, "pods made more than once: " + "\n".join(
        [", ".join(doubled), *follower.reported(next(iter(doubled.values()))), space.show(next(iter(doubled)).rsplit("-", 2)[0])])
    wanted = {f"{n}-{r}-0" for n in names for r in ("ps", "worker")}
    assert set(follower.uids) == wanted, set(follower.uids) ^ wanted
    restarted = {p.metadata.name for p in follower.pods.values()
                 if p.status.container_statuses and p.status.container_statuses[0].restart_count}
    assert not restarted, restarted


@pytest.mark.deadline(200)
def test_operator_killed_at_random_during_50_job_starts(space, seed):
    rng = random.Random(seed)
    follower = Follower(space)
    names = [f"chaos-{i}" for i in range(JOBS)]
    kills, over = [], threading.Event()

    def killer():
        while not over.is_set():
            over.wait(rng.uniform(0.2, 4))
            p = space.quiet(space.c.operator_pod)
            if p and not over.is_set():
                try:
                    kills.append(space.c.kill(p))
                except AssertionError:      # it had ended meanwhile
                    pass

    thread = threading.Thread(target=killer, daemon=True)
    start = time.monotonic()
    thread.start()
    try:
        for n in names:
            over.wait(rng.uniform(0, 0.6))
            space.create(make(n, worker=role(f"sleep {rng.uniform(0.5, 3):.1f}", 1), ps=role(SERVE_BRIEFLY, 1),
                              cleanPodPolicy="Never", intranet=rng.choice(["PodIP", "Service"])))
        created = time.monotonic() - start
        wait("a few kills", 60, lambda: len(kills) >= 5)
    finally:
        over.set()
        thread.join()
    check_all_complete(space, names, follower, 120)
    say(f"  {JOBS} jobs created in {created:.1f} s, operator killed {len(kills)} times, all complete after "
        f"{time.monotonic() - start:.1f} s")

    def another():      # what the API server says of one just killed may be of before
        p = space.c.operator_ready()
        return p and p.status.container_statuses[0].container_id not in kills

    wait("the operator is ready again", 60, another)


@pytest.mark.deadline(150)
def test_api_server_restarted_in_the_middle(space, seed):
    rng = random.Random(seed)
    follower = Follower(space)
    before = wait("the operator ready", 60, space.c.operator_ready)
    restarts = before.status.container_statuses[0].restart_count
    names = [f"api-{i}" for i in range(6)]
    for n in names:
        space.create(make(n, worker=role("sleep 4", 1), ps=role(SERVE_BRIEFLY, 1), cleanPodPolicy="Never"))
    pods = rng.randrange(2 * len(names) + 1)
    wait(f"{pods} pods made", 30, lambda: len(follower.uids) >= pods)
    space.c.restart_apiserver()
    check_all_complete(space, names, follower, 90)
    # It lived through it, and follows what comes afterwards.
    after = wait("the operator runs", 20, space.c.operator_pod)
    assert after.metadata.uid == before.metadata.uid
    assert after.status.container_statuses[0].restart_count == restarts, space.c.kubectl(
        "-n", SYSTEM, "logs", after.metadata.name, "--previous", "--tail=20", check=False)
    space.create(make("later", worker=role("sleep 1", 1)))
    space.wait_completed("later", 40)


@pytest.mark.deadline(240)
def test_a_kubelet_that_dies_is_known_long_before_eviction(space):
    """Kubernetes gives a node up after 50 s and evicts its pods 300 s later; nodeLostAfter is of integration tests."""
    work = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    space.create(make("lost", worker=role(work, 2), cleanPodPolicy="Never"))
    space.wait_phase("lost", "Running", 40)
    with space.c.without_kubelet():
        start = time.monotonic()
        wait("both workers unknown", 120, lambda: space.status("lost")["worker"].get("unknown") == 2, lambda: space.show("lost"))
        known = time.monotonic() - start
        status = space.status("lost")
        assert status["reason"] == "NodeLost" and "pod lost-worker-0 (and 1 more): node node0 does not answer since " in status["message"], status
        assert space.condition("lost", "Running")["status"] == "False"
        wait("an event that says so", 20, lambda: any(e.reason == "NodeLost" for e in space.events("lost")), lambda: space.show("lost"))
    say(f"\n  a killed kubelet is known to the job after {known:.1f} s")
    space.wait_phase("lost", "Running", 60)
    assert "unknown" not in space.status("lost")["worker"] and not space.status("lost").get("restarts"), space.show("lost")
