"""The ways to say where the API server is and who one is, each against a real one; and what is said when it is wrong."""
import base64
import copy
import datetime
import json
import os
import pathlib
import subprocess
import time

import pytest
import yaml
from kubernetes import client

from rig import BIN, wait_for

PKI = "pki"


@pytest.fixture
def account(plane, ns):
    """A ServiceAccount that may do in its namespace what the operator needs there, and nothing beyond: -> token(seconds)."""
    rbac = client.RbacAuthorizationV1Api()
    plane.core.create_namespaced_service_account(ns, {"metadata": {"name": "op"}})
    every = ["get", "list", "watch", "create", "update", "patch", "delete"]
    rbac.create_namespaced_role(ns, {"metadata": {"name": "op"}, "rules": [
        {"apiGroups": [""], "resources": ["pods", "services", "configmaps", "events"], "verbs": every},
        {"apiGroups": ["batch.paddlepaddle.org"], "resources": ["paddlejobs", "paddlejobs/status", "paddlejobs/finalizers"],
         "verbs": every}]})
    rbac.create_namespaced_role_binding(ns, {
        "metadata": {"name": "op"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "op"},
        "subjects": [{"kind": "ServiceAccount", "name": "op", "namespace": ns}]})

    def token(seconds=600):
        r = plane.core.create_namespaced_service_account_token("op", ns, {"spec": {"expirationSeconds": seconds}})
        return r.status.token
    return token


def config(plane, path, user, cluster=None, drop=()):
    c = yaml.safe_load(open(plane.kubeconfig))
    at = c["clusters"][0]["cluster"]
    ca = pathlib.Path(plane.dir) / PKI / "ca.crt"
    at = {"server": at["server"], "certificate-authority": str(ca), **(cluster or {})}
    for k in drop:
        at.pop(k)
    text = {"apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "c", "cluster": at}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}]}
    path.write_text(yaml.safe_dump(text))
    return str(path)


def works(plane, operator, ns, path, *flags, env=None):
    o = operator(f"--namespace={ns}", *flags, kubeconfig=path, env=env)
    wait_for(lambda: "in sync" in o.text(), why=o.text)
    plane.create(ns, "j", ps=None, worker=1)
    plane.wait_phase(ns, "j", "Running")
    assert "level=warn" not in o.text() and "level=error" not in o.text(), o.text()
    return o


def test_token_and_a_namespaced_install(plane, operator, kubelet, ns, account, tmp_path):
    """No right beyond the namespace: nothing cluster-wide is asked for."""
    works(plane, operator, ns, config(plane, tmp_path / "k", {"token": account()}))


def test_token_file_is_read_again(plane, operator, kubelet, ns, account, tmp_path):
    file = tmp_path / "token"
    file.write_text(account() + "\n")
    o = works(plane, operator, ns, config(plane, tmp_path / "k", {"tokenFile": "token"}))
    # The account's name in a token that is not valid any more, then a new one in its place.
    plane.core.delete_namespaced_service_account("op", ns)
    wait_for(lambda: plane.core.create_namespaced_service_account(ns, {"metadata": {"name": "op"}}))
    file.write_text(account())
    plane.create(ns, "k", ps=None, worker=1)
    plane.wait_phase(ns, "k", "Running", 120)
    assert o.p.poll() is None


PLUGIN = """#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >> {dir}/info
echo x >> {dir}/runs
[ "$EXTRA" = yes ] && [ "$1" = one ] || exit 9
now=$(date -u +%s)
printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"%s","expirationTimestamp":"%s"}}}}' \\
    "$(cat {dir}/token)" "$(date -u -d @$((now + {seconds})) +%Y-%m-%dT%H:%M:%SZ)"
"""


def test_plugin_with_expiry(plane, operator, kubelet, ns, account, tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(dir=tmp_path, seconds=3))
    plugin.chmod(0o755)
    (tmp_path / "token").write_text(account())
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["one"],
                     "env": [{"name": "EXTRA", "value": "yes"}], "interactiveMode": "Never", "provideClusterInfo": True}}
    start = time.monotonic()
    o = works(plane, operator, ns, config(plane, tmp_path / "k", user))
    info = json.loads((tmp_path / "info").read_text().splitlines()[0])
    assert info["kind"] == "ExecCredential" and info["spec"]["cluster"]["server"] == plane.server
    assert info["spec"]["interactive"] is False
    ca = pathlib.Path(plane.dir) / PKI / "ca.crt"
    assert base64.b64decode(info["spec"]["cluster"]["certificate-authority-data"]) == ca.read_bytes()
    first = len((tmp_path / "runs").read_text().split())
    assert first <= 2 + (time.monotonic() - start) // 10, "the plugin was run for every request"
    n = 0

    def again():                                    # a request asks for a credential; one lasts 10 s at least
        nonlocal n
        n += 1
        plane.create(ns, f"k{n}", ps=None, worker=0)
        return len((tmp_path / "runs").read_text().split()) > first
    wait_for(again, 60, "an expired credential is used", every=1)
    plane.create(ns, "k", ps=None, worker=1)
    plane.wait_phase(ns, "k", "Running")
    assert o.p.poll() is None and "level=error" not in o.text()


