"""The library as docs/library.md has a newcomer use it: installed, found by pkg-config, linked with a program of one file."""
import os
import re
import shutil
import subprocess

import pytest

from rig import ROOT, logistic_loss

PAGE = (ROOT / "docs/library.md").read_text()


def sh(line, cwd, env):
    r = subprocess.run(["sh", "-ec", line], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert r.returncode == 0, f"{line}\n{r.stdout}"
    return r.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Below a directory of its own, from what is built; the environment in which it is found."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run(["make", "-s", "-C", ROOT, "-o", "all", "install", f"DESTDIR={home}"], check=True, capture_output=True, timeout=120)
    lib = home / "usr/local/lib"
    return lib, {"PATH": os.environ["PATH"], "PKG_CONFIG_PATH": str(lib / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(home),
                 "LD_LIBRARY_PATH": str(lib)}


def documented():
    """The program, and the command that compiles it."""
    program = re.search(r"<!-- train.c: begin -->\n```c\n(.*?)```\n<!-- train.c: end -->", PAGE, re.S)[1]
    return program, re.search(r"^gcc -o train train\.c .*?(?= *(#|$))", PAGE, re.M)[0]


STATIC = "$(pkg-config --static --libs paddlert | sed s/-lpaddlert/-l:libpaddlert.a/)"
BUILDS = {
    "as documented": None,
    "strict C": "gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -o train train.c $(pkg-config --cflags --libs paddlert)",
    "C++": "g++ -x c++ -Wall -Wextra -Werror -Wno-missing-field-initializers -o train train.c $(pkg-config --cflags --libs paddlert)",
    "static": "gcc -o train train.c $(pkg-config --cflags paddlert) " + STATIC,
}


@pytest.mark.parametrize("how", BUILDS)
def test_the_documented_program_trains(installed, tmp_path, how):
    lib, env = installed
    program, command = documented()
    (tmp_path / "train.c").write_text(program)
    sh(BUILDS[how] or command, tmp_path, env)
    if how == "static":
        env = {k: v for k, v in env.items() if k != "LD_LIBRARY_PATH"}
    sh(f"{ROOT}/build/bin/logistic-data data", tmp_path, env)
    (tmp_path / "sync.yaml").write_text("a_sync: false\n")        # async, losses depend on when pushes arrive
    env["PADDLE_PS_STRATEGY"] = str(tmp_path / "sync.yaml")

    # The values themselves: a pass of more than half a second prints more lines of losses.
    models = []
    for train in "./train", f"{ROOT}/build/bin/logistic":
        sh(f"{train} data {len(models)}", tmp_path, env)
        models.append([float(v) for v in sh(f"{ROOT}/build/bin/paddlerun ckpt export --table=dense {len(models)}", tmp_path, env).split()])
    assert len(models[0]) == 5 and models[0] == pytest.approx(models[1], abs=1e-6)
    assert logistic_loss(tmp_path / "data", models[0]) < 0.4
    assert "adagrad" in sh(f"{ROOT}/build/bin/paddlerun ckpt show 0", tmp_path, env)


def test_the_program_is_short_and_needs_one_header():
    program, _ = documented()
    lines = [line for line in re.sub(r"/\*.*?\*/", "", program, flags=re.S).splitlines() if line.strip() and line[0] != "#"]
    assert 60 <= len(lines) <= 88           # as the README says
    assert re.findall(r'#include "(.*)"', program) == ["runtime/rt.h"]


def test_a_program_links_the_library_and_nothing_of_its_own(installed, tmp_path):
    assert shutil.which("pkg-config")
    words = sh("pkg-config --libs paddlert", tmp_path, installed[1]).split()
    assert [w for w in words if w.startswith("-l")] == ["-lpaddlert", "-lm"], words


def test_the_library_exports_its_list(installed, tmp_path):
    lib, env = installed
    rows = [line.split()[1:] for line in sh(f"nm -D --defined-only {lib}/libpaddlert.so.1", tmp_path, env).splitlines()]
    names = [name for kind, name in rows if kind != "A"]         # A: the version itself
    assert sorted(names) == [f"{name}@@PADDLERT_1" for name in (ROOT / "runtime/exports").read_text().split()]
    assert {kind for kind, _ in rows} == {"A", "T"}


def test_the_static_library_exports_the_same_list(installed, tmp_path):
    """A program may have an env_get of its own."""
    lib, env = installed
    rows = [line.split()[1:] for line in sh(f"nm -g --defined-only {lib}/libpaddlert.a", tmp_path, env).splitlines() if " " in line]
    assert sorted(name for _, name in rows) == (ROOT / "runtime/exports").read_text().split()
    assert {kind for kind, _ in rows} == {"T"}


def test_every_call_has_its_page(installed):
    lib, _ = installed
    calls = {name for name in (ROOT / "runtime/exports").read_text().split() if name.startswith("rt_")}
    assert {p.stem for p in (lib.parent / "share/man/man3").iterdir()} == calls
    page = (ROOT / "docs/rt.md").read_text()
    assert calls <= set(re.findall(r"^### (\w+)$", page, re.M))
    text = (lib.parent / "share/man/man3/rt_client_open.3").read_text()
    assert "struct rt_client **ret_client" in text and "CO_TIMEOUT names the endpoints" in text
