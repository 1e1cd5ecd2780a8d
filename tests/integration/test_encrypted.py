"""spec.peerAuth: Encrypted, PADDLE_JOB_ENCRYPT: trainers and parameter servers speak TLS, or not to each other."""
import os
import pathlib
import subprocess

import pytest

from rig import BIN, ROOT, free_port, wait_for
from test_local import check_expected

SMALL = ["--lines", "4000", "--test-lines", "500", "--save", ""]
ENCRYPT = {"PADDLE_JOB_TOKEN": "secret", "PADDLE_JOB_ENCRYPT": "1"}


@pytest.fixture
def job(tmp_path):
    """start(servers, trainers, words, both, server, trainer): processes by name; the last three are their environment."""
    made = {}

    def start(servers, trainers, *words, both={}, server={}, trainer={}):
        ends = [f"127.0.0.1:{free_port()}" for _ in range(servers)]
        base = {"PATH": os.environ["PATH"], "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(ends), "PADDLE_TRAINERS_NUM": str(trainers), **both}
        envs = {f"server{i}": {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": e.split(":")[1], **server}
                for i, e in enumerate(ends)}
        envs |= {f"trainer{i}": {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i), **trainer} for i in range(trainers)}
        for name, env in envs.items():
            with open(tmp_path / name, "w") as log:
                made[name] = subprocess.Popen([BIN / "wide_and_deep", *SMALL, *words], cwd=tmp_path, env={**base, **env},
                                              stdout=log, stderr=subprocess.STDOUT)
        return made
    yield start
    for p in made.values():
        p.kill()
        p.wait()


@pytest.mark.deadline(240)
@pytest.mark.parametrize("way", ["lanes", "grpc"])
@pytest.mark.parametrize("servers, trainers, mode", [(1, 1, "async"), (2, 2, "sync")])
def test_wide_and_deep_is_trained(job, tmp_path, servers, trainers, mode, way):
    for name, p in job(servers, trainers, "--mode", mode, both={**ENCRYPT, "PADDLE_PS_TRANSPORT": way}).items():
        assert p.wait(150) == 0, (tmp_path / name).read_text()[-3000:]
    assert "connections are encrypted (TLS 1.3)" in (tmp_path / "server0").read_text()
    assert "TRAIN ---> pass: 0" in (tmp_path / "trainer0").read_text()


@pytest.mark.deadline(240)
def test_an_encrypted_job_without_a_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = (ROOT / "examples/wide_and_deep/job.yaml").read_text()
    assert "peerAuth: Token" in job
    rendered = subprocess.run([BIN / "paddle-operator", "render", "-"], input=job.replace("peerAuth: Token", "peerAuth: Encrypted"),
                              check=True, capture_output=True, text=True).stdout
    r = subprocess.run([BIN / "paddlerun", "local"], input=rendered, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    assert r.returncode == 0 and "connections are encrypted" in r.stdout, r.stdout[-3000:]
    check_expected(r.stdout)


@pytest.mark.deadline(240)
def test_the_launcher_passes_encryption_to_its_children(tmp_path):
    r = subprocess.run([BIN / "paddlerun", "launch", "--server_num=1", "--worker_num=1", "--log_dir", tmp_path / "log",
                        BIN / "wide_and_deep", *SMALL], cwd=tmp_path, env={"PATH": os.environ["PATH"], **ENCRYPT},
                       capture_output=True, text=True, timeout=200)
    logs = "".join(p.read_text() for p in pathlib.Path(tmp_path / "log").iterdir() if p.is_file())
    assert r.returncode == 0 and "connections are encrypted" in logs, r.stderr[-2000:] + logs[-2000:]


@pytest.mark.parametrize("encrypts", ["server", "trainer"])
def test_only_one_side_encrypts(job, tmp_path, encrypts):
    """Neither speaks in clear: the trainer ends with a line, the server has one and waits for others."""
    p = job(1, 1, both={"PADDLE_JOB_TOKEN": "secret"}, **{encrypts: ENCRYPT})
    assert p["trainer0"].wait(60) == 2, (tmp_path / "trainer0").read_text()
    said = {"server": ("the server encrypts, this trainer does not", "the trainer does not encrypt, this server does"),
            "trainer": ("the server does not encrypt, this trainer does", "the trainer encrypts, this server does not")}[encrypts]
    for log, words in zip((tmp_path / "trainer0", tmp_path / "server0"), said):
        wait_for(lambda: f"{words}: PADDLE_JOB_ENCRYPT must be the same everywhere" in log.read_text(), why=log.read_text)
        assert log.read_text().count("PADDLE_JOB_ENCRYPT") == 1, log.read_text()
    assert p["server0"].poll() is None


def test_encryption_needs_a_token(job, tmp_path):
    for name, p in job(1, 1, both={"PADDLE_JOB_ENCRYPT": "1"}).items():
        text = (tmp_path / name).read_text
        assert p.wait(60) == 2, text()
        assert "encryption (PADDLE_JOB_ENCRYPT) without a token: expected PADDLE_JOB_TOKEN" in text(), text()