def test_plugin_with_certificates(plane, operator, kubelet, ns, tmp_path):
    """The one before is forgotten when a new one comes, watches that it opened or not."""
    pki = pathlib.Path(plane.dir) / PKI
    pem = {"clientCertificateData": (pki / "admin.crt").read_text(), "clientKeyData": (pki / "admin.key").read_text()}
    (tmp_path / "pem").write_text(json.dumps(pem)[1:-1])
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(dir=tmp_path, seconds=3).replace('"token":"%s"', "%s").replace("/token", "/pem"))
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "args": ["one"],
                     "env": [{"name": "EXTRA", "value": "yes"}], "interactiveMode": "Never"}}
    o = works(plane, operator, ns, config(plane, tmp_path / "k", user))
    runs = lambda: len((tmp_path / "runs").read_text().split())
    n = 0

    def again():
        nonlocal n
        n += 1
        plane.create(ns, f"k{n}", ps=None, worker=0)
        return runs() >= 3
    wait_for(again, 90, "certificates are renewed", every=1)
    plane.create(ns, "k", ps=None, worker=1)
    plane.wait_phase(ns, "k", "Running")
    assert o.p.poll() is None and "level=error" not in o.text()


def test_plugin_that_fails_is_named_and_run_again(plane, operator, kubelet, ns, account, tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\necho 'not logged in' >&2\nexit 3\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}}
    o = operator(f"--namespace={ns}", kubeconfig=config(plane, tmp_path / "k", user))
    line = wait_for(lambda: [l for l in o.text().splitlines() if "not logged in" in l and str(plugin) in l], why=o.text)[0]
    assert "3" in line
    (tmp_path / "token").write_text(account())
    plugin.write_text(PLUGIN.format(dir=tmp_path, seconds=600).replace('[ "$EXTRA" = yes ] && [ "$1" = one ] || exit 9\n', ""))
    plane.create(ns, "j", ps=None, worker=1)
    plane.wait_phase(ns, "j", "Running")


def test_certificates_inline_and_relative(plane, operator, kubelet, ns, tmp_path):
    pki = pathlib.Path(plane.dir) / PKI
    b64 = lambda name: base64.b64encode((pki / name).read_bytes()).decode()
    user = {"client-certificate-data": b64("admin.crt"), "client-key-data": b64("admin.key")}
    works(plane, operator, ns, config(plane, tmp_path / "a", user, {"certificate-authority-data": b64("ca.crt")},
                                      ["certificate-authority"])).kill()
    for name in ("admin.crt", "admin.key", "ca.crt"):
        (tmp_path / name).write_bytes((pki / name).read_bytes())
    plane.delete(ns, "j")
    wait_for(lambda: not plane.jobs(ns))
    works(plane, operator, ns, config(plane, tmp_path / "b", {"client-certificate": "admin.crt", "client-key": "admin.key"},
                                      {"certificate-authority": "ca.crt"}))


def test_server_name_and_insecure(plane, operator, kubelet, ns, account, tmp_path):
    other = {"server": plane.server.replace("127.0.0.1", "127.0.0.2")}       # not in the certificate
    user = {"token": account()}
    listening = subprocess.run(["curl", "-sk", "-o", "/dev/null", other["server"]]).returncode == 0
    if not listening:
        other = {"tls-server-name": "elsewhere.example"}
    o = operator(f"--namespace={ns}", kubeconfig=config(plane, tmp_path / "k", user, other))
    wait_for(lambda: "certificate" in o.text().lower() or "subject" in o.text().lower(), why=o.text)
    assert "in sync" not in o.text()
    o.kill()
    works(plane, operator, ns, config(plane, tmp_path / "n", user, {**other, "tls-server-name": "kubernetes.default.svc"})).kill()
    plane.delete(ns, "j")
    wait_for(lambda: not plane.jobs(ns))
    works(plane, operator, ns, config(plane, tmp_path / "i", user, {**other, "insecure-skip-tls-verify": True},
                                      ["certificate-authority"]))


