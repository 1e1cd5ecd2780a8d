"""A whole release, twice: images of both machines, wheels, what they are made of.  `make release-test`: minutes, as root.

RELEASES=A:B: those that are there, made by two runs of tools/release."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ["operator", "gate", "launcher", "runtime"]
ARCHES = ["amd64", "arm64"]
MACHINE = {"amd64": 62, "arm64": 183}       # e_machine


@pytest.fixture(scope="session")
def releases(tmp_path_factory):
    if "RELEASES" in os.environ:
        return [pathlib.Path(p) for p in os.environ["RELEASES"].split(":")]
    at = tmp_path_factory.mktemp("release")
    for i in range(2):
        subprocess.run([ROOT / "tools/release", "--base", "debootstrap", "--out", at / str(i)], check=True, timeout=3600)
    return [at / "0", at / "1"]


def test_two_runs_give_the_same_bytes(releases):
    sums = [(r / "SHA256SUMS").read_text() for r in releases]
    assert sums[0] == sums[1]
    for line in sums[0].splitlines():
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((releases[0] / name).read_bytes()).hexdigest() == digest
    names = [line.split("  ", 1)[1] for line in sums[0].splitlines()]
    assert sum(n.startswith("images/") for n in names) == 8 and sum(n.endswith(".whl") for n in names) == 3


class Image:
    def __init__(self, path):
        with tarfile.open(path) as tar:
            index = json.load(tar.extractfile("index.json"))
            self.manifest = self.blob(tar, index["manifests"][0]["digest"])
            self.config = self.blob(tar, self.manifest["config"]["digest"])
            layer = tar.extractfile("blobs/sha256/" + self.manifest["layers"][0]["digest"].removeprefix("sha256:"))
            with tarfile.open(fileobj=layer) as files:
                self.files = {m.name.removeprefix("./"): (m, files.extractfile(m).read(20) if m.isfile() else b"") for m in files}

    @staticmethod
    def blob(tar, digest):
        data = tar.extractfile("blobs/sha256/" + digest.removeprefix("sha256:")).read()
        assert hashlib.sha256(data).hexdigest() == digest.removeprefix("sha256:")
        return json.loads(data)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_says_what_it_is(releases, name, arch):
    path, = (releases[0] / "images").glob(f"{name}-*-{arch}.tar")
    image = Image(path)
    assert (image.config["architecture"], image.config["os"]) == (arch, "linux")
    assert image.config["config"]["User"] == "65532:65532"
    labels = {k.removeprefix("org.opencontainers.image."): v for k, v in image.config["config"]["Labels"].items()}
    assert re.fullmatch("sha256:[0-9a-f]{64}", labels["base.digest"]) and labels["base.name"]
    assert re.fullmatch("[0-9a-f]{40}", labels["revision"]) and labels["licenses"] == "Apache-2.0"
    assert labels["version"] in path.name and labels["title"] and labels["created"] == image.config["created"]
    elf = {f: head for f, (m, head) in image.files.items() if head[:4] == b"\x7fELF"}
    assert elf and {int.from_bytes(head[18:20], "little") for head in elf.values()} == {MACHINE[arch]}
    assert [f for f in image.files if re.search(r"(^|/)(sh|bash|dash|busybox|apt.*|dpkg)$", f)] == []


@pytest.mark.parametrize("arch", ARCHES)
def test_every_program_and_image_says_what_it_is_made_of(releases, arch):
    documents = {p.name.removesuffix(f"-{arch}.spdx.json"): json.loads(p.read_text()) for p in (releases[0] / "sbom").glob(f"*-{arch}.spdx.json")}
    programs = {"paddle-operator", "paddle-gate", "paddlerun-static", "paddlerun", "paddle-check", "paddle-pserver", "logistic", "logistic-data",
                "wide_and_deep", "deepfm", "ctr_dnn", "word2vec", "recommendation", "resnet50"}
    assert set(documents) == programs | {f"image-{i}" for i in IMAGES}
    for name, d in documents.items():
        assert d["spdxVersion"] == "SPDX-2.3" and d["creationInfo"]["created"].endswith("Z")
        ids = [p["SPDXID"] for p in d["packages"]]
        assert len(ids) == len(set(ids)) and all(p["licenseConcluded"] != "NOASSERTION" and p["versionInfo"] for p in d["packages"])
        related = {r["relatedSpdxElement"] for r in d["relationships"]} | {r["spdxElementId"] for r in d["relationships"]}
        assert related == {*ids, "SPDXRef-DOCUMENT"}
    assert "libcurl4" in {p["name"] for p in documents["paddle-operator"]["packages"]}
    assert "libcurl4" not in {p["name"] for p in documents["paddlerun"]["packages"]}
    assert {r["relationshipType"] for r in documents["paddlerun-static"]["relationships"]} == {"DESCRIBES", "STATIC_LINK"}
    assert any("gnutls" in p["name"] for p in documents["paddlerun-static"]["packages"])
    assert any("rocksdb" in p["name"] for p in documents["image-runtime"]["packages"])


@pytest.mark.parametrize("machine,e", [("x86_64", 62), ("aarch64", 183)])
def test_the_launchers_wheel_is_for_both_machines(releases, machine, e):
    path, = releases[0].glob(f"paddlerun-*manylinux2014_{machine}*.whl")
    with zipfile.ZipFile(path) as z:
        program, = (z.read(n) for n in z.namelist() if n.endswith("/scripts/paddlerun"))
    assert int.from_bytes(program[18:20], "little") == e
