"""Runs a program until a deadline; one that is still there then says where it hangs, and goes with all that it started."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

MARK = "TESTS_RUN"          # in the environment of all that a program starts, whatever session that is in
GDB_SECONDS, DEBUG_SECONDS = 30, 90     # one, and all of them
BUSY = 4                    # ready threads a processor: what the tests themselves make of a machine
count, lock = 0, threading.Lock()


def new_mark():
    """Within our own, where another run began us: that one knows all that we start."""
    global count
    with lock:
        count += 1
        return f"{os.environ.get(MARK, '')}/{os.getpid()}.{count}"


def family(mark):
    """Process ids of all that has this mark, and of their children, which may have dropped it; oldest first."""
    wanted, found, children = re.compile(rb"(^|\0)%s=%s[/\0]" % (MARK.encode(), mark.encode())), set(), {}
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((p / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(p.name))
            if wanted.search((p / "environ").read_bytes()):
                found.add(int(p.name))
        except OSError:
            pass            # it ended, or is not ours
    more = list(found)
    while more:
        more = [c for pid in more for c in children.get(pid, []) if c not in found]
        found.update(more)
    return sorted(found)


def kernel_says(pid):
    """Where the kernel has each thread; all that there is without a debugger."""
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        def read(name):
            try:
                return (task / name).read_text().strip()
            except OSError:
                return "?"
        state = re.findall(r"^State:\s*(.*)", read("status"), re.M)[:1]
        lines.append(f"thread {task.name} {read('comm')}: {' '.join(state)}, in {read('wchan')}, system call {read('syscall')}")
        lines += [f"    {frame}" for frame in read("stack").splitlines() if frame != "?"]
    return "\n".join(lines)


def debugger_says(pid):
    """Stacks by gdb or elfutils; empty where neither is, or may look."""
    for cmd in (["gdb", "-q", "-nx", "-batch", "-p", str(pid), "-ex", "set print frame-arguments scalars", "-ex", "thread apply all bt 24"],
                ["eu-stack", "-n", "24", "-p", str(pid)]):
        if shutil.which(cmd[0]):
            try:
                out = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     timeout=GDB_SECONDS, errors="replace").stdout
            except subprocess.TimeoutExpired:
                continue
            frames = [line for line in out.splitlines() if re.match(r"Thread |#\d|TID ", line)]
            if frames:
                return "\n".join(frames)
    return ""


def where(pids):
    """A block for each process: what it is, and where its threads are."""
    blocks, until = [], time.monotonic() + DEBUG_SECONDS
    for pid in pids[:20]:
        try:
            cmd = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if cmd:
            blocks.append(f"still there: process {pid}, {cmd[:200]}\n{(time.monotonic() < until and debugger_says(pid)) or kernel_says(pid)}")
    return "\n".join(blocks)


def kill(mark):
    for pid in family(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def end(p, mark):
    """Ends the process and all that it started; where they were, as text."""
    text = where(family(mark))
    kill(mark)
    p.kill()
    p.wait()
    return text


def share():
    """How much of what the tests usually have of this machine they have now: other work may be on it."""
    return min(1, BUSY * os.cpu_count() / max(os.getloadavg()[0], 0.1))


class Patience:
    """Seconds of which each counts as much as the share of the machine is: who is starved does not hang."""

    def __init__(self, seconds):
        self.left, self.last = seconds, time.monotonic()

    def over(self):
        now = time.monotonic()
        self.left -= (now - self.last) * share()
        self.last = now
        return self.left <= 0


def wait_for(thread, seconds):
    patience = Patience(seconds)
    while thread.is_alive() and not patience.over():
        thread.join(max(0.2, min(5, patience.left)))


def ended(p):
    """Waits for it: (exit code, seconds of processors), with those of all that it waited for."""
    try:
        _, status, used = os.wait4(p.pid, 0)
    except ChildProcessError:       # `end` was first
        return p.wait(), 0.0
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, used.ru_utime + used.ru_stime


def timed(cmd, seconds, env=None):
    """(exit code, output, seconds it took, seconds of processors); the code is 124 when it ran longer than it may, with its
    stacks at the end of the output.  The output goes to a file: what a program left behind may hold a pipe open for ever."""
    mark, start, usage = new_mark(), time.monotonic(), []
    with tempfile.TemporaryFile("a+b") as file:
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                             env={**os.environ, **(env or {}), MARK: mark})
        waiter = threading.Thread(target=lambda: usage.append(ended(p)), daemon=True)
        waiter.start()
        wait_for(waiter, seconds)
        stacks = ""
        if late := waiter.is_alive():
            stacks = f"\n{where(family(mark))}\n"
            kill(mark)
            waiter.join()
        code, cpu = usage[0]
        file.seek(0)
        return 124 if late else code, file.read().decode(errors="replace") + stacks, time.monotonic() - start, cpu


def run(cmd, seconds, env=None):
    """(exit code, output)"""
    return timed(cmd, seconds, env)[:2]


def interrupt(p, mark):
    """Ends a pytest whose time is over: its processes say where they are, and it has a while for its report."""
    for pid in family(mark):
        try:
            cmd = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"pytest" in cmd or b"sys.stdin.readline" in cmd:        # a worker of xdist is the latter
                os.kill(pid, signal.SIGUSR2)                            # tests/deadline.py
        except OSError:
            pass
    p.send_signal(signal.SIGINT)
    try:
        p.wait(30)
    except subprocess.TimeoutExpired:
        pass
    print(end(p, mark), flush=True)
    return 124
