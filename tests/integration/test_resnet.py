"""examples/resnet50 under the launcher, when a process is lost."""
import os
import pathlib
import re
import signal
import subprocess

import pytest

from rig import BIN, free_port, wait_for

WORDS = [BIN / "resnet50", "--depth=10", "--width=16", "--image-size=32", "--class-dim=4", "--batch-size=8", "--lr=0.02",
         "--images=512", "--sync-bn", "--test", "--threads=1", "--log-every=1"]


class Nodes:
    """Two nodes of one process each, of an elastic job."""

    def __init__(self, home, *words):
        self.home, self.launchers = home, []
        master = f"127.0.0.1:{free_port()}"
        for i in range(2):
            self.launchers.append(subprocess.Popen(
                [BIN / "paddlerun", "launch", "--nnodes=2", f"--rank={i}", "--elastic_level=1", "--master", master, f"--log_dir=n{i}",
                 *WORDS, *words], cwd=home, env={"PATH": os.environ["PATH"], "POD_IP": f"127.0.0.{i + 2}"},
                stdout=(home / f"said{i}").open("w"), stderr=subprocess.STDOUT))

    def log(self, i):
        f = self.home / f"n{i}/workerlog.0"
        return f.read_text() if f.exists() else ""

    def story(self):
        return "\n".join(f"-- {i}\n{(self.home / f'said{i}').read_text()[-2000:]}\n{self.log(i)[-2000:]}" for i in range(2))

    def program(self, i):
        pid = self.launchers[i].pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def finish(self):
        for p in self.launchers:
            assert p.wait(150) == 0, self.story()
        return re.findall(r"\[Test\] .*", self.log(0))[-1]

    def kill(self):
        for p in self.launchers:
            p.terminate()
            p.wait()


@pytest.mark.deadline(240)
def test_training_goes_on_where_the_newest_checkpoint_was(tmp_path):
    """A process is killed; the launchers start all of them again; the end is that of a training without a kill."""
    ends = []
    for killed in (False, True):
        home = tmp_path / str(killed)
        home.mkdir()
        n = Nodes(home, "--epochs=12", "--checkpoint=checkpoints", "--checkpoint-every=10")
        try:
            if killed:
                wait_for(lambda: list(home.glob("checkpoints/step-*/MANIFEST")), why=n.story)
                os.kill(n.program(1), signal.SIGKILL)
            ends.append(n.finish())
            began = [int(s) for s in re.findall(r"going on from a checkpoint\" step=(\d+)", n.log(0))]
            assert (len(began) == 1 and began[0] >= 10) if killed else not began, n.story()
        finally:
            n.kill()
    assert ends[0] == ends[1]
