"""paddlerun launch beside Paddle's own launcher, on this machine in the same run.

Paddle's are those of the Pythons that PADDLE_PYTHON names, joined by ":" (build/paddle-* of `make paddle-test` without it); where
there is none the table says so."""
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

from cluster import BIN, ROOT, free_port
from report import table

FLOOD = 1 << 30
CROWD = 1000
NEVER = 10          # seconds after which something is taken not to come
CROWD_SECONDS = 60  # the same, for a thousand nodes that meet

# What children write, with the monotonic clock beside it: the same clock as ours.
CHILD = """import os, signal, sys, time
def told(*_):
    print("told %.6f" % time.monotonic(), flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, told)
print("first", os.getpid(), flush=True)
if os.environ["PADDLE_TRAINER_ID"] == "1" and sys.argv[1:] == ["fail"]:
    time.sleep(2)
    print("fails %.6f" % time.monotonic(), flush=True)
    os._exit(3)
time.sleep(1000)
"""
# The first line of a shell comes at once: what is measured is the launcher, not Python's start.
QUICK = "#!/bin/sh\necho first $$\nexec sleep ${1:-1000}\n"
# The service that Paddle's launcher runs on its first node.
SERVICE = """import sys, time
from paddle.distributed.launch.utils.kv_server import KVServer
KVServer(int(sys.argv[1])).start()
time.sleep(1000)
"""


class Launcher:
    def __init__(self, name, command, python=None):
        self.name, self.command, self.python, self.started = name, command, python, []

    def start(self, folder, *words, host=None):
        env = {**os.environ, **({"POD_IP": host} if host else {})}
        folder.mkdir(exist_ok=True)
        with open(folder / "launcher.err", "w") as err:
            self.started.append(subprocess.Popen([*self.command, "--log_dir", folder, *words], env=env,
                                                 stdout=subprocess.DEVNULL, stderr=err))
        return self.started[-1]

    def two(self, folder, *words, apart=0):
        """Two nodes; the later one starts so many seconds after the other: (both, when it did)."""
        master = f"127.0.0.1:{free_port()}"
        nodes = []
        for i in range(2):
            time.sleep(apart * i)
            begin = time.monotonic()
            nodes.append(self.start(folder / f"n{i}", "--nnodes", "2", "--master", master, "--rank", str(i), *words,
                                    host=f"127.0.0.{i + 1}"))
        return nodes, begin


def found(folder, pattern):
    return [m for f in pathlib.Path(folder).glob("workerlog.*") for m in re.findall(pattern, f.read_text(), re.M)]


def wait(folder, pattern, seconds=60):
    """Waits for a line in one of the logs: (its match, when it was seen)."""
    end = time.monotonic() + seconds
    while not (hits := found(folder, pattern)):
        assert time.monotonic() < end, f"no line {pattern!r} in {folder}"
        time.sleep(0.0005)
    return hits[0], time.monotonic()


def first(folder):
    return wait(folder, r"^first (\d+)$")


def since(folder, begin):
    """Seconds until the first of a folder's children got SIGTERM; NEVER when none did."""
    with contextlib.suppress(AssertionError):
        wait(folder, r"^told (\S+)$", NEVER)
    return min((float(t) - begin for t in found(folder, r"^told (\S+)$")), default=NEVER)


