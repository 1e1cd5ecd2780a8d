"""How pods reach each other: names, addresses of both families, ports on nodes; and a cluster of IPv6 alone."""
import json
import re

import pytest

from kubernetes import client
from rig import ControlPlane, Kubelet, wait_for
from test_operator import configmap


def env(pod):
    return {e.name: e for e in pod.spec.containers[0].env}


def test_dns_mode_needs_no_addresses(plane, operator, kubelet, ns):
    operator()
    kubelet.hold = {"j-ps-0", "j-worker-0", "j-worker-1"}
    plane.create(ns, "j", worker=2, intranet="DNS", withGloo=1)
    data = wait_for(lambda: configmap(plane, ns, "j")).data
    assert data["PADDLE_PSERVERS_IP_PORT_LIST"] == "j-ps-0.j:36000" and data["PADDLE_PORT"] == "36000"
    assert data["PADDLE_TRAINER_ENDPOINTS"] == "j-worker-0.j:36000,j-worker-1.j:36000"
    service, = wait_for(lambda: plane.core.list_namespaced_service(ns).items)
    assert service.metadata.name == "j" and service.spec.cluster_ip == "None" and service.spec.publish_not_ready_addresses
    pods = wait_for(lambda: (lambda p: p if len(p) == 3 else None)(plane.pods(ns)))
    assert not any(p.status.pod_ip for p in pods.values())
    for name, p in pods.items():
        assert (p.spec.hostname, p.spec.subdomain, env(p)["POD_IP"].value) == (name, "j", f"{name}.j")
    kubelet.hold = set()
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Running")
    # What the cluster's DNS answers from: every pod of the job, by its hostname.
    hosts = lambda: {e.get("hostname"): e["addresses"] for s in slices(plane, ns) for e in s["endpoints"] or []}
    want = {n: [p.status.pod_ip] for n, p in plane.pods(ns).items()}
    wait_for(lambda: hosts() == want, why=lambda: f"{hosts()}, expected {want}")
    kubelet.finish = lambda p: (0, "")
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Completed")
    wait_for(lambda: not plane.core.list_namespaced_service(ns).items, why="the Service is cleaned up, too")


def slices(plane, ns):
    """As they are: one that is still empty has `endpoints: null`, which the client's model refuses."""
    api = client.DiscoveryV1Api(plane.core.api_client)
    return json.loads(api.list_namespaced_endpoint_slice(ns, _preload_content=False).data)["items"]


@pytest.mark.parametrize("cluster,prefer,host", [
    ("4", None, r"10\.\d+\.\d+\.\d+"), ("6", None, r"\[fd00::\w+\]"), ("46", None, r"10\.\d+\.\d+\.\d+"),
    ("46", "6", r"\[fd00::\w+\]"), ("64", "4", r"10\.\d+\.\d+\.\d+"), ("4", "6", r"10\.\d+\.\d+\.\d+")])
def test_address_families(plane, operator, kubelet, ns, cluster, prefer, host):
    """Every list has one family, IPv6 in brackets where a port follows, and each pod knows itself as the lists do."""
    operator(*([f"--prefer-family={prefer}"] if prefer else []))
    kubelet.family = cluster
    plane.create(ns, "j", ps=1, worker=2, withGloo=1)
    plane.wait_phase(ns, "j", "Running")
    data = configmap(plane, ns, "j").data
    port = data["PADDLE_PORT"]
    assert re.fullmatch(f"{host}:{port}", data["PADDLE_PSERVERS_IP_PORT_LIST"]), data
    assert re.fullmatch(f"{host}:{port},{host}:{port}", data["PADDLE_TRAINER_ENDPOINTS"]), data
    assert re.fullmatch(f"{host}:{int(port) + 18}", data["PADDLE_GLOO_HTTP_ENDPOINT"]), data
    bare = [h.rsplit(":", 1)[0].strip("[]") for h in data["PADDLE_TRAINER_ENDPOINTS"].split(",")]
    assert data["PADDLE_TRAINERS"] == ",".join(bare)
    for name, p in plane.pods(ns).items():
        source = env(p)["POD_IP"].value_from
        own = data[source.config_map_key_ref.key] if prefer else p.status.pod_ip
        listed = data["PADDLE_PSERVERS_IP_PORT_LIST" if "-ps-" in name else "PADDLE_TRAINER_ENDPOINTS"].split(",")
        assert listed[int(name[-1])].rsplit(":", 1)[0].strip("[]") == own, (name, own, listed)


