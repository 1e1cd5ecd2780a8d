"""Parameter servers and rpc of Paddle 2.6.2, the last whose wheel for CPUs has them."""
import os
import random
import re
import subprocess

import pytest

from teller import Teller
from nodes import BIN, PROGRAMS, ROOT, SECONDS
from ports import free_port

VERSION = "2.6.2"
TRAINED = r"^worker \d of \d, servers \d: trained$"


def trained(nodes, workers, servers):
    nodes.expect(TRAINED, [f"worker {i} of {workers}, servers {servers}: trained" for i in range(workers)])
    assert len(nodes.lines("^TRAIN ---> pass: 0 loss: ")) == 20 * workers, nodes.story()


def test_the_quick_start(nodes):
    """The document's own command, on a machine without devices; its lines are those of the launcher of then."""
    n = nodes.ours(VERSION, "--server_num=1", "--worker_num=2", "--gpus=0,1", PROGRAMS / "wide_and_deep.py")
    nodes.finish()
    trained(nodes, 2, 1)
    assert "Run parameter-sever mode. pserver arguments:['--worker_num', '--server_num']" in n.said(), nodes.story()
    assert "all parameter server are killed" in n.said(), nodes.story()


def test_servers_end_when_the_workers_of_two_nodes_are_done(nodes):
    """Under Paddle's own launcher they never do."""
    master = f"127.0.0.1:{free_port()}"
    for i in range(2):
        nodes.ours(VERSION, "--run_mode", "ps", "--nnodes", "2", "--master", master, "--rank", str(i),
                   PROGRAMS / "wide_and_deep.py", ip=f"127.0.0.{i + 1}")
    nodes.finish()
    trained(nodes, 2, 2)


def pod(role, index, server):
    """What paddle-operator gives a pod of a job with one server and two workers."""
    port = server.split(":")[1]
    return {"PADDLE_PORT": port, "PADDLE_TRAINER_ID": str(index), "TRAINING_ROLE": role, "PADDLE_TRAINING_ROLE": role,
            "TRAINER_PORTS_NUM": "20", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINERS": "127.0.0.2,127.0.0.3",
            "PADDLE_PSERVERS_IP_PORT_LIST": server, "PADDLE_TRAINER_ENDPOINTS": f"127.0.0.2:{port},127.0.0.3:{port}"}


def test_pods_of_a_job_with_servers(nodes):
    """Under Paddle's own launcher nothing ever starts: it takes them for four nodes."""
    server = f"127.0.0.1:{free_port()}"
    with Teller() as operator:
        first = nodes.ours(VERSION, PROGRAMS / "wide_and_deep.py", ip="127.0.0.1", env={**pod("PSERVER", 0, server), **operator.env})
        workers = [nodes.ours(VERSION, PROGRAMS / "wide_and_deep.py", ip=f"127.0.0.{i + 2}",
                              env=pod("TRAINER", i, server)) for i in range(2)]
        nodes.finish(nodes=workers)
        for i, w in enumerate(workers):
            assert f"worker {i} of 2, servers 1: trained" in w.said(), nodes.story()
        assert first.p.poll() is None                    # Paddle's servers never end
        operator.over.set()                              # the operator, when all workers are done
        nodes.finish([0], nodes=[first])


