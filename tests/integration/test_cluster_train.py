"""cluster_train over real sshds, one in each of a few network namespaces: `paddle.py` of seed documents, without its hangs."""
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import textwrap

import pytest

from rig import BIN, state_of, wait_for

SUBNET = "10.88.77"
OPTIONS = "--num_passes=2 --local=0 --save_dir=./output --use_gpu=0 --trainer_count=1 --dot_period=10".split()
SAYS = 'echo "trainer $PADDLE_INIT_TRAINER_ID of $PADDLE_INIT_NUM_GRADIENT_SERVERS"\n'
TRAINS = SAYS + f'exec {BIN}/wide_and_deep --mode sync --lines 4000 --test-lines 500 --save "$PADDLE_INIT_SAVE_DIR/pass-00000"\n'


def sh(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True)


class Hosts:
    """Network namespaces on a bridge, each with an sshd and a directory of its own."""

    def __init__(self, home, n):
        self.home, self.n, self.sshd = home, n, []
        self.lock = open("/tmp/paddlejob-hosts.lock", "w")      # the names below exist once a machine
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.bridge = "pjct0"
        self.down()
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        sh("ip", "addr", "add", f"{SUBNET}.1/24", "dev", self.bridge)
        sh("ip", "link", "set", self.bridge, "up")
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "key")
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "host")
        shutil.copy(home / "key.pub", home / "authorized")
        os.makedirs("/run/sshd", exist_ok=True)
        (home / "sshd.conf").write_text(textwrap.dedent(f"""\
            HostKey {home}/host
            AuthorizedKeysFile {home}/authorized
            PidFile none
            PasswordAuthentication no
            UsePAM no
            StrictModes no
            PermitRootLogin yes
            MaxStartups 100
            """))
        (home / "root").mkdir()
        for i in range(n):
            self.up(i)

    def ns(self, i):
        return f"pjct-{i}"

    def ip(self, i):
        return f"{SUBNET}.{10 + i}"

    def up(self, i):
        ns = self.ns(i)
        sh("ip", "netns", "add", ns)
        sh("ip", "link", "add", f"pjct{i}h", "type", "veth", "peer", "name", "eth0", "netns", ns)
        sh("ip", "link", "set", f"pjct{i}h", "master", self.bridge, "up")
        sh("ip", "-n", ns, "addr", "add", f"{self.ip(i)}/24", "dev", "eth0")
        for dev in ("lo", "eth0"):
            sh("ip", "-n", ns, "link", "set", dev, "up")
        (self.home / f"root{i}").mkdir()
        # `ip netns exec` has mounts of its own, too.
        script = f"mount --bind {self.home}/root{i} {self.home}/root && exec /usr/sbin/sshd -D -e -p 2200 -f {self.home}/sshd.conf"
        self.sshd.append(subprocess.Popen(["ip", "netns", "exec", ns, "sh", "-c", script], stderr=open(self.home / f"sshd{i}.log", "w")))
        wait_for(lambda: "listening on" in (self.home / f"sshd{i}.log").read_text())

    def processes(self, i):
        """Command lines in the host's namespace, sshd's own aside."""
        pids = sh("ip", "netns", "pids", self.ns(i)).stdout.split()
        found = []
        for p in pids:
            try:
                found.append(pathlib.Path(f"/proc/{p}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except (FileNotFoundError, ProcessLookupError):
                pass
        return [c for c in found if c and not c.startswith(("sshd:", "/usr/sbin/sshd"))]

    def down(self):
        for p in self.sshd:
            p.terminate()
            p.wait()
        for i in range(self.n):
            for pid in subprocess.run(["ip", "netns", "pids", self.ns(i)], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", self.ns(i)], capture_output=True)
            subprocess.run(["ip", "link", "del", f"pjct{i}h"], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)

    def conf(self, **values):
        """The document's conf.py."""
        values = {"PADDLE_PORT": 7164, **values}
        hosts = "".join(f'        "root@{self.ip(i)}:2200",\n' for i in range(self.n))
        more = "".join(f"{k} = {v!r}\n" for k, v in values.items())
        path = self.home / "conf.py"
        path.write_text(f"HOSTS = [\n{hosts}        ]\n\n'''\nworkspace configuration\n'''\n\n#root dir for workspace\n"
                        f"ROOT_DIR = \"{self.home}/root\"\n\n'''\nnetwork configuration\n'''\n#pserver nics\nPADDLE_NIC = \"eth0\"\n"
                        f"PADDLE_PORTS_NUM = 2\nPADDLE_PORTS_NUM_FOR_SPARSE = 2\n{more}"
                        "#environments setting for all processes in cluster job\nLD_LIBRARY_PATH=\"/usr/local/cuda/lib64:/usr/lib64\"\n")
        return path

    def start(self, *words, conf, session=True):
        ssh = f"ssh -i {self.home}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        return subprocess.Popen([BIN / "paddlerun", "cluster_train", f"--conf={conf}", f"--ssh={ssh}", f"--paddle={BIN}/paddlerun", *words],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=session,
                                preexec_fn=None if session else os.setpgrp)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root")
    h = Hosts(tmp_path_factory.mktemp("hosts"), 3)
    yield h
    h.down()


@pytest.fixture
def package(tmp_path):
    """A workspace with a training program."""
    d = tmp_path / "package with blank"
    d.mkdir()

    def make(script):
        (d / "train.sh").write_text("#!/bin/sh\n" + script)
        (d / "train.sh").chmod(0o755)
        return d
    return make


def run(hosts, package, script, *words, **values):
    p = hosts.start("-p", package(script), "--config=train.sh", *OPTIONS, *words, conf=hosts.conf(**values))
    out, _ = p.communicate(timeout=150)
    return p.returncode, out


def finish(p, seconds):
    """All that it printed; what it printed so far is in the message when it does not end."""
    try:
        return p.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired as e:
        p.kill()
        pytest.fail(f"still running after {seconds} s: {(e.output or b'').decode()}")


def nothing_left(hosts):
    wait_for(lambda: not any(hosts.processes(i) for i in range(hosts.n)), 60)


def test_trains_on_all_hosts_and_exits(hosts, package):
    code, out = run(hosts, package, TRAINS)
    assert code == 0, out
    assert re.search(r"servers listen on all 3 hosts", out) and "job completed" in out, out
    nothing_left(hosts)
    job = re.search(r"job of 3 hosts in (\S+)", out)[1]
    assert re.fullmatch(r"JOB\d{14}", pathlib.Path(job).name), job
    for i in range(3):
        here = hosts.home / f"root{i}" / pathlib.Path(job).name
        assert (here / "nodefile").read_text().strip() == str(i)
        assert f"trainer {i} of 3" in (here / "log/train.log").read_text()
        assert "trainer 2 has finished" in (here / "log/paddle_pserver2.INFO").read_text()
        assert f"trainer {i} of 3" in (here / "log" / os.readlink(here / "log/paddle_trainer.INFO").rsplit("/", 1)[1]).read_text()
        assert (here / "log/server.log").exists()
        assert (here / "output/pass-00000").exists() == (i == 0), "the model is node 0's"


def test_a_workspace_that_is_there_is_used_as_it_is(hosts, package):
    for i in range(3):
        d = hosts.home / f"root{i}/ws"
        (d / "log").mkdir(parents=True)
        (d / "log/old").write_text("of the last job")
        (d / "data").write_text("kept")
        (d / "train.py").write_text("import os; print('python', os.environ['PADDLE_INIT_TRAINER_ID'], os.environ['PADDLE_INIT_PSERVERS'])\n")
    p = hosts.start(f"--job_workspace={hosts.home}/root/ws", "--config=./train.py", "--server-grace=100ms", conf=hosts.conf(PADDLE_PORT=7300))
    out, _ = p.communicate(timeout=150)
    assert p.returncode == 0, out
    for i in range(3):
        d = hosts.home / f"root{i}/ws"
        assert not (d / "log/old").exists() and (d / "data").exists()
        assert f"python {i} {','.join(hosts.ip(k) for k in range(3))}" in (d / "log/train.log").read_text()
    nothing_left(hosts)


def test_a_failed_trainer_ends_the_job_with_its_name_and_last_lines(hosts, package):
    code, out = run(hosts, package, SAYS + '[ $PADDLE_INIT_TRAINER_ID = 1 ] && { echo "no data here"; exit 9; }\nsleep 1000\n')
    assert code == 9, out
    assert f"node 1 ({hosts.ip(1)}): the trainer ended with exit code 9" in out and "no data here" in out, out
    nothing_left(hosts)


def test_recommendation_trains_on_all_hosts(hosts, package):
    """The document's own model: its data in the workspace, a list of files, and a pass after another in node 0's output."""
    script = (f'exec {BIN}/recommendation --data data --mode sync --batch-size 64 --period 10 --passes "$PADDLE_INIT_NUM_PASSES" '
              '--save-dir "$PADDLE_INIT_SAVE_DIR"\n')
    subprocess.run([BIN / "recommendation", "prepare", f"--out={package(script)}/data", "--split=3", "--ratings=12000"], check=True,
                   timeout=60)
    code, out = run(hosts, package, script)
    assert code == 0, out
    job = pathlib.Path(re.search(r"job of 3 hosts in (\S+)", out)[1]).name
    here = [hosts.home / f"root{i}" / job for i in range(3)]
    assert sorted(p.name for p in (here[0] / "output").iterdir()) == ["pass-00000", "pass-00001"], out
    assert not (here[1] / "output").exists() and not (here[2] / "output").exists(), out
    texts = [(h / "log/train.log").read_text() for h in here]
    assert all(re.search(r"^Pass 1 Batch 10 Cost [0-9.]+$", t, re.M) and "1 of 3 files" in t for t in texts), texts
    tests = [t for text in texts for t in re.findall(r"^TEST ---> loss: ([0-9.]+)$", text, re.M)]
    assert len(tests) == 1 and float(tests[0]) < 3, texts


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_every_host(hosts, package, signo):
    p = hosts.start("-p", package("sleep 1000\n"), "--config=train.sh", conf=hosts.conf())
    wait_for(lambda: all(any("sleep 1000" in c for c in hosts.processes(i)) for i in range(3)), 60)
    p.send_signal(signo)
    out = finish(p, 60)
    assert p.returncode == 128 + signo, out
    nothing_left(hosts)


def test_ctrl_z_stops_every_host_until_the_job_continues(hosts, package):
    """In a group of this session: to one that no shell can continue SIGTSTP does nothing."""
    p = hosts.start("-p", package("sleep 1000\n"), "--config=train.sh", conf=hosts.conf(), session=False)
    wait_for(lambda: all(any("sleep 1000" in c for c in hosts.processes(i)) for i in range(3)), 60)
    job = [pid for i in range(3) for pid in sh("ip", "netns", "pids", hosts.ns(i)).stdout.split()
           if re.match(rb"sleep\x001000|pserver", pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())]
    assert len(job) >= 6, job
    try:
        p.send_signal(signal.SIGTSTP)
        assert os.WIFSTOPPED(os.waitpid(p.pid, os.WUNTRACED)[1])
        wait_for(lambda: {state_of(pid) for pid in job} == {"T"}, 60)
        p.send_signal(signal.SIGCONT)
        wait_for(lambda: "T" not in {state_of(pid) for pid in job}, 60)
    except AssertionError:
        p.kill()
        raise
    p.send_signal(signal.SIGINT)
    out = finish(p, 60)
    assert p.returncode == 130, out
    nothing_left(hosts)


def test_a_log_that_was_removed_is_printed(hosts, package):
    code, out = run(hosts, package, 'rm -r log; echo the cause >&2; exit 7\n')
    assert code == 7 and "the cause" in out and "log/train.log was removed while it ran" in out, out


def test_a_killed_launcher_leaves_nothing_behind(hosts, package):
    p = hosts.start("-p", package("sleep 1000\n"), "--config=train.sh", conf=hosts.conf())
    wait_for(lambda: all(any("sleep 1000" in c for c in hosts.processes(i)) for i in range(3)), 60)
    p.kill()
    p.communicate(timeout=60)
    nothing_left(hosts)


def test_processes_of_others_are_not_stopped(hosts, package):
    other = subprocess.Popen(["ip", "netns", "exec", hosts.ns(0), "bash", "-c", "exec -a paddle_process_by_paddle sleep 600"])
    try:
        code, out = run(hosts, package, "exit 3\n")
        assert code == 3, out
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_taken_port_is_named(hosts, package):
    log = hosts.home / "other.log"
    other = subprocess.Popen(["ip", "netns", "exec", hosts.ns(2), BIN / "paddle-pserver", "--port=7165", "--nics=eth0"], stderr=log.open("w"))
    try:
        wait_for(lambda: "Waiting parameterServer[0]" in log.read_text(), why=log.read_text)
        code, out = run(hosts, package, SAYS)
        assert code == 1 and f"node 2 ({hosts.ip(2)}): the server ended" in out and "7165" in out, out
    finally:
        other.kill()
        other.wait()
    nothing_left(hosts)


def test_an_unreachable_host_is_named(hosts, package, tmp_path):
    conf = tmp_path / "hosts.yaml"
    conf.write_text(f"HOSTS: [root@{hosts.ip(0)}:2200, root@{hosts.ip(1)}:9]\nROOT_DIR: {tmp_path}/root\n")
    p = hosts.start("-p", package(SAYS), "--config=train.sh", conf=conf)
    out, _ = p.communicate(timeout=150)
    assert p.returncode == 1 and f"node 1 ({hosts.ip(1)}): the package was not copied" in out and "refused" in out, out
    nothing_left(hosts)


def test_a_package_that_cannot_be_read_whole_is_not_started(hosts, package, tmp_path, monkeypatch):
    """tar leaves out what it cannot read, and says so with its exit code alone."""
    (tmp_path / "bin").mkdir()
    tar = tmp_path / "bin/tar"
    tar.write_text(f"#!/bin/sh\n{shutil.which('tar')} \"$@\"\nsleep 0.2\nexit 2\n")
    tar.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    code, out = run(hosts, package, SAYS)
    assert code == 1 and "the package could not be read whole" in out and "trainer has finished" not in out, out
    nothing_left(hosts)


@pytest.mark.parametrize("words, text", [
    (["--config=x"], "--job_workspace or --job_dispatch_package should be set"),
    (["-j", "/a", "-p", "/tmp", "--config=x"], "expected one of them"),
    (["-j", "a"], "expected an absolute path"),
    (["-p", "/nowhere"], "expected a directory"),
    (["-j", "/a", "word"], "expected --flag=value"),
])
def test_wrong_arguments_exit_with_2(hosts, words, text):
    p = hosts.start(*words, conf=hosts.conf())
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 2 and text in out and out.count("\n") == 1, out
