"""An elastic job without `requests` and `limits` is scaled in and out: by the number that paddle-operator gives its pods."""
import json
import pathlib
import re
import subprocess

import pytest

from nodes import BIN, PROGRAMS

VERSION = "3.3.1"
JOB = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "j", "namespace": "ns"},
       "spec": {"elastic": 1, "worker": {"replicas": 3, "template": {"spec": {"containers": [{"name": "paddle", "image": "i"}]}}}}}
# The client library that Paddle asks for is older than the protobuf that Paddle brings.
ENV = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}


def variables(tmp_path):
    """What the pods have in their environment."""
    job = tmp_path / "job.json"
    job.write_text(json.dumps(JOB))
    pods = subprocess.run([BIN / "paddle-operator", "render", job], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r'"name": "(PADDLE_ELASTIC_\w+)",\s*"value": "(.*?)"', pods))


@pytest.mark.parametrize("who", ["ours", "Paddle's"])
def test_nodes_join_and_leave(nodes, etcd, tmp_path, who):
    env = variables(tmp_path)
    words = ["--master", etcd, "--job_id", env["PADDLE_ELASTIC_JOB_ID"], "--nnodes", env["PADDLE_ELASTIC_NP"], "--elastic_level", "1",
             # Paddle's reports every five seconds that it is there.
             "--elastic_timeout", {"ours": "1", "Paddle's": "8"}[who], "--max_restart", "9", PROGRAMS / "elastic.py", "3"]
    start = nodes.ours if who == "ours" else nodes.paddles

    # Paddle's ends with a trainer that fails before it has learnt that the other node left: such a trainer has to wait.
    more = {} if who == "ours" else {"PATIENT": "1"}

    def comes(i):
        return start(VERSION, *words, ip=f"127.0.0.{i + 1}", env={**ENV, **more})

    def trains(node, size):
        nodes.wait(lambda: re.findall("^step of .*", node.log("workerlog.0"), re.M)[-1:] == [f"step of {size}: {size}"], f"a step of {size}")

    first, second = comes(0), comes(1)
    trains(first, 2)
    second.p.terminate()                                 # scaled in
    second.p.wait(60)
    second.p.returncode = 0                              # of one that was asked to stop
    trains(first, 1)
    others = comes(2), comes(3)                          # and out
    nodes.finish(nodes=[first, *others])
    assert all("step of 3: 3" in n.log("workerlog.0") for n in (first, *others)), nodes.story()


def test_elastic_goes_before_paddleclouds_lists(nodes, etcd):
    """As in Paddle 2.2 to 2.6: a node waits for the other one, and when that is replaced by one at another address, has the new list."""
    def comes(i, other):
        cloud = f"127.0.0.1,127.0.0.{other + 1}"
        env = {"PADDLE_ELASTIC_SERVER": etcd.removeprefix("etcd://"), "PADDLE_ELASTIC_NP": "2", "PADDLE_ELASTIC_JOB_ID": "cloud",
               "DISTRIBUTED_TRAINER_ENDPOINTS": cloud.replace(",", ":6170,") + ":6170", "PADDLE_TRAINERS": cloud, "TRAINER_PORTS_NUM": "1",
               "PADDLE_TRAINERS_NUM": "2", "PADDLE_PORT": "6170", "PADDLE_TRAINER_ID": str(min(i, 1))}
        return nodes.ours(VERSION, PROGRAMS / "endpoints.py", ip=f"127.0.0.{i + 1}", env=env)

    def trains(*numbers):
        hosts = ["127.0.0.%d" % (i + 1) for i in numbers]
        for node in nodes.list[0], nodes.list[-1]:
            nodes.wait(lambda: re.findall("^endpoints of (.*)$", node.log("workerlog.0"), re.M)[-1:] == [f"{hosts}"], f"a list of {hosts}")

    first = comes(0, 1)
    nodes.wait(lambda: "Waiting peer start" in first.said(), "it waits")
    second = comes(1, 1)
    trains(0, 1)
    second.p.terminate()
    second.p.wait(60)
    second.p.returncode = 0                              # of one that was asked to stop
    third = comes(2, 2)
    trains(0, 2)
    pathlib.Path("over").touch()
    nodes.finish(nodes=[first, third])
