"""The commands of Paddle's documents with our programs in them, as they stand there, on this machine; docs/documents.md.

tests/e2e/test_documents.py has the same inside pods, tests/paddle with real Paddle in the processes.
"""
import os
import re
import subprocess
import sys

import pytest

from rig import BIN, ROOT, free_port, wait_for

TRAIN_FLEET = ROOT / "tests/programs/train_fleet.py"
SMALL = ["--lines=4000", "--test-lines=500"]
# The documents' ResNet50 on flowers; small, and on pictures with planted classes.
RESNET = [BIN / "resnet50", "--depth=10", "--width=16", "--image-size=32", "--class-dim=4", "--batch-size=8", "--lr=0.02",
          "--images=512", "--epochs=3", "--sync-bn", "--test", "--threads=1"]


class Shells:
    """Commands in one directory, each with a log, and with nothing of this process's environment but the PATH."""

    def __init__(self, home):
        self.home, self.list = home, []

    def start(self, *command, **env):
        log = self.home / f"shell{len(self.list)}"
        env = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **env}
        p = subprocess.Popen([str(c) for c in command], cwd=self.home, env=env, stdout=log.open("w"), stderr=subprocess.STDOUT)
        self.list.append((p, log))
        return log

    def finish(self, seconds=150):
        """All end well; what they said, in their order."""
        for p, log in self.list:
            assert p.wait(seconds) == 0, self.story()
        return [log.read_text() for _, log in self.list]

    def story(self):
        return "\n".join(f"-- {log.name}\n{log.read_text()[-2000:]}" for _, log in self.list)

    def kill(self):
        for p, _ in self.list:
            p.kill()
            p.wait()


@pytest.fixture
def shells(tmp_path):
    s = Shells(tmp_path)
    yield s
    s.kill()


def fitted(texts, size):
    """Every process of train_fleet.py has ended with the weights of all."""
    ends = [m for text in texts for m in re.findall(r"^worker (\d+) of (\d+) weights 3.0000 1.0000$", text, re.M)]
    assert sorted(ends) == sorted((str(i), str(size)) for i in range(size)), texts


def learned(texts, size):
    """Every process of resnet50 has trained to the end, and what they have learned shows in the test."""
    assert len(texts) == size, texts
    for text in texts:
        assert re.search(r"^\[Epoch 0, batch 0\] loss: \d+\.\d{5}, acc1: \d\.\d{5}, acc5: \d\.\d{5}$", text, re.M), text
        assert re.search(r"^\[Epoch 2, batch 5\] loss: ", text, re.M), text
    tests = [float(acc1) for text in texts for acc1 in re.findall(r"^\[Test\] loss: [\d.]+, acc1: ([\d.]+), ", text, re.M)]
    assert len(tests) == 1 and tests[0] >= 0.7, (tests, texts)


def workerlogs(home):
    return [f.read_text() for f in home.rglob("workerlog.*") if not f.is_symlink()]


@pytest.mark.parametrize("background", [False, True])
def test_pserver_and_trainers_by_hand(shells, background):
    """0.10: `paddle pserver` on every node, or in the background, then the trainers, which read PADDLE_INIT_*."""
    port = free_port()
    pserver = f"paddlerun pserver --port={port} --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=2"
    if background:
        server = shells.home / "pserver.log"
        shells.start("bash", "-c", f"stdbuf -oL /usr/bin/nohup {pserver} &> pserver.log & wait $!")
    else:
        server = shells.start(*pserver.split(), "--nics=lo")
    wait_for(lambda: server.exists() and "Waiting parameterServer[1]" in server.read_text(), why=shells.story)
    for i in range(2):
        shells.start("wide_and_deep", "--mode=sync", *SMALL, f"--save=model{i}", PADDLE_INIT_USE_GPU="False", PADDLE_INIT_TRAINER_COUNT="1",
                     PADDLE_INIT_PORT=str(port), PADDLE_INIT_PORTS_NUM="1", PADDLE_INIT_PORTS_NUM_FOR_SPARSE="1",
                     PADDLE_INIT_NUM_GRADIENT_SERVERS="2", PADDLE_INIT_TRAINER_ID=str(i), PADDLE_INIT_PSERVERS="127.0.0.1")
    _, *trainers = shells.finish()
    assert "all 2 trainers have finished" in server.read_text() and all("TRAIN --->" in t for t in trainers), shells.story()


