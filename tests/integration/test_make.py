"""The build as people meet it: `make help`, and compile_commands.json for their editors."""
import json
import re
import shlex
import subprocess
import sys

from rig import ROOT

PARTS = [ROOT / "Makefile", *sorted((ROOT / "mk").glob("*.mk"))]
# Steps of the targets that help lists.
INTERNAL = {"tests", "fuzzers", "threaded", "objects", "warnings", "archives", "builds", "programs", "database"}


def make(*words, cwd=ROOT):
    return subprocess.run(["make", "--no-print-directory", *words], cwd=cwd, capture_output=True, text=True, check=True, timeout=120,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout


def test_help_lists_every_target():
    text = "".join(p.read_text().replace("\\\n", " ") for p in PARTS)
    phony = {word for line in re.findall(r"^\.PHONY: (.*)", text, re.M) for word in line.split()}
    listed = [name for line in make("help").splitlines() if (m := re.match(r"  (\S[\w. -]*?)  +\S", line)) for name in m[1].split()]
    assert sorted(listed) == sorted(phony - INTERNAL)


def test_no_line_of_the_makefiles_is_long():
    assert [f"{p.name}:{n}" for p in PARTS for n, line in enumerate(p.read_text().splitlines(), 1) if len(line) > 120] == []


def test_compile_commands_compile(tmp_path):
    make("compile_commands.json", f"DATABASE={tmp_path}/db.json")
    rows = {row["file"]: row for row in json.loads((tmp_path / "db.json").read_text())}
    assert {"common/version.c", "runtime/train/coll/agree_test.c"} <= rows.keys() and len(rows) > 700
    row = rows["common/version.c"]
    subprocess.run([*shlex.split(row["command"]), "-fsyntax-only"], cwd=row["directory"], check=True, timeout=60)


def test_programs_of_nightly_start():
    """Those that only `make nightly` and `make bench` run: a module that moved was first missed after a day."""
    called = {script for p in PARTS for script in re.findall(r"\b(?:tests/chaos/\w+\.py|bench/run)\b", p.read_text())}
    assert len(called) > 3
    for script in sorted(called):
        result = subprocess.run([sys.executable, script, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stderr) == (0, ""), script