def rss(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def running(folder):
    """The children of all launchers below a folder that have not ended (a zombie has)."""
    pids = [int(p) for f in folder.rglob("workerlog.*") for p in re.findall(r"^first (\d+)$", f.read_text(), re.M)]
    stat = lambda p: pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return [p for p in pids if pathlib.Path(f"/proc/{p}").exists() and stat(p) != "Z"]


def scripts(folder):
    quick, child = folder / "quick.sh", folder / "child.py"
    quick.write_text(QUICK)
    quick.chmod(0o755)
    child.write_text(CHILD)
    return quick, child


# ---- scenarios: each takes a launcher and an empty folder, and gives figures by name ------------


def one_node(launcher, folder):
    quick, _ = scripts(folder)
    begin = time.monotonic()
    p = launcher.start(folder / "n0", "--nproc_per_node", "2", quick)
    out = {"first": first(folder / "n0")[1] - begin}
    while len(running(folder)) < 2:
        time.sleep(0.001)
    out["rss"] = rss(p.pid)
    begin = time.monotonic()
    p.send_signal(signal.SIGTERM)
    p.wait(60)
    return {**out, "stop": time.monotonic() - begin, "left": len(running(folder))}


def child_fails(launcher, folder):
    _, child = scripts(folder)
    p = launcher.start(folder / "n0", "--nproc_per_node", "2", child, "fail")
    failed = float(wait(folder / "n0", r"^fails (\S+)$")[0])
    code = p.wait(60) % 256
    return {"gone": time.monotonic() - failed, "code": code, "told": since(folder / "n0", failed)}


def meet(launcher, folder):
    quick, _ = scripts(folder)
    nodes, begin = launcher.two(folder, quick, "0", apart=0.5)
    out = {"meet": max(first(folder / f"n{i}")[1] for i in range(2)) - begin}
    for p in nodes:
        p.wait(60)
    return out


def node_fails(launcher, folder):
    _, child = scripts(folder)
    launcher.two(folder, child, "fail")
    return {"node": since(folder / "n0", float(wait(folder / "n1", r"^fails (\S+)$")[0]))}


def node_dies(launcher, folder):
    """As a machine does: launcher and children at once."""
    _, child = scripts(folder)
    nodes, _ = launcher.two(folder, child)
    first(folder / "n0")
    pid = int(first(folder / "n1")[0])
    begin = time.monotonic()
    nodes[1].kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return {"death": since(folder / "n0", begin)}


def node_stands_still(launcher, folder):
    """As a machine without network or power: what the other node's launcher says, long before it acts."""
    _, child = scripts(folder)
    nodes, _ = launcher.two(folder, child)
    first(folder / "n0")
    pids = [nodes[1].pid, int(first(folder / "n1")[0][0])]
    begin = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    said, named = folder / "n0/launcher.err", NEVER
    while named == NEVER and time.monotonic() - begin < NEVER:
        named = time.monotonic() - begin if "not heard of" in said.read_text() else NEVER
        time.sleep(0.0005)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return {"mute": named}


SCENARIOS = [one_node, child_fails, meet, node_fails, node_dies, node_stands_still]


def once(launcher):
    out = {}
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            try:
                out |= scenario(launcher, folder)
            except AssertionError as e:
                print(f"  {launcher.name}, {scenario.__name__}: {e}", flush=True)
            finally:
                while launcher.started:
                    p = launcher.started.pop()
                    p.kill()
                    p.wait()
                for pid in running(folder):
                    os.kill(pid, signal.SIGKILL)
    return out


# ---- a thousand nodes ---------------------------------------------------------------------------


def crowd(nodes, service=None):
    """So many nodes of ours and their master, on a loopback of its own where that is allowed: then its bytes are theirs.  The
    master is one of them, or Paddle's service, which a Python is named for."""
    port = str(free_port())
    meet = [str(BIN / "meet"), "--simulate", str(nodes), "--port", port]
    command = 'ip link set lo up; shift; exec "$@"'
    if service:
        # One shell for both, so that they share the loopback and end together.
        command = 'ip link set lo up; "$1" -c "$SERVICE" "$PORT" & trap "kill -9 $!" EXIT; shift; ' \
                  'until (exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null; do sleep 0.1; done; "$@"'
    alone = ["unshare", "-n"] if os.geteuid() == 0 else []
    p = subprocess.Popen([*alone, "bash", "-c", command, "bash", service or "-", *meet], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env={**os.environ, "SERVICE": SERVICE, "PORT": port}, start_new_session=True)
    try:
        out = json.loads(re.search(rb"^{.*}$", p.communicate(timeout=CROWD_SECONDS)[0], re.M)[0])
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        out = {"nodes": nodes, "seconds": CROWD_SECONDS}
    return out | {"alone": bool(alone)}


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


def paddles():
    """Paddle's launchers, and why there is none."""
    named = os.environ.get("PADDLE_PYTHON")
    pythons = named.split(":") if named else [str(p) for p in sorted((ROOT / "build").glob("paddle-*/bin/python"))]
    out = []
    for python in pythons:
        ask = "import importlib.metadata as m; print(m.version('paddlepaddle'))"
        r = subprocess.run([python, "-c", ask], capture_output=True, text=True)
        if r.returncode:
            return [], f"{python} has no paddlepaddle: {r.stderr.strip().splitlines()[-1]}"
        out.append(Launcher(f"Paddle {r.stdout.strip()}", [python, "-m", "paddle.distributed.launch"], python))
    return out, None if out else "no Python that has it: `make paddle-test` makes two, PADDLE_PYTHON names others"


def ms(seconds):
    return f"{seconds * 1000:.1f}"


def stopped_ms(seconds):
    return ms(seconds) if seconds < NEVER else "never"


def mib(x):
    return f"{x:.1f}"


# What is shown, the bar of it, its figure, and how it is written.
ROWS = [
    ("exec -> child's first line, ms", "10", "first", ms),
    ("2 nodes: the later one starts -> both run, ms", "50", "meet", ms),
    ("launcher's resident memory, MiB", "6", "rss", mib),
    ("a child fails -> the other is told, ms", "100", "told", stopped_ms),
    ("a child fails -> launcher gone, ms", "100", "gone", ms),
    ("... its exit code (the child's: 3)", "3", "code", str),
    ("a node's child fails -> the other node is told, ms", "1000", "node", stopped_ms),
    ("a node dies -> the other node is told, ms", "1000", "death", stopped_ms),
    ("a node stands still -> the other's log names it, ms", "1000", "mute", stopped_ms),
    ("SIGTERM -> all gone, ms", "50", "stop", ms),
    ("... children that are left", "0", "left", str),
]


def run(_only, runs):
    others, why = paddles()
    # The static one is that of the launcher's image and of the wheel.
    launchers = [*(Launcher(name, [BIN / name, "launch"]) for name in ("paddlerun", "paddlerun-static")), *others]
    names = [l.name for l in launchers]
    result = {"runs": {n: [] for n in names}, "crowd": {}}
    for _ in range(runs):               # in turn, so that all have the same neighbours
        for launcher in launchers:
            result["runs"][launcher.name].append(once(launcher))
    with tempfile.TemporaryDirectory() as folder:
        result["flood"] = flood(pathlib.Path(folder))
    result["crowd"][launchers[0].name] = min((crowd(CROWD) for _ in range(runs)), key=lambda c: c["seconds"])
    for launcher in others[-1:]:        # the service is the same in all
        result["crowd"][launcher.name] = crowd(CROWD, launcher.python)
    small = crowd(CROWD // 4)

    def cell(name, key, show):
        values = [r[key] for r in result["runs"][name] if key in r]
        if not values:
            return "-"
        return f"{show(statistics.median(values))} ({show(min(values))})" if show is not str else " ".join(map(show, values))

    rows = [[text, bar, *(cell(n, key, show) for n in names)] for text, bar, key, show in ROWS]
    met = lambda c: "-" if not c else f"{c['seconds']:.2f}" if c["seconds"] < CROWD_SECONDS else f"not in {CROWD_SECONDS}"
    size = lambda c: f"{c['bytes_a_node'] / 1024:.1f}" if c and c["alone"] and "bytes_a_node" in c else "-"
    rows.append([f"{CROWD} of our nodes meet by the launcher's service, s", "1", *(met(result["crowd"].get(n)) for n in names)])
    rows.append(["... bytes a node, KiB", "", *(size(result["crowd"].get(n)) for n in names)])
    table(f"launch: median (best) of {runs}; the thousand nodes: once with Paddle's service", ["", "bar", *names], rows)
    if small["alone"]:
        print(f"  {CROWD // 4} nodes meet in {small['seconds']:.2f} s, {size(small)} KiB a node: linear in nodes, for each")
    f = result["flood"]
    print(f"  1 GiB of a child's output, shown without loss: {f['seconds']:.2f} s, launcher at {f['rss']:.1f} MiB")
    if why:
        print(f"  skipped beside it: Paddle's launcher: {why}")
        result["skipped"] = why
    return result
