"""Which CAs are trusted: a CA that is named, and then no other; those of the system where none is named."""
import http.server
import os
import ssl
import subprocess
import threading

import pytest
import yaml

from rig import BIN, wait_for


def openssl(directory, *args):
    return subprocess.run(["openssl", *args], check=True, capture_output=True, text=True, cwd=directory).stdout.strip()


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Two CAs, `system` and `named`, and for each a certificate of 127.0.0.1. In the folder `store` is what /etc/ssl/certs would
    be on a machine that trusts `system`: its certificate under its hash and in the bundle."""
    at = tmp_path_factory.mktemp("trust")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    for ca in ("system", "named"):
        openssl(at, "req", "-x509", *key, "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.crt")
        openssl(at, "req", "-x509", *key, "-subj", "/CN=server", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-addext",
                "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", f"of-{ca}.key",
                "-out", f"of-{ca}.crt")
    (at / "store").mkdir()
    for name in (openssl(at, "x509", "-hash", "-noout", "-in", "system.crt") + ".0", "ca-certificates.crt"):
        (at / "store" / name).write_bytes((at / "system.crt").read_bytes())
    return at


class Recorder(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.server.requests.append((self.command, self.headers.get("Authorization")))
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_CONNECT = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def server(pki):
    """-> start(signer): an HTTPS server on 127.0.0.1 that writes down in `requests` what it is asked, and in `tried` how many connect."""
    started = []

    def start(signer):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki / f"of-{signer}.crt", pki / f"of-{signer}.key")

        class Server(http.server.ThreadingHTTPServer):
            def finish_request(self, request, address):
                self.tried += 1
                try:
                    super().finish_request(context.wrap_socket(request, server_side=True), address)
                except OSError:         # the client does not trust us
                    pass

        s = Server(("127.0.0.1", 0), Recorder)
        s.requests, s.tried = [], 0
        threading.Thread(target=s.serve_forever, daemon=True).start()
        started.append(s)
        return s

    yield start
    for s in started:
        s.shutdown()
        s.server_close()


@pytest.fixture
def where_system_is_trusted(pki, tmp_path):
    """-> start(*command, env=...): a program on a machine with the folder `store` as /etc/ssl/certs; its log file."""
    started = []

    def start(*command, env=None):
        log = tmp_path / "log"
        script = 'mount --bind "$0" /etc/ssl/certs && exec "$@"'
        with log.open("w") as out:
            started.append(subprocess.Popen(
                ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", script, pki / "store", *command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(env or {})}))
        return log

    yield start
    for p in started:
        p.kill()
        p.wait()


# The CA that is named, who signed the server's certificate, whether the server receives a request.
ROWS = [("named", "system", False), ("named", "named", True), (None, "system", True), (None, "named", False)]


def wait_for_verdict(s, log, requests):
    refused = lambda: s.tried >= 2 and "certificate" in log.read_text().lower()
    wait_for(lambda: s.requests or refused(), why=log.read_text)
    assert bool(s.requests) == requests, s.requests


@pytest.mark.parametrize("place", ["server", "proxy-url"])
@pytest.mark.parametrize("named, signer, requests", ROWS)
def test_the_api_server_and_its_proxy(pki, server, where_system_is_trusted, tmp_path, place, named, signer, requests):
    """No byte of a request, and so no token, goes to whom the kubeconfig's CA did not sign."""
    s = server(signer)
    cluster = {"server": "https://127.0.0.1:1", place: f"https://127.0.0.1:{s.server_port}"}
    if named:
        cluster["certificate-authority"] = str(pki / f"{named}.crt")
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "x", "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
    log = where_system_is_trusted(
        BIN / "paddle-operator", f"--kubeconfig={tmp_path}/kubeconfig", "--namespace=default", "--initImage=",
        "--gate-bind-address=0", "--metrics-bind-address=0", "--health-probe-bind-address=0")
    wait_for_verdict(s, log, requests)
    if requests:
        assert s.requests[0] == (("GET", "Bearer secret") if place == "server" else ("CONNECT", None))


@pytest.mark.parametrize("named, signer, requests", ROWS)
def test_etcd(pki, server, where_system_is_trusted, named, signer, requests):
    s = server(signer)
    env = {"PADDLE_ETCD_USER": "root:secret"} | ({"PADDLE_ETCD_CA": str(pki / f"{named}.crt")} if named else {})
    log = where_system_is_trusted(BIN / "paddlerun", "launch", "--master", f"etcds://127.0.0.1:{s.server_port}", "--nnodes", "2",
                                   "--job_id", "j", "/bin/true", env=env)
    wait_for_verdict(s, log, requests)
