"""One contract, two programs: every example job through the operator's decoder and planner into environments, and those
through the runtime's decoder into roles.  No cluster."""
import json
import pathlib
import re
import subprocess

import pytest
import yaml

from rig import BIN, ROOT

EXAMPLES = [*sorted((ROOT / "deploy/examples").glob("*.yaml")), ROOT / "deploy/elastic/resnet.yaml",
            *sorted((ROOT / "examples").glob("*/job.yaml"))]
TOKEN = "token-of-the-job"
ROLES = {"ps": "server", "worker": "worker", "heter": "heter"}


def run(*args, stdin=None, env=None, seconds=60):
    return subprocess.run([str(a) for a in args], input=stdin, text=True, capture_output=True, timeout=seconds,
                          env={"PATH": "/usr/bin:/bin", **(env or {})})


def render(path_or_text):
    text = path_or_text if isinstance(path_or_text, str) else path_or_text.read_text()
    r = run(BIN / "paddle-operator", "render", "-", stdin=text)
    assert r.returncode == 0, r.stderr
    return [d for d in yaml.safe_load_all(r.stdout) if d]


def environment(pod, maps):
    """What kubelet would put into the first container's environment."""
    c = pod["spec"]["containers"][0]
    env = {}
    for source in c.get("envFrom", []):
        env.update(maps[source["configMapRef"]["name"]])
    fields = {"status.podIP": pod["metadata"]["name"]}
    for e in c.get("env", []):
        source = e.get("valueFrom", {})
        env[e["name"]] = TOKEN if "secretKeyRef" in source else fields[source["fieldRef"]["fieldPath"]] if source else e["value"]
    return env


def roles(docs):
    """name -> (expected role, index, what `paddlerun info` says)"""
    maps = {d["metadata"]["name"]: d["data"] for d in docs if d["kind"] == "ConfigMap"}
    for pod in (d for d in docs if d["kind"] == "Pod"):
        name = pod["metadata"]["name"]
        role, index = re.match(r".*-(ps|worker|heter)-(\d+)$", name).groups()
        r = run(BIN / "paddlerun", "info", "--timeout=0s", env=environment(pod, maps))
        yield name, role, int(index), r


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_keep_their_meaning(path):
    docs = render(path)
    job = next(d for d in yaml.safe_load_all(path.read_text()) if d and d["kind"] == "PaddleJob")
    wanted = {f"{job['metadata']['name']}-{r}-{i}" for r in ROLES if r in job["spec"]
              for i in range(job["spec"][r]["replicas"])}
    assert {d["metadata"]["name"] for d in docs if d["kind"] == "Pod"} == wanted
    for name, role, index, r in roles(docs):
        assert r.returncode == 0, f"{name}: {r.stdout}{r.stderr}"
        assert TOKEN not in r.stdout and ("PADDLE_JOB_TOKEN" in r.stdout) == ("peerAuth" in job["spec"])
        if "elastic" in job["spec"]:    # ranks are dealt by the launcher, the operator says only how many
            assert f"PADDLE_ELASTIC_NP=1:{len(wanted)}" in r.stdout and f"PADDLE_TRAINER_ID={index}" in r.stdout
        else:
            assert re.search(rf"\b{ROLES[role]} {index}\b", r.stdout), f"{name}: {r.stdout}"


SHAPES = [dict(ps=p, worker=w, intranet=i, gloo=g) for p in (0, 1, 3) for w in (1, 2)
          for i in ("PodIP", "Service", "Host", "odd") for g in (0, 1, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s.values())))
