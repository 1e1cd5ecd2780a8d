"""examples/python: the C program's model in PyTorch and Paddle, from the same first values, on the same data."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from expected import check_expected
from ports import free_port
from wheel import JOB, ROOT, package  # noqa: F401

BIN = pathlib.Path(os.environ.get("PADDLE_BIN", ROOT / "build/bin"))
SECONDS = 400
# Both compute in f32 and sum in other orders; AdaGrad that starts at 1e-4 makes more of it.
LOSS, AUC = 2e-3, 2e-3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with data/, and start/: first values from the C program."""
    home = tmp_path_factory.mktemp("criteo")
    for words in (["--generate", "data", "--lines", "20000", "--test-lines", "2000"],
                  ["--local", "--epochs", "0", "--train", "data", "--save", "start"]):
        subprocess.run([BIN / "wide_and_deep", *words], cwd=home, env=plain(), check=True, capture_output=True, timeout=100)
    return home


def plain(**more):
    return {**{k: v for k, v in os.environ.items() if not k.startswith(JOB)}, "OMP_NUM_THREADS": "1", **more}


def named(folder, name, interpreter):
    """A folder for PATH in which the interpreter has that name."""
    program = folder / "bin" / name
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {interpreter} "$@"\n')
    program.chmod(0o755)
    return program.parent


def measured(text):
    """(loss, area under the curve) of the test."""
    m = re.search(r"TEST ---> loss: ([0-9.]+) auc: ([0-9.]+)", text)
    assert m, text[-3000:]
    return float(m[1]), float(m[2])


def by_hand(command, folder, **env):
    """Two servers and two workers; what they all said."""
    ports = [free_port(), free_port()]
    job = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{p}" for p in ports), "PADDLE_TRAINERS_NUM": "2", **env}
    roles = [{"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(p)} for p in ports]
    roles += [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)} for i in range(2)]
    run = [subprocess.Popen(list(map(str, command)), cwd=folder, env=plain(**job, **r), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True) for r in roles]
    try:
        said = "".join(p.communicate(timeout=SECONDS)[0] for p in run)
    finally:
        for p in run:
            p.kill()
    assert [p.returncode for p in run] == [0] * 4, said[-3000:]
    return said


@pytest.fixture(scope="module")
def reference(data):
    """The C program's, as a job of the same shape."""
    words = ["--train", "data", "--load", "start", "--batch-size", "512", "--mode", "sync", "--save="]
    return measured(by_hand([BIN / "wide_and_deep", *words], data))


@pytest.fixture(params=["torch", "paddle"])
def script(request):
    """(interpreter, script and its words)"""
    return os.environ[f"{request.param.upper()}_PYTHON"], [ROOT / f"examples/python/wide_and_deep_{request.param}.py", "--load", "start",
                                                           "--mode", "sync"]


def test_by_hand(data, reference, package, script, tmp_path):
    interpreter, words = script
    said = by_hand([interpreter, *words, "--save", tmp_path / "model"], data, PYTHONPATH=str(package))
    loss, auc = measured(said)
    print(f"loss {loss}, of the C program {reference[0]}; auc {auc}, {reference[1]}")
    assert loss == pytest.approx(reference[0], rel=LOSS) and auc == pytest.approx(reference[1], abs=AUC)
    c = subprocess.run([BIN / "wide_and_deep", "--local", "--epochs", "0", "--train", "data", "--load", tmp_path / "model", "--save="],
                       cwd=data, env=plain(), check=True, capture_output=True, text=True, timeout=100)
    assert measured(c.stdout)[0] == pytest.approx(loss, rel=1e-4), "the C program reads another model"


