"""Models whose workers die and come back, beside one worker to which nothing happens."""
import json
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest

from wheel import ROOT, finish, package, python  # noqa: F401
from workers import SECONDS, Workers, alone, losses

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/elastic.py"
KILLS = 20 if "CASES_ALL" in os.environ else 4
BATCHES = 30                                    # an epoch's


@pytest.mark.deadline(600 + 60 * KILLS)
@pytest.mark.parametrize("name", ["torch", "paddle"])
def test_losses_are_those_of_one_worker(python, tmp_path, name):
    seed = random.randrange(1 << 32)
    interpreter = os.environ[f"{name.upper()}_PYTHON"]

    def start(folder, **env):
        return python("", PROGRAM, name, folder / "log", interpreter=interpreter, **env)
    workers = Workers(lambda **env: start(tmp_path, **env), tmp_path)
    end = workers.disturb(random.Random(seed), KILLS, BATCHES)
    out = finish(*workers.at, seconds=SECONDS)
    ends = {tuple(o.splitlines()[-1].split(" ", 5)) for o in out}
    assert len(ends) == 1, (seed, ends)
    said = ends.pop()
    want, = finish(alone(start, tmp_path / "alone", end), seconds=SECONDS)
    want = want.splitlines()[-1].split(" ", 5)
    assert said[:5] == tuple(want[:5]), seed
    own = dict(losses([line.split() for line in (tmp_path / "alone/log.0").read_text().splitlines()]))
    for step, loss in losses(workers.lines()):
        assert np.isclose(loss, own[step], rtol=2e-2, atol=1e-4), (seed, step, loss, own[step])     # sums in another order, float32
    assert np.allclose(json.loads(said[5]), json.loads(want[5]), atol=2e-2), seed


FAILS = """
from paddlert.{name} import Elastic
from paddlert.elastic import Order
import {name}
if "{name}" == "torch":
    net = torch.nn.Linear(3, 1)
    optimizer, clear, tensor = torch.optim.SGD(net.parameters(), lr=0.1), net.zero_grad, torch.from_numpy
else:
    net = paddle.nn.Linear(3, 1)
    optimizer, clear, tensor = paddle.optimizer.SGD(0.1, parameters=net.parameters()), net.clear_gradients, paddle.to_tensor
x = np.ones((8, 3), np.float32)
try:
    Elastic(net, optimizer, Order(8, 4), min_workers=3)
except ValueError as e:
    print(e)
with Elastic(net, optimizer, Order(8, 4)) as elastic:
    for step in elastic:
        with step as part:
            clear()
            elastic.model(tensor(x[part])).mean().backward()
            optimizer.step()
    print(elastic.steps)
"""


@pytest.mark.parametrize("name", ["torch", "paddle"])
def test_a_constructor_that_fails_leaves_the_model_to_the_next(python, name):
    out, = finish(python(FAILS.format(name=name), interpreter=os.environ[f"{name.upper()}_PYTHON"]), seconds=SECONDS)
    assert out.splitlines() == ["min_workers is 3, but the job has 1: with fewer it would wait forever", "2"]


@pytest.mark.deadline(900)
def test_the_pages_of_the_docs(package, tmp_path):
    """docs/python.md: least.py and elastic.py, by themselves and under the launcher."""
    section = (ROOT / "docs/python.md").read_text().split("## Workers that die and come back\n")[1].split("\n## ")[0]
    interpreter = os.environ["TORCH_PYTHON"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PADDLERUN_PYTHON": interpreter, "OMP_NUM_THREADS": "1"}
    for text, says in zip(section.split("```python\n")[1:], ("1500 steps, 30000 samples: [1. 2. 3. 4. 5.]", "200 steps, loss 0.")):
        (tmp_path / "train.py").write_text(text.split("```")[0])
        for words in ([interpreter, "train.py"], [ROOT / "build/bin/paddlerun", "launch", "--nproc_per_node", "2", "train.py"]):
            r = subprocess.run(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
            assert r.returncode == 0 and says in r.stdout, r.stdout