def test_shapes_keep_their_meaning(shape):
    role = lambda n: {"replicas": n, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    spec = {"intranet": shape["intranet"], "withGloo": shape["gloo"], "worker": role(shape["worker"])}
    if shape["ps"]:
        spec["ps"] = role(shape["ps"])
    job = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j"}, "spec": spec}
    seen = 0
    for name, role, index, r in roles(render(json.dumps(job))):
        assert r.returncode == 0, f"{name}: {r.stdout}{r.stderr}"
        assert re.search(rf"\b{ROLES[role]} {index}\b", r.stdout), f"{name}: {r.stdout}"
        seen += 1
    assert seen == shape["ps"] + shape["worker"]


@pytest.mark.parametrize("change,code,message", [
    ({"TRAINING_ROLE": "trainer"}, 2, "TRAINING_ROLE"), ({"PADDLE_TRAINERS_NUM": None}, 2, "PADDLE_TRAINERS_NUM"),
    ({"PADDLE_TRAINER_ID": "two"}, 2, "PADDLE_TRAINER_ID"), 
    ({"PADDLE_PORT": "99999", "TRAINING_ROLE": "PSERVER", "PADDLE_TRAINER_ID": None}, 2, "PADDLE_PORT"),
])
def test_wrong_environment_is_one_line(change, code, message):
    env = {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36000", "PADDLE_TRAINERS_NUM": "1", "TRAINING_ROLE": "TRAINER",
           "PADDLE_TRAINER_ID": "0", "POD_IP": "127.0.0.1", "PADDLE_PORT": "36000"}
    env.update(change)
    r = run(BIN / "paddlerun", "info", "--timeout=0s", env={k: v for k, v in env.items() if v is not None})
    assert r.returncode == code and message in r.stderr and r.stderr.count("\n") == 1, r.stdout + r.stderr


def test_an_empty_variable_is_not_set():
    """Templates write `value: ""` for what a chart or a ConfigMap leaves out; docs/env.md and docs/launch.md name all."""
    pages = [(ROOT / "docs" / p).read_text() for p in ("env.md", "launch.md")]
    names = set(re.findall(r"^\| `([A-Z][A-Za-z_]+)`", pages[0], re.M)) | set(re.findall(r"`(PADDLE[A-Z_]*)`", pages[1]))
    assert len(names) > 120 and {"PADDLE_RANK", "PADDLE_LOG_LEVEL", "PORT_RANGE"} <= names, names
    for empty in [*({n: ""} for n in sorted(names)), {n: " " for n in names}]:
        for words in (["launch", "--log_dir=", "--termination_log=", "/bin/true"], ["info", "--timeout=0s"]):
            r = run(BIN / "paddlerun", *words, env=empty)
            assert r.returncode == 0, (empty, words, r.stderr[-300:])


def test_info_prints_the_costs_of_collectives():
    r = run(BIN / "paddlerun", "info", "--collectives", env={})
    assert r.returncode == 0 and not r.stderr, r.stdout + r.stderr
    for way in ("doubling", "halving", "ring"):
        assert re.search(rf"^all_reduce +{way} ", r.stdout, re.M), r.stdout
    assert re.search(r"^all_reduce +64 +0 doubling, \d+ ", r.stdout, re.M), r.stdout



VALIDATE = [
    ("metadata: {name: a.b}\nspec: {}", 3, "name"),
    ("metadata:\n  name: ok\nspec:\n  worker:\n    replicas: -1\n    template: {spec: {containers: [{name: c}]}}", 7, "replicas"),
    ("metadata:\n  name: ok\nspec:\n  worker:\n    replicas: 1", 6, "template"),
    ("metadata:\n  name: ok\nspec:\n  worker:\n    replicas: 1\n    template:\n      spec: {}", 9, "containers"),
    ("metadata:\n  name: y\nspec: {}", 4, "name is true, expected a string"),
    ("metadata:\n  name: ok\n  annotations: {owner: 7}\nspec: {worker: {replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}}",
     5, r"annotations\.owner is 7, expected a string"),
    ("metadata: {name: ok}\nspec:\n  worker:\n    replicas: 1\n    template:\n      spec:\n        containers:\n        - name: c\n          image: i\n"
     "          comand: [a]", 12, "comand is not a field of a container, and would be dropped: did you mean command"),
]


@pytest.mark.parametrize("body,line,word", VALIDATE)
def test_validate_names_line_and_field(tmp_path, body, line, word):
    f = tmp_path / "job.yaml"
    f.write_text(f"apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\n{body}\n")
    r = run(BIN / "paddle-operator", "validate", f)
    assert r.returncode == 1
    assert re.search(rf"^{re.escape(str(f))}:{line}: .*{word}", r.stdout, re.M), r.stdout


def test_validate_names_a_word_that_means_nothing(tmp_path):
    f = tmp_path / "job.yaml"
    f.write_text("""apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: j}
spec:
  intranet: Hots
  worker: {replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}
""")
    r = run(BIN / "paddle-operator", "validate", f)
    assert r.stdout.splitlines() == [f'{f}:5: spec.intranet is "Hots", expected PodIP, Service, DNS or Host; PodIP is used',
                                     "1 job, 0 problems, 1 unknown value"]
    assert r.returncode == 0, "such a job is carried out"


def test_each_device_has_a_job_that_asks_for_it():
    """The page's table is printed from the launcher's."""
    rows = re.findall(r"\| `([\w.]+/\w+)` \|.*\]\(\.\./(deploy/[\w/]+\.yaml)\)", (ROOT / "docs/hardware.md").read_text())
    assert len(rows) == len({path for _, path in rows}) == 6
    for resource, path in rows:
        r = run(BIN / "paddle-operator", "validate", ROOT / path)
        assert r.returncode == 0 and "1 job, 0 problems" in r.stdout, r.stdout
        pods = [d for d in render(ROOT / path) if d["kind"] == "Pod"]
        assert pods and all(p["spec"]["containers"][0]["resources"]["limits"] == {resource: 4} for p in pods), path


def test_validate_accepts_every_example():
    r = run(BIN / "paddle-operator", "validate", ROOT / "deploy/examples", ROOT / "deploy/elastic")
    assert r.returncode == 0, r.stdout
    assert "0 problems" in r.stdout
