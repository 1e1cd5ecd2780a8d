"""Operators that share the jobs by namespace, and what happens when there are to be more or fewer of them."""
import re

import pytest
import yaml

from install import ACCOUNT, by_name, helm, overlay
from rig import account_kubeconfig, fetch, wait_for
from test_install import NOT_HELMS, without_helms_labels


def shard(ns, count):
    """FNV-1a, folded, as the operator has it."""
    h = 14695981039346656037
    for b in ns.encode():
        h = (h ^ b) * 1099511628211 % 2 ** 64
    return (h ^ h >> 32) % count


@pytest.fixture
def spaces(plane, ns):
    """Namespaces such that every shard of two and of three has one, and one for the leases."""
    names, i = [], 0
    while len({shard(n, 2) for n in names}) < 2 or len({shard(n, 3) for n in names}) < 3:
        names.append(plane.namespace(f"{ns[:40]}-{i}"))
        i += 1
    plane.core.create_namespace({"metadata": {"name": f"{ns[:40]}-lock"}})
    yield names, f"{ns[:40]}-lock"
    for n in [*names, f"{ns[:40]}-lock"]:
        plane.core.delete_namespace(n, grace_period_seconds=0)


@pytest.fixture
def start(operator, spaces):
    flags = ["--leader-elect", f"--leader-elect-namespace={spaces[1]}"]
    return lambda i, n: operator(*flags, f"--shard={i}/{n}")


def admitted(o):
    """Times of admission."""
    return re.findall(r'^time=(\S+) .*msg="shard admitted"', o.text(), re.M)


def acts(o):
    """(time, namespace) of the phases it wrote."""
    return re.findall(r"^time=(\S+) .*msg=phase .*namespace=(\S+)", o.text(), re.M)


def run_jobs(plane, names, job):
    for n in names:
        plane.create(n, job, ps=None, worker=1)
    for n in names:
        plane.wait_phase(n, job, "Running")


def own(operators, names):
    """Each did something in its own namespaces and nothing in others."""
    count = len(operators)
    for i, o in enumerate(operators):
        seen = lambda: {n for _, n in acts(o) if n in names}      # logged when the API server's answer is there
        wait_for(lambda: seen() == {n for n in names if shard(n, count) == i}, why=lambda: (i, count, seen()))


@pytest.mark.deadline(300)
def test_shards_take_over_namespaces_when_their_number_changes(plane, kubelet, spaces, start):
    names, _ = spaces
    two = [start(i, 2) for i in range(2)]
    run_jobs(plane, names, "a")
    own(two, names)
    three = [start(i, 3) for i in range(3)]
    for o in three:
        wait_for(lambda o=o: "waiting for an operator with another number of shards" in o.text())
    run_jobs(plane, names, "b")
    two[0].stop()                       # gives its lease back: the other one still has half of the jobs
    for n in names:
        plane.create(n, "c", ps=None, worker=1)
    for n in names:
        if shard(n, 2) == 1:
            plane.wait_phase(n, "c", "Running")
    assert not any(admitted(o) for o in three)
    two[1].kill()                       # its lease has to run out
    for n in names:
        plane.wait_phase(n, "c", "Running")
    run_jobs(plane, names, "d")
    own(three, names)
    last = max(t for o in two for t, _ in acts(o))
    assert all(min(admitted(o)) > last for o in three)
    two[0].start()                      # one of the old layout comes back late
    wait_for(lambda: two[0].text().count("msg=leading") == 2)
    wait_for(lambda: "waiting for an operator with another number of shards" in two[0].text())
    run_jobs(plane, names, "e")
    assert len(admitted(two[0])) == 1
    for n in names:
        assert not kubelet.twice(n)


def test_an_operator_without_shards_is_waited_for(plane, kubelet, operator, spaces, start):
    names, lock = spaces
    whole = operator("--leader-elect", f"--leader-elect-namespace={lock}")
    run_jobs(plane, names[:1], "a")
    only = start(0, 1)
    wait_for(lambda: "waiting for an operator with another number of shards" in only.text())
    assert not admitted(only)
    whole.stop()
    wait_for(lambda: admitted(only))
    run_jobs(plane, names, "b")


