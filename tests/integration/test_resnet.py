"""examples/resnet50 under the launcher, when a process is lost."""
import json
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
    """Nodes of one process each, of an elastic job."""

    def __init__(self, home, launch, words):
        self.home, self.launchers, self.words = home, [], [*launch, *WORDS, *words]
        self.master = f"127.0.0.1:{free_port()}"

    def start(self):
        i = len(self.launchers)
        self.launchers.append(subprocess.Popen(
            [BIN / "paddlerun", "launch", "--elastic_level=1", "--master", self.master, f"--log_dir=n{i}", f"--rank={i}", *self.words],
            cwd=self.home, env={"PATH": os.environ["PATH"], "POD_IP": f"127.0.0.{i + 2}"},
            stdout=(self.home / f"said{i}").open("w"), stderr=subprocess.STDOUT))

    def log(self, i):
        f = self.home / f"n{i}/workerlog.0"
        return f.read_text() if f.exists() else ""

    def story(self):
        return "\n".join(f"-- {i}\n{(self.home / f'said{i}').read_text()[-2000:]}\n{self.log(i)[-2000:]}" for i in range(len(self.launchers)))

    def began(self, i):
        return [int(s) for s in re.findall(r"resuming from a checkpoint\" step=(\d+)", self.log(i))]

    def rates(self, i):
        """Learning rates that were logged, by epoch."""
        return [(int(e), float(r)) for e, r in re.findall(r"\[Epoch (\d+), .* lr: ([0-9.e-]+)", self.log(i))]

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
def test_training_resumes_at_the_newest_checkpoint(tmp_path):
    """A process is killed; the launchers start all of them again; the end is that of a training without a kill."""
    ends = []
    for killed in (False, True):
        home = tmp_path / str(killed)
        home.mkdir()
        n = Nodes(home, ["--nnodes=2"], ["--epochs=12", "--checkpoint=checkpoints", "--checkpoint-every=10"])
        try:
            n.start()
            n.start()
            if killed:
                wait_for(lambda: list(home.glob("checkpoints/step-*/MANIFEST")), why=n.story)
                os.kill(n.program(1), signal.SIGKILL)
            ends.append(n.finish())
            began = n.began(0)
            assert (len(began) == 1 and began[0] >= 10) if killed else not began, n.story()
        finally:
            n.kill()
    assert ends[0] == ends[1]


@pytest.mark.deadline(240)
def test_training_continues_with_a_worker_more_and_with_one_less(tmp_path):
    """One worker, then two, then one: each begins at the newest checkpoint, and the rate falls where the epochs say so."""
    n = Nodes(tmp_path, ["--nnodes=1:2", "--elastic_timeout=1"],
              ["--epochs=24", "--checkpoint=checkpoints", "--checkpoint-every=5", "--figures", "--schedule=piecewise", "--boundaries=20"])
    try:
        n.start()
        wait_for(lambda: n.rates(0) and n.rates(0)[-1][0] >= 2, why=n.story)
        n.start()
        wait_for(lambda: n.rates(1), why=n.story)
        first = n.rates(1)[0][0]
        wait_for(lambda: n.rates(1)[-1][0] >= first + 2, why=n.story)
        n.launchers[1].terminate()
        assert n.launchers[0].wait(150) == 0, n.story()
        n.launchers[1].wait()
        began = n.began(0)
        assert len(began) == 2 and began[0] < began[1] and n.began(1) == began[:1], n.story()
        assert first >= 2, n.story()
        assert {e for e, _ in n.rates(0)} == set(range(24)), n.story()
        for epoch, rate in n.rates(0) + n.rates(1):
            assert rate == (0.02 if epoch < 20 else 0.002), (epoch, rate)
        loss, acc1 = re.findall(r"\[Test\] loss: ([0-9.]+), acc1: ([0-9.]+)", n.log(0))[-1]
        assert float(acc1) >= 0.9, n.story()
    finally:
        n.kill()


