"""What servers and trainers report about themselves: /metrics, and event files that TensorBoard reads."""
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import urllib.request

import pytest
import yaml

from rig import BIN, ROOT, free_port, wait_for
from test_metrics import MONITORING, exported, expressions, promtool, used


def fetch(port):
    """The text; None while nobody listens."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    except OSError:
        return None


def read(port):
    """Series by name and labels."""
    text = fetch(port)
    if text is None:
        return None
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    assert len({name for name, _ in lines}) == len(lines), "a series twice"
    return {name: float(value) for name, value in lines}


class Job:
    """A server and a worker that trains until it is stopped."""
    def __init__(self, folder, lines):
        self.folder, self.ports = folder, [free_port(), free_port(), free_port()]
        env = {"PATH": os.environ["PATH"], "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{self.ports[0]}", "PADDLE_TRAINERS_NUM": "1",
               "PADDLE_PS_CHECKPOINT_DIR": str(folder / "checkpoints"), "PADDLE_PS_CHECKPOINT_STEPS": "50",
               "PADDLERT_TENSORBOARD": str(folder / "curves")}
        places = [{"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(self.ports[0])},
                  {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0"}]
        self.processes = []
        for place, port in zip(places, self.ports[1:]):
            with open(folder / place["TRAINING_ROLE"], "w") as log:
                self.processes.append(subprocess.Popen(
                    [BIN / "wide_and_deep", "--lines", str(lines), "--test-lines", "100"], cwd=folder, stdout=log, stderr=log,
                    env={**env, **place, "PADDLERT_METRICS": f"127.0.0.1:{port}"}))

    def log(self):
        return "\n".join((self.folder / name).read_text() for name in ("PSERVER", "TRAINER"))

    def kill(self):
        for p in self.processes:
            p.kill()
            p.wait()


@pytest.fixture
def job(tmp_path):
    made = []

    def start(lines):
        made.append(Job(tmp_path, lines))
        return made[0]
    yield start
    for j in made:
        j.kill()


def test_metrics_of_a_job(job):
    j = job(100_000_000)

    def trained():
        assert all(p.poll() is None for p in j.processes), j.log()
        t = read(j.ports[2])
        return t and t.get('paddlert_reported{name="auc"}') and t["paddlert_trainer_checkpoint_number"] > 0 and t
    trainer = wait_for(trained, seconds=100, why=j.log)
    server = read(j.ports[1])
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/training-metrics.md").read_text(), re.M))
    for series, role, other in ((server, "server", "trainer"), (trainer, "trainer", "server")):
        names = {re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", name) for name in series}
        assert {n for n in names if n.startswith("paddlert")} <= documented
        assert any(role in n for n in names) and not any(n.startswith(f"paddlert_{other}") for n in names)
    assert server['paddlert_server_rows{table="embedding"}'] > 1000
    assert 0 < server["paddlert_server_memory_bytes"] < server["paddlert_server_memory_limit_bytes"]
    assert server['paddlert_server_request_seconds_count{op="pull"}'] > 10
    assert server['paddlert_server_request_seconds_bucket{op="pull",le="+Inf"}'] == server['paddlert_server_request_seconds_count{op="pull"}']
    assert server['paddlert_server_trainers{state="alive"}'] == 1
    assert server['paddlert_server_checkpoints_total{result="done"}'] >= 1 and server["paddlert_server_checkpoint_bytes"] > 1000
    assert server['paddlert_server_bytes_total{direction="received"}'] > 1e6
    assert trainer["paddlert_trainer_steps_total"] >= 50 and trainer['paddlert_trainer_call_seconds_count{call="pull"}'] >= 50
    assert 0 < trainer['paddlert_reported{name="loss"}'] < 10 and 0 < trainer["paddlert_reported_step"]


def test_a_prometheus_and_its_dashboard_read_them(job):
    j = job(100_000_000)
    wait_for(lambda: (read(j.ports[2]) or {}).get('paddlert_reported{name="auc"}'), seconds=100, why=j.log)
    texts = [fetch(port) for port in j.ports[1:]]
    for text in texts:
        promtool("check", "metrics", stdin=text)
    names = exported("\n".join(texts))
    for where, expr in expressions("training-"):
        assert used(expr) and used(expr) <= names, f"{where} uses {sorted(used(expr) - names)}, which nobody exports"
        if "process_" in expr:
            assert "paddlejob=~" in expr, f"{where}: anybody's"
    rules = {"groups": [{"name": "panels", "rules": [{"record": f"p{i}", "expr": e} for i, (_, e) in enumerate(expressions("training-"))]}]}
    promtool("check", "rules", "/dev/stdin", stdin=yaml.safe_dump(rules))
    ids = [p["id"] for p in json.loads((MONITORING / "training-dashboard.json").read_text())["panels"]]
    assert len(ids) == len(set(ids)) > 20


def test_the_pod_monitor_selects_pods_of_jobs():
    monitor = yaml.safe_load((MONITORING / "podmonitor-training.yaml").read_text())
    labels = re.findall(r'#define API_LABEL_(?:NAME|ROLE|JOB|UID|INDEX) (?:API_GROUP )?"/?([^"]*)"', (ROOT / "operator/api/job.h").read_text())
    known = {re.sub(r"[^a-z]", "_", name) for label in labels for name in (label, f"batch.paddlepaddle.org/{label}")}
    for relabeling in monitor["spec"]["podMetricsEndpoints"][0]["relabelings"]:
        (source,) = relabeling["sourceLabels"]
        assert source.removeprefix("__meta_kubernetes_pod_label_") in known, source
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    assert expression["key"] == "batch.paddlepaddle.org/job-name"


def test_top_and_info(job, tmp_path):
    j = job(100_000_000)
    wait_for(lambda: (read(j.ports[2]) or {}).get('paddlert_reported{name="auc"}'), seconds=100, why=j.log)
    targets = [f"127.0.0.1:{j.ports[1]}", f"http://127.0.0.1:{j.ports[2]}/"]
    look = subprocess.run([BIN / "paddlerun", "info", *targets], capture_output=True, text=True, timeout=60)
    assert look.returncode == 0 and look.stdout.startswith("SERVER ") and "\nTRAINER " in look.stdout, look
    assert re.search(rf"^{targets[0]} .* 1/1 ", look.stdout, re.M) and re.search(rf"^{targets[1]} ", look.stdout, re.M)
    twice = subprocess.run([BIN / "paddlerun", "top", "--count=2", "--interval=200ms", *targets, f"127.0.0.1:{free_port()}"],
                           capture_output=True, text=True, timeout=60)
    assert twice.returncode == 0 and twice.stdout.count("SERVER ") == 2 and "\033" not in twice.stdout
    assert twice.stdout.count("Connection refused") == 2


class Kubectl:
    """A stand-in for kubectl first in PATH, in whose cluster pods are processes of this machine."""
    def __init__(self, home):
        self.home = home
        home.mkdir()
        (home / "kubectl").symlink_to(ROOT / "tests/programs/kubectl")
        (home / "space").write_text("team")
        self.env = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}", "STANDIN": str(home)}

    def show(self, **ports):
        """Pods by name: a port of this machine, or a phase; servers name their port, workers have a variable."""
        def pod(name, port):
            ways = {"ports": [{"name": "metrics", "containerPort": 9500}]} if "ps" in name else {
                "env": [{"name": "PADDLERT_METRICS", "value": ":9400"}]}
            return {"metadata": {"name": name, "namespace": "team"}, "spec": {"containers": [{"name": "paddle", **ways}]},
                    "status": {"phase": port if isinstance(port, str) else "Running"}}
        pods = {name.replace("_", "-"): port for name, port in ports.items()}
        (self.home / "ports.json").write_text(json.dumps({f"{n}:{9500 if 'ps' in n else 9400}": p for n, p in pods.items()}))
        (self.home / "new").write_text(json.dumps({"kind": "PodList", "items": [pod(*p) for p in pods.items()]}))
        (self.home / "new").rename(self.home / "pods.json")

    def top(self, *words):
        return subprocess.run([BIN / "paddlerun", "top", *words], capture_output=True, text=True, timeout=60, env=self.env)

    def gone(self):
        return not os.path.exists(f"/proc/{(self.home / 'pid').read_text()}")


def next_table(out):
    """First words of its lines; a table ends with an empty line."""
    words = set()
    while (line := out.readline()).strip():
        words.add(line.split()[0])
    assert line, "it ended"
    return words


def test_top_of_a_job_by_kubectl(job, tmp_path):
    """The pods of a job, through the API server's proxy, as they come and go; the child ends with it."""
    j, k = job(100_000_000), Kubectl(tmp_path / "kubectl")
    wait_for(lambda: (read(j.ports[2]) or {}).get('paddlert_reported{name="auc"}'), seconds=100, why=j.log)
    k.show(wide_ps_0=j.ports[1], wide_worker_0=j.ports[2], wide_worker_1="Pending")
    for words in (["wide"], ["wide", "-n", "team"], ["-n=team", "wide"]):
        once = k.top(*words, "--count=1")
        assert once.returncode == 0 and not once.stderr, once
        assert re.search(r"^wide-ps-0 .* 1/1 ", once.stdout, re.M) and re.search(r"^wide-worker-0  *\d", once.stdout, re.M), once.stdout
        assert re.search(r"^wide-worker-1 +Pending$", once.stdout, re.M) and k.gone(), once.stdout
    asked = set((k.home / "asked").read_text().splitlines())
    assert asked == {"/api/v1/namespaces/team/pods?labelSelector=batch.paddlepaddle.org%2Fjob-name%3Dwide",
                     "/api/v1/namespaces/team/pods/wide-ps-0:9500/proxy/metrics",
                     "/api/v1/namespaces/team/pods/wide-worker-0:9400/proxy/metrics"}
    live = subprocess.Popen([BIN / "paddlerun", "top", "wide", "--interval=100ms"], env=k.env, stdout=subprocess.PIPE, text=True)
    try:
        for pods in (["wide-ps-0", "wide-worker-0", "wide-worker-1"], ["wide-ps-0", "wide-worker-1"]):
            k.show(**{name.replace("-", "_"): j.ports[1 if "ps" in name else 2] for name in pods})
            tables = (next_table(live.stdout) for _ in range(20))
            assert any(table == {"SERVER", "TRAINER", *pods} for table in tables), f"never {pods}"
        live.terminate()
        assert live.wait(60) == 0 and k.gone()
    finally:
        live.kill()


