"""What every program of the build says to --help, and to a flag that it has not."""
import subprocess

import pytest

from rig import BIN

PROGRAMS = sorted(p.name for p in BIN.iterdir()) if BIN.exists() else []


def run(word, program, tmp_path):
    done = subprocess.run([BIN / program, word], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert not list(tmp_path.iterdir())
    return done


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_is_printed(program, tmp_path):
    done = run("--help", program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and len(done.stdout) > 10


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unknown_flag_is_named_in_one_line(program, tmp_path):
    done = run("--no-such-flag", program, tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert "--no-such-flag" in done.stderr or "usage: " in done.stderr
