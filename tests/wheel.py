"""The package paddlert from its wheel, and programs that use it and nothing else of this repository."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "build/lib/libpaddlert.so.1"        # as shipped: Python is no program with sanitizers
JOB = ("PADDLE_", "TRAINING_", "POD_", "FLAGS_", "LD_", "ASAN", "UBSAN")


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The folder with it; what PYTHONPATH says to a program."""
    home = tmp_path_factory.mktemp("wheel")
    subprocess.run(["make", "-s", "-C", ROOT, "build/lib/libpaddlert.so.1"], check=True, timeout=600)
    out = subprocess.run([ROOT / "python/wheel", "v1.2", home, LIBRARY], capture_output=True, text=True, check=True).stdout.split()
    wheel = next(w for w in out if "paddlert" in w)
    assert "paddlert-1.2-py3-none-manylinux_2_34_" in wheel and os.path.getsize(wheel) < 15 << 20
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", home / "site", wheel], check=True,
                   timeout=120)
    return home / "site"


@pytest.fixture
def python(package, tmp_path):
    """Starts a Python with that package alone and a program's text, or the words of a command."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(JOB)}

    def start(text, *words, interpreter=sys.executable, **more):
        command = [interpreter, *(["-c", "import numpy as np, paddlert\n" + text] if text else []), *map(str, words)]
        return subprocess.Popen(command, env={**env, "PYTHONPATH": str(package), **more}, cwd=tmp_path, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    return start


def finish(*programs, seconds=60):
    """What they printed; all must have ended well."""
    try:
        out = [p.communicate(timeout=seconds) for p in programs]
    except subprocess.TimeoutExpired:
        for p in programs:
            p.kill()
        raise AssertionError(f"not ended within {seconds} s: {[p.communicate() for p in programs]}") from None
    finally:
        for p in programs:
            p.kill()
    assert [p.returncode for p in programs] == [0] * len(programs), out
    return [o[0] for o in out]
