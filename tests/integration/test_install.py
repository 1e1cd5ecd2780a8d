"""What the ways to install render, and that they agree; one of them run with exactly the rights that it brings."""
import json
import re
import subprocess
import textwrap

import pytest
import yaml

from install import (ACCOUNT, CHART, DEPLOYMENT, JOB_ROLE, LOCK_ROLE, OF_THE_CLUSTER, ROOT, WAYS, by_name, helm, kustomize,
                     manager, objects, overlay, pod_template, program)
from rig import BIN, account_kubeconfig, wait_for

# What only one of the two renders: Helm makes no namespace and installs the CRD from a folder of its own, and has
# nothing of upstream's to replace.
NOT_HELMS = {"Namespace/paddle-system", "CustomResourceDefinition/paddlejobs.batch.paddlepaddle.org",
             "ConfigMap/paddle-manager-config"}
EVERY_VALUE = """
image: {repository: registry.example/paddle/operator, tag: v9, pullPolicy: Always}
gate: {enabled: true, image: {repository: registry.example/paddle/gate, tag: v9}, resources: {cpu: 100m, memory: 64Mi}}
imagePullSecrets: [{name: pull}]
replicas: 3
podDisruptionBudget: {maxUnavailable: 50%}
resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: control, operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]
priorityClassName: system-cluster-critical
podLabels: {team: a}
podAnnotations: {note: "yes"}
serviceAccount: {name: mine, annotations: {a: b}}
metrics: {serviceMonitor: {enabled: true, interval: 10s, labels: {release: prometheus}}}
networkPolicies: {enabled: true, metricsFrom: [{podSelector: {}}], apiServerPorts: [8443], jobNamespaces: [team-a]}
log: {level: debug, format: json}
scheduling: volcano
extraArgs: [--prefer-family=6]
"""


GANGS = ["volcano", "coscheduling", "native", "kueue"]
POLICY_OF_JOBS = objects((ROOT / "deploy/kustomize/components/network-policies/jobs.yaml").read_text())
BESIDE_SHARDS = sorted(f.name for f in (ROOT / "deploy/kustomize/components").iterdir() if f.name != "shards")


def rendered():
    """name -> objects, of every way."""
    ways = {f"kustomize {w}": kustomize(w) for w in WAYS}
    ways |= {f"helm {w}": helm(v) for w, v in WAYS.items()}
    ways["policy of jobs"] = [*kustomize("cluster"), *POLICY_OF_JOBS]
    ways["helm every value"] = objects(program("helm", "template", "x", CHART, "-f", "-", stdin=EVERY_VALUE))
    return ways


# ---- kustomize

def test_cluster_is_the_files_of_v1():
    files = [o for f in ("crd", "operator") for o in objects((ROOT / f"deploy/v1/{f}.yaml").read_text())]
    assert by_name(kustomize("cluster")) == by_name(files)


def test_another_namespace_reaches_every_object(tmp_path):
    for way in WAYS:
        objs = kustomize(way, tmp_path, "team-a")
        assert "paddle-system" not in json.dumps(objs), way
        for o in objs:
            if o["kind"] not in OF_THE_CLUSTER:
                assert o["metadata"]["namespace"] == "team-a"
            for s in o.get("subjects", []):
                assert s == {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "team-a"}


def test_one_namespace_needs_nothing_of_the_cluster():
    all_, one = by_name(kustomize("cluster")), by_name(kustomize("namespaced"))
    assert not {k.split("/")[0] for k in one} & OF_THE_CLUSTER
    assert one[f"Role/{JOB_ROLE}"]["rules"] == all_[f"ClusterRole/{JOB_ROLE}"]["rules"]
    assert one["RoleBinding/paddle-manager-rolebinding"]["roleRef"]["kind"] == "Role"
    assert "--namespace=$(POD_NAMESPACE)" in manager(one.values())["args"]


