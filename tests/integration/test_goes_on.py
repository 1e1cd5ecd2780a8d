"""A training with parameter servers continues when one of its processes is killed and started again."""
import os
import re
import signal
import subprocess

import pytest

from rig import BIN, free_port, wait_for

LINES = 40000


class Job:
    def __init__(self, folder, *words, **env):
        self.folder, self.words, self.ports = folder, words, [free_port(), free_port()]
        self.env = {"PATH": os.environ["PATH"], "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{p}" for p in self.ports),
                    "PADDLE_TRAINERS_NUM": "2", "PADDLE_PS_CHECKPOINT_DIR": str(folder / "checkpoints"), **env}
        self.processes = {}

    def start(self, name):
        role, i = name[:-1], int(name[-1])
        own = ({"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)} if role == "trainer" else
               {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(self.ports[i])})
        with open(self.folder / name, "a") as log:
            self.processes[name] = subprocess.Popen([BIN / "wide_and_deep", "--lines", str(LINES), *self.words], cwd=self.folder,
                                                    env={**self.env, **own}, stdout=log, stderr=subprocess.STDOUT)

    def log(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def kill(self, name):
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()
        self.start(name)

    def story(self):
        return "\n".join(f"---- {n}: {p.poll()}\n{self.log(n)[-1500:]}" for n, p in self.processes.items())

    def wait(self, what):
        return wait_for(what, seconds=100, why=self.story)

    def finish(self):
        for p in self.processes.values():
            try:
                assert p.wait(150) == 0, self.story()
            except subprocess.TimeoutExpired:
                raise AssertionError(self.story()) from None


@pytest.fixture
def job(tmp_path):
    made = []

    def start(*words, **env):
        made.append(Job(tmp_path, *words, **env))
        for name in ("server0", "server1", "trainer0", "trainer1"):
            made[0].start(name)
        return made[0]
    yield start
    for p in made[0].processes.values():
        p.kill()
        p.wait()


@pytest.mark.deadline(300)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_server_begins_with_its_checkpoint(job, mode):
    j = job("--mode", mode, "--batch-size", "20", PADDLE_PS_CHECKPOINT_STEPS="50")
    j.wait(lambda: any((j.folder / "checkpoints").glob("**/MANIFEST")))
    j.kill("server1")
    j.finish()
    if mode == "sync":
        assert all("worker goes back" in j.log(t) and re.search(r"worker resumes.*batches_behind=[1-9]", j.log(t))
                   for t in ("trainer0", "trainer1")), j.story()


@pytest.mark.deadline(300)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_trainer_resumes_where_it_was(job, mode):
    j = job("--mode", mode, "--batch-size", "20")
    j.wait(lambda: j.log("trainer1").count("TRAIN ---> pass: 0") > 1)     # the first is printed while its step still waits for trainer 0
    j.kill("trainer1")
    j.finish()
    assert all("trainer 1 is back after a restart" in j.log(s) for s in ("server0", "server1")), j.story()
    if mode == "sync":      # async, it may have trained too little to have kept anything
        assert re.search(r"worker resumes.*batches_behind=[1-9]", j.log("trainer1")), j.story()
