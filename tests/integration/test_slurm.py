"""Launchers under a real srun: `paddlerun mpi` with a server and trainers, `paddlerun launch` a node each."""
import re

import pytest

from rig import BIN, free_port
from slurm import NODES, Slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    s = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        s.up()
        yield s
    finally:
        s.down()


def mpi(*words):
    return [BIN / "paddlerun", "mpi", f"--port={free_port()}", "--ports_num=1", "--ports_num_for_sparse=0", *words]


@pytest.mark.parametrize("how", [
    ["srun", "-N1", "-n4"],
    ["srun", "-N1", "-n4", "--mpi=pmi2"],                    # gives PMI_RANK, too, but not who is the first on its host
    ["salloc", "-N2", "-n8", "srun", "-N1", "-n4"],          # a step on one node of the job's two
], ids=["srun", "pmi2", "step"])
def test_mpi_trains(slurm, tmp_path, how):
    program = [BIN / "wide_and_deep", "--mode=sync", "--lines=4000", "--test-lines=500", f"--save={tmp_path}/model"]
    code, out = slurm.run([*how, *mpi("--log_dir=logs", "--", *program)], cwd=tmp_path)
    assert code == 0, out + slurm.story()
    assert "all 4 trainers have finished" in (tmp_path / "logs/pserver.log").read_text()
    assert (tmp_path / "logs/train.log").read_text().count("worker starts") == 4
    assert (tmp_path / "model").exists()


def test_mpi_first_failure_ends_all(slurm, tmp_path):
    """srun itself ends with the greatest code of its tasks."""
    code, out = slurm.run(["srun", "-K", "-N1", "-n2", *mpi("--", "sh", "-c", '[ "$PADDLE_INIT_TRAINER_ID" = 1 ] && exit 7; sleep 600')],
                          cwd=tmp_path)
    assert code and "rank 1: the trainer: exit code 7" in out, out


def test_launch_on_two_nodes(slurm, tmp_path):
    """They meet on the first one, as a batch script says it: scontrol show hostnames."""
    code, out = slurm.run(["scontrol", "show", "hostnames", NODES])
    first = out.split()[0]
    code, out = slurm.run(["srun", "-N2", "-n2", BIN / "paddlerun", "launch", "--nnodes", "2", "--master", f"{first}:{free_port()}",
                           "--nproc_per_node", "2", "--log_dir", "", "sh", "-c",
                           'echo "<$PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM on $SLURMD_NODENAME>"'], cwd=tmp_path)
    assert code == 0, out + slurm.story()
    said = sorted(re.findall(r"<(\d) of 4 on 127.0.0.\d>", out))
    assert said == ["0", "1", "2", "3"], out
