"""All pods of a job are placed or none is: with the real schedulers."""
import random

import pytest
import yaml
from kubernetes.utils.quantity import parse_quantity

from gang import QUEUE, SECOND, GangPlane
from install import ACCOUNT, helm
from rig import ROOT, Operator, account_kubeconfig, wait_for

POD_GROUP = ("scheduling.volcano.sh", "v1beta1", "podgroups")
NATIVE = ("scheduling.k8s.io", "v1alpha1", "workloads")
COSCHEDULING = ("scheduling.x-k8s.io", "v1alpha1", "podgroups")
SECONDS = 40


@pytest.fixture(scope="module")
def gangs():
    p = GangPlane()
    yield p
    p.down()


@pytest.fixture(scope="module")
def volcano(gangs):
    gangs.volcano()


@pytest.fixture(scope="module")
def coscheduling(gangs):
    gangs.coscheduling()


@pytest.fixture(scope="module")
def kueue(gangs):
    gangs.kueue()


@pytest.fixture
def place(gangs, tmp_path):
    """A namespace with an operator for it alone, which has the rights of an installation for that scheduler."""
    started = []

    def begin(scheduling, *flags, **labels):
        ns = gangs.namespace(f"{scheduling}-{random.SystemRandom().randrange(16 ** 4):04x}")
        if labels:
            gangs.core.patch_namespace(ns, {"metadata": {"labels": labels}})
        rights = [o for o in helm(["scope=namespace", f"scheduling={scheduling}"], ns)
                  if o["kind"] in ("ServiceAccount", "Role", "RoleBinding")]
        gangs.kubectl("-n", ns, "apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
        account = account_kubeconfig(gangs, ns, ACCOUNT, tmp_path / ns)
        started.append((ns, Operator(account, f"--namespace={ns}", f"--scheduling={scheduling}", *flags)))
        return ns

    yield begin
    for ns, o in started:
        print("\n".join(o.text().splitlines()[-40:]))
        o.close()
        # The nodes' room is the next test's at once, not when the garbage collector has come to it.
        gangs.core.delete_collection_namespaced_pod(ns, grace_period_seconds=0)
        gangs.core.delete_namespace(ns, grace_period_seconds=0)
        wait_for(lambda: not gangs.pods(ns), 30, lambda: f"left: {[(n, p.metadata.finalizers) for n, p in gangs.pods(ns).items()]}")
    gangs.nodes.enders.clear()


def workers(n, cpu, scheduler=None):
    spec = {"containers": [{"name": "paddle", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    return {"replicas": n, "template": {"spec": spec}}


def create(gangs, ns, name, worker, labels=None, **spec):
    body = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
            "metadata": {"name": name, "labels": labels or {}}, "spec": {"worker": worker, **spec}}
    gangs.custom.create_namespaced_custom_object("batch.paddlepaddle.org", "v1", ns, "paddlejobs", body)


def waiting(gangs, ns, name, reason, words):
    """Until its status says so; the message."""
    def says():
        s = gangs.job(ns, name).get("status", {})
        return s if s.get("reason") == reason and words in s.get("message", "") else None
    return wait_for(says, SECONDS, lambda: gangs.job(ns, name).get("status"))["message"]


def end(gangs, ns, *starts):
    """Pods whose names begin so end well."""
    gangs.nodes.enders[ns] = lambda pod: (0, "") if pod.metadata.name.startswith(starts) else None
    for p in gangs.core.list_namespaced_pod(ns).items:
        gangs.nodes.on({"type": "MODIFIED", "object": p})


def end_first(gangs, ns):
    end(gangs, ns, "first-")


def lose(gangs, ns, *names):
    """As with their node: at once, and nobody asks them to end."""
    for name in names:
        gangs.core.delete_namespaced_pod(name, ns, grace_period_seconds=0)


# ---- Volcano --------------------------------------------------------------------------------

def test_volcanos_example_runs_unchanged(gangs, volcano, place):
    ns = place("volcano")
    gangs.kubectl("-n", ns, "apply", "-f", ROOT / "deploy/examples/wide_and_deep_volcano.yaml")
    name = "wide-ande-deep-volcano"
    group = wait_for(lambda: gangs.get(ns, *POD_GROUP, name), 40, "PodGroup made")
    assert {k: group["spec"][k] for k in ("minMember", "minResources", "queue")} == {
        "minMember": 4, "minResources": {"cpu": "1"}, "queue": "default"}
    gangs.wait_phase(ns, name, "Running", SECONDS)
    pods = gangs.pods(ns)
    assert len(pods) == 4
    for p in pods.values():
        assert p.spec.scheduler_name == "volcano" and p.spec.node_name
        mine = {k: v for k, v in p.metadata.annotations.items() if "volcano" in k or k.startswith("scheduling")}
        assert mine == {"scheduling.k8s.io/group-name": name, "volcano.sh/job-name": name, "volcano.sh/job-version": "0",
                        "volcano.sh/task-spec": p.metadata.annotations["paddle-resource"], "volcano.sh/queue-name": "default"}
    wait_for(lambda: gangs.get(ns, *POD_GROUP, name)["status"]["phase"] == "Running", 40, "Volcano sees them run")
    # The group follows, and a pod that joins is not held back by it.
    gangs.patch(ns, name, {"spec": {"worker": {"replicas": 3}}})
    wait_for(lambda: gangs.get(ns, *POD_GROUP, name)["spec"] == {**group["spec"], "minMember": 5, "minResources": {"cpu": "1200m"}},
             10, lambda: gangs.get(ns, *POD_GROUP, name)["spec"])
    wait_for(lambda: gangs.job(ns, name)["status"]["readyWorker"] == "3/3", SECONDS, "the third worker runs")


def test_volcano_lets_no_pod_be_made_without_room(gangs, volcano, place):
    ns = place("volcano")
    create(gangs, ns, "first", workers(2, "1500m"))
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    create(gangs, ns, "second", workers(2, "1500m"), schedulingPolicy={"queue": "default"})
    message = waiting(gangs, ns, "second", "WaitingForGang", "PodGroup second waits for room")
    assert message == "PodGroup second waits for room in queue default for 2 pods, cpu 3"
    assert [p for p in gangs.pods(ns) if p.startswith("second")] == []
    conditions = {c["type"]: c for c in gangs.job(ns, "second")["status"]["conditions"]}
    assert (conditions["Blocked"]["status"], conditions["Blocked"]["message"]) == ("True", message)
    end_first(gangs, ns)
    gangs.wait_phase(ns, "first", "Completed", SECONDS)
    wait_for(lambda: not gangs.get(ns, *POD_GROUP, "first"), 40, "the group of a job that has ended is deleted")
    gangs.wait_phase(ns, "second", "Running", SECONDS)


def test_volcano_follows_a_job_to_another_queue(gangs, volcano, place):
    """Out of one with no room, then as it runs, then to none of its own."""
    ns = place("volcano")
    narrow, wide = f"{ns}-narrow", f"{ns}-wide"
    gangs.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(
        {**QUEUE, "metadata": {"name": name}, "spec": {"weight": 1, **more}}
        for name, more in ((narrow, {"capability": {"cpu": "1"}}), (wide, {}))))

    def group():
        return gangs.get(ns, *POD_GROUP, "first")

    def allocated(name):
        queue = gangs.custom.get_cluster_custom_object("scheduling.volcano.sh", "v1beta1", "queues", name)
        return queue.get("status", {}).get("allocated", {}).get("cpu", "0")

    create(gangs, ns, "first", workers(2, "1"), schedulingPolicy={"queue": narrow})
    waiting(gangs, ns, "first", "WaitingForGang", f"in queue {narrow} for 2 pods, cpu 2")
    assert not gangs.pods(ns)
    gangs.patch(ns, "first", {"spec": {"schedulingPolicy": {"queue": "default"}}})
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    wait_for(lambda: allocated("default") == "2", SECONDS, lambda: allocated("default"))
    before = {n: p.metadata.uid for n, p in gangs.pods(ns).items()}
    gangs.patch(ns, "first", {"spec": {"schedulingPolicy": {"queue": wide}}})
    wait_for(lambda: allocated(wide) == "2", SECONDS, lambda: (group(), allocated(wide)))
    assert group()["spec"]["queue"] == wide
    # Volcano's CRD says what it is without: default.
    gangs.patch(ns, "first", {"spec": {"schedulingPolicy": {"queue": None}}})
    wait_for(lambda: allocated("default") == "2", SECONDS, lambda: (group(), allocated("default")))
    assert group()["spec"]["queue"] == "default"
    assert {n: p.metadata.uid for n, p in gangs.pods(ns).items() if p.status.phase == "Running"} == before


def test_volcanos_own_user_group_is_used(gangs, volcano, place):
    ns = place("volcano")
    gangs.kubectl("-n", ns, "apply", "-f", "-", stdin=yaml.safe_dump({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "first"},
        "spec": {"minMember": 1}}))
    create(gangs, ns, "first", workers(2, "100m"))
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    assert gangs.get(ns, *POD_GROUP, "first")["spec"]["minMember"] == 1
    end_first(gangs, ns)
    wait_for(lambda: not gangs.get(ns, *POD_GROUP, "first"), 40, "deleted at the end")


# ---- how much ---------------------------------------------------------------------------------

def wants(cpu, limits=None):
    return {"resources": {"requests": {"cpu": cpu, "memory": "8Mi"}, "limits": limits or {}}}


def template(cpu, *inits, **spec):
    """A pod of one container; init containers (cpu, whether it runs on)."""
    return {"containers": [{"name": "paddle", "image": "x", **wants(cpu)}], "initContainers": [
        {"name": f"i{i}", "image": "x", **wants(n), **({"restartPolicy": "Always"} if stays else {})}
        for i, (n, stays) in enumerate(inits)], **spec}


GPU = {"nvidia.com/gpu": 1}
COUNTED = {
    "gpus": {"containers": [{"name": "paddle", "image": "x", **wants("1", {"cpu": "1", **GPU})}]},
    "empty": {"containers": [{"name": "paddle", "image": "x", "resources": {
        "requests": {}, "limits": {"cpu": "1", "memory": "1Gi", **GPU}}}]},
    "inits": template("100m", ("300m", False), ("200m", False)),
    "native": template("100m", ("200m", True)),
    "later-init": template("100m", ("200m", True), ("300m", False)),
    "earlier-init": template("100m", ("300m", False), ("200m", True)),
    "overhead": template("100m", runtimeClassName="sandboxed", overhead={"cpu": "50m", "memory": "16Mi"}),
    "pods": template("100m", resources={"requests": {"cpu": "700m"}, "limits": {"memory": "1Gi"}}),
    "pods-limits": template("100m", resources={"limits": {"cpu": "2"}}),
}
RUNTIME = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandboxed"}, "handler": "x",
           "overhead": {"podFixed": {"cpu": "50m", "memory": "16Mi"}}}
