"""Data as people have it: what the programs of examples/ take, what they refuse, and what they say."""
import gzip
import os
import shutil
import subprocess

import pytest

from rig import BIN


def run(home, program, *flags, code=0, env=None, launch=None):
    """(stdout, stderr) of a program that ends with that code, or with any but 0 for None; launched: (output, logs)."""
    words = [str(BIN / program), *flags]
    if launch:
        words = [str(BIN / "paddlerun"), "launch", "--server_num=1", f"--worker_num={launch}", *words]
    r = subprocess.run(words, cwd=home, capture_output=True, text=True, timeout=100, env=env)
    said = r.stdout + r.stderr + "".join(f.read_text() for f in sorted(home.rglob("workerlog.*")))
    assert r.returncode == code if code is not None else r.returncode != 0, (r.returncode, said[-3000:])
    return (r.stdout, r.stderr) if not launch else (r.stdout, said)


@pytest.fixture
def data(tmp_path):
    run(tmp_path, "wide_and_deep", "--generate=data", "--lines=1200", "--test-lines=100")
    return tmp_path


UNUSABLE = {"commas": "1,2,3\n4,5,6\n", "empty": "", "blank": "\n \t\r\n", "unlabelled": "1:5 2:6\n1:7 2:8\n"}


@pytest.mark.parametrize("mode", ["async", "sync", "geo"])
@pytest.mark.parametrize("kind", UNUSABLE)
def test_data_without_a_usable_line_fails(kind, mode, tmp_path):
    (tmp_path / "d").write_text(UNUSABLE[kind])
    _, err = run(tmp_path, "wide_and_deep", "--local", "--train=d", f"--mode={mode}", code=2)
    lines = sum(bool(line) for line in UNUSABLE[kind].split("\n"))
    what = "it is empty" if kind == "empty" else f'{lines + (kind == "blank")} skipped'
    assert f'no usable line in \\"d\\": {what}' in err, err
    assert kind == "empty" or "first: d:1: " in err, err
    assert not (tmp_path / "model").exists()


def test_no_worker_has_a_usable_line(tmp_path):
    (tmp_path / "d").write_text(UNUSABLE["commas"] * 10)
    _, said = run(tmp_path, "wide_and_deep", "--train=d", code=None, launch=2)
    assert 'no usable line in \\"d\\"' in said and "first: d:" in said and not (tmp_path / "model").exists(), said[-3000:]


@pytest.mark.parametrize("mode", ["async", "sync", "geo"])
def test_one_worker_without_data_beside_another_is_fine(mode, data):
    """Worker 0, who saves, has nothing to train on."""
    (data / "two").mkdir()
    (data / "two/a").write_text(UNUSABLE["commas"])
    (data / "data/train/part-00000.txt").rename(data / "two/b")
    _, said = run(data, "wide_and_deep", "--train=two", "--test=data", f"--mode={mode}", launch=2)
    assert (data / "model").exists() and "TEST --->" in said, said[-3000:]


def test_text_packed_marked_and_in_folders_trains_the_same(data):
    first = run(data, "wide_and_deep", "--local", "--train=data", "--mode=sync")[0]
    for part in list((data / "data").rglob("part-*")):
        text = b"\xef\xbb\xbf" + part.read_bytes().replace(b"\n", b"\r\n") + b"\r\n \r\n"
        (part.parent / "in/here").mkdir(parents=True, exist_ok=True)
        (part.parent / "in/here" / part.name).write_bytes(gzip.compress(text))
        part.unlink()
    again = run(data, "wide_and_deep", "--local", "--train=data", "--mode=sync")[0]
    assert first.splitlines()[-1] == again.splitlines()[-1] and "TEST --->" in again, again


