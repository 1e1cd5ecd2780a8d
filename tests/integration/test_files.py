"""render and validate, as somebody without a cluster calls them."""
import json
import pathlib
import subprocess

import pytest
import yaml

from rig import BIN, ROOT

JOB = """apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: {name}
spec:
  worker:
    replicas: {n}
    template:
      spec:
        containers:
        - name: paddle
          image: x
"""


def call(*args, stdin=""):
    p = subprocess.run([BIN / "paddle-operator", *map(str, args)], input=stdin, capture_output=True, text=True, timeout=60)
    assert p.returncode in (0, 1, 2), (p.returncode, p.stderr)
    return p.returncode, p.stdout, p.stderr


def documents(text):
    return [d for d in yaml.safe_load_all(text) if d is not None]


@pytest.mark.parametrize("command", ["render", "validate"])
@pytest.mark.parametrize("text,words", [
    ("", ""), ("---\n---\n", ""), ("# only a comment\n", ""), ("a: [1,\n", "2"), ("\tx: 1\n", "1"), ("just words\n", ""),
    ("\x00\x01\x7f", ""), ("- a\n- b\n", ""), ("kind: PaddleJob\n", ""), ("&a [*a]\n", ""),
    ("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
     "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n", ""),
    ("[" * 5000, ""), ("{a: " * 5000, ""),
], ids=["empty", "separators", "comment", "open-list", "tab", "words", "binary", "list", "bare-kind", "self-reference",
        "billion-laughs", "deep-list", "deep-map"])
def test_files_without_a_job_are_refused(tmp_path, command, text, words):
    file = tmp_path / "f.yaml"
    file.write_text(text)
    code, out, err = call(command, file)
    assert code == 1
    assert (out + err).strip(), "nothing was said"
    assert words in out + err and len((out + err).strip().splitlines()) <= 6


def test_files_may_hold_several_jobs_and_other_objects(tmp_path):
    file = tmp_path / "f.yaml"
    other = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
    file.write_text(JOB.format(name="a", n=2) + "---\n" + other + "---\n" + JOB.format(name="b", n=1))
    code, out, err = call("render", file)
    assert code == 0, err
    names = [(d["kind"], d["metadata"]["name"]) for d in documents(out)]
    assert names == [("Pod", "a-worker-0"), ("Pod", "a-worker-1"), ("ConfigMap", "a"), ("Secret", "s"), ("Pod", "b-worker-0"),
                     ("ConfigMap", "b")]
    code, out, _ = call("validate", file)
    assert code == 0 and "2 jobs, 0 problems" in out and "1 other" in out


def test_standard_input_directory_and_several_files(tmp_path):
    code, out, _ = call("render", "-", stdin=JOB.format(name="a", n=1))
    assert code == 0 and len(documents(out)) == 2
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(JOB.format(name=name, n=1))
    (tmp_path / "c.json").write_text(json.dumps(yaml.safe_load(JOB.format(name="c", n=1))))
    (tmp_path / "README.md").write_text("no: [job")
    (tmp_path / "sub.yaml").mkdir()
    code, out, err = call("render", tmp_path)
    (tmp_path / "sub.yaml").rmdir()
    assert code == 1 and "sub.yaml" in err          # said, not skipped: it has a job file's name
    code, out, err = call("render", tmp_path)
    assert code == 0 and len(documents(out)) == 6, err
    assert call("validate", tmp_path / "a.yaml", tmp_path / "c.json")[0] == 0
    code, out, _ = call("validate", tmp_path)
    assert code == 0 and "3 jobs" in out


def test_problems_name_file_and_line(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(JOB.format(name="good", n=1) + "---\n" + JOB.format(name="bad", n=-1))
    code, out, _ = call("validate", file)
    assert code == 1 and f"{file}:20:" in out and "replicas" in out and "1 problem" in out
    code, out, err = call("render", file)
    assert code == 1 and f"{file}:20:" in err
    assert [d["metadata"]["name"] for d in documents(out)] == ["good-worker-0", "good"]     # what came before it stands


@pytest.mark.parametrize("command", ["render", "validate"])
def test_wrong_arguments_and_files_are_refused(tmp_path, command):
    assert call(command)[0] == 2
    assert call(command, "--help")[0] == 0
    assert call(command, "--nonsense")[0] in (1, 2)
    for path in ("/nowhere/at/all.yaml", "/dev/null", str(tmp_path)):
        code, out, err = call(command, path)
        assert code == 1 and (out + err).strip(), path
    assert "/nowhere/at/all.yaml" in call(command, "/nowhere/at/all.yaml")[2]
    assert call("no-such-command")[0] == 2


@pytest.mark.parametrize("n", [0, 1, 200])
def test_replicas(n):
    code, out, err = call("render", "-", stdin=JOB.format(name="a", n=n))
    if n == 0:
        assert code == 1 and "spec.worker.replicas is 0, so that the job has no pods" in err
        return
    assert code == 0, err
    assert len([d for d in documents(out) if d["kind"] == "Pod"]) == n


def test_all_examples_render_and_are_valid():
    files = sorted((ROOT / "deploy/examples").glob("*.yaml"))
    assert files
    for f in files:
        code, out, err = call("render", f)
        assert code == 0 and documents(out), (f, err)
        assert call("validate", f)[0] == 0, f
    assert call("validate", ROOT / "deploy/examples")[0] == 0
