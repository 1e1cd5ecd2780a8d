"""Data parallel training of real frameworks' models: ranks beside one process that has the whole batch."""
import os
import pathlib
import signal
import subprocess

import pytest

from ports import free_port
from wheel import ROOT, finish, package, python  # noqa: F401

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/parallel.py"
SECONDS = 300                                         # imports, on a machine that does much else
CASES = ["steps", "buckets", "uneven", "accumulation", "compression", "no_gradient_at_all", "buffers", "disagree", "checkpoint", "closed", "error",
         "norm_kinds", "norm_differs", "widened", "running_means", "changed", "buffers_that_a_layer_replaces", "order_of_flags",
         "dgc", "local_sgd"]


def start(python, name, case, n):
    interpreter = os.environ[f"{name.upper()}_PYTHON"]
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(n)]
    return [python("", PROGRAM, name, case, i, *endpoints, interpreter=interpreter, OMP_NUM_THREADS="1") for i in range(n)]


@pytest.mark.parametrize("name", ["torch", "paddle"])
@pytest.mark.parametrize("case", CASES)
def test_two_ranks_train_as_one(python, name, case):
    out = finish(*start(python, name, case, 2), seconds=SECONDS)
    assert [o.splitlines()[-1] for o in out] == ["done"] * 2, out


@pytest.mark.parametrize("case", ["cleared", "create_graph", "replaced"])
def test_gradients_that_hooks_clear_are_refused_and_others_are_averaged(python, case):
    out = finish(*start(python, "torch", case, 2), seconds=SECONDS)
    assert [o.splitlines()[-1] for o in out] == ["done"] * 2, out


def test_one_device_needs_no_list(python):
    """As LOCAL_RANK says it; several are refused in one line, however their repr is broken into lines."""
    out, = finish(python("""
import torch
from paddlert.torch import DistributedDataParallel
group = paddlert.Group(endpoints=["127.0.0.1:0"])
for ids in 0, [0], None, np.arange(4).reshape(2, 2):
    try:
        with DistributedDataParallel(torch.nn.Linear(2, 1), group, device_ids=ids):
            print("taken")
    except paddlert.UnsupportedError as e:
        print(e)
""", interpreter=os.environ["TORCH_PYTHON"]), seconds=SECONDS)
    assert out.splitlines() == ["taken"] * 3 + ["device_ids is array([[0, 1], [2, 3]]), expected one device, where the model already is: one process for each"], out


@pytest.mark.parametrize("name", ["torch", "paddle"])
def test_ranks_of_1_2_and_3_samples_normalise_as_one_of_6(python, name):
    """SyncBatchNorm beside the framework's own layer that has the whole batch."""
    out = finish(*start(python, name, "norm", 3), seconds=SECONDS)
    assert [o.splitlines()[-1] for o in out] == ["done"] * 3, out


@pytest.mark.parametrize("name", ["torch", "paddle"])
def test_a_rank_that_dies_is_named_by_backward(python, name):
    *left, killed = start(python, name, "kill", 3)
    out = finish(*left, seconds=SECONDS)
    killed.communicate(timeout=SECONDS)
    assert [o.splitlines()[-1] for o in out] == ["done"] * 2 and killed.returncode == -signal.SIGKILL, out


def test_the_page_of_the_docs(package, tmp_path):
    """docs/python.md: ddp.py by itself and under the launcher."""
    section = (ROOT / "docs/python.md").read_text().split("## Data parallel\n")[1]
    (tmp_path / "ddp.py").write_text(section.split("```python\n")[1].split("```")[0])
    interpreter = os.environ["TORCH_PYTHON"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PADDLERUN_PYTHON": interpreter, "OMP_NUM_THREADS": "1"}
    for n, words in ((1, [interpreter, "ddp.py"]), (2, [ROOT / "build/bin/paddlerun", "launch", "--nproc_per_node", "2", "ddp.py"])):
        r = subprocess.run(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
        said = r.stdout + "".join(f.read_text() for f in tmp_path.glob("log/workerlog.*"))
        assert r.returncode == 0 and all(f"rank {i} of {n}: loss 0.0" in said for i in range(n)), said
        assert (tmp_path / "model.pt").exists()