def test_a_line_out_for_each_line_in(data):
    run(data, "wide_and_deep", "--local", "--train=data", "--save=m")
    whole = (data / "data/test/part-00000.txt").read_text().splitlines()
    lines = [whole[0], "", "1\t2", whole[1], whole[1].split("\t", 1)[1], whole[2] + "\t"]
    (data / "mixed").write_text("\n".join(lines) + "\n")
    out, err = run(data, "wide_and_deep", "--predict", "--load=m", "--test=mixed")
    p = out.splitlines()
    assert [x == "nan" for x in p] == [False, True, True, False, False, True] and p[3] == p[4] and p[0] != p[3], p
    assert "usable=3" in err and "3 skipped (1 blank, 2 columns), first: mixed:2: a blank line" in err, err
    (data / "mixed").write_text("x\ny\n")
    out, err = run(data, "wide_and_deep", "--predict", "--load=m", "--test=mixed", code=2)
    assert out == "nan\nnan\n" and "no usable line in" in err, (out, err)


@pytest.mark.parametrize("flag, error", [
    ("--test=nothere", "nothere"), ("--test=empty", 'test data: no usable line in \\"empty\\": it is empty'),
    ("--save=empty", "the result cannot be saved in"), ("--save=empty/x", "the result cannot be saved in")])
def test_the_end_is_checked_before_the_first_batch(flag, error, data):
    (data / "empty").write_text("")
    out, err = run(data, "wide_and_deep", "--local", "--train=data", flag, code=None)
    assert error in err and "TRAIN" not in out and "worker starts" not in err, (out, err)


def test_a_program_alone_keeps_what_says_how_to_train(data):
    env = {"PATH": "/usr/bin:/bin", "PADDLERT_TENSORBOARD": "curves", "PADDLE_PS_CHECKPOINT_DIR": "points", "PADDLE_PS_CHECKPOINT_STEPS": "4",
           "PADDLE_TRAINERS_NUM": "7", "TRAINING_ROLE": "PSERVER"}
    _, err = run(data, "wide_and_deep", "--local", "--train=data", "--batch-size=50", env=env)
    assert list((data / "curves").glob("worker-0/*")) and list((data / "points").glob("ckpt-*/MANIFEST")), err


@pytest.mark.parametrize("flags", [[], ["--local"]])
def test_a_worker_that_knows_no_peers_says_that_it_is_alone(flags, tmp_path):
    env = {**os.environ, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "1"}
    _, err = run(tmp_path, "wide_and_deep", "--lines=200", "--test-lines=50", "--save=", *flags, env=env)
    assert ("trains alone" in err and "PADDLE_TRAINERS_NUM=2" in err) == (not flags), err


def test_slots_that_the_model_does_not_have_are_reported_once(tmp_path):
    (tmp_path / "d").write_text("click:0 1:5\n" + "click:1 2:7 show:1 27:6\n" * 50)
    _, err = run(tmp_path, "wide_and_deep", "--local", "--train=d", "--save=", "--epochs=2")
    assert err.count("slots that the model does not have") == 1 and "line=d:2 slot=show" in err, err


def test_the_loss_of_numbers_that_nobody_scaled_is_a_number(tmp_path):
    (tmp_path / "d").write_text("".join(f"{i % 2},{900 - i},{i * 7},-400,30\n" for i in range(200)))
    out, _ = run(tmp_path, "logistic", "d")
    assert "loss" in out and "inf" not in out and "nan" not in out, out


ROWS = [(1, 3), (-1, 5), (1, 4), (-1, 6)] * 50
SIGNS = {  # (how a program is called, a line)
    "criteo": (["wide_and_deep", "--local", "--train=d", "--save="], lambda y, x: "\t".join([y, str(x), *[""] * 38])),
    "slots": (["deepfm", "--local", "--train=d", "--save="], lambda y, x: f"click:{y} 1:{x}"),
    "csv": (["ctr_dnn", "--local", "--train=d", "--save=", "--format=csv", "--csv-numbers=x"], lambda y, x: f"{y},{x}"),
    "logistic": (["logistic", "d"], lambda y, x: f"{y},{x},1,1,1")}


def trained(kind, labels, home):
    """(the TRAIN lines, what is logged) of data with these labels for -1 and 1."""
    command, line = SIGNS[kind]
    head = ["label,x"] if kind == "csv" else []
    rows = ROWS[:50] if kind == "logistic" else ROWS        # one batch
    (home / "d").write_text("\n".join(head + [line(labels[y > 0], x) for y, x in rows]) + "\n")
    out, err = run(home, *command)
    if kind == "logistic":                                  # asynchronous: only its first loss is the same each time
        out = out.splitlines()[0]
    for model in home.glob("model"):
        model.rename(home / f"model-{labels}")
    return out, err


