"""The operator with exactly the rights that are printed: none is missing, none is too much, each one counts.

JOBS and drive() make the operator use each verb of each rule.  The API server's audit log says which were used, and by
which an operator that lacks one was refused.  Who adds a right to crd/rbac.c adds here what needs it.
"""
import functools
import json
import pathlib

import pytest
import yaml

from install import ACCOUNT, JOB_ROLE, LOCK_ROLE, kustomize
from rig import ControlPlane, Kubelet, Operator, account_kubeconfig, wait_for
from test_upgrade import restore

AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
"""
# Admission asks for these, the operator never: (resource, verb) -> the request that is refused without it.
ASKED_BY_ADMISSION = {("paddlejobs/finalizers", "update"): ("pods", "create")}

# Name -> roles and spec, and below the resources whose rights a job is for: an operator that lacks one gets those alone.
JOBS = {
    "ends": dict(ps=None, worker=1, intranet="Service", cleanPodPolicy="Always", ttlSecondsAfterFinished=1),
    "ends-many": dict(ps=None, worker=8, cleanPodPolicy="Always"),      # enough pods to be deleted together
    "large": dict(ps=None, worker=None, suspend=True, heter={"replicas": 1, "template": {"spec": {     # not kept, so it is got
        "containers": [{"name": "paddle", "image": "x"}], "tolerations": [{}] * 20000}}}),
    "swept": dict(ps=None, worker=8, cleanPodPolicy="Always"),      # as many as go with one request
    "scaled": dict(ps=None, worker=1),
    "token": dict(ps=None, worker=1, peerAuth="Token"),
    "restarts": dict(ps=None, worker=1, backoffLimit=1),
    "rejected": dict(ps=None, worker=1, image=" "),     # the same event again and again: it is counted up
}
UPSTREAMS = "service"       # a job of upstream's, with finalizer and Services to take over
FOR = {
    "paddlejobs": ["ends", "large", UPSTREAMS], "paddlejobs/status": ["scaled"], "paddlejobs/finalizers": ["scaled"],
    "pods": ["swept", "scaled"], "services": ["ends", UPSTREAMS], "configmaps": ["scaled", "restarts"], "events": ["rejected"],
    "secrets": ["token"],
}


def drive(plane, namespaces):
    """What happens to those jobs after their start, wherever they have come to it; called again and again."""
    jobs = plane.custom.list_cluster_custom_object("batch.paddlepaddle.org", "v1", "paddlejobs")["items"]
    for j in jobs:
        ns, name, n = j["metadata"]["namespace"], j["metadata"]["name"], j["spec"].get("worker", {}).get("replicas")
        ready = j.get("status", {}).get("readyWorker")
        # One more, then none of it: a pod and an address come and go.
        if ns in namespaces and name == "scaled" and ready == f"{n}/{n}" and j["metadata"]["generation"] < 3:
            plane.patch(ns, name, {"spec": {"worker": {"replicas": 3 - n}}})


def ends(pod):
    """What the containers of JOBS end with."""
    return {"ends": (0, ""), "swept": (0, ""), "restarts": (1, "no data")}.get(pod.metadata.name.split("-")[0])


@functools.cache
def rules(role):
    (found,) = [o for o in kustomize("namespaced") if o["kind"] == "Role" and o["metadata"]["name"] == role]
    return found["rules"]


# Every verb of every rule: (role, number of the rule, its resource, verb).
RIGHTS = [(role, i, resource, verb) for role in (JOB_ROLE, LOCK_ROLE) for i, rule in enumerate(rules(role))
          for resource in rule["resources"] for verb in rule["verbs"]]


def right_id(right):
    role, i, resource, verb = right
    return f"{verb} {resource}" + (" of the lock" if rules(role)[i].get("resourceNames") else "")


def allows(right, request):
    role, i, resource, verb = right
    rule = rules(role)[i]
    names = rule.get("resourceNames")
    return (request["group"] in rule["apiGroups"] and request["resource"] == resource and request["verb"] == verb
            and (not names or request["name"] in names))


class Audited:
    """A control plane of its own, with an audit log, where owning a job's pods is a right of its own."""

    def __init__(self, directory):
        policy, self.log, self.directory = directory / "audit.yaml", directory / "audit.log", directory
        policy.write_text(AUDIT)
        self.plane = ControlPlane(f"--audit-policy-file={policy}", f"--audit-log-path={self.log}",
                                  "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
        self.kubelet = Kubelet(self.plane)
        self.kubelet.finish = ends
        self.operators = []

    def close(self):
        self.kubelet.stopping = True
        for o in self.operators:
            o.kill()
        self.plane.down()

    def install(self, namespaces):
        """namespace -> what it lacks, or None."""
        objs = []
        for ns, lacks in namespaces.items():
            self.plane.core.create_namespace({"metadata": {"name": ns}})
            for o in kustomize("namespaced"):
                if o["kind"] not in ("ServiceAccount", "Role", "RoleBinding"):
                    continue
                o["metadata"]["namespace"] = ns
                for s in o.get("subjects", []):
                    s["namespace"] = ns
                if lacks and o["kind"] == "Role" and o["metadata"]["name"] == lacks[0]:
                    o["rules"][lacks[1]]["verbs"].remove(lacks[3])
                    o["rules"] = [r for r in o["rules"] if r["verbs"]]
                objs.append(o)
        self.plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objs))
        for ns, lacks in namespaces.items():
            wait_for(lambda: self.plane._has_account(ns), why="default ServiceAccount")
            wanted = FOR.get(lacks[2], []) if lacks else [*JOBS, UPSTREAMS]
            if UPSTREAMS in wanted:
                restore(self.plane, self.kubelet, ns, only=UPSTREAMS)
            for name in JOBS.keys() & set(wanted):
                self.plane.create(ns, name, **JOBS[name])
            kubeconfig = account_kubeconfig(self.plane, ns, ACCOUNT, self.directory / ns)
            self.operators.append(Operator(kubeconfig, "--leader-elect", f"--leader-elect-namespace={ns}", f"--namespace={ns}"))

    def requests(self):
        """namespace of the operator -> its requests."""
        found = {}
        for line in self.log.read_text().splitlines():
            try:
                e = json.loads(line)
            except ValueError:
                continue                # the last one, half written
            _, _, ns, account = (e["user"]["username"].split(":") + [""] * 4)[:4]
            ref = e.get("objectRef")
            if account != ACCOUNT or not ref:
                continue
            found.setdefault(ns, []).append({
                "group": ref.get("apiGroup", ""), "verb": e["verb"], "name": ref.get("name", ""),
                "resource": "/".join(filter(None, (ref.get("resource"), ref.get("subresource")))),
                "code": e.get("responseStatus", {}).get("code"),
                "why": e.get("annotations", {}).get("authorization.k8s.io/reason", "")})
        return found


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    a = Audited(pathlib.Path(tmp_path_factory.mktemp("audit")))
    yield a
    a.close()