GATE = ["--initImage=gate", "--gate-bind-address=127.0.0.1:0", "--gate-address=10.0.0.1:8082"]


def amounts(resources):
    """In thousandths, without what is 0."""
    got = {k.removeprefix("requests."): int(parse_quantity(v) * 1000) for k, v in (resources or {}).items() if k != "pods"}
    return {k: v for k, v in got.items() if v}


@pytest.mark.parametrize("flags", [[], GATE], ids=["plain", "gate"])
def test_a_group_asks_for_what_the_api_server_counts(gangs, coscheduling, place, flags):
    gangs.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(RUNTIME))
    ns = place("coscheduling", *flags)
    gangs.core.create_namespaced_resource_quota(ns, {"metadata": {"name": "q"}, "spec": {"hard": {
        "pods": "9", "requests.cpu": "99", "requests.memory": "99Gi", "requests.nvidia.com/gpu": "99"}}})

    def used():
        return gangs.core.read_namespaced_resource_quota("q", ns).status.used or {}
    wait_for(lambda: used().get("pods") == "0", 40, "quota in force")
    for name, spec in COUNTED.items():
        create(gangs, ns, name, {"replicas": 2, "template": {"spec": {**spec, "schedulerName": SECOND}}})
        wait_for(lambda: used().get("pods") == "2", SECONDS, lambda: (name, gangs.job(ns, name).get("status")))
        assert amounts(gangs.get(ns, *COSCHEDULING, name)["spec"]["minResources"]) == amounts(used()), name
        gangs.delete(ns, name)
        gangs.core.delete_collection_namespaced_pod(ns, grace_period_seconds=0)
        wait_for(lambda: used().get("pods") == "0", 40, used)