@pytest.mark.parametrize("kind", SIGNS)
@pytest.mark.parametrize("labels", [("-1", "1"), ("-1.0", "+1"), ("0.0", "1e0"), ("false", "True")])
def test_labels_as_people_write_them_train_the_same(kind, labels, tmp_path):
    if kind == "logistic" and "True" in labels:
        return
    first, _ = trained(kind, ("0", "1"), tmp_path)
    out, err = trained(kind, labels, tmp_path)
    assert "TRAIN" in out and out == first and "skipped" not in err and "all labels" not in err, (out, first, err)
    assert err.count("label -1 counts as 0") == (labels[0][0] == "-" and kind != "logistic"), err


@pytest.mark.parametrize("kind", sorted(set(SIGNS) - {"logistic"}))
@pytest.mark.parametrize("labels", [("0", "0"), ("1", "1"), ("-1", "-1")])
def test_data_of_one_class_is_reported(kind, labels, tmp_path):
    _, err = trained(kind, labels, tmp_path)
    assert err.count(f"all labels are {max(int(labels[0]), 0)}: there is no second class") == 1, err


@pytest.mark.parametrize("kind", sorted(set(SIGNS) - {"logistic"}))
def test_other_labels_are_reported(kind, tmp_path):
    _, err = trained(kind, ("2", "1"), tmp_path)
    assert "100 skipped, first: d:" in err and "expected" in err and "-1 counts as 0" in err and "all labels are 1" in err, err
    (tmp_path / "d").write_text((tmp_path / "d").read_text().replace("2", "-1", 1).replace("2", "0", 1))
    _, err = run(tmp_path, *SIGNS[kind][0])
    assert "labels 0 and -1 both count as 0" in err and "zero=1 minus_one=1" in err, err


def test_all_of_64_bits_are_ids(tmp_path):
    (tmp_path / "d").write_text("click:1 1:18446744073709551615\nclick:0 1:18446744073709551616\n")
    _, err = run(tmp_path, "wide_and_deep", "--local", "--train=d", "--save=m")
    assert "usable=1" in err and "1 skipped, first: d:2: word 2" in err and "below 2^64" in err, err
    key = (2**64 - 1) % 1000001
    assert run(tmp_path, "paddlerun", "ckpt", "export", "--table=embedding", f"--key={key}", "m")[0].startswith(f"{key} ")
    said = run(tmp_path, "paddlerun", "ckpt", "export", "--table=embedding", f"--key={2**64 - 1}", "m", code=None)[1]
    assert f"no row of id {2**64 - 1}" in said, said
    assert "below 2^64" in run(tmp_path, "paddlerun", "ckpt", "export", "--table=embedding", f"--key={2**64}", "m", code=None)[1]


def test_csv_is_read_by_its_header(data):
    """Criteo's columns, by their names: the same model as from tabs."""
    first = run(data, "wide_and_deep", "--local", "--train=data", "--mode=sync", "--save=")[0]
    names = ["label", *(f"I{i + 1}" for i in range(13)), *(f"C{i + 1}" for i in range(26))]
    for part in list((data / "data").rglob("part-*")):
        rows = [names, *(line.split("\t") for line in part.read_text().splitlines())]
        part.write_text("".join(",".join(row[::-1]) + "\n" for row in rows))
    again = run(data, "wide_and_deep", "--local", "--train=data", "--mode=sync", "--save=", "--format=csv")[0]
    assert first.splitlines()[-1] == again.splitlines()[-1] and "TEST --->" in again, (first, again)
    err = run(data, "wide_and_deep", "--local", "--train=data", "--format=csv", "--csv-numbers=age", code=2)[1]
    assert 'part-00000.txt:1: no column \\"age\\" in the header' in err, err


CSV = ["--format=csv", "--csv-numbers=x", "--csv-categories=c", "--csv-label=clicked"]