def test_host_ports_are_kept_apart_across_restarts(plane, operator, kubelet, ns):
    """Live jobs never share a port, whichever operator gave it; a job keeps its own."""
    o = operator()
    ports = lambda: {m.metadata.name: m.data["PADDLE_PORT"] for m in plane.core.list_namespaced_config_map(ns).items
                     if "PADDLE_PORT" in (m.data or {})}
    names = []
    for round_ in range(2):
        batch = [f"r{round_}j{i}" for i in range(6)]
        before = ports()
        for i, name in enumerate(batch):
            plane.create(ns, name, ps=None, worker=1, intranet="Host")
            if i == 3:                          # some have no ConfigMap yet
                o.kill()
                o.start()
        names += batch
        wait_for(lambda: len(ports()) == len(names), why=lambda: f"{sorted(ports())}")
        now = ports()
        assert len(set(now.values())) == len(names), sorted(now.items(), key=lambda kv: kv[1])
        assert {k: now[k] for k in before} == before
    assert not kubelet.twice(ns)


@pytest.fixture(scope="module")
def plane6():
    """A cluster that knows IPv6 alone: API server, Services, pods, nodes."""
    p = ControlPlane("--v=1", up=["--ipv6"])
    k = Kubelet(p)
    k.family = "6"
    yield p
    k.stopping = True
    p.down()


POD6 = r"\[fd00::\w+\]"


@pytest.mark.parametrize("intranet,server,trainer", [
    ("PodIP", POD6, POD6),
    ("Service", "j-ps-0", "j-worker-[01]"),
    ("DNS", r"j-ps-0\.j", r"j-worker-[01]\.j"),
    # In the play the pods of hosts have addresses of their own.
    ("Host", POD6, POD6)])
def test_cluster_of_ipv6_alone(plane6, operator, intranet, server, trainer):
    ns = plane6.namespace(intranet.lower())
    o = operator(f"--namespace={ns}", kubeconfig=plane6.kubeconfig)
    plane6.create(ns, "j", ps=1, worker=2, intranet=intranet, withGloo=1)
    plane6.wait_phase(ns, "j", "Running")
    assert "server=https://[::1]:" in o.text()
    data = configmap(plane6, ns, "j").data
    port = data["PADDLE_PORT"]
    assert re.fullmatch(f"{server}:{port}", data["PADDLE_PSERVERS_IP_PORT_LIST"]), data
    assert re.fullmatch(f"{trainer}:{port},{trainer}:{port}", data["PADDLE_TRAINER_ENDPOINTS"]), data
    assert re.fullmatch(f"{server}:{int(port) + 18}", data["PADDLE_GLOO_HTTP_ENDPOINT"]), data
    services = plane6.core.list_namespaced_service(ns).items
    assert len(services) == {"Service": 3, "DNS": 1}.get(intranet, 0)
    for s in services:
        assert s.spec.ip_families == ["IPv6"] and (s.spec.cluster_ip == "None" or s.spec.cluster_ip.startswith("fd00:10:96:")), s.spec
    # What the cluster's DNS and proxies answer from.
    if services:
        addresses = {p.status.pod_ip for p in plane6.pods(ns).values()}
        found = lambda: slices(plane6, ns)
        wait_for(lambda: {a for s in found() for e in s["endpoints"] or [] for a in e["addresses"]} == addresses,
                 why=lambda: f"{found()}, expected {addresses}")
        assert {s["addressType"] for s in found()} == {"IPv6"}
