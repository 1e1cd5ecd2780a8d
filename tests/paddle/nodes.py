"""Launchers, ours and Paddle's own, as the nodes of a job on this machine; each has an address and a log folder of its own."""
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PADDLE_BIN", ROOT / "build/bin"))
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
# No test is about time. Every process imports Paddle first: a second alone, and a minute on a machine that does much else.
SECONDS = 300
TAIL = 25


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def wheels():
    """Version -> interpreter, for each of PADDLE_PYTHON's, a list as PATH is one."""
    ask = "import importlib.metadata as m; print(m.version('paddlepaddle'))"
    found = {}
    for python in filter(None, os.environ.get("PADDLE_PYTHON", "").split(":")):
        r = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, f"PADDLE_PYTHON: {python} has no paddlepaddle: {r.stderr.strip().splitlines()[-1]}"
        found[r.stdout.strip()] = python
    return found


def text(path):
    return path.read_text(errors="replace") if path.exists() else ""


class Node:
    def __init__(self, command, env, log_dir):
        self.log_dir, self.out = pathlib.Path(log_dir), pathlib.Path(f"{log_dir}.out")
        with self.out.open("wb") as f:
            self.p = subprocess.Popen([str(c) for c in command], env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=f,
                                      stderr=subprocess.STDOUT)

    def log(self, name):
        return text(self.log_dir / name)

    def said(self):
        return text(self.out)

    def end(self):
        """Terminated, so that a launcher takes its children along; killed where that does not help."""
        if self.p.poll() is None:
            self.p.terminate()
            try:
                self.p.wait(40)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()


class Nodes:
    """What one test starts, in the folder that it runs in."""

    def __init__(self, all_wheels):
        self.wheels, self.list = all_wheels, []

    def _start(self, command, words, ip, env):
        log_dir = f"n{len(self.list)}"
        self.list.append(Node([*command, "--log_dir", log_dir, *words], {**({"POD_IP": ip} if ip else {}), **env}, log_dir))
        return self.list[-1]

    def python(self, version):
        assert version in self.wheels, f"PADDLE_PYTHON names no Python with paddlepaddle {version}, but {self.wheels or 'none'}"
        return self.wheels[version]

    def ours(self, version, *words, ip=None, env={}, command=(BIN / "paddlerun", "launch")):
        return self._start(command, words, ip, {"PADDLERUN_PYTHON": self.python(version), **env})

    def paddles(self, version, *words, ip=None, env={}):
        return self._start([self.python(version), "-m", "paddle.distributed.launch"], words, ip, env)

    def program(self, command, env):
        """Another program than a launcher; what it says is in said()."""
        self.list.append(Node(command, env, f"n{len(self.list)}"))
        return self.list[-1]

    def story(self):
        files = [f for n in self.list for f in [n.out, *sorted(n.log_dir.glob("*erlog.*"))] if f.exists()]
        return "\n".join(f"---- {f}, its end\n" + "\n".join(text(f).splitlines()[-TAIL:]) for f in files)

    def wait(self, what, why, seconds=SECONDS):
        """The first true value of what(), while no launcher ends in error."""
        end = time.monotonic() + seconds
        while not (value := what()):
            bad = [f"{n.log_dir}: {n.p.returncode}" for n in self.list if n.p.poll()]
            assert not bad, f"{why}: launchers ended, {', '.join(bad)}\n{self.story()}"
            assert time.monotonic() < end, f"{why}: not within {seconds} s\n{self.story()}"
            time.sleep(0.05)
        return value

    def finish(self, codes=None, nodes=None, seconds=SECONDS):
        """Waits for the end of all launchers, with these exit codes, or sets of what each may be; all 0 when there are none."""
        nodes = nodes or self.list
        end = time.monotonic() + seconds
        for n in nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                n.p.wait(max(0, end - time.monotonic()))
        got, want = [n.p.poll() for n in nodes], codes or [0] * len(nodes)
        fits = len(got) == len(want) and all(g in w if isinstance(w, set) else g == w for g, w in zip(got, want))
        assert fits, f"exit codes are {got}, expected {want} within {seconds} s (None: still running)\n{self.story()}"

    def lines(self, pattern):
        """All lines of all children's logs that match, sorted; the groups, where there are some."""
        return sorted(m for n in self.list for f in n.log_dir.glob("workerlog.*") for m in re.findall(pattern, text(f), re.M))

    def expect(self, pattern, want):
        got = self.lines(pattern)
        assert got == want, f"{pattern!r} has {got}, expected {want}\n{self.story()}"