@pytest.mark.parametrize("text, error", [
    ("x,c,click\n1,a,1\n", 'd:1: no column \\"clicked\\" in the header \\"x,c,click\\", did you mean \\"click\\"?'),
    ("x,c,clicked\n", 'no usable line in \\"d\\": it has nothing below its header'),
    ("\n\nx,c,clicked\n\n", "1 skipped, first: d:4: a blank line"),
    ("x,c,clicked,x\n1,a,1,2\n", 'd:1: column \\"x\\" is there twice'),
    ('x,c,clicked\n1,"a"b,1\n', "first: d:2: column 2: something follows a closing quote"),
    ('x,c,clicked\n1,"a,1\n', "first: d:2: column 2: a quote is not closed"),
    ("x,c,clicked\n1,a\n", "first: d:2: 2 columns, the header has 3"),
    ("x," + "y" * 70000 + "\n1,a,1\n", "d:1: line longer than 65536 bytes")])
def test_csv_that_does_not_fit_is_reported(text, error, tmp_path):
    (tmp_path / "d").write_text(text)
    err = run(tmp_path, "wide_and_deep", "--local", "--train=d", *CSV, code=2)[1]
    assert error in err and not (tmp_path / "model").exists(), err


def test_csv_as_other_programs_write_it(tmp_path):
    """A blank line and a mark first, quotes with newlines in them, old Macs' line ends, for all lines or some, bars: the same model, and a prediction a row."""
    row = [f"{i % 7},c{i % 5},{i % 2}" for i in range(100)]
    (tmp_path / "d").write_text("\n".join(["x,c,clicked", *row]))
    first = run(tmp_path, "wide_and_deep", "--local", "--train=d", *CSV)[0]
    quoted = ["\"x\",\"the\nnote\",c,clicked", *(r.replace(",", ',"a ""big""\r\ntext, of two lines",', 1) for r in row)]
    for text in ("\n".join(["\ufeff", "x,c,clicked", *row, ""]), "\n".join(quoted) + "\n", "\r".join(["x,c,clicked", *row]) + "\r",
                 "\n".join(["x,c,clicked", "\r".join(row[:50]), "\r\n".join(row[50:])]),
                 "\r\n".join(["\ufeffx|c|clicked", *(r.replace(",", "|") for r in row)])):
        (tmp_path / "d").write_bytes(text.encode())
        out, err = run(tmp_path, "wide_and_deep", "--local", "--train=d", "--save=", *CSV)
        assert out == first and "skipped" not in err, (text[:99], out, first, err)
        out, err = run(tmp_path, "wide_and_deep", "--predict", "--load=model", "--test=d", *CSV)
        assert len(out.splitlines()) == 100 and "nan" not in out, (text[:99], out)
    (tmp_path / "d").write_text("c,x\na,1\n")
    out, err = run(tmp_path, "wide_and_deep", "--predict", "--load=model", "--test=d", *CSV)
    assert len(out.splitlines()) == 1 and err.count("no column of labels: nothing is measured") == 1, (out, err)


def test_names_of_columns_without_csv_are_refused(tmp_path):
    (tmp_path / "d").write_text("x,c,clicked\n1,a,1\n")
    err = run(tmp_path, "wide_and_deep", "--local", "--train=d", "--csv-label=clicked", code=2)[1]
    assert "--csv-label needs --format=csv, not auto" in err, err


@pytest.mark.parametrize("program, flags", [("logistic", ["d"]), ("recommendation", ["--data=.", "--ml=ml"])])
def test_other_examples_fail_without_a_usable_line(program, flags, tmp_path):
    (tmp_path / "d").write_text("\n\n")
    (tmp_path / "ml").mkdir()
    (tmp_path / "ml/users.dat").write_text("1::F::1::10::48067\n")
    (tmp_path / "ml/movies.dat").write_text("1::Toy Story (1995)::Comedy\n")
    (tmp_path / "test").write_text("1::1::5::0\n")
    (tmp_path / "train.list").write_text("d\n")
    (tmp_path / "test.list").write_text("test\n")
    err = run(tmp_path, program, *flags, code=2)[1]
    assert "no usable line in" in err and not list(tmp_path.rglob("MANIFEST")), err


