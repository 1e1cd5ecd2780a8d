"""tests/run itself: what it says of programs that fail, hang, or fail now and then."""
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import types

import pytest

import programs
import rig
import supervise
import tally
from deadline import Deadline
from install import ROOT


def of_run(tmp_path, text, *args, **env):
    """What tests/run says of a program with this text."""
    program = tmp_path / "some_test"
    program.write_text(f"#!/bin/sh\n{text}")
    program.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k != "TESTS_TIMES"} | env
    p = subprocess.run([ROOT / "tests/run", *args, program], capture_output=True, text=True, timeout=120, env=env)
    return p.returncode, p.stdout


def test_a_failure_prints_its_seed_its_log_and_what_repeats_it(tmp_path):
    code, out = of_run(tmp_path, 'echo 1..1; echo "seed 77 (again: TEST_SEED=77)"; echo "not ok 1 - it_adds"; echo "# 2 is not 3"; exit 1', "unit")
    assert code == 1 and "some_test: it_adds: 2 is not 3\n" in out
    end = out[out.index("failed:\n"):]
    assert "seed 77" in end and re.search(r"again: make \S+some_test && TEST_SEED=77 tests/run unit \S+some_test\n", end)
    assert "    not ok 1 - it_adds" in out and out.endswith("0 passed, 1 failed\n")


