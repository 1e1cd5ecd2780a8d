"""paddlerun launch beside Paddle's own launcher, on this machine in the same run.

Paddle's is run when PADDLE_PYTHON names a Python that has it (pip install paddlepaddle==3.3.1); else its column says why
there is none."""
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

from cluster import BIN, free_port
from report import table

FLOOD = 1 << 30

# What the children write, with the monotonic clock beside it: the same clock as ours.
CHILD = """import os, signal, sys, time
say = lambda *w: print(*w, "%.6f" % time.monotonic(), flush=True)
signal.signal(signal.SIGTERM, lambda *_: (say("told"), sys.exit(143)))
say("first", os.getpid())
if sys.argv[1:] == ["fail"] and os.environ["PADDLE_TRAINER_ID"] == "1":
    time.sleep(2)
    say("fails")
    os._exit(3)
time.sleep(1000 if sys.argv[1:] != ["done"] else 0)
"""
# The first line of a shell comes at once: what is measured is the launcher, not Python's start.
QUICK = "#!/bin/sh\necho first\nexec sleep ${1:-1000}\n"


class Launcher:
    def __init__(self, name, command):
        self.name, self.command = name, command

    def start(self, folder, *words, host=None):
        env = {**os.environ, **({"POD_IP": host} if host else {})}
        return subprocess.Popen([*self.command, "--log_dir", folder, *words], env=env, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)


def line(folder, pattern, seconds=30):
    """Waits for a line in one of the logs: (its match, when it was seen)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for f in pathlib.Path(folder).glob("workerlog.*"):
            m = re.search(pattern, f.read_text(), re.M)
            if m:
                return m, time.monotonic()
        time.sleep(0.0005)
    raise AssertionError(f"no line {pattern!r} in {folder}")


def told(folder):
    return [float(t) for f in pathlib.Path(folder).glob("workerlog.*") for t in re.findall(r"^told (\S+)$", f.read_text(), re.M)]


def rss(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def once(launcher, folder):
    """One run of every scenario: seconds, MiB, and the exit code after a failure."""
    out = {}
    quick, child = folder / "quick.sh", folder / "child.py"
    quick.write_text(QUICK)
    quick.chmod(0o755)
    child.write_text(CHILD)

    begin = time.monotonic()
    p = launcher.start(folder / "a", quick)
    out["first"] = line(folder / "a", "^first")[1] - begin
    out["rss"] = rss(p.pid)
    begin = time.monotonic()
    p.send_signal(signal.SIGTERM)
    p.wait(60)
    out["stop"] = time.monotonic() - begin

    p = launcher.start(folder / "b", "--nproc_per_node", "2", child, "fail")
    failed = float(line(folder / "b", r"^fails (\S+)$")[0].group(1))
    out["code"] = p.wait(60) % 256
    out["gone"] = time.monotonic() - failed
    out["told"] = min(told(folder / "b"), default=float("nan")) - failed

    master = f"127.0.0.1:{free_port()}"
    p = launcher.start(folder / "c0", "--nnodes", "2", "--master", master, "--rank", "0", quick, "0", host="127.0.0.1")
    time.sleep(0.5)
    begin = time.monotonic()
    q = launcher.start(folder / "c1", "--nnodes", "2", "--master", master, "--rank", "1", quick, "0", host="127.0.0.2")
    out["meet"] = max(line(folder / "c0", "^first")[1], line(folder / "c1", "^first")[1]) - begin
    p.wait(60), q.wait(60)
    return out


def flood(folder):
    """1 GiB from the child, through the launcher's echo, to a reader that counts."""
    script = folder / "flood.sh"
    script.write_text(f"#!/bin/sh\nexec head -c {FLOOD} /dev/zero\n")
    script.chmod(0o755)
    begin = time.monotonic()
    p = subprocess.Popen([BIN / "paddlerun", "launch", "--log_dir", folder / "f", script], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    n, peak = 0, 0
    while data := os.read(p.stdout.fileno(), 1 << 20):
        if n >> 26 != (n + len(data)) >> 26:
            peak = rss(p.pid)
        n += len(data)
    assert p.wait(60) == 0 and n == FLOOD, f"{n} of {FLOOD} bytes"
    return {"seconds": time.monotonic() - begin, "rss": peak}


def crowd(nodes):
    """So many nodes and their master in one process, on a loopback of its own where that is allowed: then its bytes are theirs."""
    args = [str(BIN / "meet"), "--simulate", str(nodes), "--port", str(free_port())]
    alone = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if os.geteuid() == 0 else []
    out = json.loads(subprocess.run([*alone, *args], check=True, capture_output=True, timeout=120).stdout)
    return out | {"alone": bool(alone)}


def paddle():
    python = os.environ.get("PADDLE_PYTHON")
    if not python:
        return None, "PADDLE_PYTHON is not set: it names a Python that has paddlepaddle"
    r = subprocess.run([python, "-c", "from paddle.version import full_version as v; print(v)"], capture_output=True,
                       text=True)
    if r.returncode:
        return None, f"{python} has no paddlepaddle: {r.stderr.strip().splitlines()[-1]}"
    return Launcher(f"Paddle {r.stdout.strip().splitlines()[-1]}", [python, "-m", "paddle.distributed.launch"]), None


def run(_only, runs):
    other, why = paddle()
    launchers = [Launcher("paddlerun", [BIN / "paddlerun", "launch"])] + ([other] if other else [])
    result = {"runs": {}}
    for launcher in launchers:
        result["runs"][launcher.name] = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                result["runs"][launcher.name].append(once(launcher, pathlib.Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        result["flood"] = flood(pathlib.Path(folder))
    result["crowd"] = min((crowd(1000) for _ in range(runs)), key=lambda c: c["seconds"])
    ms = lambda seconds: f"{seconds * 1000:.1f}"
    rows = [("exec -> child's first line, ms", "first", ms), ("resident memory, MiB", "rss", lambda x: f"{x:.1f}"),
            ("SIGTERM -> launcher gone, ms", "stop", ms), ("a child fails -> the other is told, ms", "told", ms),
            ("a child fails -> launcher gone, ms", "gone", ms), ("... its exit code (the child's: 3)", "code", str),
            ("2 nodes: the later one starts -> both run, ms", "meet", ms)]
    names = list(result["runs"])
    table(f"launch: median (best) of {runs}", ["", *names],
          [[text, *(f"{show(statistics.median(v))} ({show(min(v))})" if key != "code" else show(v[-1])
                    for v in ([r[key] for r in result["runs"][n]] for n in names))] for text, key, show in rows])
    f = result["flood"]
    print(f"  1 GiB of a child's output, shown without loss: {f['seconds']:.2f} s, launcher at {f['rss']:.1f} MiB")
    c = result["crowd"]
    print(f"  1,000 nodes and their master in one process meet: best {c['seconds']:.2f} s" +
          (f", {c['bytes_a_node'] / 1024:.1f} KiB a node" if c["alone"] else ""))
    if why:
        print(f"  skipped beside it: Paddle's launcher: {why}")
        result["skipped"] = why
    return result
