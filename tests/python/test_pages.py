"""What docs/python.md, data.md and torchrun.md show in both frameworks, from the pages' own text: alone and under the launcher.  Whole programs
that the pages give a name have tests of their own, in the framework that they are written in."""
import os
import re
import subprocess
import textwrap

import pytest

from ports import free_port
from wheel import ROOT, package  # noqa: F401

PADDLERUN = ROOT / "build/bin/paddlerun"
PAGE = (ROOT / "docs/python.md").read_text()
SECONDS = 300                                         # imports, on a machine that does much else
# In PyTorch and in Paddle, as the page says below train.py, ddp.py and elastic.py.
WORDS = [("torch.nn.Module", "paddle.nn.Layer"), ("paddlert.torch", "paddlert.paddle"), ("torch.from_numpy", "paddle.to_tensor"),
         (".float()", '.astype("float32")'), ("DistributedDataParallel", "DataParallel"), ("torch.manual_seed", "paddle.seed"),
         ("torch.randn(64, 8)", "paddle.randn((64, 8))"), ("optimizer.zero_grad()", "optimizer.clear_grad()"),
         ("torch.optim.SGD(model.parameters(), lr=0.1)", "paddle.optimizer.SGD(0.1, parameters=model.parameters())"),
         ("torch.optim.Adam(net.parameters(), lr=0.05)", "paddle.optimizer.Adam(0.05, parameters=net.parameters())")]
BATCHES = """
import numpy as np, paddlert, torch
def batches_of(n):
    for step in range(n):
        ids = np.random.default_rng(step).integers(0, 100, (32, 4))
        yield torch.from_numpy(ids), torch.from_numpy(np.float32((ids % 10 == 0).any(1))[:, None])
batches = list(batches_of(5))
"""
NET = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = paddlert.torch.Embedding("embedding", 8, "adagrad:lr=0.1")
        self.out = torch.nn.Linear(8, 1)

    def forward(self, ids):
        return self.out(self.embedding(ids).sum(1))

def loss_of(net, ids, y):
    return torch.nn.functional.binary_cross_entropy_with_logits(net(ids), y)

import paddlert.torch
net = Net()
"""
LINEAR = """
net = torch.nn.Linear(4, 1)
batches = [(x.float(), y) for x, y in batches]
def loss_of(net, x, y):
    return torch.nn.functional.mse_loss(net(x), y)