def test_layouts_that_start_together_exclude_each_other(plane, kubelet, spaces, start):
    names, _ = spaces
    layouts = {2: [], 3: []}
    for i in range(3):
        for n in layouts:
            if i < n:
                layouts[n].append(start(i, n))
    in_force = lambda: {n for n, os in layouts.items() if any(admitted(o) for o in os)}
    wait_for(in_force)
    first, = in_force()
    run_jobs(plane, names, "a")
    for i, o in enumerate(layouts[first]):
        assert f'leader_election_master_status{{name="b2a304f2.paddlepaddle.org-{i}-of-{first}"}} 1' in fetch(o.metrics)
    assert in_force() == {first}
    own(layouts[first], names)
    for o in layouts[first]:
        o.stop()
    run_jobs(plane, names, "b")
    assert in_force() == {2, 3}


def test_jobs_by_label(plane, kubelet, operator, ns):
    """A job that changes its label changes its operator; its pods stay."""
    gold, rest = operator("--selector=tier=gold", f"--namespace={ns}"), operator("--selector=tier!=gold", f"--namespace={ns}")
    plane.create(ns, "a", ps=None, worker=1)
    plane.wait_phase(ns, "a", "Running")
    wait_for(lambda: "to=Running" in rest.text())
    assert not acts(gold) and acts(rest)
    before = len(acts(rest))
    plane.patch(ns, "a", {"metadata": {"labels": {"tier": "gold"}}})
    plane.patch(ns, "a", {"spec": {"worker": {"replicas": 2}}})
    wait_for(lambda: len(plane.pods(ns)) == 2)
    plane.wait_phase(ns, "a", "Running")
    wait_for(lambda: 'paddlejob_actions_total{action="create pod"} 1' in fetch(gold.metrics))
    assert len(acts(rest)) == before and not kubelet.twice(ns)


def test_the_component_is_a_set_of_shards(plane, tmp_path):
    objs = overlay(tmp_path, "v1", "shards", namespace="paddle-system")
    shards, = [o for o in objs if o["kind"] == "StatefulSet"]
    assert not [o for o in objs if o["kind"] == "Deployment"]
    pod = shards["spec"]["template"]["spec"]["containers"][0]
    env = {e["name"]: e for e in pod["env"]}
    assert "--shard=$(SHARD)/$(SHARDS)" in pod["args"] and env["SHARDS"]["value"] == str(shards["spec"]["replicas"])
    shards["metadata"]["namespace"] = "default"
    plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(shards))
    # The chart's, with one value.
    chart = {k: without_helms_labels(o) for k, o in by_name(helm(["shards=2"])).items()}
    shards["metadata"]["namespace"] = "paddle-system"
    assert chart == {k: o for k, o in by_name(objs).items() if k not in NOT_HELMS}


@pytest.mark.parametrize("lacks", [None, "get", "update"])
def test_the_components_rights_are_enough_and_each_counts(plane, kubelet, operator, ns, tmp_path, lacks):
    objs = by_name(overlay(tmp_path, "v1", "shards", namespace=ns))
    rights = [o for o in objs.values() if o["kind"] in ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")]
    for o in rights:
        if o["kind"].startswith("Cluster"):
            o["metadata"]["name"] += f"-{ns}"
        if o["kind"] == "ClusterRoleBinding":
            o["roleRef"]["name"] += f"-{ns}"
    rule, = objs["Role/paddle-shards-role"]["rules"]
    assert sorted(rule["verbs"]) == ["get", "update"]       # each has its row here
    if lacks:
        rule["verbs"].remove(lacks)
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(rights))
    try:
        o = operator("--shard=0/1", "--leader-elect", f"--leader-elect-namespace={ns}", f"--namespace={ns}",
                     kubeconfig=account_kubeconfig(plane, ns, ACCOUNT, tmp_path / "kubeconfig"))
        if lacks:
            wait_for(lambda: f'cannot {lacks} resource \\"leases\\"' in o.text(), why=o.text)
            return
        run_jobs(plane, [ns], "a")
        assert o.stop() == 0        # its lease and the layout are there the second time
        o.start()
        run_jobs(plane, [ns], "b")
        assert "forbidden" not in o.text().lower(), o.text()
    finally:
        plane.kubectl("delete", "clusterrole,clusterrolebinding", *{o["metadata"]["name"] for o in rights if o["kind"].startswith("Cluster")},
                      "--ignore-not-found")


@pytest.mark.parametrize("flags,words", [
    (["--shard=2/2", "--leader-elect"], "expected i/N"), (["--shard=0/2"], "--shard needs --leader-elect")])
def test_flags(plane, operator, flags, words):
    o = operator(*flags)
    assert wait_for(lambda: o.p.poll(), 10) == 1 and words in o.text()
    o.expected = True
