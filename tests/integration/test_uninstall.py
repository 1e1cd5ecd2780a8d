"""Nothing that is deleted hangs, in whatever order: the operator, the CRD, the namespace of a job that runs.

Pods of jobs that go with their CRD are collected by Kubernetes, which looks for kinds every 30 s: not waited for here.
"""
import itertools
import json
import re

import pytest
import yaml
from kubernetes import client
from kubernetes.client.rest import ApiException

from rig import ROOT, ControlPlane, Kubelet, wait_for
from test_upgrade import restore

CRD = "paddlejobs.batch.paddlepaddle.org"
SECONDS = 90        # the namespace controller tries again when a kind goes while it looks, later each time


@pytest.fixture(scope="module")
def own():
    """A control plane whose CRD may go: (plane, kubelet)."""
    plane = ControlPlane("--v=1")
    kubelet = Kubelet(plane)
    yield plane, kubelet
    kubelet.stopping = True
    plane.down()


@pytest.fixture
def crd(own):
    plane, _ = own
    plane.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
    wait_for(plane._served, why="PaddleJobs served")
    return client.ApiextensionsV1Api(plane.core.api_client)


def gone(ask, *args):
    try:
        ask(*args)
    except ApiException as e:
        return e.status == 404
    return False


@pytest.mark.parametrize("order", itertools.permutations(["operator", "crd", "namespace"]), ids="-".join)
def test_operator_crd_and_jobs_are_deleted_in_any_order(own, crd, operator, order):
    plane, kubelet = own
    ns = "goes-" + "-".join(order)
    plane.namespace(ns)
    o = operator(kubeconfig=plane.kubeconfig)
    plane.create(ns, "j", ps=1, worker=2)
    plane.create(ns, "s", ps=None, worker=2, intranet="Service")
    plane.wait_phase(ns, "j", "Running")
    plane.wait_phase(ns, "s", "Running")
    delete = {"operator": o.kill, "namespace": lambda: plane.core.delete_namespace(ns),
              "crd": lambda: crd.delete_custom_resource_definition(CRD)}
    for what in order:
        delete[what]()
    wait_for(lambda: gone(crd.read_custom_resource_definition, CRD), SECONDS, "the CRD is still there")
    wait_for(lambda: gone(plane.core.read_namespace, ns), SECONDS, lambda: str(plane.core.read_namespace(ns).status))
    assert not kubelet.twice(ns)


def test_a_crd_of_an_earlier_version_is_logged_and_may_be_replaced(own, crd, operator):
    """`helm upgrade` leaves the CRD as it is: fields that it does not know are not stored, the attempt's number among them."""
    plane, _ = own
    plane.namespace("earlier")
    [old] = list(yaml.safe_load_all((ROOT / "deploy/v1/crd.yaml").read_text()))
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["attempt"]
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(old))
    o = operator(kubeconfig=plane.kubeconfig)
    plane.create("earlier", "j", ps=None, worker=1)
    plane.wait_phase("earlier", "j", "Running")
    plane.patch("earlier", "j", {"spec": {"suspend": True}})
    wait_for(lambda: "the CRD is of an earlier version" in o.text() and "field=attempt" in o.text(), why=o.text)
    assert plane.pods("earlier")
    plane.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
    wait_for(lambda: not plane.pods("earlier"), 60, lambda: str(plane.job("earlier", "j")["status"]))
    assert plane.job("earlier", "j")["status"]["attempt"] == 1
    assert "the CRD has been replaced and stores the field" in o.text()


def test_the_operator_waits_for_a_crd_that_is_gone_and_resumes_when_it_is_back(own, crd, operator):
    plane, kubelet = own
    plane.namespace("back")
    o = operator(kubeconfig=plane.kubeconfig)
    plane.create("back", "j", ps=None, worker=1)
    plane.wait_phase("back", "j", "Running")
    crd.delete_custom_resource_definition(CRD)
    wait_for(lambda: gone(crd.read_custom_resource_definition, CRD), SECONDS, "the CRD is still there")
    wait_for(lambda: "watch ended with an error" in o.text(), why=o.text)
    lines = o.text().count("\n")
    plane.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
    wait_for(plane._served, why="PaddleJobs served")
    plane.create("back", "k", ps=None, worker=1)
    plane.wait_phase("back", "k", "Running")
    assert o.p.poll() is None and o.text().count("\n") - lines < 40, o.text()