def test_high_availability_is_two_that_elect_and_keep_apart():
    objs = by_name(kustomize("ha"))
    deployment = objs[f"Deployment/{DEPLOYMENT}"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    (term,) = deployment["template"]["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert deployment["replicas"] == 2 and "--leader-elect" in manager(objs.values())["args"]
    budget = objs[f"PodDisruptionBudget/{DEPLOYMENT}"]["spec"]
    assert budget["maxUnavailable"] == 1
    for selector in (budget["selector"], term["podAffinityTerm"]["labelSelector"], deployment["selector"],
                     {"matchLabels": objs["Service/paddle-gate"]["spec"]["selector"]}):
        assert selector["matchLabels"].items() <= labels.items()


def documented_images():
    """What docs/install.md has users write into their kustomization to name images of their own."""
    _, text = (ROOT / "docs/install.md").read_text().split("    images: ", 1)
    return yaml.safe_load(textwrap.dedent("    images: " + text.split("\n\n")[0]).replace("REGISTRY", "r").replace("TAG", "t"))


def test_overlays_and_components_combine_as_documented(tmp_path):
    objs = by_name(overlay(tmp_path, "kustomize/namespaced", "ha", namespace="team-a", **documented_images()))
    assert not {k.split("/")[0] for k in objs} & OF_THE_CLUSTER
    assert objs[f"Deployment/{DEPLOYMENT}"]["spec"]["replicas"] == 2
    assert objs[f"PodDisruptionBudget/{DEPLOYMENT}"]["metadata"]["namespace"] == "team-a"
    assert manager(objs.values())["image"] == "r/operator:t"
    assert manager(objs.values())["args"] == ["--leader-elect", "--initImage=r/gate:t", "--namespace=$(POD_NAMESPACE)"]


@pytest.mark.parametrize("component", BESIDE_SHARDS)
def test_shards_and_another_component_in_either_order(component, tmp_path):
    """shards makes the operator a StatefulSet, which must hide it from no patch that comes after."""
    args = lambda *components: manager(overlay(tmp_path, "v1", *components))["args"]
    want = sorted({*args("shards"), *args(component)})
    first, last = (overlay(tmp_path, "v1", *order) for order in (("shards", component), (component, "shards")))
    for objs in (first, last):
        assert f"StatefulSet/{DEPLOYMENT}" in by_name(objs)
        manager(objs)["args"].sort()
        assert manager(objs)["args"] == want
    assert by_name(first) == by_name(last)


def test_images_of_the_document_reach_shards(tmp_path):
    container = manager(overlay(tmp_path, "v1", "shards", **documented_images()))
    assert container["image"] == "r/operator:t" and "--initImage=r/gate:t" in container["args"]


def test_editors_of_a_namespace_may_create_jobs(plane, ns):
    """Kubernetes' own roles take in the rights to jobs; a namespace's users need no other."""
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(
        o for o in kustomize("cluster") if o["kind"] == "ClusterRole" and o["metadata"]["name"].startswith("paddle-jobs-")))
    for user, role in {"ann": "admin", "eve": "edit", "vic": "view"}.items():
        plane.kubectl("-n", ns, "create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")

    def can(user, verb, *more, where=ns):
        try:
            return plane.kubectl("-n", where, "auth", "can-i", verb, "paddlejobs.batch.paddlepaddle.org", f"--as={user}",
                                 *more).strip() == "yes"
        except AssertionError:      # it says no with 1
            return False

    wait_for(lambda: all(can(u, "create") for u in ("ann", "eve")) and can("vic", "list"))
    assert all(can("eve", v) for v in ("get", "list", "watch", "update", "patch", "delete", "deletecollection"))
    assert can("eve", "patch", "--subresource=scale") and can("vic", "get")
    assert not can("vic", "create") and not can("vic", "delete") and not can("eve", "create", where="default")
    assert not can("eve", "patch", "--subresource=status")


# ---- Helm

def test_lint_finds_nothing():
    program("helm", "lint", "--strict", CHART)
    program("helm", "lint", "--strict", CHART, "-f", "-", stdin=EVERY_VALUE)


def test_crds_of_the_chart_are_those_of_v1():
    assert objects(program("helm", "show", "crds", CHART)) == objects((ROOT / "deploy/v1/crd.yaml").read_text())


def without_helms_labels(o):
    kept = {k: v for k, v in o["metadata"].get("labels", {}).items()
            if not k.startswith(("helm.sh/", "app.kubernetes.io/"))}
    metadata = {k: v for k, v in o["metadata"].items() if k != "labels"} | ({"labels": kept} if kept else {})
    return {**o, "metadata": metadata}


@pytest.mark.parametrize("way", WAYS)
def test_chart_renders_what_kustomize_does(way):
    chart = {k: without_helms_labels(o) for k, o in by_name(helm(WAYS[way])).items()}
    overlay = {k: o for k, o in by_name(kustomize(way)).items() if k not in NOT_HELMS}
    assert chart == overlay


@pytest.mark.parametrize("word", GANGS)
def test_a_scheduler_of_gangs_is_a_component_and_a_value(word, tmp_path):
    """The flag, and the rights to its groups, which are nobody's otherwise."""
    component = by_name(overlay(tmp_path, "kustomize/namespaced", word))
    chart = by_name(helm(["scope=namespace", f"scheduling={word}"]))
    plain = by_name(kustomize("namespaced"))[f"Role/{JOB_ROLE}"]["rules"]
    rules = component[f"Role/{JOB_ROLE}"]["rules"]
    assert rules == chart[f"Role/{JOB_ROLE}"]["rules"] and rules[:-1] == plain
    assert f"--scheduling={word}" in manager(component.values())["args"]
    assert manager(component.values())["args"] == manager(chart.values())["args"]


def test_two_schedulers_of_gangs_are_an_error_that_names_both(tmp_path):
    args = manager(overlay(tmp_path, "v1", "volcano", "kueue"))["args"]
    p = subprocess.run([BIN / "paddle-operator", *args, "--kubeconfig=/dev/null"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 2 and all(w in p.stderr for w in ("--scheduling", "volcano", "kueue")), p.stderr


def test_every_chart_value_is_used():
    objs = by_name(objects(program("helm", "template", "x", CHART, "-f", "-", stdin=EVERY_VALUE)))
    text, pod, container = json.dumps(list(objs.values())), pod_template(objs.values()), manager(objs.values())
    want = yaml.safe_load(EVERY_VALUE)
    assert set(want) | {"scope", "leaderElection", "rbac", "shards"} == set(yaml.safe_load((CHART / "values.yaml").read_text()))
    assert container["image"] == "registry.example/paddle/operator:v9" and container["imagePullPolicy"] == "Always"
    assert {"--initImage=registry.example/paddle/gate:v9", "--gate-resources=cpu=100m,memory=64Mi", "--log-level=debug", "--log-format=json", "--prefer-family=6",
             "--scheduling=volcano"
            } <= set(container["args"])
    assert container["resources"] == want["resources"]
    for key in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName"):
        assert pod["spec"][key] == want[key], key
    assert pod["metadata"]["annotations"] == want["podAnnotations"]
    assert pod["metadata"]["labels"] == {"team": "a", "control-plane": "controller-manager",
                                         "app.kubernetes.io/name": "paddle-operator"}
    assert pod["spec"]["serviceAccountName"] == "mine" and ACCOUNT not in text
    assert objs["ServiceAccount/mine"]["metadata"]["annotations"] == {"a": "b"}
    assert objs[f"PodDisruptionBudget/{DEPLOYMENT}"]["spec"]["maxUnavailable"] == "50%"
    monitor = objs["ServiceMonitor/paddle-operator"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "10s"}]
    service = objs["Service/paddle-metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert not monitor["spec"]["selector"]["matchLabels"].items() <= objs["Service/paddle-gate"]["metadata"]["labels"].items()
    policy = objs["NetworkPolicy/paddle-operator"]["spec"]
    assert policy["ingress"][0]["from"] == [{"podSelector": {}}]
    assert policy["egress"][0] == {"ports": [{"port": 8443}]}
    assert objs["NetworkPolicy/paddle-jobs"]["metadata"]["namespace"] == "team-a"


def test_every_chart_value_is_used_with_shards():
    def chart(*sets):
        text = program("helm", "template", "x", CHART, "-f", "-", "--set", ",".join(["replicas=1", *sets]), stdin=EVERY_VALUE)
        return by_name(objects(text))

    plain, shards = chart(), chart("shards=2")
    assert f"StatefulSet/{DEPLOYMENT}" in shards
    manager(shards.values())["args"].remove("--shard=$(SHARD)/$(SHARDS)")
    del manager(shards.values())["env"][-2:]
    assert pod_template(shards.values()) == pod_template(plain.values())
    del plain[f"Deployment/{DEPLOYMENT}"]
    assert all(shards[name] == o for name, o in plain.items())


def test_switches_of_the_chart():
    off = by_name(helm(["gate.enabled=false", "metrics.enabled=false", "leaderElection=false", "serviceAccount.create=false",
                        "rbac.create=false"]))
    assert list(off) == [f"Deployment/{DEPLOYMENT}"]
    container = manager(off.values())
    assert container["args"] == ["--initImage=", "--gate-bind-address=0", "--metrics-bind-address=0"]
    assert [p["name"] for p in container["ports"]] == ["probes"]
    assert off[f"Deployment/{DEPLOYMENT}"]["spec"]["strategy"] == {"type": "Recreate"}
    assert not [a for a in manager(helm())["args"] if a.startswith("--gate-resources")]
    bare = manager(helm(["gate.resources.cpu=null", "gate.resources.memory=null"]))
    assert "--gate-resources=" in bare["args"]


@pytest.mark.parametrize("value, word", [
    ("replica=2", "replica"), ("replicas=two", "replicas"), ("scope=galaxy", "scope"), ("image.pullPolicy=Sometimes", "pullPolicy"),
    ("extraArgs={oops}", "extraArgs"), ("gate.resources=none", "resources"), ("log.level=loud", "level"), ("image.tag=a b", "tag"), ("resources=none", "resources"),
    ("metrics.serviceMonitor.interval=soon", "interval"), ("leaderElection=false,replicas=2", "leaderElection"),
    ("networkPolicies.jobNamespaces={Team_A}", "jobNamespaces"), ("networkPolicies.apiServerPorts=null", "apiServerPorts"),
    ("shards=65", "shards"), ("shards=2,scope=namespace", "scope")])
def test_a_wrong_value_is_refused_by_name(value, word):
    assert word in program("helm", "template", "x", CHART, "--set", value, code=1)


# ---- NetworkPolicies

def matches(selector, labels):
    """A label selector, with the one operator that ours use."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    assert all(e["operator"] == "Exists" for e in selector.get("matchExpressions", []))
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        e["key"] in labels for e in selector.get("matchExpressions", []))


def reaches(policies, source, target, port, protocol="TCP"):
    """Whether a network plugin lets (namespace, labels) reach port of (namespace, labels), None being outside of the cluster.
    A namespace has no label but its name."""
    def covers(peer, policy, end):
        namespaces = peer.get("namespaceSelector")
        there = (end[0] == policy["metadata"]["namespace"] if namespaces is None
                 else matches(namespaces, {"kubernetes.io/metadata.name": end[0]}))
        return there and matches(peer.get("podSelector", {}), end[1])

    def lets(direction, own, other):
        key, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
        mine = [p for p in policies if own and direction in p["spec"]["policyTypes"] and own[0] == p["metadata"]["namespace"]
                and matches(p["spec"]["podSelector"], own[1])]
        rules = [(p, r) for p in mine for r in p["spec"].get(key, [])]
        return not mine or any(
            (peers not in r or other and any(covers(peer, p, other) for peer in r[peers])) and
            ("ports" not in r or (port, protocol) in [(q["port"], q.get("protocol", "TCP")) for q in r["ports"]])
            for p, r in rules)
    return lets("Ingress", target, source) and lets("Egress", source, target)


def policies_of(objs, job_namespace):
    mine = [o for o in objs if o["kind"] == "NetworkPolicy"]
    for o in POLICY_OF_JOBS if len(mine) == 1 else []:
        mine.append({**o, "metadata": {**o["metadata"], "namespace": job_namespace}})
    return mine


def networks(tmp_path):
    """Objects with policies, of every way to ask for them."""
    values = ["networkPolicies.enabled=true", "networkPolicies.jobNamespaces={team-a}"]
    return {"kustomize": overlay(tmp_path, "kustomize/cluster", "network-policies"), "helm": helm(values),
            "helm shards": helm([*values, "shards=2"]), "kustomize secure": overlay(
                tmp_path, "kustomize/cluster", "network-policies", "secure-metrics"),
            "kustomize shards": overlay(tmp_path, "v1", "network-policies", "shards")}


def test_policies_let_through_what_belongs_together_and_nothing_else(tmp_path):
    """Selectors against the labels of the pods that are really made."""
    jobs = [[o for o in objects(subprocess.run([BIN / "paddle-operator", "render", ROOT / f"deploy/examples/{name}.yaml"], check=True,
                                               capture_output=True, text=True).stdout) if o["kind"] == "Pod"]
            for name in ("wide_and_deep", "wide_and_deep_service", "resnet")]
    job, *other_jobs = [[("team-a", p["metadata"]["labels"]) for p in pods] for pods in jobs]
    stranger, outside = ("team-a", {"app": "web"}), None
    prometheus = ("monitoring", {"app.kubernetes.io/name": "prometheus"})
    for way, objs in networks(tmp_path).items():
        policies = policies_of(objs, "team-a")
        operator = ("paddle-system", pod_template(objs)["metadata"]["labels"])
        ports = {p["name"]: p["containerPort"] for p in manager(objs)["ports"]}
        let = lambda *a: reaches(policies, *a)
        for pod in job:
            elsewhere = ("team-b", pod[1])
            assert let(pod, operator, ports["gate"]) and let(elsewhere, operator, ports["gate"]), way
            assert not any(let(pod, operator, ports[p]) for p in ("metrics", "probes")), way
            assert all(let(pod, peer, port) for peer in job for port in (36000, 55999, 40123, 1024)), way
            assert let(other_jobs[0][0], pod, 36000), way       # of the same namespace: no selector can say more
            assert not any(let(who, pod, 36000) for who in (elsewhere, stranger, outside, operator, prometheus)), way
            assert let(pod, outside, 443), way                  # data
        assert let(prometheus, operator, ports["metrics"]), way
        assert not any(let(who, operator, port) for who in (stranger, outside) for port in ports.values()), way
        assert not let(prometheus, operator, ports["gate"]) and not let(prometheus, operator, ports["probes"]), way
        assert let(operator, outside, 443) and let(operator, outside, 6443) and not let(operator, outside, 80), way
        assert all(let(operator, ("kube-system", {"k8s-app": "kube-dns"}), 53, p) for p in ("TCP", "UDP")), way
        assert let(stranger, ("team-a", {"app": "db"}), 5432), way      # pods of others are as they were


def test_the_charts_policies_are_those_of_the_component(tmp_path):
    chart, component = (policies_of(networks(tmp_path)[way], "team-a") for way in ("helm", "kustomize"))
    assert [without_helms_labels(o) for o in chart] == component


def test_an_empty_metrics_from_adds_no_rule():
    """An empty list "from" would let in all."""
    objs = by_name(helm(["networkPolicies.enabled=true", "networkPolicies.metricsFrom=null"]))
    (gate,) = objs["NetworkPolicy/paddle-operator"]["spec"]["ingress"]
    assert gate["ports"] == [{"port": 8082}]


def test_no_policy_unless_asked_for():
    assert not [o for objs in (helm(), *map(kustomize, WAYS)) for o in objs if o["kind"] == "NetworkPolicy"]


def test_removing_the_operator_alone_removes_no_job():
    """A namespace takes its jobs along, the CRD all of them."""
    (row,) = (l for l in (ROOT / "docs/install.md").read_text().splitlines() if l.startswith("| the operator alone"))
    removed = [o for f in re.findall(r"delete -f (\S+?)`", row) for o in objects((ROOT / f).read_text())] + helm()
    assert not {o["kind"] for o in removed} & {"Namespace", "CustomResourceDefinition"}


# ---- what the API server says

def test_every_rendered_object_is_accepted_and_its_pods_are_restricted(plane, ns):
    plane.core.patch_namespace(ns, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    asked = []
    for way, objs in rendered().items():
        pod = {"apiVersion": "v1", "kind": "Pod", **pod_template(objs)}
        context = manager(objs)["securityContext"]
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"], way
        assert context["capabilities"] == {"drop": ["ALL"]}, way
        assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532,
                                                  "seccompProfile": {"type": "RuntimeDefault"}}, way
        assert "volumes" not in pod["spec"] and "hostNetwork" not in pod["spec"], way
        pod["metadata"]["name"] = "operator"
        pod["spec"] |= {"serviceAccountName": "default", "priorityClassName": ""}
        asked.append(pod)
        for o in objs:
            if o["kind"] not in OF_THE_CLUSTER | {"ServiceMonitor"}:
                o["metadata"]["namespace"] = ns
                asked.append(o)
    # One request after the other, none of them kept: admission sees a pod as it sees that of a Deployment.
    out = plane.kubectl("-n", ns, "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(asked))
    assert len(out.splitlines()) == len(asked)


@pytest.mark.parametrize("tool", ["kustomize", "helm"])
def test_an_install_in_one_namespace_runs_with_what_it_brings(plane, operator, kubelet, ns, tmp_path, tool):
    """The Deployment's arguments, its account's token; a job beside it runs, one elsewhere is not looked at."""
    objs = kustomize("namespaced", tmp_path, ns) if tool == "kustomize" else helm(WAYS["namespaced"], ns)
    plane.kubectl("-n", ns, "apply", "-f", "-", stdin=yaml.safe_dump_all(objs))
    args = [a.replace("$(POD_NAMESPACE)", ns) for a in manager(objs)["args"] if not a.startswith("--initImage")]
    o = operator(*args, kubeconfig=account_kubeconfig(plane, ns, ACCOUNT, tmp_path / "kubeconfig"),
                 env={"POD_NAMESPACE": ns})
    wait_for(lambda: "msg=leading" in o.text(), why=o.text)
    plane.namespace(f"{ns}-other")
    plane.create(f"{ns}-other", "j", ps=None, worker=1)
    plane.create(ns, "j")
    plane.wait_phase(ns, "j", "Running")
    assert "status" not in plane.job(f"{ns}-other", "j")
    assert "level=warn" not in o.text() and "level=error" not in o.text(), o.text()
    plane.delete(f"{ns}-other", "j")
    plane.core.delete_namespace(f"{ns}-other")