def test_a_program_that_is_not_there_is_a_failure_with_its_name(tmp_path):
    p = subprocess.run([ROOT / "tests/run", "unit", tmp_path / "some_test", tmp_path], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and p.stdout.count("no such program") == 4 and p.stdout.endswith("0 passed, 2 failed\n"), p.stdout + p.stderr


def test_findings_of_sanitizers_are_printed_however_far_above(tmp_path):
    code, out = of_run(tmp_path, """echo 1..1; echo 'WARNING: ThreadSanitizer: data race (pid=7)'; echo '  Read of size 1 by thread T2'
for i in $(seq 300); do echo line $i; done; echo ok 1 - it_runs; echo 'SUMMARY: ThreadSanitizer: data race a.c:5 in f'; exit 66""", "unit")
    assert code == 1 and "some_test: ended with 66 | ThreadSanitizer: data race a.c:5 in f\n" in out
    assert "    WARNING: ThreadSanitizer: data race (pid=7)\n      Read of size 1 by thread T2\n    line 1\n" in out
    assert "    line 300\n" in out and "    line 150\n" not in out


def test_a_program_that_hangs_leaves_its_stacks_and_no_process(tmp_path):
    code, out = of_run(tmp_path, "echo 1..1; env -i setsid sleep 3217 &\nsleep 3218", "unit", UNIT_SECONDS="1")
    assert code == 1 and "still running after 1 s" in out
    assert re.search(r"still there: process \d+, sleep 3217\n.*nanosleep", out, re.S)
    assert re.search(r"still there: process \d+, sleep 3218\n.*nanosleep", out, re.S)
    assert subprocess.run(["pgrep", "-f", "^sleep 321[78]$"], capture_output=True).returncode == 1


def test_a_program_that_leaves_one_with_its_output_behind_is_not_waited_for(tmp_path):
    code, out = of_run(tmp_path, "sleep 3219 &\necho 1..1; echo ok 1 - it_ends", "unit")
    subprocess.run(["pkill", "-f", "^sleep 3219$"])
    assert code == 0 and out.endswith("1 passed, 0 failed\n")


def test_hunting_counts_how_often_a_test_fails(tmp_path):
    text = f'echo 1..1; if mkdir {tmp_path}/taken 2>/dev/null; then echo "not ok 1 - first"; exit 1; fi; echo ok 1 - first'
    code, out = of_run(tmp_path, text, "hunt", HUNT_ROUNDS="1")
    assert code == 1 and "some_test: first: 1 of 9 runs; their logs: " in out and out.endswith("0 passed, 1 failed\n")


STANDS_STILL = """exec python3 -c '
import time
before = now = time.monotonic()
end = now + 6
while now - before < 2 and now < end:
    before, now = now, time.monotonic()
print("1..1\\nok 1 - runs" if now - before < 2 else "1..1\\nnot ok 1 - runs")'"""


def test_hunting_may_stop_programs_again_and_again(tmp_path):
    code, out = of_run(tmp_path, STANDS_STILL, "hunt", HUNT_ROUNDS="1", HUNT_STOPS="1")
    assert code == 1 and re.search(r"some_test: runs: [89] of 9 runs; ", out), out     # all, but for the first, which is not stopped


# The making itself is none here, but lasts until another lane makes one, too, or 2 s.
MAKES_VENV = """import importlib.machinery as m, importlib.util as u, os, sys, time
loader = m.SourceFileLoader("run_of_tests", sys.argv[1] + "/run")
run = u.module_from_spec(u.spec_from_loader(loader.name, loader))
sys.path.insert(0, sys.argv[1])
loader.exec_module(run)
run.subprocess.run = lambda *a, **k: os.makedirs(sys.argv[2] + f"/venv/{os.getpid()}")
def install(*a):
    end = time.monotonic() + 2
    while len(os.listdir(sys.argv[2] + "/venv")) < 2 and time.monotonic() < end:
        time.sleep(.01)
    return 0, ""
run.run = install
print(run.venv(sys.argv[2] + "/venv", sys.argv[2] + "/requirements"))"""


def test_lanes_that_want_one_virtual_environment_make_it_once(tmp_path):
    (tmp_path / "requirements").write_text("")
    lanes = [subprocess.Popen([sys.executable, "-c", MAKES_VENV, ROOT / "tests", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for _ in range(3)]
    outs = [p.communicate(timeout=120)[0] for p in lanes]
    assert [out.splitlines()[-1] for out in outs] == [f"{tmp_path}/venv/bin/python"] * 3, outs
    assert sum("making" in out for out in outs) == 1, outs


# pytest is not started: its report has one test, which has failed, and its arguments are printed.
FAILS_PYTEST = """import importlib.machinery as m, importlib.util as u, pathlib, sys
tests, root, *sys.argv[1:] = sys.argv[1:]
loader = m.SourceFileLoader("run_of_tests", tests + "/run")
run = u.module_from_spec(u.spec_from_loader(loader.name, loader))
sys.path.insert(0, tests)
loader.exec_module(run)
class Pytest:
    returncode = 1
    def __init__(self, command, **k):
        # As one write: two kinds of e2e print side by side.
        run.say(" ".join(map(str, ["pytest:", k["env"].get("APISERVER_VERSION"), k["env"].get("PADDLE_BIN"), *(w for w in command if "::" in str(w))])))
        report = next(w for w in command if str(w).startswith("--junitxml=")).partition("=")[2]
        pathlib.Path(report).write_text('<r><testcase classname="tests.paddle.test_servers" name="test_it" time="1"><failure/></testcase></r>')
    def wait(self):
        pass
run.ROOT = pathlib.Path(root)
run.programs = lambda names: True
run.venv = lambda *a: "python"
run.subprocess.Popen = Pytest
run.main()"""


@pytest.mark.parametrize("words", ["integration", "integration bin", "memory", "compat v1.28.15", "e2e", "release", "paddle", "paddle-pods", "python",
                                   "python-pods"])
def test_the_printed_command_repeats_the_failed_test_alone(tmp_path, words):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for folder in "bin", "docs":
        (tmp_path / folder).mkdir()
    (tmp_path / "docs/install.md").write_text("")

    def said(args, env):
        p = subprocess.run([sys.executable, "-c", FAILS_PYTEST, ROOT / "tests", tmp_path, *args], capture_output=True, text=True, timeout=60, env=env)
        assert p.returncode == 1, p.stderr
        return p.stdout

    env = {k: v for k, v in os.environ.items() if k not in ("TESTS_TIMES", "APISERVER_VERSION", "PADDLE_BIN")}
    first = said(words.split(), env)
    version, command = re.search(r"again: (?:APISERVER_VERSION=(\S+) )?tests/run (.*)", first).groups()
    second = said(shlex.split(command), env | ({"APISERVER_VERSION": version} if version else {}))
    where = re.search("^pytest: (\\S+ \\S+)", first, re.M)[1]
    assert re.findall("^pytest: .*", second, re.M) == [f"pytest: {where} tests/paddle/test_servers.py::test_it"], second


def test_minutes_are_printed_by_part(tmp_path):
    _, out = of_run(tmp_path, "echo 1..1; echo ok 1 - fine", "unit")
    assert re.search(r"what took longest, in seconds, and of processors:\n +\d+\.\d .* unit: \S*some_test\n", out)


COMPUTES = "python3 -c 'import time\nwhile time.process_time() < .5: pass'; true"


def test_processors_are_counted_with_those_of_who_is_started():
    p = subprocess.Popen(["sh", "-c", COMPUTES])
    code, cpu = supervise.ended(p)
    assert code == p.returncode == 0 and 0.5 <= cpu < 5
    assert supervise.ended(p) == (0, 0.0)       # somebody was first


def test_the_minutes_of_processors_are_printed_by_target(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TESTS_TIMES", str(tmp_path / "times"))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    tally.took("part", "unit 0", 600, 900, 0)
    tally.took("part", "check 1", 300, 60, 60)
    for name, seconds in (("etcd", 30), ("kubelet", 90), ("etcd", 90)):
        tally.took("apart", name, 0, seconds)
    tally.times()
    said = capsys.readouterr().out
    assert re.search(r"^  unit +0\.0 - 10\.0 +15\.0\n {30,}check +1\.0 -  6\.0 +1\.0\n  processors were used for 16\.0 of 20\.0 minutes\n"
                     r"  of them, by what tests started apart: etcd 2\.0, kubelet 1\.5\n", said, re.M), said


def test_what_a_test_leaves_behind_is_counted_and_its_exit_code_is_the_command_s(tmp_path):
    """A daemon whose parent ends at once, in a session of its own; and one that outlives the command."""
    times, done = tmp_path / "times", tmp_path / "done"
    daemon = f"{COMPUTES}; : >{done}"
    command = f"(setsid sh -c {shlex.quote(daemon)} &); (setsid sleep 60 >{tmp_path}/out 2>&1 & echo $!); (until [ -e {done} ]; do sleep .1; done); sleep .2; exit 3"
    r = subprocess.run([ROOT / "tests/reaper.py", "sh", "-c", command], capture_output=True, text=True,
                       env={**os.environ, "TESTS_TIMES": str(times)})
    os.kill(int(r.stdout), signal.SIGKILL)
    assert r.returncode == 3, r.stderr
    assert re.search(r"^apart\tsh\t0\.0\t0\.0\t(0\.[5-9]|[1-4]\.)", times.read_text(), re.M), times.read_text()


def test_all_tests_of_a_program_run_in_some_part():
    long, short = "build/san/test/runtime/train/ps/client/rejoin_test", "build/test/common/yaml_test"
    n = programs.WAITING[programs.bare_name(long)]
    assert programs.in_order([short, long]) == ([(long, f"{i}/{n}") for i in range(n)], [(short, "")]) and n > 1


def a_program(seconds):
    never = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
    never.start()
    supervise.wait_for(never, seconds)


def a_wait(seconds):
    with pytest.raises(AssertionError, match="not within"):
        rig.wait_for(lambda: False, seconds)


def a_test(seconds):
    """The plugin that gives each test a deadline, around a test that takes for ever."""
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] or 180
    one = types.SimpleNamespace(get_closest_marker=lambda _: None)
    call = Deadline(seconds).pytest_runtest_call(one)
    next(call)
    with pytest.raises(AssertionError, match="took longer"):
        time.sleep(60)
    signal.signal(signal.SIGALRM, before[0])
    signal.setitimer(signal.ITIMER_REAL, before[1], before[1])


@pytest.mark.parametrize("waits", [a_program, a_wait, a_test])
def test_a_busy_machine_extends_the_limits(monkeypatch, waits):
    took = {}
    busy = supervise.BUSY * os.cpu_count()
    for load in (0, busy, 2 * busy):
        monkeypatch.setattr(supervise.os, "getloadavg", lambda: (load, 0, 0))
        start = time.monotonic()
        waits(0.4)
        took[load] = time.monotonic() - start
    assert took[0] >= 0.4 and took[busy] >= 0.4 and took[2 * busy] >= 0.8
