"""The lines of docs/docker.md, as they stand there behind the image's name, on two machines: network namespaces with its addresses."""
import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys

import pytest

from rig import BIN, wait_for
from wheel import package  # noqa: F401

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/docker.md"
ADDRESSES = ["10.0.0.1", "10.0.0.2"]
SPACES = ["pjdock0", "pjdock1"]
GROUP = """
import os
import numpy as np
import paddlert
with paddlert.Group(paddlert.Job()) as g:
    x = np.full(3, g.rank + 1, dtype=np.float32)
    x = g.all_reduce(x)
    print("sum", x[0], "of", g.size, "on", os.environ["PADDLE_CURRENT_ENDPOINT"])
"""
# Runs until the test says that it is over.
ELASTIC = """
import os, select
home = os.environ["HOME"]
name = f"{home}/{os.environ['PADDLE_TRAINER_ID']}-of-{os.environ['PADDLE_TRAINERS_NUM']}"
open(name, "a").write("x")
while not os.path.exists(f"{home}/over"):
    select.select([], [], [], 0.1)
"""


def sh(*words):
    subprocess.run(words, check=True, capture_output=True)


def lines(section):
    """(variables, command) of each line of a section: what Docker gives the container, and what it runs there."""
    text = PAGE.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^    docker run ((?:.*\\\n)*.*)$", text, re.M)
    for line in found:
        words = shlex.split(line.replace("\\\n", " "))
        image = words.index("IMAGE")
        assert "--net=host" in words[:image], line
        yield dict(words[i + 1].split("=", 1) for i in range(image) if words[i] == "-e"), words[image + 1:]


class Machines:
    def __init__(self, home, packages):
        self.home, self.packages, self.started = home, packages, []
        self.lock = open("/tmp/paddlejob-docker.lock", "w")     # the names exist once a machine
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.remove()
        for space in SPACES:
            sh("ip", "netns", "add", space)
            sh("ip", "-n", space, "link", "set", "lo", "up")
        sh("ip", "-n", SPACES[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", SPACES[1])
        for space, address in zip(SPACES, ADDRESSES):
            sh("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            sh("ip", "-n", space, "link", "set", "eth0", "up")

    def remove(self):
        for space in SPACES:
            for pid in subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def run(self, machine, variables, words, script=None):
        work = self.home / f"machine{machine}"
        work.mkdir(exist_ok=True)
        if script:
            (work / "train.py").write_text(script)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PADDLE", "TRAINING_", "POD_", "LD_"))}
        env |= {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(self.home), "PADDLERUN_PYTHON": sys.executable, "PYTHONPATH": str(self.packages),
                **variables}
        log = work / f"out{len(self.started)}"
        p = subprocess.Popen(["ip", "netns", "exec", SPACES[machine], *words], env=env, cwd=work, stdout=log.open("w"), stderr=subprocess.STDOUT)
        self.started.append(p)
        return p, log

    def log(self, machine):
        return "".join(p.read_text() for p in sorted(self.home.glob(f"machine{machine}/log/**/workerlog.0")) if not p.is_symlink())


@pytest.fixture
def machines(tmp_path, package):
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root")
    m = Machines(tmp_path, package)
    yield m
    m.remove()
    m.lock.close()
    for p in m.started:
        p.wait()


def finish(*started):
    """What they printed; all must have ended well."""
    codes = [p.wait(300) for p, _ in started]
    out = [log.read_text() for _, log in started]
    assert codes == [0] * len(started), "\n".join(out)
    return out


def test_collective(machines):
    (variables, words), = lines("Collective training")
    finish(*(machines.run(i, variables, words, GROUP) for i in range(2)))
    for i, address in enumerate(ADDRESSES):
        assert re.search(rf"^sum 3.0 of 2 on {address}:", machines.log(i), re.M), machines.log(i)


@pytest.mark.deadline(600)
def test_parameter_servers_by_rendezvous_by_lists_and_by_variables(machines):
    (meet, lists, *by_hand) = lines("Parameter servers")
    for variables, words in (meet, lists):
        finish(*(machines.run(i, variables, words) for i in range(2)))
    assert [v.get("PADDLE_TRAINER_ID") for v, _ in by_hand] == [None, "0", "1"]
    out = finish(*(machines.run(i, *line) for i, line in zip((0, 0, 1), by_hand)))
    assert "trainer 1 has finished" in out[0], out[0]


@pytest.mark.deadline(600)
def test_elastic(machines):
    """A lost machine: the other one continues alone; it comes back: both."""
    (variables, words), = lines("Elastic training")
    first, second = (machines.run(i, variables, words, ELASTIC) for i in range(2))

    def both():
        return all((machines.home / f"{i}-of-2").exists() for i in range(2))

    wait_for(both, 120)
    for pid in subprocess.run(["ip", "netns", "pids", SPACES[1]], capture_output=True, text=True).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    second[0].wait()
    wait_for((machines.home / "0-of-1").exists, 120)
    for i in range(2):
        (machines.home / f"{i}-of-2").unlink()
    second = machines.run(1, variables, words, ELASTIC)
    wait_for(both, 120)
    (machines.home / "over").touch()
    finish(first, second)
