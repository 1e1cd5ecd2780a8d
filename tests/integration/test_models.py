"""The models of examples/ as their documents start them, on this machine; docs/documents.md."""
import json
import math
import os
import pathlib
import re
import subprocess

import pytest

from rig import BIN, ROOT, SANITIZED, free_port, listens, logistic_loss, wait_for
from test_documents import shells  # noqa: F401
from test_local import check_expected, pipeline
from test_mpi import LAUNCHERS, paddlerun, run


@pytest.mark.deadline(240)
@pytest.mark.parametrize("model", ["logistic", "deepfm", "ctr_dnn", "word2vec", "recommendation"])
def test_a_models_job_as_processes(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    r = pipeline(ROOT / f"examples/{model}/job.yaml")
    text = r.stdout.decode(errors="replace")
    assert r.returncode == 0, text[-3000:]
    check_expected(text, model)


def test_logistic_resumes_from_its_model(tmp_path):
    """Alone, twice; and a line that is none is named."""
    subprocess.run([BIN / "logistic-data", "data"], cwd=tmp_path, check=True, timeout=60)
    losses = []
    for _ in range(2):
        r = subprocess.run([BIN / "logistic", "data"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        assert re.fullmatch(r"(TRAIN ---> pass: \d loss: \d\.\d{6}\n\n)+", r.stdout), r.stdout
        values = subprocess.run([BIN / "paddlerun", "ckpt", "export", "--table=dense", "model"], cwd=tmp_path, check=True,
                                capture_output=True, text=True, timeout=60).stdout.split()
        losses.append(logistic_loss(tmp_path / "data", map(float, values)))
    assert math.log(2) > losses[0] > losses[1], losses          # untrained, trained, trained on
    for line in ("1,0.5,x,1,1", "1,1,2,3", "1,1,2,3,4,5", "1,1,2,3,4 5", "1,1e20,2,3,4", "1,inf,2,3,4", "nan,1,2,3,4"):
        (tmp_path / "bad").write_text(f"0,1,2,3,4\n{line}\n")
        r = subprocess.run([BIN / "logistic", "bad"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert r.returncode == 2 and r.stderr == "logistic: bad:2: expected 1, 0 or -1,x1,x2,x3,x4\n", (line, r.stderr)


def test_a_server_that_is_ended_says_so_and_nothing_of_a_failure():
    """paddlerun ends servers once the operator knows that training is over; the workers need not have said it."""
    port = free_port()
    env = {**os.environ, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port), "PADDLE_TRAINERS_NUM": "1",
           "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}"}
    p = subprocess.Popen([BIN / "wide_and_deep"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for(lambda: listens(port))
        p.terminate()
        out = p.communicate(timeout=60)[0]
    finally:
        p.kill()
    assert p.returncode == 1 and 'msg="ended before all trainers had finished"' in out and "ended by signal 15" in out and "failed" not in out, out


def launched(model, workers, flags, home):
    """What workers print who train together, with one server; alone for 0."""
    home.mkdir()
    words = [BIN / "paddlerun", "launch", "--server_num=1", f"--worker_num={workers}"] if workers else []
    r = subprocess.run([str(w) for w in [*words, BIN / model, *flags]], cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, timeout=100)
    logs = [f.read_text() for f in sorted(home.rglob("workerlog.*")) if not f.is_symlink()] or [r.stdout]
    assert r.returncode == 0, "\n".join([r.stdout[-2000:], *logs])
    return logs


CTR = ["--mode=sync", "--optimizer=sgd:lr=0.05", "--lines=4000", "--test-lines=1000", "--save="]
EQUAL = {   # model: flags, that of the batch, of one worker of two
    "wide_and_deep": (CTR, "--batch-size", 50),
    "deepfm": (CTR, "--batch-size", 50),
    "ctr_dnn": (CTR, "--batch-size", 50),
    # One file: lines in turn.
    "recommendation": (["--mode=sync", "--optimizer=sgd:lr=0.01", "--split=1", "--ratings=4000"], "--batch-size", 50),
}


@pytest.mark.parametrize("model", EQUAL)
def test_two_in_step_are_one_with_twice_the_batch(model, tmp_path):
    flags, batch, n = EQUAL[model]

    def loss(name, workers, size):
        text = "\n".join(launched(model, workers, [*flags, f"{batch}={size}"], tmp_path / name))
        return float(re.findall(r"^TEST ---> .*?loss: ([0-9.]+)", text, re.M)[-1])

    two, one, other = loss("two", 2, n), loss("one", 0, 2 * n), loss("other", 0, n)
    assert abs(two - one) < 1e-5 and abs(other - one) > 1e-4, (two, one, other)


@pytest.mark.deadline(240)
def test_async_ranks_as_well_as_sync(tmp_path):
    """As many updates of as many samples each: in step, each worker has half of a batch.  Measured: 0.8780 in step, 0.8773 and
    0.8782 not; of 60,000 lines 0.8757 in step, 0.8665 to 0.8679 in 8 runs not (20,000 are too few: 0.860, 0.809 to 0.832)."""
    lines, most = (60000, 0.02) if SANITIZED else (120000, 0.003)

    def auc(mode, batch):
        flags = [f"--mode={mode}", f"--batch-size={batch}", f"--lines={lines}", "--save="]
        text = "\n".join(launched("wide_and_deep", 2, flags, tmp_path / mode))
        return float(re.findall(r"^TEST ---> .*auc: ([0-9.]+)", text, re.M)[-1])

    in_step, alone = auc("sync", 50), auc("async", 100)
    assert alone > in_step - most, (in_step, alone)


def test_paddlerecs_lines_train_the_same(tmp_path):
    """The same samples in both formats: the same model."""
    ends = []
    for i, more in enumerate([[], ["--slots"]]):
        made = [BIN / "deepfm", "--generate", f"data{i}", "--lines=1000", "--test-lines=500", "--files=3", *more]
        subprocess.run(made, cwd=tmp_path, check=True, timeout=60)
        ends.append(launched("deepfm", 0, ["--train", f"../data{i}", "--mode=sync", "--save="], tmp_path / f"run{i}")[0].splitlines()[-1])
    assert ends[0] == ends[1] and "TEST --->" in ends[0], ends
    line = (tmp_path / "data1/train/part-00000.txt").read_text().splitlines()[0]
    assert re.fullmatch(r"click:[01]( dense_feature:\S+){13}( \d+:\d+){26}", line), line


@pytest.mark.parametrize("own", [True, False])
def test_each_worker_of_recommendation_has_a_list_of_its_own(own, tmp_path):
    """0.10: train.list differs from node to node, and each node reads all of its own; else they share one list's lines."""
    for i in range(2):
        subprocess.run([BIN / "recommendation", "prepare", f"--out=own{i}", "--split=1", "--ratings=1000"], cwd=tmp_path, check=True, timeout=60)
        lines = (tmp_path / f"own{i}/ratings.dat.train-00000").read_text().splitlines(True)[:800]
        (tmp_path / f"own{i}/ratings.dat.train-00000").unlink()
        (tmp_path / f"own{i}/node{i}").write_text("".join(lines))
        (tmp_path / f"own{i}/train.list").write_text(f"node{i}\n")
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/sh\nexec {BIN}/recommendation --data={tmp_path}/own${{PADDLE_TRAINER_ID:-0}} --mode=async --batch-size=100 "
                      f"--period=1 --save-dir= {'--own-list' if own else ''}\n")
    script.chmod(0o755)
    for log in launched(script, 2, [], tmp_path / "run"):
        assert len(re.findall(r"^Pass 0 Batch \d+ Cost", log, re.M)) == (8 if own else 4), log


# ---- what Paddle's programs take, and ours only accept ----

@pytest.mark.parametrize("program", ["wide_and_deep", "word2vec", "recommendation", "resnet50"])
def test_flags_of_paddles_programs_are_accepted_and_said_to_do_nothing(program, tmp_path):
    """PaddleRec's --is_cloud=1; a GPU that is asked for is one warning.  prepare, or generating, is the shortest run."""
    short = {"wide_and_deep": ["--generate=d", "--lines=10", "--test-lines=10"], "resnet50": ["--generate=d", "--images=8", "--image-size=32"]}
    words = short.get(program, ["prepare", "--out=d"])

    def said(*more, **env):
        r = subprocess.run([BIN / program, *words, *more], cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, timeout=200)
        return r.returncode, re.findall(r"--is_cloud has no effect|computes on the CPU: .*ignored=\S+", r.stderr)
    gpu = 'computes on the CPU: this program has no code for GPUs" ignored='
    assert said("--is_cloud=1") == (0, ["--is_cloud has no effect"])
    assert said("--use_gpu=1", PADDLE_INIT_USE_GPU="True") == (0, [f"{gpu}--use_gpu"])
    assert said(PADDLE_INIT_USE_GPU="True") == (0, [f"{gpu}PADDLE_INIT_USE_GPU"]) and said(PADDLE_INIT_USE_GPU="False") == (0, [])
    code, _ = said(PADDLE_INIT_TRAINER_COUNT="many")
    assert code == 2


def test_recommendation_by_the_words_of_paddle_py(tmp_path):
    """`--config=recommendation` with the flags of Paddle's run.sh, in its workspace: data/ml-1m is the user's."""
    def do(*words, **env):
        r = subprocess.run([str(w) for w in words], cwd=tmp_path, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **env},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        return r.returncode, r.stdout
    assert do("recommendation", "prepare", "--out=made", "--ratings=3000", "--users=40")[0] == 0
    (tmp_path / "data").mkdir()
    (tmp_path / "made/ml-1m").rename(tmp_path / "data/ml-1m")
    (tmp_path / "data/ml-1m/GENERATED").unlink()
    mine = (tmp_path / "data/ml-1m/ratings.dat").read_bytes()
    assert do("recommendation", "prepare")[0] == 0
    assert (tmp_path / "data/ml-1m/ratings.dat").read_bytes() == mine and not (tmp_path / "data/GENERATED").exists()
    flags = ["--dot_period=10", "--log_period=2", "--num_passes=2", "--trainer_count=4", "--local=0", "--save_dir=./out", "--use_gpu=0"]
    (tmp_path / "recommendation").mkdir()       # which is no program
    code, out = do(BIN / "paddlerun", "train", "--config=recommendation", *flags)
    assert code == 0 and sorted(p.name for p in (tmp_path / "out").iterdir()) == ["pass-00000", "pass-00001"], out
    assert re.findall(r"^Pass (\d) Batch (\d+) ", out, re.M)[:2] == [("0", "0"), ("0", "2")] and "Pass 1 Batch" in out, out
    assert (tmp_path / "data/ml-1m/ratings.dat").read_bytes() == mine
    # What the command says wins, and what is no number is an error of the variable.
    code, out = do("recommendation", "--passes=1", "--save-dir=one", PADDLE_INIT_NUM_PASSES="2", PADDLE_INIT_SAVE_DIR="two")
    assert code == 0 and [p.name for p in (tmp_path / "one").iterdir()] == ["pass-00000"] and not (tmp_path / "two").exists(), out
    code, out = do(BIN / "paddlerun", "train", "--config=recommendation", "--num_passes=1", "--save_dir=")
    assert code == 0 and not (tmp_path / "output").exists(), out
    code, out = do("recommendation", "--help", PADDLE_INIT_NUM_PASSES="many")
    assert code == 0 and "--num_passes" not in out and "--passes" in out, out
    code, out = do("recommendation", PADDLE_INIT_NUM_PASSES="many")
    assert code == 2 and "PADDLE_INIT_NUM_PASSES" in out, out


def test_a_users_ratings_are_never_replaced_nor_mixed_with_generated_ones(tmp_path):
    def do(*words, code=0):
        r = subprocess.run([BIN / "recommendation", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        assert r.returncode == code, r.stdout
        return r.stdout
    do("prepare", "--out=made", "--ratings=3000", "--users=40")
    (tmp_path / "made/ml-1m").rename(tmp_path / "real")
    (tmp_path / "real/GENERATED").unlink()
    # What cannot be read makes nothing of generated data a user's.
    do("prepare", "--ratings=300")
    do("prepare", "--ml=typo", code=1)
    assert (tmp_path / "data/GENERATED").exists()
    # A user's ratings in the same place: kept, and not trained with users and movies that were made up.
    do("prepare", "--ml=real")
    mine = (tmp_path / "data/ratings.dat.train-00000").read_bytes()
    assert "keeps it" in do("prepare", code=1) and (tmp_path / "data/ratings.dat.train-00000").read_bytes() == mine
    assert "--ml names the directory" in do(code=2)
    do("--ml=real", "--save-dir=")
    # Users and movies without ratings are a user's, too.
    (tmp_path / "two/ml-1m").mkdir(parents=True)
    for name in "users.dat", "movies.dat":
        (tmp_path / "two/ml-1m" / name).write_bytes((tmp_path / "real" / name).read_bytes())
    assert "keeps it" in do("prepare", "--out=two", code=1)


def test_generated_text_never_replaces_a_users(tmp_path):
    """word2vec without --data trains with what was prepared of a text; what it generates, it generates again."""
    def do(*words):
        r = subprocess.run([BIN / "word2vec", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        assert r.returncode == 0, r.stdout
        return (tmp_path / "word2vec_data/word_dict").read_text()
    for name in "train", "valid":
        (tmp_path / f"ptb.{name}.txt").write_text("a b c d e f g\n" * 60)
    subprocess.run([BIN / "word2vec", "prepare"], cwd=tmp_path, check=True, capture_output=True, timeout=200)
    assert subprocess.run([BIN / "word2vec", "prepare", "--text=nowhere"], cwd=tmp_path, capture_output=True, timeout=200).returncode == 1
    assert (tmp_path / "word2vec_data/GENERATED").exists()
    mine = do("prepare", "--text=.", "--split=1")
    r = subprocess.run([BIN / "word2vec", "prepare"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert r.returncode == 1 and "keeps it" in r.stderr, r.stderr
    assert do("--save=") == mine and "t0w" not in mine
    (tmp_path / "word2vec_data/GENERATED").write_text("")
    made = do("--save=", "--sentences=1500")
    assert "t0w" in made and do("prepare", "--sentences=3000") != made


def test_recommendation_predicts_and_finds_its_best_pass(tmp_path):
    """evaluate says of each pass what its training's test says; prediction.py's line, of words and of stdin."""
    def ask(*words, code=0, **more):
        r = subprocess.run([BIN / "recommendation", *words], cwd=tmp_path, capture_output=True, text=True, timeout=200, **more)
        assert r.returncode == code, r.stderr
        return r.stdout if code == 0 else r.stderr
    ask("prepare", "--out=data", "--ratings=4000", "--users=40")
    tests = []
    for passes in 1, 2:     # passes are the same in each training
        out = ask("--data=data", "--mode=sync", f"--passes={passes}", f"--save-dir=out{passes}")
        tests.append(re.search(r"TEST ---> loss: (\S+)", out)[1])
    said = ask("evaluate", "--data=data", "--save-dir=out2").splitlines()
    assert said[:2] == [f"pass-0000{i}: error is {loss}" for i, loss in enumerate(tests)]
    said_of_last = said[1]
    best = min((float(loss), i) for i, loss in enumerate(tests))
    m = re.fullmatch(r"Best pass is (\d{5}), error is (\S+), which means predict get error as (\S+)", said[2])
    assert (float(m[2]), int(m[1])) == best and abs(float(m[3]) - math.sqrt(best[0]) / 2) < 1e-5, said
    (loss,) = map(json.loads, ask("evaluate", "--data=data", "--json", "--load=out2/pass-00000").splitlines())
    assert loss["model"] == "out2/pass-00000" and f"{loss['loss']:.6f}" == tests[0]

    # The square error of the test's own ratings, asked one at a time, is the loss that evaluate has.
    files = (tmp_path / "data/test.list").read_text().split()
    where = next(p for p in (tmp_path / files[0], tmp_path / "data" / files[0], pathlib.Path(files[0])) if p.exists())
    ratings = [line.split("::") for line in where.read_text(encoding="latin1").splitlines()]
    lines = ask("predict", "--data=data", "--load=out2/pass-00000", "--json", input="".join(f"{u} {m}\n" for u, m, *_ in ratings)).splitlines()
    scores = [json.loads(line) for line in lines]
    assert [(s["user"], s["movie"]) for s in scores] == [(int(u), int(m)) for u, m, *_ in ratings]
    square = sum((2 * s["stars"] - 5 - (2 * float(r[2]) - 5)) ** 2 for s, r in zip(scores, ratings, strict=True)) / len(ratings)
    assert abs(square - loss["loss"]) < 1e-3 * square, (square, loss)
    user, movie = ratings[0][:2]
    command = f"yes {user} {movie} | {BIN}/recommendation predict --data=data --load=out2/pass-00000 | head -1; echo ${{PIPESTATUS[1]}}"
    said = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert said.stdout.endswith("\n1\n") and "cannot write to stdout" in said.stderr, said

    # Without --load the newest pass.
    words = ask("predict", "--data=data", "--save-dir=out2", "3", "7", "8")
    assert words == ask("predict", "--data=data", "--load=out2/pass-00001", "3", "7", "8")
    assert [re.sub(r"is \S+$", "", line) for line in words.splitlines()] == [
        f"user 3, movie {m}, {title}: Prediction Score " for m, title in titles(tmp_path / "data/ml-1m", "7", "8")], words
    assert "users.dat has no user 9999" in ask("predict", "--data=data", "--save-dir=out2", "9999", "1", code=2)
    assert "expected their numbers" in ask("predict", "--data=data", "--save-dir=out2", "x", "1", code=2)
    assert "--features" in ask("predict", "--data=data", "--save-dir=out2", "--features=9", "1", "1", code=2)
    assert "no pass in" in ask("evaluate", "--data=data", "--save-dir=data", code=1)

    # A pass that is damaged leaves the others, and is named.
    for part in (tmp_path / "out2/pass-00000").rglob("*"):
        if part.is_file():
            part.write_bytes(part.read_bytes()[:-9])
    r = subprocess.run([BIN / "recommendation", "evaluate", "--data=data", "--save-dir=out2"], cwd=tmp_path, capture_output=True, text=True,
                       timeout=200)
    assert r.returncode == 1 and r.stdout.splitlines()[0] == said_of_last and r.stdout.splitlines()[1].startswith("Best pass is 00001, "), r
    assert 'pass left out" pass=pass-00000' in r.stderr and "1 of 2 passes cannot be read, first: checkpoint " in r.stderr, r


def titles(folder, *movies):
    lines = dict(line.split("::")[:2] for line in (folder / "movies.dat").read_text(encoding="latin1").splitlines())
    return [(m, lines[m]) for m in movies]


# ---- word2vec ----

NGRAM = ["--optimizer=adam:lr=0.003", "--embedding-optimizer=adam:lr=0.003", "--dropout=0"]
CLASSIC = (r"^Pass 1, Batch 100, Cost [0-9.]+, {'classification_error_evaluator': [0-9.]+}, "
           r"Testing metrics {'classification_error_evaluator': [0-9.]+}$")


def prepared(home, *flags):
    subprocess.run([BIN / "word2vec", "prepare", "--out=data", "--sentences=1500", "--min-freq=20", *flags], cwd=home, check=True,
                   timeout=60)
    return home / "data"


def loss_of(text):
    return float(re.findall(r"^TEST ---> loss: ([0-9.]+)", text, re.M)[-1])


def test_word2vec_says_which_words_are_near(tmp_path):
    """As NEAREST of the training says; by either model; words of stdin; json; an analogy; what is not there."""
    prepared(tmp_path)

    def ask(*words, code=0, **more):
        r = subprocess.run([BIN / "word2vec", *words], cwd=tmp_path, capture_output=True, text=True, timeout=100, **more)
        assert r.returncode == code, r.stderr
        return r.stdout if code == 0 else r.stderr
    for model, flags in ("ngram", NGRAM), ("skipgram", []):
        trained = ask("--data=data", f"--model={model}", *flags, "--period=0", f"--save={model}", "--nearest=2")
        word, *near = re.search(r"NEAREST ---> (\S+): (\S+) (\S+) (\S+)\n", trained).groups()
        said = ask("nearest", "--data=data", f"--load={model}", "--top=3", word)
        assert re.fullmatch(rf"{word}: {near[0]} \S+, {near[1]} \S+, {near[2]} \S+\n", said), (said, near)
        line = json.loads(ask("nearest", "--data=data", f"--load={model}", "--top=3", "--json", input=f"{word}\n"))
        assert line["of"] == word and [n["word"] for n in line["nearest"]] == near
        cosines = [n["cosine"] for n in line["nearest"]]
        assert cosines == sorted(cosines, reverse=True) and all(-1 <= c <= 1.001 for c in cosines)
    one = json.loads(ask("analogy", "--data=data", "--load=ngram", "--json", word, *near[:2]))
    assert len(one["nearest"]) == 10 and not {word, *near[:2]} & {n["word"] for n in one["nearest"]}
    # A is to A as C is to what?  C itself is left out, and the answer is its neighbour.
    same = json.loads(ask("analogy", "--data=data", "--load=ngram", "--json", "--top=1", near[1], near[1], near[0]))
    assert same["nearest"][0]["word"] in ask("nearest", "--data=data", "--load=ngram", "--top=2", near[0])
    assert "expected three" in ask("analogy", "--data=data", "--load=ngram", "a", code=2)
    assert "is none of the" in ask("nearest", "--data=data", "--load=ngram", "nobody", code=2)
    assert "nowhere" in ask("nearest", "--data=data", "--load=nowhere", word, code=1)
    assert "expected the folder of the training" in ask("nearest", "--load=ngram", word, code=1)
    # Questions that do not end, and a reader of the answers that does.
    command = f"yes {word} | {BIN}/word2vec nearest --data=data --load=ngram | head -1; echo ${{PIPESTATUS[1]}}"
    said = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert said.stdout.endswith("\n1\n") and "cannot write to stdout" in said.stderr, said


def test_word2vec_by_pserver_and_hand(shells):  # noqa: F811
    """0.10: `paddle pserver`, then trainers that read PADDLE_INIT_*; each reads the files whose numbers are its own."""
    prepared(shells.home)
    port = free_port()
    server = shells.start("paddlerun", "pserver", f"--port={port}", "--ports_num=1", "--ports_num_for_sparse=1",
                          "--num_gradient_servers=2", "--nics=lo")
    wait_for(lambda: "Waiting parameterServer[1]" in server.read_text(), why=shells.story)
    for i in range(2):
        shells.start("word2vec", "--data=data", "--passes=2", *NGRAM, f"--save=model{i}", PADDLE_INIT_USE_GPU="False",
                     PADDLE_INIT_TRAINER_COUNT="1", PADDLE_INIT_PORT=str(port), PADDLE_INIT_PORTS_NUM="1",
                     PADDLE_INIT_PORTS_NUM_FOR_SPARSE="1", PADDLE_INIT_NUM_GRADIENT_SERVERS="2", PADDLE_INIT_TRAINER_ID=str(i),
                     PADDLE_INIT_PSERVERS="127.0.0.1")
    server, first, second = shells.finish()
    assert "all 2 trainers have finished" in server, shells.story()
    assert re.search(CLASSIC, first, re.M) and re.search(CLASSIC, second, re.M), shells.story()
    assert "2 of 3 files" in first and "1 of 3 files" in second, shells.story()
    assert loss_of(first) < 4.5 and "TEST --->" not in second and (shells.home / "model0").exists(), shells.story()


def test_word2vec_under_mpirun(tmp_path):
    """0.10 with OpenMPI, as start_mpi_train.sh: a server a host, a trainer a rank."""
    prepared(tmp_path)
    (tmp_path / "machines").write_text("127.0.0.1 slots=2\n")
    program = [BIN / "word2vec", f"--data={tmp_path}/data", "--mode=sync", "--passes=2", *NGRAM, f"--save={tmp_path}/model"]
    code, out = run([*LAUNCHERS["openmpi"], "-n", "2", *paddlerun("--log_dir=logs", "--", *program)], tmp_path)
    assert code == 0, out
    text = (tmp_path / "logs/train.log").read_text()
    assert re.search(CLASSIC, text, re.M) and loss_of(text) < 4.5 and (tmp_path / "model").exists(), text


@pytest.mark.parametrize("model", ["ngram", "skipgram"])
def test_two_of_word2vec_in_step_are_one_with_twice_the_batch(model, tmp_path):
    """A file each for two; for one the same lines, batch by batch in turn.  Skip-gram without draws, which each makes of its own."""
    data, n, steps = prepared(tmp_path, "--split=2"), 20, 100
    files = sorted((data / "train_data_dir").iterdir())
    lines = [f.read_text().splitlines()[:n * steps] for f in files]
    for f, part in zip(files, lines):
        f.write_text("\n".join(part) + "\n")
    one = tmp_path / "one"
    (one / "train_data_dir").mkdir(parents=True)
    (one / "train_data_dir/train.txt-00000").write_text(
        "".join(line + "\n" for i in range(0, n * steps, n) for part in lines for line in part[i:i + n]))
    (one / "test_data_dir").symlink_to(data / "test_data_dir")
    (one / "word_dict").symlink_to(data / "word_dict")
    flags = ["--mode=sync", "--optimizer=sgd:lr=0.05", "--dropout=0", "--period=0", "--save=", f"--model={model}", "--negatives=0"]

    def loss(name, workers, where, size):
        return loss_of("\n".join(launched("word2vec", workers, [*flags, f"--data={where}", f"--batch-size={size}"], tmp_path / name)))

    two, same, other = loss("a", 2, data, n), loss("b", 0, one, 2 * n), loss("c", 0, one, n)
    assert abs(two - same) < 1e-5 and abs(other - same) > 1e-4, (two, same, other)