def test_a_precision_that_the_processor_lacks_is_refused_at_once(tmp_path):
    """Before data are read, and in a line that says what to do instead."""
    r = subprocess.run([BIN / "resnet50", "--local", "--precision=bf16", f"--data={tmp_path}/none"], capture_output=True, text=True,
                       timeout=60, env={"PATH": os.environ["PATH"], "ONEDNN_MAX_CPU_ISA": "AVX2"})
    assert r.returncode == 2 and not r.stdout, r
    assert len(r.stderr.splitlines()) == 1, r.stderr
    assert "precision bf16: oneDNN has no bf16 convolutions for this processor" in r.stderr and "use --precision=f32" in r.stderr, r.stderr


@pytest.mark.deadline(240)
def test_a_trained_network_is_tested_and_asked(tmp_path):
    """--test --load prints what the training's own test did, alone and by two workers; classify finds what that counts."""
    def run(*words, code=0, launch=()):
        r = subprocess.run([str(w) for w in [*launch, BIN / "resnet50", *words]], cwd=tmp_path, capture_output=True, text=True, timeout=200)
        assert r.returncode == code, r.stdout + r.stderr
        return r.stdout if code == 0 else r.stderr
    sizes = ["--depth=10", "--width=16", "--image-size=32", "--class-dim=4", "--batch-size=8", "--threads=1"]
    run("--generate=flowers", "--images=256", *sizes)
    pictures = {f"jpg/image_{i:05}.jpg": (i - 1) % 4 for i in range(1, 257)}     # as gen.c numbers classes
    for name, some in ("train", slice(0, 192)), ("test", slice(192, 224)):
        (tmp_path / f"flowers/{name}.txt").write_text("".join(f"{p} {label}\n" for p, label in list(pictures.items())[some]))
    pictures = dict(list(pictures.items())[192:224])
    for mat in (tmp_path / "flowers").glob("*.mat"):
        mat.unlink()
    trained = run("--data=flowers", *sizes, "--lr=0.02", "--epochs=2", "--checkpoint=c", "--test").splitlines()[-1]
    assert run("--data=flowers", *sizes, "--test", "--load=c").splitlines() == [trained] and trained.startswith("[Test] ")
    two = run("--data=flowers", *sizes, "--test", "--load=c", launch=[BIN / "paddlerun", "launch", "--nproc_per_node=2", "--log_dir="])
    assert re.search(r"acc1: \S+", two)[0] == re.search(r"acc1: \S+", trained)[0], two
    said = [json.loads(line) for line in run("classify", "--load=c", "--json", *sizes, *(f"flowers/{p}" for p in pictures)).splitlines()]
    assert [s["picture"] for s in said] == [f"flowers/{p}" for p in pictures]
    for s in said:
        chances = [c["probability"] for c in s["classes"]]
        assert sorted(c["class"] for c in s["classes"]) == [0, 1, 2, 3] and abs(sum(chances) - 1) < 1e-6 and chances == sorted(chances, reverse=True)
    right = sum(s["classes"][0]["class"] == label for s, label in zip(said, pictures.values(), strict=True))
    assert abs(right / len(said) - float(re.search(r"acc1: ([\d.]+)", trained)[1])) < 1e-5
    first = next(iter(pictures))
    line = run("classify", "--load=c", "--top=2", *sizes, f"flowers/{first}")
    want = ", ".join(f"class {c['class']} {c['probability']:.3f}" for c in said[0]["classes"][:2])
    assert line == f"flowers/{first}: {want}\n"
    (tmp_path / "no.jpg").write_text("none")
    assert "no.jpg" in run("classify", "--load=c", *sizes, "no.jpg", code=2)
    assert "no checkpoint in" in run("classify", "--load=nowhere", *sizes, "no.jpg", code=1)
    assert "--load needs --test" in run("--load=c", *sizes, code=2) and "classify needs --load" in run("classify", "no.jpg", code=2)
    assert "another network" in run("--data=flowers", "--test", "--load=c", *sizes, "--depth=14", code=2)
