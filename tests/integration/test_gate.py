"""The start gate's endpoint: containers may start when, and only when, all addresses of their job are known."""
import concurrent.futures
import datetime
import http.client
import os
import subprocess
import time
import urllib.error
import urllib.request

import kubernetes
import pytest

from rig import BIN, free_port, wait_for


@pytest.fixture
def gate(operator):
    port = free_port()
    operator("--initImage=gate", f"--gate-bind-address=127.0.0.1:{port}", f"--gate-address=127.0.0.1:{port}", "--server-grace=10m")
    return port


def ask(port, ns, pod, uid, wait=0):
    """(status, body, seconds)"""
    start = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/gate/v1/{ns}/{pod}/{uid}?wait={wait}", timeout=wait + 60) as r:
            return r.status, r.read().decode(), time.monotonic() - start
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), time.monotonic() - start


def fetch(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def known(plane, gate, ns, pod):
    p = wait_for(lambda: plane.pods(ns).get(pod))
    wait_for(lambda: ask(gate, ns, pod, p.metadata.uid)[0] in (200, 202))
    return p.metadata.uid


def test_init_container_is_ours_and_complete(plane, gate, kubelet, ns):
    plane.create(ns, "j", ps=None, worker=1)
    pod = wait_for(lambda: plane.pods(ns).get("j-worker-0"))
    init, = pod.spec.init_containers
    assert init.name == "coord-paddle" and init.image == "gate" and init.command == ["/paddle-gate"]
    env = {e.name: e.value or e.value_from.field_ref.field_path for e in init.env}
    assert env == {"PADDLE_GATE_ADDR": f"127.0.0.1:{gate}", "POD_NAMESPACE": "metadata.namespace",
                   "POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "POD_IPS": "status.podIPs"}
    assert init.resources.limits and init.resources.requests
    assert init.security_context.run_as_non_root and init.security_context.capabilities.drop == ["ALL"]


def test_waits_for_the_last_address(plane, gate, kubelet, ns):
    kubelet.hold = {"j-worker-1"}
    plane.create(ns, "j", ps=1, worker=2)
    uids = {n: known(plane, gate, ns, n) for n in ("j-ps-0", "j-worker-0", "j-worker-1")}
    wait_for(lambda: plane.pods(ns)["j-worker-0"].status.pod_ip)
    status, why, seconds = ask(gate, ns, "j-worker-0", uids["j-worker-0"], wait=1)
    assert status == 202 and why.strip() and seconds > 0.9
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = [pool.submit(ask, gate, ns, n, u, 50) for n, u in uids.items()]
        kubelet.hold = set()
        kubelet.look(ns)
        assert [f.result()[0] for f in asked] == [200, 200, 200]    # without an answer to their question they had 202 after 50 s
    assert plane.core.read_namespaced_config_map("j", ns)


def test_the_gate_refuses_unknown_pods_and_paths(plane, gate, kubelet, ns):
    plane.create(ns, "j", ps=None, worker=1)
    uid = known(plane, gate, ns, "j-worker-0")
    assert ask(gate, ns, "j-worker-0", "another-uid")[0] == 404  # a pod newer than what is known: it must not fail
    assert ask(gate, ns, "nobody", uid)[0] == 404
    for path in ("", "/", "/a", "/a/b", "/a/b/c/d", "//b/c", "/" + "x" * 300 + "/b/c"):
        try:
            status = urllib.request.urlopen(f"http://127.0.0.1:{gate}/gate/v1{path}", timeout=60).status
        except urllib.error.HTTPError as e:
            status = e.code
        assert status in (400, 404), path


def test_a_standby_sends_on_at_once(plane, operator, kubelet, ns):
    """It says go when it sees that the leader has published, and keeps nobody waiting for that."""
    ports = [free_port(), free_port()]
    pair = []
    for port in ports:
        pair.append(operator("--initImage=gate", f"--gate-bind-address=127.0.0.1:{port}", f"--gate-address=127.0.0.1:{ports[0]}",
                             "--leader-elect", f"--leader-elect-namespace={ns}"))
        wait_for(lambda: "msg=leading" in pair[0].text(), why=pair[0].text)
    kubelet.hold = {"j-worker-0"}
    plane.create(ns, "j", ps=None, worker=1, cleanPodPolicy="Never")
    uid = known(plane, ports[0], ns, "j-worker-0")
    wait_for(lambda: "does not lead" in ask(ports[1], ns, "j-worker-0", uid)[1])
    status, why, seconds = ask(ports[1], ns, "j-worker-0", uid, wait=50)
    assert status == 404 and "does not lead" in why and seconds < 40
    kubelet.hold = set()
    kubelet.look(ns)
    assert ask(ports[0], ns, "j-worker-0", uid, wait=30)[0] == 200
    wait_for(lambda: ask(ports[1], ns, "j-worker-0", uid)[0] == 200)
    kubelet.finish = lambda pod: (0, "")
    kubelet.look(ns)
    wait_for(lambda: ask(ports[0], ns, "j-worker-0", uid)[0] == 410)
    wait_for(lambda: "does not lead" in ask(ports[1], ns, "j-worker-0", uid)[1])
    assert ask(ports[1], ns, "j-worker-0", uid)[0] == 404


def test_paddle_gate_ends_when_the_operator_opens(plane, gate, kubelet, ns):
    """paddle-gate itself against the operator."""
    kubelet.hold = {"j-worker-0"}
    plane.create(ns, "j", ps=None, worker=1)
    uid = known(plane, gate, ns, "j-worker-0")
    p = subprocess.Popen([BIN / "paddle-gate"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env={"PADDLE_GATE_ADDR": f"127.0.0.1:{gate}", "POD_NAMESPACE": ns, "POD_NAME": "j-worker-0", "POD_UID": uid})
    time.sleep(0.3)
    assert p.poll() is None
    kubelet.hold = set()
    kubelet.look(ns)
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 0, out


def test_a_server_ends_when_its_workers_have(plane, gate, kubelet, ns):
    """paddlerun as a server's first process against the operator; the pod stays, with its log."""
    plane.create(ns, "j", ps=1, worker=2, cleanPodPolicy="Never")
    pod = wait_for(lambda: plane.pods(ns).get("j-ps-0"))
    env = {e.name: e.value for e in pod.spec.containers[0].env if e.value}
    uid = plane.job(ns, "j")["metadata"]["uid"]
    where = env["PADDLE_TRAINING_END"]
    assert where == f"127.0.0.1:{gate}/end/v1/{ns}/j/{uid}"
    worker = wait_for(lambda: plane.pods(ns).get("j-worker-0"))
    assert "PADDLE_TRAINING_END" not in [e.name for e in worker.spec.containers[0].env]
    program = "trap 'echo notified; exit 7' TERM; echo ${PADDLE_TRAINING_END:-nowhere}; while :; do sleep .1; done"
    p = subprocess.Popen([BIN / "paddlerun", "exec", "--", "sh", "-c", program], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={"PATH": os.environ["PATH"], "PADDLE_TRAINING_END": where})
    launcher = subprocess.Popen([BIN / "paddlerun", "launch", "--log_dir=", "sleep", "1000"], stdout=subprocess.DEVNULL,
                                env={"PATH": os.environ["PATH"], "PADDLE_TRAINING_END": where})
    plane.wait_phase(ns, "j", "Running")
    assert fetch(gate, f"/end/v1/{ns}/j/{uid}") == (202, "not over\n")
    assert fetch(gate, f"/end/v1/{ns}/j/another-uid")[0] == 404 and fetch(gate, f"/end/v1/{ns}/j")[0] == 400
    assert p.poll() is None and launcher.poll() is None
    kubelet.enders[ns] = lambda pod: (0, "") if "worker" in pod.metadata.name else None
    kubelet.look(ns)
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 0 and "notified" in out and "nowhere" in out and "training is over" in out, out
    assert launcher.wait(60) == 0                                       # the servers' grace is ten minutes
    assert {c["type"] for c in plane.job(ns, "j")["status"]["conditions"] if c["status"] == "True"} >= {"Completing"}
    kubelet.enders[ns] = lambda pod: (0, "")
    kubelet.look(ns)
    plane.wait_phase(ns, "j", "Completed")
    assert fetch(gate, f"/end/v1/{ns}/j/{uid}") == (200, "over\n")     # who asks late gets it, too
    assert sorted(plane.pods(ns)) == ["j-ps-0", "j-worker-0", "j-worker-1"]
    assert plane.pods(ns)["j-ps-0"].metadata.uid == pod.metadata.uid


def since(job, condition):
    """Since when it has been True; None: it is not."""
    found = [c["lastTransitionTime"] for c in job.get("status", {}).get("conditions", []) if c["type"] == condition and c["status"] == "True"]
    return datetime.datetime.fromisoformat(found[0].replace("Z", "+00:00")) if found else None


def test_a_server_that_was_notified_has_twice_the_time(plane, operator, kubelet, ns):
    """It ends by itself, and its node may be late to say so; of one that nobody notified nothing is known."""
    port = free_port()
    operator("--initImage=gate", f"--gate-bind-address=127.0.0.1:{port}", f"--gate-address=127.0.0.1:{port}", "--server-grace=3s")
    kubelet.enders[ns] = lambda pod: (0, "") if "worker" in pod.metadata.name else None
    lasted = {}
    for name in "notified", "alone":
        plane.create(ns, name, ps=1, worker=1, cleanPodPolicy="Never")
        uid = wait_for(lambda: plane.job(ns, name)["metadata"]["uid"])
        if name == "notified":
            wait_for(lambda: fetch(port, f"/end/v1/{ns}/{name}/{uid}?wait=50")[0] == 200)
        began = wait_for(lambda: since(plane.job(ns, name), "Completing"))
        plane.wait_phase(ns, name, "Completed")
        lasted[name] = (since(plane.job(ns, name), "Succeeded") - began).total_seconds()
    assert lasted["notified"] >= 6 and 3 <= lasted["alone"] < 6, lasted


def test_servers_keep_nobody_from_starting(plane, operator, kubelet, ns):
    """Of the connections that there may be servers hold half; the others are asked to come again."""
    port = free_port()
    limit = 600                                                         # files; 344 of them connections
    operator("--initImage=gate", f"--gate-bind-address=127.0.0.1:{port}", f"--gate-address=127.0.0.1:{port}", files=limit)
    plane.create(ns, "j", ps=1, worker=1)
    plane.wait_phase(ns, "j", "Running")
    uid = plane.job(ns, "j")["metadata"]["uid"]
    held = []
    for n in range(200):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(f"127.0.1.{1 + n % 100}", 0))
        c.request("GET", f"/end/v1/{ns}/j/{uid}?wait=50")
        held.append(c)
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", f"/end/v1/{ns}/j/{uid}?wait=50")
    assert c.getresponse().status == 202                                # at once
    for c in held:
        c.close()


def test_a_client_that_leaves_costs_nothing(plane, gate, kubelet, ns):
    kubelet.hold = {"j-worker-0"}
    plane.create(ns, "j", ps=None, worker=1)
    uid = known(plane, gate, ns, "j-worker-0")
    for _ in range(50):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{gate}/gate/v1/{ns}/j-worker-0/{uid}?wait=30", timeout=0.02)
        except OSError:
            pass
    assert ask(gate, ns, "j-worker-0", uid)[0] == 202


def report(port, ns, pod, uid, ips, source, wait=30):
    """Asks as the gate of a pod with the address `source`, which reports `ips`."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=wait + 60, source_address=(source, 0))
    c.request("GET", f"/gate/v1/{ns}/{pod}/{uid}?wait={wait}&ips={ips}")
    r = c.getresponse()
    return r.status, r.read().decode()


def asks_as_the_gate(*args):
    """As report, until it may go."""
    answers = []
    wait_for(lambda: answers.append(report(*args)) or answers[-1][0] == 200)
    return answers[-1]


def place(plane, ns, *names):
    """Gives pods a node, as a scheduler does."""
    for name in names:
        plane.core.create_namespaced_binding(ns, {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}, _preload_content=False)


def test_a_pod_reports_its_address_before_kubelet_does(plane, gate, kubelet, ns):
    """The ConfigMap is complete, and the gate open, before the API server has an address."""
    kubelet.hold = {"j-worker-0", "j-worker-1"}
    plane.create(ns, "j", ps=None, worker=2)
    uids = {n: known(plane, gate, ns, n) for n in ("j-worker-0", "j-worker-1")}
    place(plane, ns, *uids)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(asks_as_the_gate, gate, ns, "j-worker-0", uids["j-worker-0"], "127.0.1.1", "127.0.1.1")
        second = pool.submit(asks_as_the_gate, gate, ns, "j-worker-1", uids["j-worker-1"], "127.0.1.2,fd00::7", "127.0.1.2")
        assert first.result() == second.result() == (200, "go\n")
    data = plane.core.read_namespaced_config_map("j", ns).data
    hosts = [e.rsplit(":", 1)[0] for e in data["PADDLE_TRAINER_ENDPOINTS"].split(",")]
    assert hosts == ["127.0.1.1", "127.0.1.2"]
    assert all(not p.status.pod_ip for p in plane.pods(ns).values())


def test_a_pod_without_a_node_is_refused_by_the_gate(plane, gate, kubelet, ns):
    """Nor is who asks held: the node may only be news to the operator."""
    kubelet.hold = {"j-worker-0"}
    plane.create(ns, "j", ps=None, worker=1)
    uid = known(plane, gate, ns, "j-worker-0")
    start = time.monotonic()
    assert report(gate, ns, "j-worker-0", uid, "127.0.1.1", "127.0.1.1", 50) == (202, "addresses\n")
    assert time.monotonic() - start < 40            # who is held waits for fifty seconds
    place(plane, ns, "j-worker-0")
    assert asks_as_the_gate(gate, ns, "j-worker-0", uid, "127.0.1.2", "127.0.1.2") == (200, "go\n")
    assert "127.0.1.2" in plane.core.read_namespaced_config_map("j", ns).data["PADDLE_TRAINER_ENDPOINTS"]


def test_names_resolve_when_the_api_server_has_the_address(plane, gate, kubelet, ns):
    kubelet.hold = {"j-worker-0"}
    plane.create(ns, "j", ps=None, worker=1, intranet="Service")
    uid = known(plane, gate, ns, "j-worker-0")
    place(plane, ns, "j-worker-0")
    wait_for(lambda: report(gate, ns, "j-worker-0", uid, "127.0.1.1", "127.0.1.1", 1) == (202, "the pods' names\n"))
    kubelet.hold = set()
    kubelet.look(ns)
    assert ask(gate, ns, "j-worker-0", uid, 30)[0] == 200


@pytest.mark.parametrize("ips", ["127.0.1.9", "", "x", "127.0.1.1,127.0.1.2,127.0.1.3", "127.0.1.1,x",
                                 "127.0.1.1" * 40, ",127.0.1.1", "%00", "127.0.1.1%20", "127.0.1.9,127.0.1.1",
                                 "fd00::7,127.0.1.1"])
def test_a_pod_speaks_for_its_own_address_only(plane, gate, kubelet, ns, ips):
    kubelet.hold = {"j-worker-0"}
    plane.create(ns, "j", ps=None, worker=1)
    uid = known(plane, gate, ns, "j-worker-0")
    place(plane, ns, "j-worker-0")
    for wait in (1, 0):                 # the operator knows of the node by then
        assert report(gate, ns, "j-worker-0", uid, ips, "127.0.1.1", wait)[0] == 202
    assert ask(gate, ns, "j-worker-0", uid, 1)[0] == 202
    with pytest.raises(kubernetes.client.ApiException):
        plane.core.read_namespaced_config_map("j", ns)