def test_a_queue_gives_what_a_group_asks_for(gangs, volcano, place):
    """Volcano's own sums of the pods that it has placed."""
    ns = place("volcano")
    gangs.kubectl("apply", "-f", "-", stdin=yaml.safe_dump({**QUEUE, "metadata": {"name": ns}, "spec": {"weight": 1}}))

    def allocated():
        queue = gangs.custom.get_cluster_custom_object("scheduling.volcano.sh", "v1beta1", "queues", ns)
        return {k: v for k, v in amounts(queue.get("status", {}).get("allocated")).items() if k in ("cpu", "memory")}
    for name in ("inits", "native", "later-init", "earlier-init"):
        create(gangs, ns, name, {"replicas": 2, "template": {"spec": COUNTED[name]}}, schedulingPolicy={"queue": ns})
        gangs.wait_phase(ns, name, "Running", SECONDS)
        asked = amounts(gangs.get(ns, *POD_GROUP, name)["spec"]["minResources"])
        wait_for(lambda: allocated() == asked, SECONDS, lambda: (name, allocated(), asked))
        gangs.delete(ns, name)
        gangs.core.delete_collection_namespaced_pod(ns, grace_period_seconds=0)
        wait_for(lambda: not allocated(), SECONDS, allocated)


# ---- groups beside pods -----------------------------------------------------------------------



