"""Programs for torchrun, as they are, under `paddlerun launch`."""
import os
import pathlib
import subprocess

import pytest

from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
DDP = ROOT / "tests/python/programs/ddp.py"


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


@pytest.mark.parametrize("fails", ["", "1"])
def test_ddp_trains_on_two_nodes_also_after_a_failure(tmp_path, fails):
    words = ["--nnodes", "2", "--master", f"127.0.0.1:{free_port()}", "--elastic_level", "1"]
    nodes = [launch(tmp_path, *words, "--rank", str(i), "--log_dir", f"n{i}", POD_IP=f"127.0.0.{i + 1}", FAILS=fails) for i in range(2)]
    outs = [p.communicate(timeout=300)[0] for p in nodes]
    logs = [next((tmp_path / f"n{i}").rglob("workerlog.0")).read_text() for i in range(2)]
    assert [p.returncode for p in nodes] == [0, 0], (outs, logs)
    assert all(f"rank {i} of 2, {len(fails)} restarts: the same" in log for i, log in enumerate(logs)), (outs, logs)
