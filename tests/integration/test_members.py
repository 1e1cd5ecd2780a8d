"""Elastic training from Python: workers that die and come back, at random moments, beside one that nothing happens to."""
import json
import os
import random
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from ports import free_port
from rig import BIN
from wheel import ROOT, finish, package, python  # noqa: F401
from workers import NEVER, SECONDS, Workers, alone, losses, wait_for

PROGRAM = ROOT / "tests/python/programs/members.py"
BATCHES = 30                                    # an epoch's
KILLS = 100 if "CASES_ALL" in os.environ else 12


@pytest.mark.deadline(300 + 20 * KILLS)
@pytest.mark.parametrize("on_loss,kills", [("repeat", KILLS), ("skip", KILLS // 2)])
def test_workers_die_and_come_back(python, tmp_path, on_loss, kills):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)

    def start(folder, **env):
        return python("", PROGRAM, on_loss, folder / "log", 10 ** 6, **env)
    workers = Workers(lambda **env: start(tmp_path, **env), tmp_path)
    end = workers.disturb(rng, kills, BATCHES)
    out = finish(*workers.at, seconds=SECONDS)
    ends = {tuple(o.splitlines()[-1].split(" ", 5)) for o in out}
    assert len(ends) == 1, (seed, ends)
    done, steps, samples, skipped, total, weights = ends.pop()
    assert (int(steps), int(samples)) == (end, end * 20), (seed, steps, samples)
    if on_loss == "skip":
        assert 0 < int(skipped) <= 2 * kills, (seed, skipped)
        return
    want, = finish(alone(start, tmp_path / "alone", end), seconds=SECONDS)
    *numbers, own_weights = want.splitlines()[-1].split(" ", 5)
    assert [done, steps, samples, skipped, total] == numbers, seed
    own = dict(losses([line.split() for line in (tmp_path / "alone/log.0").read_text().splitlines()]))
    for step, loss in losses(workers.lines()):
        assert np.isclose(loss, own[step], rtol=1e-9), (seed, step, loss, own[step])
    assert np.allclose(json.loads(weights), json.loads(own_weights), rtol=1e-9), (seed, weights)


def test_batches_in_order_need_no_list_of_all(python):
    """However many samples there are: only an order that is shuffled is held in memory."""
    out, = finish(python("""
from paddlert.elastic import Order
print([b.tolist() for drop in (False, True) for b in Order(7, 3, shuffle=False, drop_last=drop)])
print(sorted(int(n) for b in Order(7, 3) for n in b), next(iter(Order(2 ** 62, 3, shuffle=False))))
"""))
    assert out == "[[0, 1, 2], [3, 4, 5], [6], [0, 1, 2], [3, 4, 5]]\n[0, 1, 2, 3, 4, 5, 6] [0 1 2]\n", out


@pytest.mark.parametrize("on_loss,says", [("repeat", "10 40 0 10 780"), ("skip", "9 36 1 9 726")])
def test_a_step_that_is_lost(python, on_loss, says):
    """Its batch is done again by those that live, or left out; what it has changed already is as it was."""
    program = f"""
import os, signal
from paddlert.elastic import Elastic, Order
class Sum:
    total = 0
    def state_dict(self):
        return {{"total": self.total}}
    def load_state_dict(self, state):
        self.total = state["total"]
s = Sum()
with Elastic({{"sum": s}}, Order(40, 4, shuffle=False), on_loss="{on_loss}", values={{"n": 0}}) as elastic:
    for step in elastic:
        with step as part:
            elastic.values["n"] += 1
            if step.number == 3 and os.environ["PADDLE_TRAINER_ID"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            s.total += int(elastic.group.all_reduce(np.array([part.sum() if step.samples else 0]))[0])
    print(elastic.steps, elastic.samples, elastic.skipped, elastic.values["n"], s.total)
"""
    endpoints = ",".join(f"127.0.0.1:{free_port()}" for _ in range(2))
    left, dies = (python(program, PADDLE_TRAINER_ID=str(i), PADDLE_TRAINERS_NUM="2", PADDLE_TRAINER_ENDPOINTS=endpoints) for i in range(2))
    out, = finish(left, seconds=SECONDS)
    assert dies.wait(SECONDS) == -signal.SIGKILL and out.split() == says.split(), out


EMPTY = """
import numpy as np
from paddlert.elastic import Elastic
class Reader:
    at = 0
    def __iter__(self):
        while self.at < 3:
            self.at += 1
            yield {batch} if self.at == 2 else [np.ones(4)]
    def position(self):
        return {{"at": self.at}}
    def restore(self, position):
        self.at = position["at"]
try:
    with Elastic({{}}, Reader()) as elastic:
        for step in elastic:
            with step:
                pass
except paddlert.InvalidError as e:
    print(elastic.steps, e)
"""


@pytest.mark.parametrize("batch", ["np.ones(0)", "[np.ones((0, 3)), np.ones(0)]", "[]", "{}"])
def test_a_batch_without_a_sample_is_an_error(python, batch):
    """On all workers: the mean of nothing was a ZeroDivisionError."""
    out, = finish(python(EMPTY.format(batch=batch)))
    assert out == "1 the reader gave a batch without a sample, behind position {'at': 1}: expected one at least\n"


def test_a_larger_group_that_cannot_form_is_not_tried_at_once_again(python):
    """A worker has no descriptor left: all continue as they are, and who waits is invited later."""
    out, = finish(python("""
import types
from paddlert._admission import Admission, Roster
class Old:
    def check(self):
        print("it lives", end=" ")
    def grow(self, *_, **__):
        raise error("ulimit -n is 64")
job = types.SimpleNamespace(workers=["127.0.0.1:1", "127.0.0.1:2"], worker_index=0, worker_num=2)
for error in paddlert.NoResourceError, paddlert.OutOfMemoryError, paddlert.UnavailableError, paddlert.TimeoutError, paddlert.PeerLostError:
    admission = Admission(job, 1, 1)
    admission._waiting[1] = None
    print(admission.grow(Old(), Roster(1, [0, 1])), admission.invite(), end=" ")
"""))
    assert out == "it lives None None " * 5, out


DIFFERENT = """
import os, sys
from paddlert.data import Dataset
from paddlert.elastic import Elastic, Order
class Sum:
    def state_dict(self):
        return {}
    load_state_dict = print
home, own = int(os.environ["PADDLE_TRAINER_ID"]), os.environ["OWN"]
data, name, options = Order(12, 4, epochs=1000000), "sum", {}
if own == "seed":
    data = Order(12, 4, epochs=1000000, seed=1)
elif own == "batch":
    data = Order(12, 2, epochs=1000000)
elif own == "name":
    name = "total"
elif own == "reader":
    data = Dataset("lines", "slots", batch=4, slots=["a"], rank=0, world=1)
else:
    options = dict([own.split("=")])
try:
    with Elastic({name: Sum()}, data, **options) as elastic:
        for step in elastic:
            with step:
                pass
            if home == 1:
                os._exit(3)
            if os.path.exists("refused"):
                break
        print("done")
except paddlert.InvalidError as e:
    print(e)
open("refused", "w").close()
"""


def different(python):
    """What starts the worker of a home with something of its own."""
    endpoints = ",".join(f"127.0.0.1:{free_port()}" for _ in range(2))
    env = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": endpoints}
    return lambda i, own: python(DIFFERENT, PADDLE_TRAINER_ID=str(i), OWN=own, **env)


@pytest.mark.parametrize("own,says", [("seed", "Order(12, 4, shuffle=True, seed=1, epochs=1000000, drop_last=False), state sum, on_loss repeat"),
                                      ("batch", "Order(12, 2, shuffle=True, seed=0, "), ("on_loss=skip", "state sum, on_loss skip, "),
                                      ("name", "state total, on_loss repeat, min_workers 1"),
                                      ("reader", "a Dataset (batch 4, fill 0, vocabulary 0, shuffle 0, raw False, drop_last False, ")])
def test_workers_that_train_in_different_ways_are_refused(python, tmp_path, own, says):
    """At the beginning all of them are: who has other batches than the others would change what they train, and nobody would see it."""
    (tmp_path / "lines").write_text("click:1 a:1\n" * 8)
    start = different(python)
    out = finish(start(0, "on_loss=repeat"), start(1, own), seconds=SECONDS)
    for line in out:
        one, = re.findall("worker 1 has [^;]*;", line)
        assert line.startswith("workers train in different ways: worker ") and says in one, out


def test_one_that_comes_later_and_trains_otherwise_is_refused_alone(python):
    start = different(python)
    left, first = start(0, "on_loss=repeat"), start(1, "on_loss=repeat")
    assert first.wait(SECONDS) == 3
    out = finish(left, start(1, "seed"), seconds=SECONDS)
    assert out[0] == "done\n" and out[1].startswith("workers train in different ways: worker 0 has Order(12, 4, shuffle=True, seed=0, "), out


def test_lines_of_files_are_dealt_out(python, tmp_path):
    """Each to one worker; ids and numbers are those of its lines."""
    (tmp_path / "lines").write_text("".join(f"click:{i % 2} user:{i} " + " ".join(f"tag:{1000 * i + t}" for t in range(i % 4)) + "\n" for i in range(50)))
    program = """
from paddlert.data import Dataset
from paddlert.elastic import Elastic
with Elastic({}, Dataset("lines", "slots", batch=8, slots=["user", "tag"], shuffle=20, rank=0, world=1)) as elastic:
    for step in elastic:
        with step as batch:
            for i in range(step.samples):
                user, tags = (batch[name].values[batch[name].offsets[i]:batch[name].offsets[i + 1]].tolist() for name in ("user", "tag"))
                print(*user, int(batch.labels[i]), *tags)
"""
    endpoints = ",".join(f"127.0.0.1:{free_port()}" for _ in range(3))
    out = finish(*(python(program, PADDLE_TRAINER_ID=str(i), PADDLE_TRAINERS_NUM="3", PADDLE_TRAINER_ENDPOINTS=endpoints) for i in range(3)), seconds=SECONDS)
    found = sorted([int(n) for n in line.split()] for o in out for line in o.splitlines())
    assert found == [[i, i % 2, *(1000 * i + t for t in range(i % 4))] for i in range(50)], found
    assert sorted(len(o.splitlines()) for o in out) == [12, 19, 19], out


def test_the_others_continue_without_those_that_stay_away(python, tmp_path):
    workers = Workers(lambda **env: python("", PROGRAM, "repeat", tmp_path / "log", 2, **env), tmp_path)
    workers.join()
    for home in (0, 2, 3):
        workers.kill(home, again=False)
    workers.gate(NEVER)
    last, = finish(workers.at[1], seconds=SECONDS)
    assert last.splitlines()[-1].split(" ")[1:5] == ["60", "1200", "0", str(2 * sum(range(600)))]


@pytest.mark.deadline(400)
def test_the_launcher_starts_those_again_that_fail(package, tmp_path):
    """--elastic_level 2: each by itself, while the others keep running."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    killed = {}                                 # home by process

    def newest():
        """The process of each home, as far as it has joined and was not killed."""
        found = {}
        for home in range(4):
            lines = [line.split() for line in (tmp_path / f"log.{home}").read_text().splitlines()] if (tmp_path / f"log.{home}").exists() else []
            found |= {home: line[1] for line in lines if line[0] == "in" and line[1] not in killed}
        return found

    def open_gate(step, end=NEVER):
        (tmp_path / "next").write_text(f"{step} {end}")
        os.replace(tmp_path / "next", gate)

    def steps():
        lines = [line.split() for f in tmp_path.glob("log.*") for line in f.read_text().splitlines(True) if line.endswith("\n")]
        return 1 + max((int(line[0]) for line in lines if line[0].isdecimal()), default=-1)

    def are_in():
        assert launcher.poll() is None, launcher.communicate()
        open_gate(steps() + 1)
        return len(newest()) == 4
    open_gate(0)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PADDLE_")}
    launcher = subprocess.Popen([BIN / "paddlerun", "launch", "--nproc_per_node", "4", "--elastic_level", "2", "--max_restart", "9", "--log_dir", "logs",
                                 PROGRAM, "repeat", log, str(10 ** 6)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**env, "PYTHONPATH": str(package), "PADDLERUN_PYTHON": sys.executable, "GATE": str(gate), "OMP_NUM_THREADS": "1"})
    try:
        for home in (0, 2, 2, 3):
            wait_for(are_in, lambda: (newest(), killed))
            killed[newest()[home]] = home
            os.kill(int(list(killed)[-1]), signal.SIGKILL)
        wait_for(are_in, lambda: (newest(), killed))
        end = steps() + BATCHES
        open_gate(NEVER, end)
        out, _ = launcher.communicate(timeout=SECONDS)
    finally:
        launcher.kill()
    assert launcher.returncode == 0 and "worker 2: killed by SIGKILL; it is started again, restart 3 of 9, and the others continue" in out, out
    for home in range(4):
        text = (tmp_path / f"logs/workerlog.{home}").read_text()
        assert f"done {end} {end * 20} 0 " in text, text
        assert sum(line.startswith("in ") for line in (tmp_path / f"log.{home}").read_text().splitlines()) == 1 + list(killed.values()).count(home)
