"""Models of real frameworks with their rows and parameters on servers, from the wheel."""
import os
import pathlib
import signal
import time

import pytest

from ports import free_port
from wheel import finish, package, python  # noqa: F401

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
SECONDS = 300                                         # imports, on a machine that does much else


@pytest.fixture(params=["torch", "paddle"])
def framework(request):
    """(name, its interpreter)"""
    return request.param, os.environ[f"{request.param.upper()}_PYTHON"]


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_losses_are_those_of_local_embeddings(python, framework, mode):
    name, interpreter = framework
    out, = finish(python("", PROGRAMS / f"twin_{name}.py", mode, interpreter=interpreter), seconds=SECONDS)
    assert out.splitlines()[-1] == "the same 6"


def test_collectives_on_tensors(python, framework):
    name, interpreter = framework
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python("", PROGRAMS / "group.py", name, i, *endpoints, interpreter=interpreter) for i in range(2)), seconds=SECONDS)
    assert [o.splitlines()[-1] for o in out] == ["done"] * 2


def test_a_data_loader_reads_each_line_once(python, framework):
    """Here and in processes of its own, however lines are shared; the next epoch has another order."""
    name, interpreter = framework
    out, = finish(python("", PROGRAMS / "samples.py", name, interpreter=interpreter), seconds=SECONDS)
    assert out.splitlines()[-2:] == [f"{share} {4 if name == 'torch' else 3}" for share in ("files", "mixed")]


def test_gradients_go_to_the_rows_that_were_pulled(python, framework):
    """Whatever is in the memory of the ids by then."""
    name, interpreter = framework
    out, = finish(python("", PROGRAMS / "reused.py", name, interpreter=interpreter), seconds=SECONDS)
    assert out.splitlines()[-1] == "[-1. -1.  0.]"


def test_parameters_of_other_types_sparse_gradients_and_errors(python, framework):
    """A sparse gradient has the rows of the batch, in its order: as many as the table has would be taken for its own."""
    name, interpreter = framework
    out, = finish(python("", PROGRAMS / "kinds.py", name, interpreter=interpreter), seconds=SECONDS)
    sparse = "torch.sparse_coo" if name == "torch" else "sparse"
    assert out.splitlines()[-4:] == [
        f"{name}.float64 [1.5 1.5]", "bfloat16 [1. 1.]",
        f"a gradient of [4, 2] is {sparse}, expected a dense one: Embedding(sparse=False), or paddlert.{name}.Embedding", "InvalidError"], out


def test_models_are_copied_and_wrong_arguments_named(python, framework):
    name, interpreter = framework
    out, = finish(python("", PROGRAMS / "copies.py", name, interpreter=interpreter), seconds=SECONDS)
    tensor, module = ("torch.Tensor", "torch.nn.Module") if name == "torch" else ("paddle.Tensor", "paddle.nn.Layer")
    lines = out.splitlines()
    assert lines[-6].startswith("table 'rows' has no servers yet"), out
    assert lines[-5:-2] == [f"ids are a {given}, expected a {tensor} of whole numbers" for given in ("list", "ndarray", "NoneType")], out
    assert lines[-2] == f"model is {{}}, expected a {module}" and lines[-1].startswith("option 'optimizer' is <class '"), out


def test_a_pytorch_model_becomes_files_and_torchs_own(python):
    out, = finish(python("", PROGRAMS / "exported.py", interpreter=os.environ["TORCH_PYTHON"]), seconds=SECONDS)
    lines = out.splitlines()[-10:]
    assert [line.startswith("UnsupportedError the rows of 'rows' come from servers, by Python, which torch.jit") for line in lines[:2]] == [True] * 2, out
    assert lines[2:4] == [f"InvalidError table 'rows' would be a matrix of {n} rows of 2, expected 1 to 134217728: paddlert.Model has the rows by id"
                          for n in (1 << 30, 0)], out
    assert "expected a name that ends in .npz or .safetensors" in lines[4] and "needs the package safetensors, which is not installed" in lines[5], out
    assert lines[6].startswith("InvalidError table 'rows' has no servers yet") and lines[7].startswith("paddlert.Dense('dense', 5, "), out


@pytest.mark.parametrize("waits", ["forward", "backward"])
def test_ctrl_c_ends_a_pull_and_a_push(python, framework, waits):
    """The server stands still: in the framework's own forward and backward, too, the wait ends."""
    name, interpreter = framework
    address = f"127.0.0.1:{free_port()}"
    server = python("", "-m", "paddlert", "server", "--servers", address, interpreter=interpreter)
    p = python("", PROGRAMS / "stuck.py", name, address, server.pid, waits, interpreter=interpreter)
    try:
        assert p.stdout.readline() == "waits\n", p.communicate()
        time.sleep(1)                              # into the call; before it, the signal ends the program all the same
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=SECONDS)
        assert "KeyboardInterrupt" in err and not out and p.returncode, (out, err)
    finally:
        server.kill()
        server.communicate()


def test_names_of_fleet_work_or_name_their_replacement(python):
    """The real one's: all that is no module."""
    out, = finish(python("""
import inspect
from paddle.distributed import fleet as theirs
from paddlert import fleet as ours
names = {n for n in dir(theirs) if not inspect.ismodule(getattr(theirs, n))} | set(dir(theirs.Fleet))
assert len(names) > 60
print(sorted(n for n in names if n[0] != "_" and not hasattr(ours, n) and n not in ours.INSTEAD))
""", interpreter=os.environ["PADDLE_PYTHON"]), seconds=SECONDS)
    assert out.splitlines()[-1] == "[]"
