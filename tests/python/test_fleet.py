"""Collective training by fleet's names, beside Paddle's own fleet: the ResNet50 of FleetX's quick start under the launcher."""
import os
import re
import shutil
import subprocess

import pytest

from wheel import ROOT, package  # noqa: F401

RESNET = ROOT / "tests/paddle/programs/resnet"
SECONDS = 300
IMPORT = "from paddle.distributed import fleet\n"


def trained(folder, package, fleet, n, change=lambda text: text, name="train_fleet_dygraph.py", was=IMPORT, **flags):
    """{(rank, epoch, batch): loss}, and the line of the weights of each rank; the program is the same but for the import, and `change`."""
    shutil.copytree(RESNET, folder)
    program = folder / name
    text = program.read_text()
    assert text.count(was) == 1
    program.write_text(change(text.replace(was, fleet)))
    env = {**flags, "PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PADDLERUN_PYTHON": os.environ["PADDLE_PYTHON"], "OMP_NUM_THREADS": "1"}
    r = subprocess.run([ROOT / "build/bin/paddlerun", "launch", "--nproc_per_node", str(n), program], cwd=folder, env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    logs = {i: (folder / f"log/workerlog.{i}").read_text() for i in range(n)}
    assert r.returncode == 0, (r.stdout, logs)
    losses = {(rank, *map(int, at)): float(loss) for rank, log in logs.items()
              for *at, loss in re.findall(r"^\[Epoch (\d+), batch (\d+)\] loss: ([0-9.]+)", log, re.M)}
    weights = [re.search(r"^worker (\d+) of (\d+) weights ([0-9.]+)$", log, re.M).groups() for log in logs.values()]
    assert [w[:2] for w in weights] == [(str(i), str(n)) for i in range(n)] and len({w[2] for w in weights}) == 1, weights
    return losses, float(weights[0][2]), logs


@pytest.mark.parametrize("ours", ["from paddlert import fleet\n", "import paddlert.fleet as fleet\n"])
def test_resnet50_with_another_import_trains_as_with_paddles_own(package, tmp_path, ours):  # noqa: F811
    theirs, their_weights, _ = trained(tmp_path / "theirs", package, IMPORT, 2)
    losses, weights, _ = trained(tmp_path / "ours", package, ours, 2)
    assert list(losses) == list(theirs) and len(losses) == 24
    # Five digits are printed; batch norm of four pictures makes more of what rounding takes.
    assert all(abs(losses[at] - theirs[at]) < 1e-3 * theirs[at] for at in theirs), (losses, theirs)
    assert abs(weights - their_weights) < 1e-3 * their_weights


def test_what_a_strategy_says_of_buckets_and_compression(package, tmp_path):  # noqa: F811
    """Other buckets, the same losses; float16 in transit, others; what does nothing is named once."""
    def with_strategy(keys):
        return lambda text: text.replace("    fleet.init(is_collective=True)\n", "    strategy = fleet.DistributedStrategy()\n" + "".join(
            f"    strategy.{key} = {value}\n" for key, value in keys.items()) + "    fleet.init(is_collective=True, strategy=strategy)\n")

    plain, _, _ = trained(tmp_path / "plain", package, "from paddlert import fleet\n", 2)
    small, _, logs = trained(tmp_path / "small", package, "from paddlert import fleet\n", 2, with_strategy(
        {"fuse_grad_size_in_MB": 0.05, "last_comm_group_size_MB": 0.01, "find_unused_parameters": True, "nccl_comm_num": 2, "lars": True}))
    assert all(abs(small[at] - plain[at]) < 1e-3 * plain[at] for at in plain)
    assert all(log.count("lars, nccl_comm_num do nothing here") == 1 for log in logs.values()), logs
    half, _, _ = trained(tmp_path / "half", package, "from paddlert import fleet\n", 2, with_strategy({"fp16_allreduce": True}))
    assert half[0, 0, 0] == plain[0, 0, 0] and half != plain


STATIC = ROOT / "tests/python/programs/static_fleet.py"


def static(folder, package, n, *words, **env):
    """Weights and logs of each rank."""
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PADDLERUN_PYTHON": os.environ["PADDLE_PYTHON"], "OMP_NUM_THREADS": "1", **env}
    r = subprocess.run([ROOT / "build/bin/paddlerun", "launch", "--nproc_per_node", str(n), STATIC, *words], cwd=folder, env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    logs = [(folder / f"log/workerlog.{i}").read_text() for i in range(n)]
    return r.returncode, [[float(w) for w in re.findall(r"^weights (.*)$", log, re.M)[0].split()] if r.returncode == 0 else None for log in logs], logs


def test_a_static_program_of_two_workers_trains_as_one_with_both_batches(package, tmp_path):  # noqa: F811
    """Weights that begin as worker 0's, with decay and clipping by the average."""
    flags = {"FLAGS_enable_pir_api": "0"}
    code, (alone,), logs = static(tmp_path / "one", package, 1, **flags)
    assert code == 0, logs
    code, both, logs = static(tmp_path / "two", package, 2, **flags)
    assert code == 0 and both[0] == both[1], logs
    assert max(abs(a - b) for a, b in zip(alone, both[0])) < 1e-5 and max(map(abs, alone)) > 0.1, (alone, both)


def test_the_static_resnet50_with_another_import(package, tmp_path):  # noqa: F811
    """With two processes, where Paddle's own fleet refuses on CPUs."""
    losses, weights, _ = trained(tmp_path / "static", package, "import paddlert.fleet as fleet\n", 2, name="train_fleet_static.py",
                                 was="import paddle.distributed.fleet as fleet\n", FLAGS_enable_pir_api="0")
    assert len(losses) == 24 and weights > 0


@pytest.mark.parametrize("words, flags, said", [
    ([], {}, "this static program is one of Paddle 3 (PIR), which no call of Python can be put into, expected FLAGS_enable_pir_api=0"),
    (["half"], {"FLAGS_enable_pir_api": "0"}, "strategy.fp16_allreduce is True, expected False in a static program")])
def test_what_a_static_program_cannot_do_it_says(package, tmp_path, words, flags, said):  # noqa: F811
    code, _, logs = static(tmp_path / "one", package, 1, *words, **flags)
    assert code == 1 and said in logs[0], logs
