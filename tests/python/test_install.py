"""The wheel where users install it: each Python that it is for, with the oldest NumPy that there is for that one."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from wheel import JOB, ROOT

OLDEST = {"3.9": "1.22.0", "3.10": "1.22.0", "3.11": "1.23.2", "3.12": "1.26.0", "3.13": "2.1.0"}
PROGRAM = """
import numpy as np, paddlert
with paddlert.Server() as s, paddlert.Client(s.job(), [paddlert.Dense("w", 3, "sgd:lr=1"), paddlert.Sparse("e", 2, init="zero")]) as c:
    w = c.init("w", np.ones(3))
    c.push("e", [1, 2], np.ones((2, 2)))
    c.exchange("w", np.ones(3), w)
    c.flush()
    print(c.pull("w"), c.stat("e")["rows"], paddlert.fleet.Role.SERVER, paddlert.__version__ != "0", np.__version__)
"""


def interpreter(version):
    """One that starts: of PATH, or of pyenv."""
    places = [shutil.which(f"python{version}"), *pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    return next((p for p in places if p and subprocess.run([p, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0), None)


FOUND = {v: p for v, p in ((v, interpreter(v)) for v in OLDEST) if p}


def test_there_is_a_python():
    assert FOUND


@pytest.mark.parametrize("version", FOUND)
def test_it_installs_and_trains(version, tmp_path):
    subprocess.run(["make", "-s", "-C", ROOT, "build/lib/libpaddlert.so.1"], check=True, timeout=600)
    out = subprocess.run([ROOT / "python/wheel", "v1.2", tmp_path, ROOT / "build/lib/libpaddlert.so.1"], capture_output=True, text=True,
                         check=True).stdout.split()
    env = {k: v for k, v in os.environ.items() if not k.startswith((*JOB, "PYTHON", "VIRTUAL"))}
    home = tmp_path / "venv"
    subprocess.run([FOUND[version], "-m", "venv", home], check=True, env=env, timeout=120)
    wheel, = (w for w in out if "paddlert" in w)
    subprocess.run([home / "bin/pip", "install", "-q", "--only-binary=:all:", wheel, f"numpy=={OLDEST[version]}"], check=True, env=env, timeout=300)
    r = subprocess.run([home / "bin/python", "-c", PROGRAM], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and re.sub(r"\s+", " ", r.stdout) == f"[0. 0. 0.] 2 2 True {OLDEST[version]} ", r.stdout + r.stderr