def test_context_is_chosen(plane, operator, kubelet, ns, tmp_path):
    c = yaml.safe_load(open(plane.kubeconfig))
    good = c["contexts"][0]["name"]
    c["contexts"].append({"name": "dead", "context": {"cluster": "dead", "user": c["users"][0]["name"]}})
    c["clusters"].append({"name": "dead", "cluster": {"server": "https://127.0.0.1:1"}})
    c["current-context"] = "dead"
    for user in c["users"]:                          # relative paths would be relative to the new place
        for k, v in list(user["user"].items()):
            if k in ("client-certificate", "client-key") and not os.path.isabs(v):
                user["user"][k] = os.path.join(plane.dir, v)
    for cluster in c["clusters"]:
        ca = cluster["cluster"].get("certificate-authority")
        if ca and not os.path.isabs(ca):
            cluster["cluster"]["certificate-authority"] = os.path.join(plane.dir, ca)
    (tmp_path / "k").write_text(yaml.safe_dump(c))
    works(plane, operator, ns, str(tmp_path / "k"), f"--context={good}").kill()
    dead = operator(kubeconfig=str(tmp_path / "k"))
    wait_for(lambda: "127.0.0.1:1" in dead.text().partition("\n")[2])
    assert dead.p.poll() is None                     # an API server that is away is no reason to end


BASE = {"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}


def changed(**top):
    return yaml.safe_dump({**copy.deepcopy(BASE), **top})


WRONG = {
    "absent": (None, ["No such file"]),
    "empty": ("", []),
    "not-yaml": ("a: [", ["1"]),
    "binary": ("\x00\x01\x02", []),
    "a-list": ("- 1\n- 2\n", []),
    "no-context": (changed(**{"current-context": ""}), ["current-context"]),
    "unknown-context": (changed(**{"current-context": "y"}), ["y"]),
    "unknown-cluster": (changed(clusters=[]), ["c"]),
    "unknown-user": (changed(users=[]), ["u"]),
    "no-server": (changed(clusters=[{"name": "c", "cluster": {}}]), ["server"]),
    "bad-base64": (changed(clusters=[{"name": "c", "cluster": {"server": "https://a", "certificate-authority-data": "%%%"}}]),
                   ["certificate-authority-data"]),
    "ca-absent": (changed(clusters=[{"name": "c", "cluster": {"server": "https://a", "certificate-authority": "nowhere.crt"}}]),
                  ["nowhere.crt"]),
    "no-pem": (changed(users=[{"name": "u", "user": {"client-certificate-data": "QQ=="}}]), ["client-certificate-data"]),
    "key-absent": (changed(users=[{"name": "u", "user": {"client-certificate-data": base64.b64encode(
        b"-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n").decode()}}]), ["client-key"]),
    "auth-provider": (changed(users=[{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]), ["auth-provider"]),
    "exec-version": (changed(users=[{"name": "u", "user": {"exec": {"command": "x", "apiVersion": "v9"}}}]), ["v9"]),
    "wrong-type": (changed(users=[{"name": "u", "user": {"token": 7}}]), ["token"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kubeconfig_is_named_in_one_line(tmp_path, name):
    text, words = WRONG[name]
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    p = subprocess.run([BIN / "paddle-operator", f"--kubeconfig={path}", "--metrics-bind-address=0",
                        "--health-probe-bind-address=0", "--gate-bind-address=0"], capture_output=True, text=True, timeout=60)
    lines = p.stderr.strip().splitlines()
    assert p.returncode == 1 and len(lines) == 1, (p.returncode, lines)
    for word in [str(path), *words]:
        assert word in lines[0], lines[0]


def test_kubeconfig_of_the_environment(plane, operator, kubelet, ns, tmp_path):
    """A colon list: absent files are skipped, the first that names a thing wins."""
    env = {"KUBECONFIG": f"{tmp_path}/absent:{plane.kubeconfig}"}
    works(plane, operator, ns, "", env=env)
    p = subprocess.run([BIN / "paddle-operator"], env={"KUBECONFIG": f"{tmp_path}/absent", "HOME": str(tmp_path)},
                       capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and "absent" in p.stderr and len(p.stderr.strip().splitlines()) == 1