def test_top_of_a_job_says_what_is_wrong(tmp_path):
    k = Kubectl(tmp_path / "kubectl")
    k.show()
    for words, code, text in ((["wide"], 1, "wide no pod of such a job\n"), (["wide", "-n", "other"], 1, "HTTP status 403: pods is forbidden"),
                              (["wide", "-n", "a/b"], 2, '"a/b" is not a namespace'), (["Wide"], 2, '"Wide" is neither a job\'s name nor HOST:PORT')):
        r = k.top(*words, "--count=1")
        assert r.returncode == code and text in r.stdout + r.stderr, r
        assert code == 2 or k.gone()
    (k.home / "space").unlink()
    r = k.top("wide", "--count=1")
    assert r.returncode == 1 and r.stderr == "paddlerun top: kubectl proxy: error: no such context\n", r
    k.env["PATH"] = str(tmp_path / "none")
    r = k.top("wide", "--count=1")
    assert r.returncode == 1 and 'cannot start "kubectl": "kubectl": not in PATH' in r.stderr, r


def some(fd):
    assert select.select([fd], [], [], 60)[0], "nothing more on the terminal"
    return os.read(fd, 4096)


def test_top_on_a_terminal_ends_with_q(job):
    j = job(100_000_000)
    wait_for(lambda: read(j.ports[1]), seconds=100, why=j.log)
    for end in (b"q", b"\x03"):
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        top = subprocess.Popen([BIN / "paddlerun", "top", "--interval=100ms", f"127.0.0.1:{j.ports[1]}"], stdin=slave, stdout=slave,
                               stderr=slave, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        try:
            seen = b""
            while seen.count(b"SERVER ") < 3:
                seen += some(master)
            os.write(master, end)
            while b"\033[?25h" not in seen:
                seen += some(master)
            assert top.wait(60) == 0
            assert seen.startswith(b"\033[?25l") and termios.tcgetattr(slave) == before
        finally:
            top.kill()
            os.close(master)
            os.close(slave)


def records(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        yield data[at + 12:at + 12 + size]
        at += 16 + size
    assert at == len(data)


def test_event_files(job, tmp_path):
    j = job(20_000)
    assert [p.wait(100) for p in j.processes] == [0, 0], j.log()
    file, = (tmp_path / "curves/worker-0").iterdir()
    first, *rest = records(file)
    assert first.endswith(b"brain.Event:2") and len(rest) % 3 == 0
    assert [tag in r for r, tag in zip(rest, (b"auc", b"loss", b"examples_per_second"))] == [True] * 3
    lines = re.findall(r"TRAIN ---> pass: 0 loss: ([0-9.]+)", j.log())
    assert [struct.unpack("<f", r[-4:])[0] for r in rest[1::3]] == pytest.approx([float(x) for x in lines], abs=2e-6)


def test_a_port_that_is_taken_costs_the_metrics_alone(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        done = subprocess.run([BIN / "wide_and_deep", "--lines", "500", "--test-lines", "100"], cwd=tmp_path, timeout=100,
                              env={"PATH": os.environ["PATH"], "PADDLERT_METRICS": f"127.0.0.1:{s.getsockname()[1]}",
                                   "PADDLERT_TENSORBOARD": "/proc/none"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "PADDLERT_METRICS: metrics: " in done.stderr and "continuing without it" in done.stderr
    assert "PADDLERT_TENSORBOARD: cannot make \"/proc/none\"" in done.stderr
