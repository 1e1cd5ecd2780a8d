"""Jobs with no cluster: rendered and run here, and by hand in four shells."""
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from expected import check_expected
from rig import BIN, ROOT, free_port, wait_for


def pipeline(path, *flags, seconds=200):
    rendered = subprocess.run([BIN / "paddle-operator", "render", path], check=True, capture_output=True).stdout
    return subprocess.run([BIN / "paddlerun", "local", *flags], input=rendered, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=seconds)


@pytest.mark.deadline(240)
@pytest.mark.parametrize("path", ["examples/wide_and_deep/job.yaml", "deploy/examples/wide_and_deep.yaml",
                                  "deploy/examples/wide_and_deep_service.yaml"])
def test_wide_and_deep_as_processes(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = time.monotonic()
    r = pipeline(ROOT / path)
    text = r.stdout.decode(errors="replace")
    assert r.returncode == 0, text[-3000:]
    check_expected(text)
    print(f"{path}: {time.monotonic() - start:.1f} s")


@pytest.mark.deadline(240)
def test_resnet50_as_processes(tmp_path, monkeypatch):
    """Twice: the second run finds the first one's checkpoints, and that there is nothing left to do but to test."""
    monkeypatch.chdir(tmp_path)
    tests = []
    for run in range(2):
        r = pipeline(ROOT / "examples/resnet50/job.yaml")
        text = r.stdout.decode(errors="replace")
        assert r.returncode == 0, text[-3000:]
        tests.append(re.findall(r"\[Test\] .*", text))
        if run == 0:
            check_expected(text, "resnet50")
    assert tests[0] == tests[1] and len(tests[0]) == 1 and "[Epoch" not in text, text[-3000:]


def shells(text):
    """A job of one worker whose container is a shell script."""
    return f"""
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {{name: sh}}
spec:
  worker:
    replicas: 2
    template:
      spec:
        containers:
        - name: c
          image: none
          command: [sh, -c, {text!r}]
"""


SAYS = 'echo "says $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $TORCHELASTIC_RUN_ID" ' \
       '"$TORCHELASTIC_RESTART_COUNT $MASTER_ADDR:$((MASTER_PORT - 19))" $PADDLE_TRAINER_ENDPOINTS'


def test_pods_without_a_launcher_have_torchruns_variables(tmp_path):
    f = tmp_path / "j.yaml"
    f.write_text(shells(SAYS))
    r = pipeline(f)
    said = sorted(re.findall(r"says (.*) (\S+) (\S+),\S+$", r.stdout.decode(), re.M))
    assert r.returncode == 0 and [s[0] for s in said] == ["0 0 2 1 0 2 sh 0", "1 0 2 1 1 2 sh 0"], r.stdout.decode()
    assert all(s[1] == s[2] for s in said), said          # they meet where worker 0 is


def test_a_launcher_in_a_pod_has_its_own_but_leaves_a_users(tmp_path, monkeypatch):
    """With two processes a pod: four ranks. What the template has itself stays."""
    monkeypatch.chdir(tmp_path)
    says = tmp_path / "says.sh"
    says.write_text(f"#!/bin/sh\n{SAYS}\n")
    says.chmod(0o755)
    f = tmp_path / "j.yaml"
    f.write_text(shells(f"exec {BIN}/paddlerun launch --nproc_per_node 2 {says}")
                 + "          env: [{name: GROUP_WORLD_SIZE, value: '7'}]\n")
    r = pipeline(f)
    said = sorted(re.search(r"says (.*) \S+ \S+$", log.read_text())[1] for log in tmp_path.glob("log/sh-worker-?/*/workerlog.*"))
    assert r.returncode == 0 and said == [f"{i} {i % 2} 4 2 {i // 2} 7 sh 0" for i in range(4)], r.stdout.decode()


def test_exit_code_of_the_job(tmp_path):
    f = tmp_path / "j.yaml"
    f.write_text(shells("test $PADDLE_TRAINER_ID = 0 && exec cat; exit 7"))
    r = pipeline(f, "--grace=10m")                  # who ignores SIGTERM has ten minutes, and nobody does
    assert r.returncode == 7, r.stdout.decode()
    assert b"sh-worker-1" in r.stdout


@pytest.mark.parametrize("flags,time_to_end", [([], b"10.0 s"), (["--grace=0s"], b"0.0 s"), (["--grace", "2500ms"], b"2.5 s")])
def test_ctrl_c_ends_all(flags, time_to_end, tmp_path):
    f = tmp_path / "j.yaml"
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    f.write_text(shells(f"echo up; tail -f /dev/null # {mark}"))
    rendered = subprocess.run([BIN / "paddle-operator", "render", f], check=True, capture_output=True).stdout
    (tmp_path / "rendered").write_bytes(rendered)
    with open(tmp_path / "rendered") as stdin:
        p = subprocess.Popen([BIN / "paddlerun", "local", *flags], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen = b""
    while seen.count(b"up") < 2:
        line = p.stdout.readline()
        assert line, seen
        seen += line
    p.send_signal(signal.SIGINT)
    said = p.communicate(timeout=60)[0]
    assert p.returncode not in (0, None)
    assert b"pods have " + time_to_end + b" to end" in said, said
    left = subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True).stdout
    assert not left, left


@pytest.mark.parametrize("env", [
    {"TRAINING_ROLE": "TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:9", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "1"},
    {"PADDLE_INIT_PSERVERS": "127.0.0.1", "PADDLE_INIT_PORT": "9"},
    {"PADDLE_TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:9,127.0.0.1:10", "PADDLE_TRAINER_ID": "1"},
])
def test_local_training_is_no_jobs(env, tmp_path):
    """--local in a job's environment, of whatever age, waits for nobody."""
    r = subprocess.run([BIN / "wide_and_deep", "--local", "--lines", "200", "--test-lines", "100", "--save", ""], cwd=tmp_path,
                       env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and "TRAIN ---> pass: 0" in r.stdout + r.stderr, r.stderr


@pytest.mark.deadline(240)
def test_the_recipe_by_hand(tmp_path):
    """Two servers and two trainers with nothing but the variables of the recipe; the trainers come first and wait."""
    ports = [free_port(), free_port()]
    base = {"PATH": os.environ["PATH"], "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{p}" for p in ports),
            "PADDLE_TRAINERS_NUM": "2"}
    start = lambda name, env: subprocess.Popen([BIN / "wide_and_deep", "--lines", "8000"], cwd=tmp_path, env={**base, **env},
                                               stdout=open(tmp_path / name, "w"), stderr=subprocess.STDOUT)
    trainers = [start(f"trainer{i}", {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}) for i in (0, 1)]
    log = tmp_path / "trainer0"
    wait_for(lambda: "server not ready, wait 3 sec to retry..." in log.read_text(), why=lambda: log.read_text())
    assert f"not ready endpoints:['127.0.0.1:{ports[0]}', '127.0.0.1:{ports[1]}']" in log.read_text()
    servers = [start(f"server{i}", {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(ports[i])}) for i in (0, 1)]
    for p in trainers + servers:
        assert p.wait(100) == 0, "\n".join((tmp_path / n).read_text()[-1500:] for n in ("trainer0", "trainer1", "server0", "server1"))
    assert re.search(rf"Server listening on .*:{ports[0]} selected port: {ports[0]}", (tmp_path / "server0").read_text())
    assert "TRAIN ---> pass: 0" in (tmp_path / "trainer1").read_text()