def test_kube_scheduler_places_no_pod_where_one_of_two_fits(gangs, place):
    ns = place("native")
    create(gangs, ns, "first", workers(1, "1500m"))
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    create(gangs, ns, "second", workers(2, "1500m"))
    waiting(gangs, ns, "second", "Unschedulable", "pod second-worker-")
    assert gangs.get(ns, *NATIVE, "second")["spec"] == {
        "controllerRef": {"apiGroup": "batch.paddlepaddle.org", "kind": "PaddleJob", "name": "second"},
        "podGroups": [{"name": "job", "policy": {"gang": {"minCount": 2}}}]}
    assert not any(p.spec.node_name for n, p in gangs.pods(ns).items() if n.startswith("second"))
    end_first(gangs, ns)
    gangs.wait_phase(ns, "first", "Completed", SECONDS)
    wait_for(lambda: not gangs.get(ns, *NATIVE, "first"), 40, "the group of a job that has ended is deleted")
    gangs.wait_phase(ns, "second", "Running", SECONDS)
    # What cannot be changed is recreated.
    gangs.patch(ns, "second", {"spec": {"worker": {"replicas": 1}}})

    def minimum():
        load = gangs.get(ns, *NATIVE, "second")
        return load and load["spec"]["podGroups"][0]["policy"]["gang"]["minCount"]
    wait_for(lambda: minimum() == 1, 40, "the group of one worker")
    wait_for(lambda: gangs.job(ns, "second")["status"]["readyWorker"] == "1/1", SECONDS, "the other worker gone")


def test_coscheduling_places_a_gang_that_fits(gangs, coscheduling, place):
    ns = place("coscheduling")
    create(gangs, ns, "first", workers(2, "500m", SECOND))
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    assert gangs.get(ns, *COSCHEDULING, "first")["spec"] == {"minMember": 2, "minResources": {"cpu": "1"}}
    for p in gangs.pods(ns).values():
        assert (p.metadata.labels["scheduling.x-k8s.io/pod-group"], p.spec.scheduler_name) == ("first", SECOND)
    # The group follows, and a pod that joins is placed beside those that run.
    gangs.patch(ns, "first", {"spec": {"worker": {"replicas": 3}}})
    wait_for(lambda: gangs.get(ns, *COSCHEDULING, "first")["spec"] == {"minMember": 3, "minResources": {"cpu": "1500m"}}, 40,
             "the group follows")
    wait_for(lambda: gangs.job(ns, "first")["status"]["readyWorker"] == "3/3", SECONDS, "the third worker runs")
    end_first(gangs, ns)
    wait_for(lambda: not gangs.get(ns, *COSCHEDULING, "first"), 40, "deleted at the end")


def test_coscheduling_places_no_pod_where_one_of_two_fits(gangs, coscheduling, place):
    """The sum would fit, 3 of 3.4 CPUs: that no node has room for the second pod is known when the first has its place."""
    ns = place("coscheduling")
    create(gangs, ns, "first", workers(1, "600m", SECOND))
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    create(gangs, ns, "second", workers(2, "1500m", SECOND))
    # Which of the two pods it tries first is the scheduler's affair, and so is when the one that lacks the room says so: of the
    # other it says only that it was turned away with it.
    waiting(gangs, ns, "second", "Unschedulable", "nodes are available")
    assert not any(p.spec.node_name for n, p in gangs.pods(ns).items() if n.startswith("second"))
    end_first(gangs, ns)
    gangs.wait_phase(ns, "first", "Completed", SECONDS)
    gangs.wait_phase(ns, "second", "Running", SECONDS)


def test_coscheduling_says_what_the_cluster_lacks(gangs, coscheduling, place):
    """The sum does not fit: known before any pod is looked at, by minResources."""
    ns = place("coscheduling")
    create(gangs, ns, "second", workers(3, "1500m", SECOND))
    waiting(gangs, ns, "second", "Unschedulable", "resource gap")
    assert not any(p.spec.node_name for p in gangs.pods(ns).values())