# docs/debug.md: 2, what was asked for must change first; 1, the same may succeed another time
ENDS = [
    *((program, "--no-such-flag", 2) for program in ("wide_and_deep", "deepfm", "ctr_dnn", "word2vec", "recommendation", "resnet50", "logistic")),
    ("wide_and_deep", "--local --train=nothere", 1), ("wide_and_deep", "--local --train=bz2", 2), ("wide_and_deep", "--local --train=cut", 1),
    ("wide_and_deep", "--local --train=words", 2), ("wide_and_deep", "--local --load=nothere", 1), ("wide_and_deep", "--local --save=words", 2),
    ("wide_and_deep", "--predict --load=nothere", 1), ("wide_and_deep", "--predict", 2), ("wide_and_deep", "--generate=no/where", 1),
    ("logistic", "nothere", 1), ("logistic", "words", 2), ("logistic", "bz2", 2), ("logistic", "good words", 2), ("logistic", "good model more", 2),
    ("logistic", "nan", 2), ("logistic", "seven", 2), ("logistic", "good lost", 1),
    ("word2vec", "--data=nothere", 1), ("word2vec", "prepare --text=nothere", 1), ("word2vec", "prepare --text=ptb", 2), ("word2vec", "more", 2),
    ("recommendation", "--data=nothere", 1), ("recommendation", "prepare --ml=nothere", 1), ("recommendation", "prepare --ml=ml", 2),
    ("resnet50", "--local --data=nothere", 1), ("resnet50", "--local --data=pictures", 2), ("resnet50", "--generate=no/where", 1)]