def test_once_taken_over_jobs_of_upstream_need_no_operator_to_go(own, crd, operator):
    """Their finalizer would hold them up for ever."""
    plane, kubelet = own
    plane.namespace("old")
    restore(plane, kubelet, "old")
    kubelet.hold = set()
    o = operator(kubeconfig=plane.kubeconfig)
    wait_for(lambda: not any(j["metadata"].get("finalizers") for j in plane.jobs("old")), why=o.text)
    o.kill()
    crd.delete_custom_resource_definition(CRD)
    wait_for(lambda: gone(crd.read_custom_resource_definition, CRD), SECONDS, "the CRD is still there")


def test_deleting_the_operators_files_leaves_jobs_that_the_next_one_follows(own, crd, operator):
    plane, kubelet = own
    plane.namespace("stays")
    plane.kubectl("apply", "-f", ROOT / "deploy/v1/operator.yaml")
    o = operator(kubeconfig=plane.kubeconfig)
    plane.create("stays", "j", ps=None, worker=2)
    plane.wait_phase("stays", "j", "Running")
    o.stop()
    plane.kubectl("delete", "-f", ROOT / "deploy/v1/operator.yaml", "--timeout=50s")
    before = {n: p.metadata.uid for n, p in plane.pods("stays").items()}
    assert len(before) == 2 and plane.phase("stays", "j") == "Running"
    kubelet.finish = lambda pod: (0, "") if pod.metadata.namespace == "stays" else None
    kubelet.look("stays")
    operator(kubeconfig=plane.kubeconfig)
    plane.wait_phase("stays", "j", "Completed")
    assert not kubelet.twice("stays")
    kubelet.finish = None


# The deployment page's demo-wide-and-deep.yaml, word by word.
DEMO = """
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: wide-ande-deep
spec:
  withGloo: 1
  intranet: PodIP
  cleanPodPolicy: OnCompletion
  worker:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.example/paddle-operator/demo-wide-and-deep:v1
  ps:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.example/paddle-operator/demo-wide-and-deep:v1
"""


def test_paddles_document_installs_and_uninstalls(own, operator):
    """Its commands in its order, twice, as it says: uninstall before you install again.  The operator is a process of this machine."""
    plane, kubelet = own
    k, deploy = plane.kubectl, ROOT / "deploy"
    files = [deploy / f"v1/{name}.yaml" for name in ("crd", "operator")]
    job = lambda *words, **more: k("-n", "paddle-system", *words, **more)
    uninstall = lambda *more: k("delete", "-f", files[0], "-f", files[1], *more)
    uninstall("--ignore-not-found")
    for _ in range(2):
        k("create", "-f", files[0])
        assert re.search(rf"^NAME +CREATED AT\n{CRD} +20\d\d-", k("get", "crd")), k("get", "crd")
        wait_for(plane._served, why="PaddleJobs served")
        k("create", "-f", files[1])
        wait_for(lambda: re.search(r"^paddle-controller-manager-\w+-\w+ +\d/1 +Running ", job("get", "pods"), re.M),
                 why=lambda: job("get", "pods"))
        o = operator(kubeconfig=plane.kubeconfig)
        job("create", "-f", deploy / "examples/wide_and_deep.yaml")
        plane.wait_phase("paddle-system", "wide-ande-deep", "Running")
        with pytest.raises(AssertionError, match="AlreadyExists"):
            job("create", "-f", "-", stdin=DEMO)
        job("delete", "pdj", "wide-ande-deep")
        job("create", "-f", "-", stdin=DEMO)
        plane.wait_phase("paddle-system", "wide-ande-deep", "Running")
        kubelet.finish = lambda pod: (0, "") if pod.metadata.name.startswith("wide-ande-deep-worker-") else None
        kubelet.look("paddle-system")
        plane.wait_phase("paddle-system", "wide-ande-deep", "Completed")
        kubelet.finish = None
        assert re.fullmatch(r"NAME +STATUS +MODE +AGE\nwide-ande-deep +Completed +PS +\w+\n", job("get", "pdj")), job("get", "pdj")
        wait_for(lambda: "wide-ande-deep" not in job("get", "pods"), why=lambda: job("get", "pods"))
        o.kill()
        uninstall()
        with pytest.raises(AssertionError, match="NotFound"):
            k("get", "namespace", "paddle-system")
