"""Output that is lost: one line on stderr and an exit code that is not 0, from whatever prints its result."""
import os
import subprocess

import pytest

from rig import BIN, ROOT

PROGRAMS = {
    "operator-render": ["paddle-operator", "render", ROOT / "deploy/examples/wide_and_deep.yaml"],
    "operator-validate": ["paddle-operator", "validate", ROOT / "deploy/examples/wide_and_deep.yaml"],
    "operator-version": ["paddle-operator", "version"],
    "paddlerun-info": ["paddlerun", "info"],
    "paddlerun-help": ["paddlerun", "help"],
    "paddlerun-ckpt": ["paddlerun", "ckpt", "show", "model"],
    "wide_and_deep": ["wide_and_deep", "--local", "--train=", "--lines=500", "--test-lines=100"],
    "wide_and_deep-predict": ["wide_and_deep", "--predict", "--load=model", "--test=data/test"],
    "word2vec": ["word2vec", "--out=w", "--sentences=200", "--min-freq=1"],
    "recommendation": ["recommendation", "--out=r", "--users=50", "--movies=50", "--ratings=500"],
    "resnet50-help": ["resnet50", "--help"],
    "logistic": ["logistic", "csv", "lm"],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("stdout")
    for words in (["wide_and_deep", "--generate=data", "--lines=500", "--test-lines=100"],
                  ["wide_and_deep", "--local", "--train=data"], ["logistic-data", "csv"]):
        subprocess.run([BIN / words[0], *words[1:]], cwd=path, check=True, capture_output=True, timeout=100)
    return path


def full():
    return os.open("/dev/full", os.O_WRONLY)


def unread():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("kind", [full, unread, None], ids=["full", "unread", "closed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_output_that_is_lost_is_a_failure(program, kind, home):
    """What does not ignore SIGPIPE may be ended by it, as any filter; what stops for it says what it was doing, too."""
    name, *flags = PROGRAMS[program]
    out = kind and kind()
    r = subprocess.run([BIN / name, *flags], cwd=home, stdout=out, stderr=subprocess.PIPE, text=True, timeout=100,
                       preexec_fn=None if kind else lambda: os.close(1))
    if out is not None:
        os.close(out)
    if r.returncode == -13:
        assert kind is unread
        return
    said = [line for line in r.stderr.splitlines() if "cannot write to stdout" in line]
    assert r.returncode == 1 and len(said) in (1, 2) and name in said[-1], (r.returncode, r.stderr[-2000:])
