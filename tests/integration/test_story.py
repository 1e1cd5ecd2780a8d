"""What a job says of itself against a real API server: who is left, who has old addresses."""
import json
import shlex
import time

from rig import GROUP, wait_for
from test_policy import end, status, uids, wait_status


def condition(plane, ns, kind, name="j"):
    return next((c for c in status(plane, ns, name).get("conditions", []) if c["type"] == kind), {})


def test_the_pods_that_a_failed_job_leaves_are_named_with_the_command_that_ends_them(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=2)
    plane.wait_phase(ns, "j", "Running")
    end(plane, kubelet, ns, "j-worker-1", 3, "no data")
    plane.wait_phase(ns, "j", "Failed")
    message = status(plane, ns)["message"]
    assert "no data; still there, with all that they ask for: j-ps-0, j-worker-0; to end them: kubectl " in message
    plane.wait_event(ns, "Failed", "to end them")
    plane.kubectl(*shlex.split(message.partition("to end them: kubectl ")[2]))
    wait_for(lambda: sorted(plane.pods(ns)) == ["j-worker-1"], why=lambda: sorted(plane.pods(ns)))
    wait_for(lambda: status(plane, ns)["message"].endswith("no data"), why=lambda: status(plane, ns))


def test_only_what_runs_is_ended_with_the_policy_running(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=2, cleanPodPolicy="Running", intranet="Service")
    plane.wait_phase(ns, "j", "Running")
    end(plane, kubelet, ns, "j-worker-1", 3, "no data")
    wait_for(lambda: sorted(plane.pods(ns)) == ["j-worker-1"], why=lambda: sorted(plane.pods(ns)))
    wait_for(lambda: not plane.core.list_namespaced_service(ns).items)
    assert status(plane, ns)["message"].endswith("no data")


def test_pods_with_an_old_address_of_a_peer_are_named(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=2)
    plane.wait_phase(ns, "j", "Running")
    first = uids(plane, ns)["j-ps-0"]
    # The API server knows seconds: the new pod is to be younger than the old ones.
    made = max(p.metadata.creation_timestamp.timestamp() for p in plane.pods(ns).values())
    wait_for(lambda: made + 1.1 < time.time())
    plane.core.delete_namespaced_pod("j-ps-0", ns, grace_period_seconds=0)
    wait_for(lambda: uids(plane, ns).get("j-ps-0", first) != first)
    wait_for(lambda: condition(plane, ns, "StaleAddress").get("status") == "True", why=lambda: status(plane, ns))
    said = condition(plane, ns, "StaleAddress")["message"]
    assert said.startswith("pod j-ps-0 has another address since ") and "as pod j-worker-0, have the old one" in said
    plane.wait_event(ns, "StaleAddress", "j-ps-0")
    wait_status(plane, ns, phase="Running")
    plane.patch(ns, "j", {"spec": {"suspend": True}})
    wait_status(plane, ns, phase="Suspended")
    plane.patch(ns, "j", {"spec": {"suspend": False}})
    wait_status(plane, ns, phase="Running")
    wait_for(lambda: condition(plane, ns, "StaleAddress").get("status") == "False", why=lambda: status(plane, ns))


def test_later_changes_are_separate_from_the_state_event(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=None, worker=3)
    plane.wait_phase(ns, "j", "Running")
    plane.patch(ns, "j", {"spec": {"worker": {"replicas": 2}}})
    assert plane.wait_event(ns, "Deleted") == "deleted Pod j-worker-2"
    assert "deleted" not in plane.wait_event(ns, "Running", "all 3 pods are running")


def test_a_recreated_pod_gets_the_template_that_its_attempt_began_with(plane, operator, kubelet, ns):
    """Also from a status of an earlier version, and from an operator that has never seen that template."""
    def image(name):
        return plane.pods(ns)[name].spec.containers[0].image

    o = operator()
    plane.create(ns, "j", ps=1, worker=2)
    plane.wait_phase(ns, "j", "Running")
    began, old = plane.job(ns, "j")["spec"]["worker"]["template"], image("j-worker-1")
    key = f"{GROUP[0]}/worker-template"
    assert json.loads(plane.core.read_namespaced_config_map("j", ns).metadata.annotations[key]) == began
    assert "beganTemplates" not in plane.job(ns, "j")["status"]
    o.stop()
    plane.core.patch_namespaced_config_map("j", ns, {"metadata": {"annotations": {key: None}}})
    plane.custom.patch_namespaced_custom_object_status(*GROUP, ns, "paddlejobs", "j", {
        "status": {"beganTemplates": json.dumps({"worker": began})}})
    new = json.loads(json.dumps(began))
    new["spec"]["containers"][0]["image"] = "new"
    plane.patch(ns, "j", {"spec": {"worker": {"template": new}}})
    o = operator()
    wait_for(lambda: "beganTemplates" not in plane.job(ns, "j")["status"], why=o.text)
    o.stop()
    operator()
    for name in ("j-worker-1", "j-worker-0"):
        before = uids(plane, ns)[name]
        plane.core.delete_namespaced_pod(name, ns)
        wait_for(lambda: uids(plane, ns).get(name) not in (None, before), why=lambda: status(plane, ns))
        assert image(name) == old
        plane.wait_phase(ns, "j", "Running")
    assert condition(plane, ns, "SpecChanged")["message"].split("; ")[1].endswith("recreated alone gets that too")


def test_a_running_attempt_keeps_the_spec_that_it_began_with(plane, operator, kubelet, ns):
    operator()
    plane.create(ns, "j", ps=1, worker=2)
    plane.wait_phase(ns, "j", "Running")
    before, data = uids(plane, ns), plane.core.read_namespaced_config_map("j", ns).data
    plane.patch(ns, "j", {"spec": {"intranet": "Service"}})
    wait_for(lambda: condition(plane, ns, "SpecChanged").get("status") == "True", why=lambda: status(plane, ns))
    said = condition(plane, ns, "SpecChanged")["message"]
    assert said.startswith("spec.intranet changed; ") and said.endswith("; to apply the change now, suspend the job and resume it")
    plane.wait_event(ns, "SpecChanged", "spec.intranet")
    assert not plane.core.list_namespaced_service(ns).items
    assert plane.core.read_namespaced_config_map("j", ns).data == data and uids(plane, ns) == before
    plane.patch(ns, "j", {"spec": {"suspend": True}})
    wait_status(plane, ns, phase="Suspended")
    plane.patch(ns, "j", {"spec": {"suspend": False}})
    wait_status(plane, ns, phase="Running")
    assert len(plane.core.list_namespaced_service(ns).items) == 3
    assert condition(plane, ns, "SpecChanged")["status"] == "False"
