"""Collective training by the commands of Paddle's documents; the program behind them is ours."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from nodes import BIN, PROGRAMS, ROOT, SECONDS
from ports import free_port

NEW, OLD = "3.3.1", "2.6.2"
SUMS = r"^rank \d+ of \d+ sums .*$"


def sums(size):
    """What programs/allreduce.py prints, in all processes together."""
    return [f"rank {i} of {size} sums {[size, size * (size - 1) // 2, int('1' * size)]}" for i in range(size)]


@pytest.mark.parametrize("version", [NEW, OLD])
def test_processes_of_one_node(nodes, version):
    n = nodes.ours(version, "--nproc_per_node", "3", PROGRAMS / "allreduce.py")
    nodes.finish()
    nodes.expect(SUMS, sums(3))
    assert "Pod completed" in n.said() and "rank 0 of 3" in n.said(), nodes.story()


def test_two_nodes_with_our_master(nodes):
    master = f"127.0.0.1:{free_port()}"
    for i in range(2):
        nodes.ours(NEW, "--nnodes", "2", "--master", master, "--rank", str(i), "--nproc_per_node", "2",
                   PROGRAMS / "allreduce.py", ip=f"127.0.0.{i + 1}")
    nodes.finish()
    nodes.expect(SUMS, sums(4))


def test_the_second_node_runs_the_command_that_the_first_prints(nodes):
    demo = PROGRAMS / "allreduce.py"
    first = nodes.ours(NEW, "--nnodes=2", demo, ip="127.0.0.1")
    command = re.compile(r"^-{80}\n\S*paddlerun launch (--master \S+) (.*)\n-{80}$", re.M)
    printed = nodes.wait(lambda: command.search(first.said()), "the command is printed")
    assert printed[2] == f"--log_dir n0 --nnodes=2 {demo}"
    nodes.ours(NEW, *printed[1].split(), *printed[2].split()[2:], ip="127.0.0.2")
    nodes.finish()
    nodes.expect(SUMS, sums(2))


def test_run_check(nodes):
    """Paddle's own test of a setup, a ResNet18 over two nodes."""
    master = f"127.0.0.1:{free_port()}"
    for i in range(2):
        nodes.ours(NEW, "--master", master, "--rank", str(i), "run_check", ip=f"127.0.0.{i + 1}")
    nodes.finish()
    nodes.expect("^Prepare distributed training with .*$", ["Prepare distributed training with 2 nodes 1 cards"] * 2)
    nodes.expect("^Distributed training completed$", ["Distributed training completed"] * 2)


def trained(nodes, size):
    """All have the same weights although each had its own data."""
    done = nodes.lines(r"^worker (\d+) of (\d+) weights (.*)$")
    assert [(d[0], d[1]) for d in done] == [(str(i), str(size)) for i in range(size)], nodes.story()
    assert len({d[2] for d in done}) == 1, done
    assert len(nodes.lines(r"^\[Epoch 0, batch \d\] loss: ")) == 10, nodes.story()


def test_the_collective_quick_start_by_fleetrun(nodes, tmp_path):
    """`fleetrun --gpus=0,1 train_fleet_dygraph.py`, without the devices that no wheel for CPUs can use."""
    (tmp_path / "fleetrun").symlink_to(BIN / "paddlerun")
    nodes.ours(NEW, "--nproc_per_node=2", PROGRAMS / "train_fleet_dygraph.py", command=[tmp_path / "fleetrun"])
    nodes.finish()
    trained(nodes, 2)


def resnet50(nodes, size):
    """The lines that the document shows, of each process, and the same weights in the end."""
    line = r"^\[Epoch \d, batch \d\] loss: [0-9.]+, acc1: [0-9.]+, acc5: [0-9.]+$"
    assert len(nodes.lines(line)) == 12 * size, nodes.story()
    weights = nodes.lines(r"^worker (\d+) of (\d+) weights ([0-9.]+)$")
    assert [w[:2] for w in weights] == [(str(i), str(size)) for i in range(size)] and len({w[2] for w in weights}) == 1, nodes.story()


@pytest.mark.parametrize("version", [NEW, OLD])
def test_resnet50_with_a_dynamic_graph(nodes, version):
    """FleetX's, with the reader in a process of its own, on two nodes."""
    master = f"127.0.0.1:{free_port()}"
    for i in range(2):
        nodes.ours(version, "--nnodes=2", "--master", master, "--rank", str(i), PROGRAMS / "resnet/train_fleet_dygraph.py", "processes",
                   ip=f"127.0.0.{i + 1}")
    nodes.finish()
    resnet50(nodes, 2)


@pytest.mark.parametrize("version, flags", [(OLD, {}), (NEW, {"FLAGS_enable_pir_api": "0"})])
def test_resnet50_with_a_static_program(nodes, version, flags):
    """One process.  Paddle 3 has layers of static programs only with that flag."""
    nodes.ours(version, "--nproc_per_node=1", PROGRAMS / "resnet/train_fleet_static.py", env=flags)
    nodes.finish()
    resnet50(nodes, 1)


def test_static_programs_of_several_processes_need_a_wheel_for_devices(nodes):
    """Of 2.6.2 and 3.3.1, by either launcher; when a wheel can, the test above takes two processes."""
    for start in (nodes.ours, nodes.paddles):
        n = start(OLD, "--nproc_per_node=2", PROGRAMS / "resnet/train_fleet_static.py")
        nodes.finish([1] if start == nodes.ours else [{1, 241}], nodes=[n])     # Paddle's: of the child that failed, or of one that it ended
        assert "comm_id must be generated in paddlepaddle-xpu" in n.log("workerlog.0") + n.log("workerlog.1"), nodes.story()


