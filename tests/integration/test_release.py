"""What tools/release makes without compiling; tests/release has the rest."""
import io
import os
import re
import subprocess
import tarfile
import time

import pytest
import yaml

from rig import ROOT

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example", "-c", "commit.gpgsign=false"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A checkout of what is here, committed: a release is of a commit."""
    to = tmp_path_factory.mktemp("clone") / "c"
    subprocess.run([*GIT, "clone", "-q", ROOT, to], check=True, timeout=60)
    diff = subprocess.run([*GIT, "diff", "--binary", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    if diff:
        subprocess.run([*GIT, "apply", "--index"], cwd=to, input=diff, check=True)
        subprocess.run([*GIT, "commit", "-q", "-m", "as it is"], cwd=to, check=True)
    subprocess.run([*GIT, "tag", "v1.2.3"], cwd=to, check=True)
    return to


def release(clone, out, *words, **env):
    return subprocess.run([clone / "tools/release", "--out", out, "--prefix", "registry.example/paddle", *words],
                          env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def files(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def test_two_runs_give_the_same_bytes(clone, tmp_path):
    """Of another day, in another time zone, with another umask and language."""
    assert release(clone, tmp_path / "1", "source", "chart", "manifests").returncode == 0
    time.sleep(1.1)     # a second is what gzip and tar keep
    p = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", clone / "tools/release", "--out", tmp_path / "2", "--prefix",
                        "registry.example/paddle", "source", "chart", "manifests"],
                       env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    assert files(tmp_path / "1") == files(tmp_path / "2")
    sums = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "1", capture_output=True, text=True)
    assert sums.returncode == 0 and sums.stdout.count(": OK") == 5, sums.stdout


def test_everything_names_the_images_of_the_version(clone, tmp_path):
    assert release(clone, tmp_path, "source", "chart", "manifests").returncode == 0
    made = files(tmp_path)
    assert set(made) == {"paddlejob-v1.2.3.tar.gz", "paddle-operator-1.2.3.tgz", "paddlejob-manifests-v1.2.3.tar.gz", "crd.yaml",
                         "operator.yaml", "SHA256SUMS"}
    images = re.findall(r"(?:image: |--initImage=)(\S+)", made["operator.yaml"].decode())
    assert sorted(images) == ["registry.example/paddle/gate:v1.2.3", "registry.example/paddle/operator:v1.2.3"]

    def unpacked(name):
        with tarfile.open(fileobj=io.BytesIO(made[name])) as tar:
            return {m.name: tar.extractfile(m).read().decode() for m in tar if m.isfile() and m.name.endswith((".yaml", ".c", "LICENSE"))}
    manifests = unpacked("paddlejob-manifests-v1.2.3.tar.gz")
    assert [f for f, text in manifests.items() if "paddlejob/" in re.sub("#.*|registry.example/paddle", "", text) and ":dev" in text] == []
    assert any("registry.example/paddle/runtime:v1.2.3" in text for text in manifests.values())
    chart = unpacked("paddle-operator-1.2.3.tgz")
    about = yaml.safe_load(chart["paddle-operator/Chart.yaml"])
    values = yaml.safe_load(chart["paddle-operator/values.yaml"])
    assert (about["version"], about["appVersion"]) == ("1.2.3", "v1.2.3")
    assert (values["image"]["repository"], values["gate"]["image"]["repository"]) == ("registry.example/paddle/operator", "registry.example/paddle/gate")
    source = unpacked("paddlejob-v1.2.3.tar.gz")
    assert "paddlejob-v1.2.3/LICENSE" in source and "paddlejob-v1.2.3/operator/cmd/main.c" in source


@pytest.mark.parametrize("base", ["", "debian:12-slim", "debian@sha256:12"])
def test_images_need_a_base_that_is_pinned(clone, tmp_path, base):
    p = release(clone, tmp_path / "r", "--base", base, "images")
    assert p.returncode == 1 and f'--base is "{base}", expected IMAGE@sha256:DIGEST' in p.stderr
    assert not (tmp_path / "r").exists()


def test_a_working_tree_with_changes_is_no_release(clone, tmp_path):
    readme = clone / "README.md"
    before = readme.read_text()
    readme.write_text(before + "x")
    p = release(clone, tmp_path / "r", "source")
    readme.write_text(before)
    assert p.returncode == 1 and "the working tree has changes" in p.stderr