def test_the_example_of_servers(nodes, tmp_path):
    """deploy/examples/paddle/ps.yaml as processes: two servers, two workers that learn, a model that is saved."""
    folder = ROOT / "deploy/examples/paddle"
    job = subprocess.run([BIN / "paddle-operator", "render", folder / "ps.yaml"], check=True, capture_output=True, text=True).stdout
    env = {**os.environ, "PADDLERUN_PYTHON": nodes.python(VERSION), "PATH": f"{BIN}:/usr/bin:/bin"}
    pods = job.replace('"/training/clicks"', f'"{tmp_path}/clicks"').replace('"train_ps.py"', f'"{folder}/train_ps.py"')
    r = subprocess.run([BIN / "paddlerun", "local", "-"], input=pods, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    said = r.stdout + r.stderr
    assert r.returncode == 0 and said.count(f"saved to {tmp_path}/clicks") == 2, said
    right = [float(x) for x in re.findall(r"batch 1000: .* right ([0-9.]+)", said)]
    assert len(right) == 2 and min(right) > 0.62, said      # half of them without training
    assert list((tmp_path / "clicks").iterdir())


def by_hand(nodes, role, ip, port, env):
    """One process as the document of PaddleRec starts it, with what 2.6.2 asks for beyond that: a trainer's address."""
    env = {"TRAINING_ROLE": role, "POD_IP": ip, "PADDLE_PORT": str(port), "PADDLE_TRAINERS_NUM": "2", **env}
    return nodes.program([BIN / "paddlerun", "exec", "--", nodes.python(VERSION), "-u", PROGRAMS / "wide_and_deep.py"], env)


def test_servers_and_trainers_by_hand(nodes):
    """Two servers and two trainers, each with its part in variables; paddlerun is the first process of each."""
    port, other = free_port(), free_port()
    lists = {"PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port},127.0.0.2:{port}",
             "PADDLE_TRAINER_ENDPOINTS": f"127.0.0.1:{other},127.0.0.2:{other}"}
    servers = [by_hand(nodes, "PSERVER", f"127.0.0.{i + 1}", port, lists) for i in range(2)]
    workers = [by_hand(nodes, "TRAINER", f"127.0.0.{i + 1}", other, {**lists, "PADDLE_TRAINER_ID": str(i)}) for i in range(2)]
    nodes.finish(nodes=workers)
    for i, w in enumerate(workers):
        assert f"worker {i} of 2, servers 2: trained" in w.said(), nodes.story()
    for s in servers:                                    # Ctrl-C in the document
        s.p.terminate()
    nodes.finish([143, 143], nodes=servers)


def clicks(folder):
    """The folder data of the document: lines as Criteo's."""
    (folder / "data").mkdir()
    rng = random.Random(1)
    for part in range(2):
        lines = [[rng.randrange(2), *(rng.choice(["", rng.randrange(100)]) for _ in range(13)), *("%08x" % rng.randrange(50) for _ in range(26))]
                 for _ in range(105)]
        (folder / f"data/part-{part}").write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_wide_and_deep_as_the_document_has_it(nodes, tmp_path, mode):
    """WideDeepModel, WideDeepDataset, set_sample_generator, a loop until EOFException: two epochs of 21 batches by each worker."""
    clicks(tmp_path)
    nodes.ours(VERSION, "--server_num=1", "--worker_num=2", "--gpus=0,1", PROGRAMS / "wide_deep/train.py", mode)
    nodes.finish()
    passes = nodes.lines(r"^TRAIN ---> pass: (\d) loss: [0-9.]+$")
    assert passes == ["0"] * 42 + ["1"] * 42, nodes.story()
    nodes.expect(r"^worker \d of 2 \(TRAINER\): the end$", [f"worker {i} of 2 (TRAINER): the end" for i in range(2)])


def test_the_documents_sync_crashes_in_paddle_itself(nodes, tmp_path):
    """2.6.2, the last wheel with parameter servers: by its own launcher, too, which does not say so in its exit code."""
    clicks(tmp_path)
    for start, code in ((nodes.ours, 139), (nodes.paddles, 0)):
        n = start(VERSION, "--server_num=1", "--worker_num=2", "--gpus=0,1", PROGRAMS / "wide_deep/train.py", "sync")
        nodes.finish([code], nodes=[n])
        assert "SendBarrierOp::RunImpl" in n.log("workerlog.0") + n.log("workerlog.1"), nodes.story()


def test_mpirun_starts_the_launchers(nodes):
    """One a node, which meet at the first; each starts a server and a trainer."""
    words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", BIN / "paddlerun", "launch", "--run_mode", "ps",
             "--nnodes", "2", "--master", f"127.0.0.1:{free_port()}", "--log_dir", "", PROGRAMS / "wide_and_deep.py"]
    job = nodes.program(words, {"PADDLERUN_PYTHON": nodes.python(VERSION), "POD_IP": "127.0.0.1"})
    nodes.finish()
    for i in range(2):
        assert f"worker {i} of 2, servers 2: trained" in job.said(), nodes.story()


@pytest.mark.parametrize("more", [[], ["--nnodes", "2"]])
def test_rpc(nodes, more):
    if more:
        more += ["--master", f"127.0.0.1:{free_port()}"]
    for i in range(len(more) // 4 + 1):
        nodes.ours(VERSION, "--run_mode", "rpc", "--nproc_per_node", "2", *more, *(["--rank", str(i)] if more else []),
                   PROGRAMS / "rpc.py", ip=f"127.0.0.{i + 1}")
    nodes.finish()
    size = 2 * len(nodes.list)
    answers = [(42 + 2 * i, i) for i in range(size)]
    nodes.expect(r"^rank \d of \d heard .*$", [f"rank {i} of {size} heard {answers}" for i in range(size)])