def test_pods_of_a_collective_job_by_python_m(nodes, tmp_path):
    """`python -m paddlerun launch train_fleet.py` in two pods, with what paddle-operator gives them."""
    wheel = subprocess.run([sys.executable, ROOT / "python/wheel", "v1.2", tmp_path], capture_output=True, text=True,
                           check=True).stdout.strip()
    ports = [free_port(), free_port()]
    endpoints = ",".join(f"127.0.0.{i + 1}:{p}" for i, p in enumerate(ports))
    for i in range(2):
        env = {"PADDLE_TRAINER_ID": str(i), "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINING_ROLE": "TRAINER",
               "PADDLE_TRAINER_ENDPOINTS": endpoints, "PADDLE_TRAINERS": "127.0.0.1,127.0.0.2", "PADDLE_TRAINERS_NUM": "2",
               "TRAINER_PORTS_NUM": "20", "PADDLE_PORT": str(ports[i]), "PYTHONPATH": wheel, "PATH": f"{BIN}:/usr/bin:/bin"}
        nodes.ours(NEW, PROGRAMS / "train_fleet_dygraph.py", ip=f"127.0.0.{i + 1}", env=env,
                   command=[nodes.python(NEW), "-m", "paddlerun", "launch"])
    nodes.finish()
    trained(nodes, 2)


def test_the_example_of_ones_own_script(nodes, tmp_path):
    """deploy/examples/paddle: two pods of the job, then two more that resume from the checkpoint of the first."""
    folder = ROOT / "deploy/examples/paddle"
    job = subprocess.run([BIN / "paddle-operator", "render", folder / "job.yaml"], check=True, capture_output=True, text=True).stdout
    env = {**os.environ, "PADDLERUN_PYTHON": nodes.python(NEW), "PATH": f"{BIN}:/usr/bin:/bin"}
    shutil.copy(folder / "train.py", tmp_path)
    for epochs in "2", "3":
        pods = job.replace('"/training/digits"', f'"{tmp_path}/digits", "--epochs", "{epochs}"')
        r = subprocess.run([BIN / "paddlerun", "local", "-"], input=pods, env=env, capture_output=True, text=True,
                           timeout=SECONDS)
        said = r.stdout + r.stderr
        assert r.returncode == 0 and f"[Epoch {int(epochs) - 1}] acc: " in said, said
    assert "[Epoch 1]" not in said, said


def test_the_elastic_example(nodes, etcd, tmp_path):
    """deploy/examples/paddle/elastic.yaml as processes, which have no names to meet at: they are given an etcd, as in pods
    the variables of a Service paddle-elastic-etcd do."""
    folder = ROOT / "deploy/examples/paddle"
    pods = subprocess.run([BIN / "paddle-operator", "render", folder / "elastic.yaml"], check=True, capture_output=True, text=True).stdout
    host, port = etcd.removeprefix("etcd://").split(":")
    variables = "".join(f'"name": "PADDLE_ELASTIC_ETCD_SERVICE_{k}", "value": "{v}"}}, {{' for k, v in (("HOST", host), ("PORT", port)))
    for old, new in (('"name": "PADDLE_ELASTIC_JOB_ID"', variables + '"name": "PADDLE_ELASTIC_JOB_ID"'), ('"/training/digits"', f'"{tmp_path}/digits"'),
                     ('          "20"\n', '          "2"\n'), ('"train.py"', f'"{folder}/train.py"')):
        assert pods.count(old) == 2
        pods = pods.replace(old, new)
    env = {**os.environ, "PADDLERUN_PYTHON": nodes.python(NEW), "PATH": f"{BIN}:/usr/bin:/bin"}
    r = subprocess.run([BIN / "paddlerun", "local", "-"], input=pods, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    said = r.stdout + r.stderr
    assert r.returncode == 0 and "[Epoch 1] acc: " in said and (tmp_path / "digits/checkpoint.pdparams").exists(), said


def test_a_process_that_fails_ends_its_job_with_its_code(nodes):
    """Paddle's own launcher: 241, for the process that it ended itself."""
    master = f"127.0.0.1:{free_port()}"
    both = [nodes.ours(NEW, "--nnodes", "2", "--master", master, "--rank", str(i), PROGRAMS / "fails.py", ip=f"127.0.0.{i + 1}")
            for i in range(2)]
    nodes.finish([1, 3])
    assert "worker 1: exit code 3" in both[0].said() and "the cause" in both[1].said(), nodes.story()


@pytest.mark.parametrize("master", ["its own", "etcd"])
def test_a_node_more_restarts_training_with_more_processes(nodes, request, master):
    """The first node trains alone until the second comes; Paddle's own launcher wants an etcd for that."""
    master = request.getfixturevalue("etcd") if master == "etcd" else f"127.0.0.1:{free_port()}"
    words = ["--master", master, "--job_id", "j", "--nnodes", "1:2", "--elastic_level", "1", "--elastic_timeout", "1",
             PROGRAMS / "elastic.py", "2"]
    first = nodes.ours(NEW, *words, ip="127.0.0.1")
    nodes.wait(lambda: "step of 1: 1" in first.log("workerlog.0"), "the first node trains alone")
    second = nodes.ours(NEW, *words, ip="127.0.0.2")
    nodes.finish()
    assert all("step of 2: 2" in n.log("workerlog.0") for n in (first, second)), nodes.story()
