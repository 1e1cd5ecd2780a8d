"""What a shell makes of TAB, and what a reader of manual pages says: both from the installed files."""
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from rig import ROOT

MARK = "@@"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Below it what `make install` leaves."""
    to = tmp_path_factory.mktemp("installed")
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    subprocess.run(["make", "-s", "install", f"DESTDIR={to}", "PREFIX=/usr"], cwd=ROOT, env=env, check=True, timeout=600, capture_output=True)
    return to / "usr"


class Terminal:
    """An interactive shell, asked for what a line becomes."""

    def __init__(self, words, setup, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(words[0], words, {"PATH": "/usr/bin:/bin", "TERM": "dumb", "PS1": "", **env})
        self.said = ""
        self.type(setup + f"\necho {MARK}'ready'\n")
        self.until(MARK + "ready")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.said)):
            assert select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], f"no {pattern} in {self.said!r}"
            self.said += os.read(self.fd, 65536).decode()
        return found

    def complete(self, line):
        """The words of the line after TAB."""
        self.said = ""
        # ^A puts the cursor to the front when TAB is done with the line, which then is printf's words.
        self.type(line + "\t\x01printf '%s|' " + MARK + " \n")
        return self.until(MARK + r"\|(.*)\|")[1].split("|")

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request, installed, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    (home / "job.yaml").touch()
    if request.param == "bash":
        words = ["bash", "--norc", "--noprofile", "-i"]
        setup = f"bind 'set enable-bracketed-paste off'; for f in {installed}/share/bash-completion/completions/*; do . $f; done; cd {home}"
    else:
        words = ["zsh", "-f", "-i"]
        setup = f"unsetopt zle_bracketed_paste prompt_cr prompt_sp; fpath=({installed}/share/zsh/site-functions $fpath); autoload -U compinit; compinit -u -d {home}/dump; bindkey -e; cd {home}"
    t = Terminal(words, setup, {"HOME": str(home)})
    yield t
    t.close()


@pytest.mark.parametrize("line,words", [
    ("paddlerun lau", ["paddlerun", "launch"]),
    ("paddlerun launch --nproc", ["paddlerun", "launch", "--nproc_per_node"]),
    ("paddlerun launch --run_mode=coll", ["paddlerun", "launch", "--run_mode=collective"]),
    ("paddlerun launch --dry_run --run_mode ps-h", ["paddlerun", "launch", "--dry_run", "--run_mode", "ps-heter"]),
    ("paddlerun launch --nnodes 2 --mas", ["paddlerun", "launch", "--nnodes", "2", "--master"]),
    ("paddlerun launch jo", ["paddlerun", "launch", "job.yaml"]),
    ("fleetrun --max_res", ["fleetrun", "--max_restart"]),
    ("paddlerun ckpt verif", ["paddlerun", "ckpt", "verify"]),
    ("paddlerun ckpt export --stat", ["paddlerun", "ckpt", "export", "--state"]),
    ("paddle-operator vali", ["paddle-operator", "validate"]),
    ("paddle-operator validate jo", ["paddle-operator", "validate", "job.yaml"]),
    ("paddle-operator --log-lev", ["paddle-operator", "--log-level"]),
    ("paddle-operator run --log-level w", ["paddle-operator", "run", "--log-level", "warn"]),
])
def test_tab_completes(shell, line, words):
    # zsh puts "=" behind a flag that takes a value, where a word or a blank may follow
    assert [w.removesuffix("=") for w in shell.complete(line) if w] == words


@pytest.mark.parametrize("page", ["man1/paddlerun.1", "man8/paddle-operator.8"])
def test_manual_pages_are_well_formed(installed, page):
    path = installed / "share/man" / page
    lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, timeout=60).stdout
    # A page that a gate compares has no day on which it was printed.
    assert [x for x in lint.splitlines() if "missing date" not in x] == []
    groff = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", path], capture_output=True, text=True, timeout=60)
    assert (groff.returncode, groff.stderr) == (0, "")
    text = subprocess.run(["mandoc", "-T", "ascii", path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "COMMANDS" in re.sub(".\b", "", text)