def test_jobs_wait_when_the_api_server_lacks_the_group_kind(plane, operator, kubelet, ns):
    """Not a gang plane: native falls back, any other word keeps those jobs waiting that need it, and says why."""
    operator("--scheduling=native", f"--namespace={ns}")
    plane.create(ns, "j", ps=None, worker=2)
    plane.wait_phase(ns, "j", "Running")
    plane.namespace(f"{ns}-v")
    operator("--scheduling=volcano", f"--namespace={ns}-v")
    create(plane, f"{ns}-v", "elsewhere", workers(1, "1", "other"))
    plane.wait_phase(f"{ns}-v", "elsewhere", "Running")
    plane.create(f"{ns}-v", "j", ps=None, worker=1)
    message = waiting(plane, f"{ns}-v", "j", "FailedCreate", "PodGroup j")
    assert message == ("PodGroup j: the API server has no podgroups.scheduling.volcano.sh: is the scheduler for "
                       "--scheduling=volcano installed?")
    assert "j-worker-0" not in plane.pods(f"{ns}-v")
    plane.core.delete_namespace(f"{ns}-v", grace_period_seconds=0)


SIZES = {
    "volcano": (POD_GROUP, lambda spec: spec["minMember"]),
    "native": (NATIVE, lambda spec: spec["podGroups"][0]["policy"]["gang"]["minCount"])}


@pytest.mark.parametrize("scheduling", SIZES)
def test_remaining_pods_of_a_gang_are_placed_without_finished_ones(gangs, place, request, scheduling):
    """Of a group of four only two will ever be there again: were its size four, they would wait for ever.  Not with scheduler-plugins,
    which reads groups from a cache that may lag behind the event that they changed, and then looks again after five minutes."""
    if scheduling != "native":
        request.getfixturevalue(scheduling)
    kind, members = SIZES[scheduling]

    def size():
        group = gangs.get(ns, *kind, "first")
        return group and members(group["spec"])

    def placed(*names):
        """New pods of these names run."""
        before = {n: p.metadata.uid for n, p in gangs.pods(ns).items()}
        lose(gangs, ns, *names)
        wait_for(lambda: all((p := gangs.pods(ns).get(n)) and p.metadata.uid != before[n] and p.status.phase == "Running"
                             for n in names), SECONDS, lambda: gangs.job(ns, "first")["status"])

    ns = place(scheduling)
    create(gangs, ns, "first", workers(4, "100m"))
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    end(gangs, ns, "first-worker-0", "first-worker-1")
    wait_for(lambda: gangs.job(ns, "first")["status"]["worker"].get("completedIndexes") == "0-1", SECONDS, "two have succeeded")
    lose(gangs, ns, "first-worker-0", "first-worker-1")
    wait_for(lambda: gangs.job(ns, "first")["status"]["worker"]["replicas"] == 2, SECONDS, "and are gone")
    assert size() == 4                      # nobody needs a place: no request
    placed("first-worker-3")                # beside one that runs
    wait_for(lambda: size() == 2, SECONDS, size)
    placed("first-worker-2", "first-worker-3")
    assert size() == 2
    end(gangs, ns, "first-worker-2", "first-worker-3")
    gangs.wait_phase(ns, "first", "Completed", SECONDS)


# ---- Kueue ----------------------------------------------------------------------------------

QUOTA = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: "1"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: NS}
spec: {clusterQueue: all}
"""


def test_kueue_lets_the_second_job_in_when_the_first_ends(gangs, kueue, place):
    ns = place("kueue", queued="yes")
    gangs.kubectl("apply", "-f", "-", stdin=QUOTA.replace("NS", ns))
    label = {"kueue.x-k8s.io/queue-name": "team"}
    create(gangs, ns, "first", workers(2, "500m"), label)
    gangs.wait_phase(ns, "first", "Running", SECONDS)
    create(gangs, ns, "second", workers(2, "500m"), label)
    message = waiting(gangs, ns, "second", "WaitingInQueue", "insufficient")
    print(message)
    assert message.startswith("the pods wait until Kueue admits the job to queue team: ")
    assert not any(p.spec.node_name for n, p in gangs.pods(ns).items() if n.startswith("second"))
    end_first(gangs, ns)
    gangs.wait_phase(ns, "first", "Completed", SECONDS)
    gangs.wait_phase(ns, "second", "Running", SECONDS)
    # Kueue releases the pods that were cleaned.
    wait_for(lambda: not any(n.startswith("first") for n in gangs.pods(ns)), 40, "pods of first gone")
