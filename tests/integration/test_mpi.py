"""`paddlerun mpi` under real MPI launchers, and as Kubernetes and Slurm start it: one machine stands for one host."""
import os
import socket
import subprocess

import pytest

from rig import BIN, free_port, wait_for

LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    "mpich": ["mpirun.mpich", "-launcher", "fork"],
}


def paddlerun(*words, port=None):
    return [BIN / "paddlerun", "mpi", f"--port={port or free_port()}", "--ports_num=1", "--ports_num_for_sparse=0", *words]


def run(words, cwd, seconds=150, **env):
    p = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=seconds, env={**os.environ, **env})
    return p.returncode, p.stdout + p.stderr


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_trains_under(launcher, tmp_path):
    """As start_mpi_train.sh: hosts in `machines`, a server a host, a trainer a rank; and it ends."""
    (tmp_path / "machines").write_text("127.0.0.1 slots=2\n")
    program = [BIN / "wide_and_deep", "--mode=sync", "--lines=4000", "--test-lines=500", f"--save={tmp_path}/model"]
    code, out = run([*LAUNCHERS[launcher], "-n", "2", *paddlerun("--log_dir=logs", "--", *program)], tmp_path)
    assert code == 0, out
    assert "all 2 trainers have finished" in (tmp_path / "logs/pserver.log").read_text()
    assert (tmp_path / "logs/train.log").read_text().count("worker starts") == 2
    assert (tmp_path / "model").exists()


def test_a_host_without_a_rank_is_named(tmp_path):
    """Open MPI fills the first host's cores unless asked otherwise: the others' servers would be waited for for ever."""
    (tmp_path / "hosts").write_text("127.0.0.1\n127.0.0.2\n")
    code, out = run([*LAUNCHERS["openmpi"], "-n", "2", *paddlerun("--machines=hosts", "--", "true")], tmp_path)
    assert code == 2 and "2 of 2 processes are on this host, so of 2 hosts some have none" in out, out


def test_the_first_failures_code_is_the_jobs(tmp_path):
    script = '[ "$PADDLE_INIT_TRAINER_ID" = 1 ] && exit 7; sleep 60'
    port = free_port()
    code, out = run([*LAUNCHERS["openmpi"], "-n", "2", *paddlerun("--", "sh", "-c", script, port=port)], tmp_path)
    assert code == 7 and "rank 1: the trainer: exit code 7" in out, out
    wait_for(lambda: not subprocess.run(["pgrep", "-f", f"paddle-pserver.*--port={port}"], capture_output=True).stdout)


@pytest.mark.parametrize("env, words, text", [
    ({"JOB_COMPLETION_INDEX": "1"}, ["--size=3", "--hostname=job-1.peers.ns.svc"], "1 of 3 at job-0.peers.ns.svc,job-1.peers.ns.svc,job-2.peers.ns.svc"),
    ({}, ["--size=2", "--hostname=web-0.nginx.ns.svc"], "0 of 2 at web-0.nginx.ns.svc,web-1.nginx.ns.svc"),
    ({"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_LOCALID": "1", "SLURM_JOB_NODELIST": "n[01-02]"}, [], "2 of 3 at n01,n02"),
    ({"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "1"}, [], "0 of 1 at 127.0.0.1"),
])
def test_the_rank_gets_its_variables(env, words, text, tmp_path):
    """The rank's own server would wait for the others: SIGTERM ends it, as the pod's end does."""
    script = 'echo "$PADDLE_INIT_TRAINER_ID of $PADDLE_INIT_NUM_GRADIENT_SERVERS at $PADDLE_INIT_PSERVERS"; kill -TERM $PPID; sleep 30'
    code, out = run(paddlerun(*words, "--", "sh", "-c", script), tmp_path, **env)
    assert code == 143 and text in out, out


@pytest.mark.parametrize("env, words, text", [
    ({}, ["--", "true"], "this process has no rank"),
    ({"JOB_COMPLETION_INDEX": "0"}, ["--", "true"], "expected --size"),
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, ["--", "true"], "expected --machines=FILE"),
    ({"PMI_RANK": "0", "PMI_SIZE": "1"}, [], "no program given"),
])
def test_wrong_environment_is_one_line(env, words, text, tmp_path):
    code, out = run(paddlerun(f"--hostname={socket.gethostname().replace('-', '')}", *words), tmp_path, **env)
    assert code == 2 and text in out and out.count("\n") == 1, out