@pytest.mark.deadline(240)
def test_no_right_is_missing_and_none_is_unused(audited):
    audited.install({"all": None})
    unused = [r for r in RIGHTS if r[2:] not in ASKED_BY_ADMISSION]

    def used():
        drive(audited.plane, {"all"})
        done = [r for r in audited.requests().get("all", []) if r["code"] and r["code"] != 403]
        unused[:] = [r for r in unused if not any(allows(r, q) for q in done)]
        return not unused
    wait_for(used, 180, lambda: f"used by nothing: {', '.join(map(right_id, unused))}; take it out of crd/rbac.c, or add to "
                               f"JOBS what uses it", every=0.3)
    log = audited.operators[-1].text()
    assert not [r for r in audited.requests()["all"] if r["code"] == 403]
    assert "forbidden" not in log.lower(), log


@pytest.fixture(scope="module")
def refused(audited):
    """Operators that lack one right each, side by side; right -> the requests of that operator that were refused."""
    lacking = {f"lacks-{n}": right for n, right in enumerate(RIGHTS)}
    audited.install(lacking)
    found = {}

    def all_met():
        drive(audited.plane, set(lacking))
        for ns, requests in audited.requests().items():
            if ns in lacking:
                found[lacking[ns]] = [r for r in requests if r["code"] == 403]
        return all(found.get(r) for r in RIGHTS)
    try:
        wait_for(all_met, 300, every=0.5)
    except AssertionError:
        pass                            # the tests say which
    return found


@pytest.mark.parametrize("right", RIGHTS, ids=right_id)
def test_the_operator_is_refused_without_any_one_right(refused, right):
    want = ASKED_BY_ADMISSION.get(right[2:], right[2:])
    assert want in {(r["resource"], r["verb"]) for r in refused.get(right, [])}, "it works without: take it out of crd/rbac.c"
