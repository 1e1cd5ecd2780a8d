"""The launcher without anything of the system it runs on: its static program, and the wheel that has it."""
import os
import shutil
import subprocess
import sys

import pytest

from rig import ROOT, free_port, wait_for

STATIC = ROOT / "build/bin/paddlerun-static"
LINKED = ROOT / "build/gen/paddlerun-static.d"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A virtual environment with that wheel and nothing else in it, not even pip."""
    home = tmp_path_factory.mktemp("wheel")
    wheel = subprocess.run([ROOT / "python/wheel", "v1.2", home, STATIC, LINKED], capture_output=True, text=True, check=True).stdout.strip()
    assert os.path.getsize(wheel) < 3 << 20
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "venv"], check=True, timeout=60)
    subprocess.run([sys.executable, "-m", "pip", "--python", home / "venv/bin/python", "install", "-q", "--no-index", wheel], check=True,
                   timeout=120)
    return home / "venv/bin"


@pytest.mark.parametrize("words", [["python", "-m", "paddlerun"], ["python", "-m", "paddlerun", "launch"], ["fleetrun"], ["paddlerun", "launch"]],
                         ids=" ".join)
def test_the_wheel_has_the_launcher(bare, tmp_path, words):
    (tmp_path / "who.py").write_text("import os, sys; print('rank', os.environ['PADDLE_TRAINER_ID'], sys.prefix)")
    env = {"PATH": f"{bare}:/usr/bin:/bin", "HOME": str(tmp_path)}
    r = subprocess.run([bare / words[0], *words[1:], "--nproc_per_node=2", "who.py"], env=env, cwd=tmp_path, capture_output=True, text=True,
                       timeout=60)
    said = "".join((tmp_path / f"log/workerlog.{i}").read_text() for i in range(2))
    assert r.returncode == 0 and said.split() == ["rank", "0", str(bare.parent), "rank", "1", str(bare.parent)], r.stderr + said


def test_the_wheel_has_the_licences_of_what_was_linked(bare):
    """The C library's and GnuTLS's among them, and those that their texts refer to."""
    licences, = bare.parent.glob("lib/python3*/site-packages/paddlerun-*.dist-info/licenses")
    assert all((licences / name).stat().st_size > 1000 for name in ("LICENSE", "NOTICE", "libc6-dev/copyright", "libgnutls28-dev/copyright",
                                                                    "nettle-dev/copyright", "common-licenses/LGPL-2.1"))


def test_pip_installs_the_library_from_a_checkout(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    pip = subprocess.run([tmp_path / "venv/bin/pip", "install", "-q", "--no-index", "--no-deps", ROOT / "python"], capture_output=True, text=True,
                         timeout=170)
    assert pip.returncode == 0, pip.stdout + pip.stderr
    package, = (tmp_path / "venv").glob("lib/python3*/site-packages/paddlert")
    assert (package / "lib/libpaddlert.so.1").is_file() and "RT_" in (package / "_abi.py").read_text()


def test_pip_says_that_a_copy_without_the_sources_builds_nothing(tmp_path):
    shutil.copytree(ROOT / "python", tmp_path / "python")
    pip = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "-w", tmp_path, tmp_path / "python"],
                         capture_output=True, text=True, timeout=120)
    assert pip.returncode and f"{tmp_path}/python is not in a checkout of the project" in pip.stdout + pip.stderr


def test_two_nodes_meet_in_roots_that_hold_nothing_else(tmp_path):
    """No C library, no resolver's configuration, no shell."""
    port = free_port()
    nodes = []
    for i in range(2):
        root = tmp_path / str(i)
        for d in ("proc", "dev", "tmp"):
            (root / d).mkdir(parents=True)
        shutil.copy(STATIC, root / "paddlerun")
        words = ["launch", "--nnodes=2", f"--rank={i}", f"--master=127.0.0.1:{port}", "--log_dir=/tmp", "/paddlerun", "info"]
        nodes.append(subprocess.Popen(["/usr/sbin/chroot", root, "/paddlerun", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env={}))
    try:
        said = [n.communicate(timeout=60)[0] for n in nodes]
        assert [n.returncode for n in nodes] == [0, 0], said
        assert [f"worker {i} of 2" in said[i] or f"worker {i} of 2" in (tmp_path / f"{i}/tmp/workerlog.0").read_text() for i in range(2)] == [
            True, True], said
    finally:
        for n in nodes:
            n.kill()


@pytest.mark.parametrize("words", [
    ["launch", "./who.sh"],                                                  # its own host name
    ["launch", "--nnodes=2", "--master=m.example:1", "--join_timeout=1ms", "./who.sh"],
    ["launch", "--servers=m.example:1", "--trainers=127.0.0.1:1", "--dry_run", "./who.sh"],
    ["info", "m.example:1"],
    ["top", "--count=1", "m.example:1"],
], ids=lambda w: " ".join(w[:3]))
def test_no_module_of_the_images_c_library_is_loaded(tmp_path, words):
    """Of another version it would end the program: images name myhostname, mdns4 or sss beside files and dns."""
    module = "__attribute__((constructor)) static void f(void) { __builtin_trap(); }"
    for lib in ("myhostname", "systemd"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", tmp_path / f"libnss_{lib}.so.2", "-"], input=module, text=True, check=True)
    (tmp_path / "nsswitch.conf").write_text("hosts: files myhostname dns\n" + "".join(
        f"{name}: systemd files\n" for name in ("passwd", "group", "shadow", "services", "protocols", "networks")))
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")       # where nobody answers
    (tmp_path / "who.sh").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "who.sh").chmod(0o755)
    prepare = ("ip link set lo up; for f in nsswitch.conf hosts resolv.conf; do mount --bind $f /etc/$f; done; hostname nowhere.example; "
               "exec \"$@\"")
    r = subprocess.run(["unshare", "--net", "--uts", "--mount", "sh", "-ec", prepare, "sh", STATIC, *words], capture_output=True, text=True,
                       timeout=60, cwd=tmp_path, env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path)})
    assert r.returncode in (0, 1, 2) and ("here" in r.stdout or "m.example" in r.stdout + r.stderr), (r.returncode, r.stdout + r.stderr)


@pytest.mark.memory
@pytest.mark.parametrize("words,processes,most", [(["exec", "--"], 1, 3.5), (["launch", "--nproc_per_node=2", "--log_dir="], 2, 4)], ids=["exec", "launch"])
def test_the_static_launcher_is_small(tmp_path, words, processes, most):
    """docs/train.md: 2.7 and 3 MB with its processes running."""
    p = subprocess.Popen([STATIC, *words, "/bin/sleep", "100"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def children():
            return open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()
        wait_for(lambda: len(children()) >= processes and all(os.readlink(f"/proc/{c}/exe").endswith("sleep") for c in children()))
        peak = next(int(line.split()[1]) for line in open(f"/proc/{p.pid}/status") if line.startswith("VmHWM"))
        print(f"{peak} KiB")
        assert peak < most * 1024
    finally:
        p.terminate()
        p.wait(60)
