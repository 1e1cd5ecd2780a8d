"""What is in checkpoints: of servers and of rt_save, as paddlerun ckpt prints it and as NumPy reads it."""
import os
import subprocess

import numpy
import pytest

from rig import BIN, free_port


def ckpt(*words, code=0):
    done = subprocess.run([BIN / "paddlerun", "ckpt", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Checkpoints of two servers, of which the later ones are deltas, and the newest as one directory of rt_save."""
    folder, ports = tmp_path_factory.mktemp("ckpt"), [free_port(), free_port()]
    env = {"PATH": os.environ["PATH"], "PADDLE_PS_CHECKPOINT_DIR": str(folder / "points"), "PADDLE_PS_CHECKPOINT_STEPS": "20",
           "PADDLE_PS_CHECKPOINT_DELTAS": "100", "PADDLE_PS_SHARDS": "2", "PADDLE_TRAINERS_NUM": "1",
           "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{p}" for p in ports)}
    words = [BIN / "wide_and_deep", "--lines", "30000", "--test-lines", "100", "--optimizer", "adam"]
    places = [{"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(p)} for p in ports]
    places.append({"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0"})
    with open(folder / "log", "w") as log:
        job = [subprocess.Popen(words, cwd=folder, env={**env, **p}, stdout=log, stderr=log) for p in places]
    try:
        assert [p.wait(100) for p in job] == [0, 0, 0], (folder / "log").read_text()
    finally:
        for p in job:
            p.kill()
    ckpt("merge", folder / "points", folder / "merged")
    return folder


def test_points_are_listed_shown_and_compared(trained):
    points = [line.split() for line in ckpt("ls", trained / "points").splitlines()[1:]]
    assert points[-1][:3] == ["ckpt-1", "full", "20"] and len(points) > 1
    assert all(p[1] == "delta" and p[-1] == "whole" for p in points[:-1])
    newest = trained / "points" / points[0][0]
    assert "changed" in ckpt("diff", "--memory=1", trained / "points/ckpt-1", newest, code=1)
    shown = ckpt("show", "--count", "--table=embedding", newest)
    assert "rows of 10 values" in shown and "adam:lr=" in shown and "changed or new" in shown
    assert "0 changed, 0 added, 0 erased" in ckpt("diff", trained / "points", trained / "merged")
    assert ckpt("verify", trained / "points").count("whole") == 2 * len(points)


def test_numpy_reads_what_was_exported(trained):
    ckpt("export", "--state", trained / "points", trained / "points.npz")
    ckpt("export", "--state", trained / "merged", trained / "merged.npz")
    ckpt("export", trained / "points", "--table=embedding", trained / "embedding.npy")
    a, b = numpy.load(trained / "points.npz"), numpy.load(trained / "merged.npz")
    assert a.zip.testzip() is None
    assert sorted(a) == sorted(b) == ["dense", "dense.state", "embedding.ids", "embedding.state", "embedding.values"]
    order, same = numpy.argsort(a["embedding.ids"]), numpy.argsort(b["embedding.ids"])
    for name in b:
        x, y = (a[name][order], b[name][same]) if name.startswith("embedding") else (a[name], b[name])
        assert numpy.array_equal(x, y), name
    rows = numpy.load(trained / "embedding.npy")
    assert numpy.array_equal(rows["id"], a["embedding.ids"]) and numpy.array_equal(rows["values"], a["embedding.values"])
    key, values = ckpt("export", "--table=embedding", f"--key={rows['id'][7]}", trained / "points").split(maxsplit=1)
    assert int(key) == rows["id"][7] and numpy.array_equal(numpy.array(values.split(), "f4"), rows["values"][7])
    assert "no row of id 99999999999" in ckpt("export", "--table=embedding", "--key=99999999999", trained / "points", code=1)


def test_an_export_follows_links_and_replaces_only_files(trained, tmp_path):
    """A rename would have replaced what other programs have open, as /dev/null."""
    for ending in ("npz", "npy", "txt"):
        link, fifo, linked = (tmp_path / f"{name}.{ending}" for name in ("link", "fifo", "linked"))
        table = [] if ending == "npz" else ["--table=embedding"]
        (tmp_path / f"real.{ending}").write_text("old")
        link.symlink_to(f"real.{ending}")
        os.mkfifo(fifo)
        linked.symlink_to(fifo.name)
        ckpt("export", *table, trained / "points", link)
        assert link.is_symlink() and (tmp_path / f"real.{ending}").stat().st_size > 3
        assert f'cannot write "{fifo}": it is a FIFO, expected a file' in ckpt("export", *table, trained / "points", fifo, code=1)
        assert f'cannot write "{linked}": it is a FIFO, expected a file' in ckpt("export", *table, trained / "points", linked, code=1)
        assert fifo.is_fifo() and linked.is_symlink()
    assert len(list(tmp_path.iterdir())) == 12


def test_a_merge_into_a_checkpoint_of_servers_is_refused(trained, tmp_path):
    subprocess.run(["cp", "-r", trained / "points", tmp_path], check=True)
    into = tmp_path / "points/ckpt-000000000002"
    before = {file.name: file.read_bytes() for file in into.iterdir()}
    said = ckpt("merge", trained / "points", into, code=1)
    assert f'"{into}/MANIFEST" is not of rt_save, which would replace it: it is of a checkpoint that servers wrote' in said, said
    assert {file.name: file.read_bytes() for file in into.iterdir()} == before
    ckpt("verify", tmp_path / "points")


def test_an_empty_name_is_no_directory(trained):
    assert 'paddlerun ckpt ls: the directory is ""' in ckpt("ls", "", code=2)
    assert 'paddlerun ckpt merge: the last word is ""' in ckpt("merge", trained / "points", "", code=2)


def test_an_unfinished_checkpoint_is_not_reported_as_damaged(trained, tmp_path):
    subprocess.run(["cp", "-r", trained / "points", tmp_path], check=True)
    (tmp_path / "points/ckpt-000000000900").mkdir()
    assert "ckpt-900" in ckpt("ls", tmp_path / "points").splitlines()[1]
    assert "ckpt-900 is not completed yet" in ckpt("verify", tmp_path / "points")
    assert "was not completed" in ckpt("verify", tmp_path / "points/ckpt-900", code=1)
    (tmp_path / "points/ckpt-000000000002/MANIFEST").unlink()
    assert "was not completed" in ckpt("ls", tmp_path / "points", code=1)


def test_a_damaged_file_is_named(trained, tmp_path):
    subprocess.run(["cp", "-r", trained / "points", trained / "merged", tmp_path], check=True)
    part = tmp_path / "points/ckpt-000000000002/part-00000"
    table = next((tmp_path / "merged").glob("embedding*"))
    for path in (part, table):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        said = [line for line in ckpt("verify", path.parents[1 if path == part else 0], code=1).splitlines() if line.startswith("damaged ")]
        assert len(said) == 1 and str(path) in said[0]
    part.write_bytes(part.read_bytes()[:-1])
    lines = {line.split()[0]: line for line in ckpt("ls", tmp_path / "points", code=1).splitlines()}
    assert str(part) in lines["ckpt-3"] and str(part) in lines["ckpt-2"] and "whole" in lines["ckpt-1"]
    assert "skipped" in ckpt("show", tmp_path / "points")


def test_a_newer_save_beside_checkpoints_is_named(trained, tmp_path):
    subprocess.run(["cp", "-r", trained / "points", tmp_path], check=True)
    subprocess.run(f"cp '{trained}'/merged/* '{tmp_path}/points'", shell=True, check=True)
    os.utime(max((tmp_path / "points").glob("ckpt-*/MANIFEST")), (5, 5))
    assert "has a newer model, which rt_save wrote" in ckpt("show", tmp_path / "points")
    os.utime(tmp_path / "points/MANIFEST", (4, 4))
    assert "newer" not in ckpt("show", tmp_path / "points")