"""


def shown(begins, page=PAGE):
    """The indented lines of a page from this one on, up to the text below them."""
    at = page.index(f"\n    {begins}") + 1
    return textwrap.dedent(re.match(r"(?:    .*\n|\n(?=    ))+", page[at:])[0])


def program(name, page=PAGE):
    """The one that the page gives this name."""
    return page.split(f"`{name}`")[1].split("```python\n")[1].split("```")[0]


def in_framework(text, name):
    """A program of either framework in that one."""
    for torch, paddle in WORDS:
        text = text.replace(torch, paddle) if name == "paddle" else text.replace(paddle, torch)
    return re.sub(r"\b(torch|paddle)\b", name, text)


@pytest.fixture(params=["torch", "paddle"])
def framework(request):
    return request.param


@pytest.fixture
def run(package, tmp_path):  # noqa: F811
    """What a program prints, by itself or under `paddlerun launch` with these options."""
    def start(text, name, *options):
        (tmp_path / "program.py").write_text(text)
        interpreter = os.environ[f"{name.upper()}_PYTHON"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PADDLERUN_PYTHON": interpreter, "OMP_NUM_THREADS": "1"}
        words = [PADDLERUN, "launch", *options] if options else [interpreter]
        r = subprocess.run([*words, "program.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
        said = r.stdout + "".join(f.read_text() for f in sorted(tmp_path.glob("log/workerlog.*")))
        assert r.returncode == 0, said[-3000:]
        return said
    return start


SERVERS = ["--server_num", "2", "--worker_num", "2"]


def test_the_words_that_a_page_names_are_those_of_this_test():
    for torch, paddle in WORDS:
        assert paddle in PAGE and torch in PAGE, (torch, paddle)


def test_the_first_program_in_the_other_framework(run):
    """It is Paddle's, whose own test is test_wide_and_deep.py's."""
    text = in_framework(program("train.py"), "torch")
    assert "paddle." not in text
    for options in ([], SERVERS):
        assert float(re.findall(r"accuracy ([0-9.]+)", run(text, "torch", *options))[-1]) > 0.9


def test_tables(run, tmp_path):
    given = "import numpy as np\nbatches = [(np.arange(4), 0, 0)] * 3\nrow_gradients, gradient = np.ones((4, 8)), np.ones(10)\n"
    for options in ([], SERVERS):
        run(given + shown("import numpy as np, paddlert\n\n    job ="), "torch", *options)
        assert (tmp_path / "checkpoint").is_dir()


def test_rules_are_objects(run):
    run("import paddlert\n" + shown("from paddlert import admit, evict"), "torch")


@pytest.mark.parametrize("options", [[], SERVERS], ids=["alone", "launched"])
def test_a_model(run, tmp_path, framework, options):
    run(in_framework(BATCHES + shown("import torch, paddlert\n    from paddlert.torch import DistributedModel"), framework), framework, *options)
    assert (tmp_path / "model").is_dir()


def test_data_parallel_in_paddle(run):
    """In PyTorch: test_ddp.py."""
    said = run(in_framework(program("ddp.py"), "paddle"), "paddle", "--nproc_per_node", "2")
    assert all(re.search(rf"rank {i} of 2: loss 0\.0", said) for i in range(2)), said


def test_elastic_training_in_paddle(run):
    """In PyTorch: test_elastic_models.py."""
    assert "200 steps, loss 0." in run(in_framework(program("elastic.py"), "paddle"), "paddle", "--nproc_per_node", "2")


def test_elastic_training_by_its_command(run):
    command = shown("paddlerun launch --nproc_per_node 4 --elastic_level 2").split()
    assert command[:2] == ["paddlerun", "launch"] and command[-1] == "elastic.py"
    assert "200 steps, loss 0." in run(program("elastic.py"), "torch", *command[2:-1])


def test_elastic_training_by_hand(package, tmp_path):  # noqa: F811
    """The page's two commands, at ports that are free here."""
    (tmp_path / "least.py").write_text(program("least.py"))
    (tmp_path / "python").symlink_to(os.environ["TORCH_PYTHON"])
    commands = shown("PADDLE_TRAINER_ID=0 PADDLE_TRAINERS_NUM=2").replace(":6170", f":{free_port()}").replace(":6171", f":{free_port()}")
    r = subprocess.run(["bash", "-e"], input=commands.replace(" python ", f" {os.environ['TORCH_PYTHON']} ") + "wait\n", cwd=tmp_path, text=True,
                       env={"PATH": os.environ["PATH"], "PYTHONPATH": str(package)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    assert r.returncode == 0 and r.stdout.count("1500 steps, 30000 samples: [1. 2. 3. 4. 5.]") == 2, r.stdout


def test_fleets_names_with_servers(run, tmp_path, framework):
    text = BATCHES + NET + shown("import paddlert.paddle\n    from paddlert import fleet")
    run(in_framework(text, framework), framework, *SERVERS)
    assert (tmp_path / "model").is_dir()


@pytest.mark.parametrize("options", [[], ["--nproc_per_node", "2"]], ids=["alone", "launched"])
def test_fleets_names_without_servers(run, tmp_path, options):
    run(in_framework(BATCHES + LINEAR, "paddle") + shown("from paddlert import fleet\n\n    fleet.init(is_collective=True)"), "paddle", *options)
    assert (tmp_path / "model.pdparams").is_file()


def test_a_data_loader(run, tmp_path, framework):
    """Of docs/data.md; each line comes once."""
    for part in range(3):
        (tmp_path / f"part-{part}").write_text("".join(f"click:{i % 2} user:{100 * part + i} tag:3\n" for i in range(100)))
    text = shown("import torch\n    from paddlert.data import Dataset", (ROOT / "docs/data.md").read_text())
    assert text.rstrip().endswith('    batch["ids"], batch["labels"]                    # int64, float32')
    if framework == "paddle":
        text = in_framework(text.replace("torch.utils.data.DataLoader", "paddle.io.DataLoader"), framework)
    said = run("seen = []\n" + text.rstrip() + '\n    seen += batch["ids"][:, 0].tolist()\nprint("seen", sorted(seen) == list(range(300)))\n', framework)
    assert "seen True" in said, said


def test_torchruns_command(tmp_path):
    """Of docs/torchrun.md, as far as one comes without its host."""
    line = next(line for line in shown("torchrun --nnodes", (ROOT / "docs/torchrun.md").read_text()).splitlines() if line.startswith("paddlerun"))
    (tmp_path / "train.py").write_text("")
    words = line.split()
    r = subprocess.run([PADDLERUN, words[1], "--dry-run", *words[2:]], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       env={"PATH": os.environ["PATH"], "PADDLERUN_PYTHON": os.environ["TORCH_PYTHON"]}, timeout=SECONDS)
    assert r.returncode == 0 and "train.py" in r.stdout, r.stdout