def test_under_the_launcher(data, reference, package, script, tmp_path):
    interpreter, words = script
    r = subprocess.run([BIN / "paddlerun", "launch", "--server_num", "2", "--worker_num", "2", "--log_dir", tmp_path / "log", *words,
                        "--save="], cwd=data, env=plain(PYTHONPATH=str(package), PADDLERUN_PYTHON=interpreter),
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    logs = {f.name: f.read_text(errors="replace") for f in sorted((tmp_path / "log").iterdir())}
    assert r.returncode == 0, (r.stdout[-2000:], {k: v[-500:] for k, v in logs.items()})
    loss, auc = measured("".join(logs.values()))
    assert loss == pytest.approx(reference[0], rel=LOSS) and auc == pytest.approx(reference[1], abs=AUC)


def test_the_page_of_the_docs(package, tmp_path):
    """docs/python.md: train.py alone, under the launcher, and its job.yaml as processes."""
    page = (ROOT / "docs/python.md").read_text()
    script = tmp_path / "train.py"
    script.write_text(page.split("```python\n")[1].split("```")[0])
    interpreter = os.environ["PADDLE_PYTHON"]
    env = plain(PYTHONPATH=str(package), PADDLERUN_PYTHON=interpreter, PATH=f"{named(tmp_path, 'python', interpreter)}:{os.environ['PATH']}")
    job = textwrap.dedent(page[page.index("    apiVersion:"):page.index("    kubectl create -f job.yaml")])
    rendered = subprocess.run([BIN / "paddle-operator", "render", "-"], input=job, text=True, check=True, stdout=subprocess.PIPE).stdout
    launch = ["launch", "--server_num", "2", "--worker_num", "2", "train.py"]
    for words, lines in (([interpreter, "train.py"], None), ([BIN / "paddlerun", *launch], None), ([BIN / "paddlerun", "local"], rendered)):
        r = subprocess.run(words, input=lines, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=SECONDS)
        said = r.stdout + "".join(f.read_text() for f in tmp_path.glob("log/workerlog.*"))
        assert r.returncode == 0, said[-3000:]
        right = float(re.findall(r"accuracy ([0-9.]+)", said)[-1])
        assert right > 0.9, said[-3000:]


def steps(page, title):
    """The commands below a numbered title of a page."""
    part = page[page.index(f"**{title}**"):]
    return "\n".join(line[4:] for line in part[:part.index("**", part.index("\n"))].splitlines() if line.startswith("    "))


def test_the_page_of_the_docs_from_a_clean_virtual_environment(tmp_path):
    """Its own commands: make wheel, pip install, train.py alone and under the wheel's launcher; nothing else is in PATH."""
    subprocess.run(["make", "-s", "-C", ROOT, "wheel"], check=True, timeout=SECONDS)
    page = (ROOT / "docs/python.md").read_text()
    (tmp_path / "build").symlink_to(ROOT / "build")
    (tmp_path / "train.py").write_text(page.split("```python\n")[1].split("```")[0])
    env = {"PATH": f"{named(tmp_path, 'python', sys.executable)}:/usr/bin:/bin", "OMP_NUM_THREADS": "1",
           **{k: v for k, v in os.environ.items() if k == "HOME" or k.startswith(("PIP_", "SSL_", "REQUESTS_")) or "proxy" in k.lower()}}
    commands = "\n".join([steps(page, "1. Install."), steps(page, "3. Try it."), "which -a paddlerun fleetrun"])
    assert "pip install build/wheel/paddlert-*.whl" in commands and "paddlerun launch" in commands
    r = subprocess.run(["bash", "-e"], input=commands, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       timeout=2 * SECONDS)
    assert r.returncode == 0, r.stdout[-3000:]
    right = [float(a) for a in re.findall(r"accuracy ([0-9.]+)", r.stdout)]
    assert len(right) == 2 and min(right) > 0.9, r.stdout[-3000:]
    assert r.stdout.splitlines()[-2:] == [str(tmp_path / "venv/bin" / name) for name in ("paddlerun", "fleetrun")], r.stdout[-500:]


@pytest.mark.parametrize("job", ["job.yaml", "job_paddle.yaml"])
def test_the_job_as_processes(data, package, job, tmp_path):
    """With what its image has: the scripts, data and a python3 with the framework."""
    for file in [*(ROOT / "examples/python").glob("*.py"), data / "data"]:
        (tmp_path / file.name).symlink_to(file)
    programs = named(tmp_path, "python3", os.environ["PADDLE_PYTHON" if "paddle" in job else "TORCH_PYTHON"])
    rendered = subprocess.run([BIN / "paddle-operator", "render", ROOT / "examples/python" / job], check=True, capture_output=True).stdout
    r = subprocess.run([BIN / "paddlerun", "local"], input=rendered, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=plain(PYTHONPATH=str(package), PATH=f"{programs}:{os.environ['PATH']}"), timeout=SECONDS)
    said = r.stdout.decode(errors="replace")
    assert r.returncode == 0, said[-3000:]
    check_expected(said, "python")
    assert (tmp_path / "model").is_dir(), said[-1000:]