@pytest.mark.parametrize("program, words, code", ENDS)
def test_exit_codes_mean_what_the_page_says(program, words, code, tmp_path):
    line = "1,1,1,1,1\n"
    for name, data in {"words": b"a b c\n" * 9, "bz2": b"BZh91AY&SY", "cut": gzip.compress(b"1\t" * 999)[:-9], "good": line.encode() * 99,
                       "nan": (line + "1,nan,1,1,1\n").encode(), "seven": (line + "7,1,1,1,1\n").encode()}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "lost").symlink_to("nothing/there")
    for name in ("ptb/ptb.train.txt", "ml/ratings.dat", "pictures/train.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("\n")
    out, err = run(tmp_path, program, *words.split(), code=code)
    assert "TRAIN" not in out and not (tmp_path / "model").exists() and err, (out, err)


def test_word2vec_finds_text_that_is_packed(tmp_path):
    text = "a b c d e f\n" * 300
    for kind in ("train", "valid"):
        (tmp_path / f"ptb.{kind}.txt.gz").write_bytes(gzip.compress(text.encode()))
    run(tmp_path, "word2vec", "prepare", "--text=.", "--out=packed")
    for kind in ("train", "valid"):
        (tmp_path / f"ptb.{kind}.txt").write_text(text)
    run(tmp_path, "word2vec", "prepare", "--text=.", "--out=plain")
    files = sorted(p.relative_to(tmp_path / "plain") for p in (tmp_path / "plain").rglob("*") if p.is_file())
    assert len(files) > 2
    assert all((tmp_path / "plain" / f).read_bytes() == (tmp_path / "packed" / f).read_bytes() for f in files)


def test_movielens_is_read_packed_and_from_1998(tmp_path):
    """Titles are in Latin 1; files of a later data set are no files of 1M."""
    files = {"users": "".join(f"{i}::{'MF'[i % 2]}::25::{i % 20}::{i:05}\n" for i in range(1, 30)),
             "movies": "".join(f"{i}::Amélie {i} (Café) ({1990 + i % 9})::Action|Drama\n" for i in range(1, 30)),
             "ratings": "".join(f"{1 + i % 29}::{1 + i * 7 % 29}::{1 + i % 5}::978300{i}\n" for i in range(600))}
    lines = []
    for kind in ("plain", "packed"):
        for name, text in files.items():
            (tmp_path / kind).mkdir(exist_ok=True)
            data = text.encode("latin-1")
            (tmp_path / kind / (f"{name}.dat" if kind == "plain" else f"{name}.dat.gz")).write_bytes(data if kind == "plain" else gzip.compress(data))
        run(tmp_path, "recommendation", "prepare", f"--ml={kind}", f"--out=data-{kind}")
        lines.append(run(tmp_path, "recommendation", f"--data=data-{kind}", f"--ml={kind}", "--mode=sync", "--save-dir=")[0])
    assert lines[0] == lines[1] and "TEST --->" in lines[0], lines
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/ratings.csv").write_text("userId,movieId,rating,timestamp\n1,1,5,0\n")
    err = run(tmp_path, "recommendation", "prepare", "--ml=csv", code=1)[1]
    assert "expected users.dat, movies.dat and ratings.dat of MovieLens 1M" in err and "csv/ratings.dat" in err, err
    (tmp_path / "csv/ratings.csv").rename(tmp_path / "csv/ratings.dat")
    err = run(tmp_path, "recommendation", "prepare", "--ml=csv", "--out=no", code=2)[1]
    assert "ratings.dat:1: expected UserID::MovieID::Rating::Timestamp" in err and not list(tmp_path.rglob("no/*")), err


def test_word2vec_says_what_does_not_fit(tmp_path):
    for kind in ("train", "valid"):
        (tmp_path / f"ptb.{kind}.txt").write_text("a b c d e f\n" * 30)
    err = run(tmp_path, "word2vec", "prepare", "--text=.", "--out=rare", "--min-freq=60", code=2)[1]
    assert 'no word occurs more than 60 times (--min-freq); the most frequent is \\"a\\", 60 times' in err, err
    assert not (tmp_path / "rare/word_dict").exists()
    run(tmp_path, "word2vec", "prepare", "--text=.", "--out=data")
    err = run(tmp_path, "word2vec", "--data=data", "--n=4", code=2)[1]
    assert "txt-00000:1: 5 ids, expected 4 with commas between (--n)" in err, err
    (tmp_path / "data/word_dict").write_text("a 60\n<unk> 0\n")
    err = run(tmp_path, "word2vec", "--data=data", code=2)[1]
    assert "is not an id below 2, the words of" in err, err


# What files are that only are called .jpg.
PICTURES = {"png": b"\x89PNG\r\n\x1a\n", "gif": b"GIF89a", "webp": b"RIFF\0\0\0\0WEBP", "empty": b"", "text": b"hello"}


def test_resnet50_reads_a_test_picture_before_it_trains(tmp_path):
    small = ["--local", "--depth=10", "--width=16", "--image-size=32", "--class-dim=4", "--batch-size=4", "--epochs=1", "--test"]
    run(tmp_path, "resnet50", "--generate=made", "--images=64", "--image-size=32", "--class-dim=4")
    good = sorted((tmp_path / "made/jpg").iterdir())[:8]
    (tmp_path / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0")
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder/blüte 1.jpg").symlink_to(good[0])
    (tmp_path / "train.txt").write_text("".join(f"{p} {i % 4}\n" for i, p in enumerate(good)) + "a folder/blüte 1.jpg\t2\n")
    for name, head in PICTURES.items():
        (tmp_path / f"{name}.jpg").write_bytes(head)
    (tmp_path / "test.txt").write_text("".join(f"{name}.jpg 1\n" for name in PICTURES) + "Thumbs.db 0\nlost.jpg 0\n")
    out, err = run(tmp_path, "resnet50", "--data=.", *small, code=2)
    assert "loss: " not in out and "test data: none of 7 images can be read, first: ./png.jpg: bad JPEG: it is a PNG" in err, (out, err)
    (tmp_path / "test.txt").write_text((tmp_path / "test.txt").read_text() + f"{good[1]} 1\n")
    out, err = run(tmp_path, "resnet50", "--data=.", *small)
    assert "[Test]" in out and 'msg="images left out of the test" images=7' in err, (out, err)
    for what in ("it is a PNG", "it is a GIF", "it is a WebP", "it is an empty file", "bad JPEG: Not a JPEG", "lost.jpg"):
        assert what in err, err
    out, err = run(tmp_path, "resnet50", "--data=.", *small, "--bad-images=fail", code=2)
    assert "loss: " not in out and "test data: ./png.jpg" in err, (out, err)


def test_a_program_alone_has_no_others_to_continue(tmp_path):
    (tmp_path / "d").write_text("1,2\n")
    err = run(tmp_path, "wide_and_deep", "--local", "--train=d", code=2)[1]
    assert "no usable line" in err and "continues without it" not in err, err
    err = run(tmp_path, "wide_and_deep", "--lokal", code=2)[1]
    assert "cannot start" in err and "training" not in err and "unknown flag" in err, err


def test_resnet50_takes_whole_paths_and_waits_for_no_pipe(tmp_path):
    small = ["--local", "--depth=10", "--width=16", "--image-size=32", "--class-dim=4", "--batch-size=4", "--epochs=1"]
    run(tmp_path, "resnet50", "--generate=made", "--images=64", "--image-size=32", "--class-dim=4")
    os.mkfifo(tmp_path / "pipe.jpg")
    whole = [f"{p} {i % 4}\n" for i, p in enumerate(sorted((tmp_path / "made/jpg").iterdir())[:15])]
    for part in ("train", "test"):
        (tmp_path / f"{part}.txt").write_text("".join(whole) + "pipe.jpg 1\n")
    out, err = run(tmp_path, "resnet50", "--data=.", *small)
    assert "loss: " in out and "./pipe.jpg: a folder, pipe or device, expected a file" in err and "images=1" in err, (out, err)


@pytest.mark.deadline(240)
def test_prediction_follows_a_training_that_still_writes(tmp_path):
    """--refresh: a line that comes after a newer checkpoint is predicted with that; a checkpoint that is not complete changes nothing."""
    def train(save, *flags):
        subprocess.run([BIN / "wide_and_deep", "--local", "--lines=4000", "--test-lines=100", f"--save={save}", *flags], cwd=tmp_path, check=True, timeout=100,
                       env={**os.environ, "PADDLE_PS_CHECKPOINT_DIR": "all", "PADDLE_PS_CHECKPOINT_STEPS": "10"}, capture_output=True)

    def grow():
        """As a server does: the MANIFEST, which makes a checkpoint complete, comes last."""
        (tmp_path / "grows").mkdir(exist_ok=True)
        for c in sorted(set(os.listdir(tmp_path / "all")) - set(os.listdir(tmp_path / "grows"))):
            shutil.copytree(tmp_path / "all" / c, tmp_path / "grows" / c, ignore=lambda folder, names: ["MANIFEST"])
            shutil.copy(tmp_path / "all" / c / "MANIFEST", tmp_path / "grows" / c / "new")
            os.rename(tmp_path / "grows" / c / "new", tmp_path / "grows" / c / "MANIFEST")

    def alone():
        out, = subprocess.run([*predict, "--test=one"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=100).stdout.split()
        return out
    predict = [BIN / "wide_and_deep", "--predict", "--load=grows", "--batch-size=1"]
    run(tmp_path, "wide_and_deep", "--generate=d", "--lines=10", "--test-lines=1")
    line = (tmp_path / "d/test/part-00000.txt").read_text()
    (tmp_path / "one").write_text(line)
    train("m1")
    grow()
    before = alone()
    train("m2", "--load=m1", "--epochs=2")
    os.mkfifo(tmp_path / "lines")
    p = subprocess.Popen([*predict, "--refresh=1ms", "--test=lines"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with open(tmp_path / "lines", "w") as to:
        def ask():
            to.write(line)
            to.flush()
            return p.stdout.readline().strip()
        assert ask() == before
        (tmp_path / "grows/ckpt-000000000999").mkdir()
        assert ask() == before
        (tmp_path / "grows/ckpt-000000000999").rmdir()
        grow()
        after = ask()
    assert after == alone() != before
    out, err = p.communicate(timeout=100)
    assert p.returncode == 0 and out == "" and err.count("newer checkpoint") == 1 and "TEST ---> " in err, err
