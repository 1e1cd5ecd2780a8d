"""Programs for torchrun, as they are, under `paddlerun launch` and `paddlerun torchrun`, and in pods."""
import os
import pathlib
import re
import subprocess
import textwrap
import time

import pytest
import yaml

from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
PADDLERUN = ROOT / "build/bin/paddlerun"
PAGE = ROOT / "docs/torchrun.md"
DDP, FSDP = (ROOT / f"tests/python/programs/{name}.py" for name in ("ddp", "fsdp"))
SAYS = {DDP: "the same", FSDP: "as one process"}


def launch(tmp_path, *words, **env):
    """A node's launcher, whose python3 is PyTorch's."""
    return subprocess.Popen([PADDLERUN, "launch", *words, DDP], cwd=tmp_path, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={"PATH": os.environ["PATH"], "PADDLERUN_PYTHON": os.environ["TORCH_PYTHON"], **env})


@pytest.mark.parametrize("n", [1, 2])
def test_ddp_trains_on_one_node(tmp_path, n):
    p = launch(tmp_path, "--nproc_per_node", str(n))
    out = p.communicate(timeout=300)[0]
    logs = [(tmp_path / f"log/workerlog.{i}").read_text() for i in range(n)]
    assert p.returncode == 0 and all(f"rank {i} of {n}, 0 restarts: the same" in log for i, log in enumerate(logs)), (out, logs)


def job(command):
    """The page's, with another command, and a port that is free on this machine, whose addresses its pods share."""
    text = PAGE.read_text()
    body = yaml.safe_load(textwrap.dedent(text[text.index("    apiVersion:"):text.index("    kubectl create")]))
    container = body["spec"]["worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", "train.py"]
    container |= {"command": [str(word) for word in command], "env": [{"name": "MASTER_PORT", "value": str(free_port())}]}
    return yaml.safe_dump(body)


@pytest.mark.parametrize("program,n", [(DDP, None), (DDP, 2), (FSDP, None)])
def test_the_pods_of_the_page_train(tmp_path, program, n):
    """As processes of this machine; without a launcher, and with one that starts two in each pod."""
    python = os.environ["TORCH_PYTHON"]
    command = [PADDLERUN, "torchrun", "--nproc-per-node", str(n), "--log-dir=log"] if n else [python]
    pods = subprocess.run([ROOT / "build/bin/paddle-operator", "render", "-"], input=job([*command, program]), check=True,
                          capture_output=True, text=True).stdout
    r = subprocess.run([PADDLERUN, "local", "-"], input=pods, cwd=tmp_path, capture_output=True, text=True, timeout=300,
                       env={"PATH": os.environ["PATH"], "PADDLERUN_PYTHON": python})
    size = 2 * (n or 1)
    logs = "".join(log.read_text() for log in tmp_path.glob("log/*/*/workerlog.*")) if n else r.stdout
    said = re.findall(rf"rank (\d) of {size}, 0 restarts: {SAYS[program]}", logs)
    assert r.returncode == 0 and sorted(said) == [str(i) for i in range(size)], r.stdout + r.stderr


def torchrun(tmp_path, *words, **env):
    return subprocess.Popen([PADDLERUN, "torchrun", *words], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={"PATH": os.environ["PATH"], "PADDLERUN_PYTHON": os.environ["TORCH_PYTHON"], **env})


@pytest.mark.parametrize("program", [DDP, FSDP])
@pytest.mark.parametrize("fails", ["", "1"])
def test_a_node_trains_by_torchruns_command(tmp_path, program, fails):
    """FSDP's rank 1 is killed, DDP's ends by itself."""
    p = torchrun(tmp_path, "--standalone", "--nproc-per-node=2", "--max-restarts", "1", program, FAILS=fails)
    out = p.communicate(timeout=300)[0]
    assert p.returncode == 0, out
    assert all(f"rank {i} of 2, {len(fails)} restarts: {SAYS[program]}" in out for i in range(2)), out
    assert not fails or "worker 1: " + ("killed by SIGKILL" if program is FSDP else "exit code 9") in out, out


def test_without_restarts_a_failure_ends_the_job(tmp_path):
    p = torchrun(tmp_path, "--nproc_per_node", "2", DDP, FAILS="1")
    out = p.communicate(timeout=300)[0]
    assert p.returncode == 9 and "starting again" not in out, out


def test_an_elastic_node_continues_when_the_other_is_killed(tmp_path):
    words = ["--nnodes=1:2", "--max-restarts=3", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    nodes = [torchrun(tmp_path, *words, f"--log-dir=n{i}", DDP, POD_IP=f"127.0.0.{i + 1}", LOSES="1", PADDLE_ELASTIC_TIMEOUT="1")
             for i in range(2)]
    try:
        while "both are here" not in "".join(log.read_text() for log in tmp_path.glob("n1/*/workerlog.0")):
            assert [p.poll() for p in nodes] == [None, None]
            time.sleep(0.1)
        nodes[1].kill()
        out = nodes[0].communicate(timeout=300)[0]
    finally:
        for p in nodes:
            p.kill()
    logs = "".join(log.read_text() for log in tmp_path.glob("n0/*/workerlog.0"))
    assert nodes[0].returncode == 0 and re.search(r"rank 0 of 1, [1-9] restarts: the same", logs), (out, logs)


def test_every_option_of_torchrun_is_known():
    """Of the torch that is here; a page that lacks one would be wrong."""
    asks = "from torch.distributed.run import get_args_parser as g; print(*(o for a in g()._actions for o in a.option_strings))"
    options = subprocess.run([os.environ["TORCH_PYTHON"], "-c", asks], capture_output=True, text=True, check=True).stdout.split()
    page = PAGE.read_text()
    known = set(re.findall(r"`(--?[a-z-]+)`", "".join(line for line in page.splitlines() if line.startswith("| `-"))))
    assert len(options) > 40 and {o.replace("_", "-") for o in options} - known <= {"-h", "--help"}, known


@pytest.mark.parametrize("fails", ["", "1"])
def test_ddp_trains_on_two_nodes_also_after_a_failure(tmp_path, fails):
    words = ["--nnodes", "2", "--master", f"127.0.0.1:{free_port()}", "--elastic_level", "1"]
    nodes = [launch(tmp_path, *words, "--rank", str(i), "--log_dir", f"n{i}", POD_IP=f"127.0.0.{i + 1}", FAILS=fails) for i in range(2)]
    outs = [p.communicate(timeout=300)[0] for p in nodes]
    logs = [next((tmp_path / f"n{i}").rglob("workerlog.0")).read_text() for i in range(2)]
    assert [p.returncode for p in nodes] == [0, 0], (outs, logs)
    assert all(f"rank {i} of 2, {len(fails)} restarts: the same" in log for i, log in enumerate(logs)), (outs, logs)
