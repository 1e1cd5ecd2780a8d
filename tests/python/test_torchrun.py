"""Programs for torchrun, as they are, under `paddlerun launch`."""
import json
import os
import pathlib
import re
import subprocess

import pytest

from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
DDP = ROOT / "tests/python/programs/ddp.py"


POD = """
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {{name: ddp}}
spec:
  worker:
    replicas: 2
    template:
      spec:
        containers:
        - name: main
          image: none
          command: {command}
          env: [{{name: MASTER_PORT, value: "{port}"}}]
"""


def launch(tmp_path, *words, **env):
    """A node's launcher, whose python3 is PyTorch's."""
    return subprocess.Popen([ROOT / "build/bin/paddlerun", "launch", *words, DDP], cwd=tmp_path, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={"PATH": os.environ["PATH"], "PADDLERUN_PYTHON": os.environ["TORCH_PYTHON"], **env})


@pytest.mark.parametrize("n", [1, 2])
def test_ddp_trains_on_one_node(tmp_path, n):
    p = launch(tmp_path, "--nproc_per_node", str(n))
    out = p.communicate(timeout=300)[0]
    logs = [(tmp_path / f"log/workerlog.{i}").read_text() for i in range(n)]
    assert p.returncode == 0 and all(f"rank {i} of {n}, 0 restarts: the same" in log for i, log in enumerate(logs)), (out, logs)


@pytest.mark.parametrize("n", [None, 2])
def test_ddp_trains_in_pods(tmp_path, n):
    """As processes of this machine; without a launcher, and with one that starts two in each pod."""
    python, paddlerun = os.environ["TORCH_PYTHON"], str(ROOT / "build/bin/paddlerun")
    command = [paddlerun, "launch", "--nproc_per_node", str(n)] if n else [python]
    job = POD.format(command=json.dumps([*command, str(DDP)]), port=free_port())
    pods = subprocess.run([ROOT / "build/bin/paddle-operator", "render", "-"], input=job, check=True, capture_output=True, text=True).stdout
    r = subprocess.run([paddlerun, "local", "-"], input=pods, cwd=tmp_path, capture_output=True, text=True, timeout=300,
                       env={"PATH": os.environ["PATH"], "PADDLERUN_PYTHON": python})
    size = 2 * (n or 1)
    logs = "".join(log.read_text() for log in tmp_path.glob("log/*/*/workerlog.*")) if n else r.stdout
    said = re.findall(rf"rank (\d) of {size}, 0 restarts: the same", logs)
    assert r.returncode == 0 and sorted(said) == [str(i) for i in range(size)], r.stdout + r.stderr


@pytest.mark.parametrize("fails", ["", "1"])
def test_ddp_trains_on_two_nodes_also_after_a_failure(tmp_path, fails):
    words = ["--nnodes", "2", "--master", f"127.0.0.1:{free_port()}", "--elastic_level", "1"]
    nodes = [launch(tmp_path, *words, "--rank", str(i), "--log_dir", f"n{i}", POD_IP=f"127.0.0.{i + 1}", FAILS=fails) for i in range(2)]
    outs = [p.communicate(timeout=300)[0] for p in nodes]
    logs = [next((tmp_path / f"n{i}").rglob("workerlog.0")).read_text() for i in range(2)]
    assert [p.returncode for p in nodes] == [0, 0], (outs, logs)
    assert all(f"rank {i} of 2, {len(fails)} restarts: the same" in log for i, log in enumerate(logs)), (outs, logs)
