"""paddlerun check and version -v: whether a machine can train, and how the programs were built."""
import json
import os
import re
import shutil
import subprocess

import pytest

from rig import BIN, ROOT, wait_for

NAMES = ["clock", "memory", "disk", "names", "servers", "reduce-shm", "reduce-tcp"]
TRAINER = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINERS_NUM": "1", "PADDLE_TRAINER_ID": "0"}


def check(*flags, program=BIN / "paddlerun", cwd=None, **env):
    """(exit code, check -> (result, text)); each check has minutes, as the machine may have other work."""
    r = subprocess.run([program, "check", "--json", "--timeout=300s", *flags], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True,
                       timeout=900)
    said = json.loads(r.stdout)
    assert said["ok"] == (r.returncode == 0) and [c["check"] for c in said["checks"]] == NAMES, r.stdout + r.stderr
    return r.returncode, {c["check"]: (c["result"], c["text"]) for c in said["checks"]}


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.deadline(600)
def test_a_machine_that_can_train(tmp_path):
    """Inside a job's pod too: its servers are not asked, its directories not written to, its ports not taken."""
    code, found = check(cwd=tmp_path, **TRAINER, PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:9,localhost:9", PADDLE_JOB_TOKEN="secret", PADDLE_JOB_ENCRYPT="1",
                        PADDLE_PS_STRATEGY="/nowhere")
    assert code == 0 and [r for r, _ in found.values()] == ["ok"] * 7, found
    assert found["names"][1] == "1 names resolved, 1 endpoints are addresses"
    assert found["disk"][1].startswith(f"{tmp_path}: 8 MiB written") and os.listdir(tmp_path) == []


@pytest.mark.deadline(600)
def test_each_failure_is_one_line_and_the_rest_is_checked(tmp_path):
    code, found = check("--dir=/proc", **TRAINER, PADDLE_PSERVERS_IP_PORT_LIST="no-such-host.invalid:1")
    assert code == 1 and [n for n, (r, _) in found.items() if r == "failed"] == ["disk", "names"], found
    assert found["disk"][1].startswith('cannot create "/proc/') and found["names"][1].startswith("no-such-host.invalid: "), found
    code, found = check(f"--dir={tmp_path}/nowhere", **TRAINER | {"PADDLE_TRAINER_ID": "7"}, PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:9")
    assert code == 1 and found["disk"][1] == f"{tmp_path}/nowhere: No such file or directory" and "PADDLE_TRAINER_ID" in found["names"][1], found


@pytest.mark.deadline(600)
def test_few_descriptors_are_enough_or_named(tmp_path):
    """The system's least is 1024, but a shell or a container may give less."""
    limit = BIN / "paddlerun"
    few = tmp_path / "paddlerun"
    for n in (32, 16):
        few.write_text(f'#!/bin/sh\nulimit -n {n}\nexec {limit} "$@"\n')
        few.chmod(0o755)
        code, found = check(program=few, cwd=tmp_path)
        assert found["reduce-shm"][0] == found["reduce-tcp"][0] == "ok", found
        assert (code, found["servers"][0]) == ((0, "ok") if n == 32 else (1, "failed")), found
    assert "Too many open files (ulimit -n is 16): raise it" in found["servers"][1], found


def test_where_only_the_launcher_is_the_rest_is_skipped(tmp_path):
    shutil.copy(BIN / "paddlerun", tmp_path)
    code, found = check(program=tmp_path / "paddlerun", cwd=tmp_path)
    assert code == 0 and [n for n, (r, _) in found.items() if r == "skipped"] == ["names", "servers", "reduce-shm", "reduce-tcp"], found
    assert "only the launcher is installed here" in found["servers"][1]


def helper(home, script):
    """A launcher whose paddle-check is a script."""
    shutil.copy(BIN / "paddlerun", home)
    (home / "paddle-check").write_text(f"#!/bin/sh\n{script}\n")
    (home / "paddle-check").chmod(0o755)
    return home / "paddlerun"


def test_what_does_not_end_is_ended(tmp_path):
    """With all its processes; and a line a check for people."""
    program = helper(tmp_path, f"sleep 1000 & echo $! >>{tmp_path}/pids; wait")
    r = subprocess.run([program, "check", "--timeout=2s"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = {line.split()[0]: line for line in r.stdout.splitlines()}
    assert r.returncode == 1 and list(lines) == NAMES, r.stdout
    assert all(re.search(r" failed  +\d+ ms  not done in 2 s \(--timeout\)$", lines[n]) for n in NAMES[-3:]), r.stdout
    pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
    wait_for(lambda: not any(alive(pid) for pid in pids), why=lambda: [pid for pid in pids if alive(pid)])


@pytest.mark.deadline(600)
def test_the_cause_of_a_failure_is_in_its_line(tmp_path):
    """Exit code 1 is a failure, and so is any other."""
    for code, script in (1, 'echo "ERROR: no sums" >&2; echo more'), (2, 'echo "ERROR: no sums" >&2'), (9, 'echo "ERROR: no sums"'):
        _, found = check(program=helper(tmp_path, f"{script}; exit {code}"), cwd=tmp_path)
        assert [found[n] for n in NAMES[-3:]] == [("failed", "ERROR: no sums")] * 3, found
    _, found = check(program=helper(tmp_path, "kill -9 $$"), cwd=tmp_path)
    assert [found[n] for n in NAMES[-3:]] == [("failed", "killed by SIGKILL")] * 3, found


def test_version_says_how_it_was_built():
    said = subprocess.run([BIN / "paddlerun", "version", "-v"], check=True, capture_output=True, text=True, timeout=120).stdout
    short = subprocess.run([BIN / "paddlerun", "--version"], check=True, capture_output=True, text=True, timeout=120).stdout
    assert said.startswith(short) and re.fullmatch(r"paddlerun \S+\n", short)
    rows = dict(re.findall(r"^(\w+(?: \w+)?)  +(.*)$", said, re.M))
    assert {"compiler", "flags", "loops", "gRPC core", "RocksDB", "oneDNN", "NCCL", "GPUs"} <= set(rows), said
    assert "-std=gnu17" in rows["flags"] and re.fullmatch(r"[\d.]+", rows["oneDNN"]) and "/" not in rows["flags"], said


def test_version_finds_the_nccl_that_is_named():
    """A group loads it from there, too (gpu_test.c)."""
    standins = ROOT / "build/test/standin"
    subprocess.run(["make", "-s", "-C", ROOT, "build/test/standin/libcuda.so.1", "build/test/standin/libnccl.so.2"], check=True, timeout=300)
    for folder, says in ((standins, "2.27.3 can be loaded"), ("/none", "/none/libnccl.so.2: cannot open shared object")):
        env = {**os.environ, "FLAGS_nccl_dir": str(folder), "LD_LIBRARY_PATH": str(standins)}
        said = subprocess.run([BIN / "paddlerun", "version", "-v"], check=True, capture_output=True, text=True, timeout=120, env=env).stdout
        assert says in dict(re.findall(r"^(\w+(?: \w+)?)  +(.*)$", said, re.M))["NCCL"], said