def test_paddle_train_alone(shells):
    """0.10 on one node: `paddle train`, without any server."""
    (shells.home / "train.sh").write_text(f'#!/bin/sh\nexec wide_and_deep {" ".join(SMALL)} --save="$PADDLE_INIT_SAVE_DIR/pass-00000"\n')
    (shells.home / "train.sh").chmod(0o755)
    shells.start("paddlerun", "train", "--config=train.sh", "--save_dir=./output", "--trainer_count=4", "--num_passes=5", "--use_gpu=0")
    assert "TEST --->" in shells.finish()[0] and (shells.home / "output/pass-00000").exists(), shells.story()


def test_a_models_configuration_is_named(shells):
    """What the document's run.sh has as --config: nothing reads it any more."""
    (shells.home / "trainer_config.py").write_text("from paddle.trainer_config_helpers import *\n\nsettings(batch_size=1600)\n")
    said = subprocess.run([BIN / "paddlerun", "train", "--config=./trainer_config.py", "--num_passes=5"], cwd=shells.home, capture_output=True,
                          text=True, timeout=60)
    assert said.returncode == 2 and re.fullmatch(
        r'paddlerun train: --config is "./trainer_config.py", a model\'s configuration for Paddle 0.8 to 0.12, expected .*\n', said.stderr), said


@pytest.mark.parametrize("module", [False, True])
def test_the_collective_quick_start(shells, module):
    """2.0: `python3 -m paddle.distributed.launch --gpus=0,1 train.py`; our module's name stands for Paddle's."""
    words = ["paddlerun", "launch"]
    if module:
        wheel = subprocess.run([ROOT / "python/wheel", "v1.2", shells.home], capture_output=True, text=True, check=True).stdout.strip()
        words = [sys.executable, "-m", "paddlerun"]
    shells.start(*words, "--gpus=0,1", *RESNET, **({"PYTHONPATH": wheel} if module else {}))
    shells.finish()
    learned(workerlogs(shells.home), 2)


def test_the_collective_quick_start_on_several_nodes(shells):
    """`--ips="xx,yy" --gpus 0,1,…`, the same words on every node."""
    for i in range(2):
        (shells.home / f"n{i}").mkdir()
        shells.start("env", "-C", f"n{i}", "paddlerun", "launch", "--ips=127.0.0.2,127.0.0.3", "--gpus", "0,1", *RESNET,
                     POD_IP=f"127.0.0.{i + 2}")
    shells.finish()
    learned(workerlogs(shells.home), 4)


def test_the_quick_start_with_servers(shells):
    """2.0: `--server_num=1 --worker_num=2 --gpus=0,1 train.py`."""
    shells.start("paddlerun", "launch", "--server_num=1", "--worker_num=2", "--gpus=0,1", BIN / "wide_and_deep", *SMALL)
    text = shells.finish()[0]
    assert "all parameter server are killed" in text, text
    assert sum("TRAIN --->" in log for log in workerlogs(shells.home)) == 2, shells.story()


def test_the_printed_command_starts_the_other_node(shells):
    """2.3: `--nnodes=2 demo.py` on one node prints what is to be run on the other."""
    first = shells.start("paddlerun", "launch", "--nnodes=2", "--log_dir=n0", TRAIN_FLEET, POD_IP="127.0.0.2")
    printed = wait_for(lambda: re.search(r"Copy the following command to other nodes to run.\n-{80}\n(paddlerun launch .*)\n-{80}$",
                                         first.read_text(), re.M), why=shells.story)[1]
    shells.start(*printed.replace("--log_dir=n0", "--log_dir=n1").split(), POD_IP="127.0.0.3")
    shells.finish()
    fitted(workerlogs(shells.home), 2)


def test_the_printed_command_is_the_users(shells):  # the document's is `python -m paddle.distributed.launch`
    """As the first node's was started: by Python, and under the other name."""
    (shells.home / "fleetrun").symlink_to(BIN / "paddlerun")
    for started, words in (f"{sys.executable} -m paddlerun", [sys.executable, "-m", "paddlerun"]), ("./fleetrun", ["./fleetrun"]):
        first = shells.start(*words, "--nnodes=2", "--log_dir=n0", TRAIN_FLEET, POD_IP="127.0.0.2", PYTHONPATH=str(ROOT / "python"))
        wait_for(lambda: f"\n{started} --master 127.0.0.2:" in first.read_text(), why=shells.story)
        shells.kill()
