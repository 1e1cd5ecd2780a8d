"""paddlert.data: samples of text files as NumPy's, in C's threads."""
import gzip
import json
import os
import pathlib
import re
import random
import signal
import time

from ports import free_port
from wheel import finish, package, python  # noqa: F401

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/data.md"
MASK = (1 << 64) - 1


def fnv(column, value):
    """The id that docs/data.md promises."""
    h = 0xcbf29ce484222325
    for c in str(column).encode() + value.encode():
        h = (h ^ c) * 0x100000001b3 & MASK
    return h


def test_criteo_as_numpy(python, tmp_path):
    """Of a file packed by gzip; ids have all 64 bits, and arrays outlive their batch and the reader."""
    r = random.Random(3)
    rows = [[r.randint(0, 1), *(r.choice(["", r.randint(0, 900)]) for _ in range(13)), *("%x" % r.getrandbits(32) for _ in range(26))]
            for _ in range(3000)]
    with gzip.open(tmp_path / "day.gz", "wt") as f:
        f.writelines("\t".join(map(str, row)) + "\n" for row in rows)
    out, = finish(python("""
from paddlert.data import Dataset
data = Dataset("*.gz", "criteo", batch=512, scale=False)
batches = list(data)
print([len(b) for b in batches], batches[0].ids.dtype, batches[0].ids.shape, data.counts(), data.describe())
ids, dense, labels = (np.concatenate([getattr(b, k) for b in batches]) for k in ("ids", "dense", "labels"))
one = batches[3]["C2"]
del batches, data
print(ids[0, 0], ids[2999, 25], one[7] == ids[3 * 512 + 7, 1], int(labels.sum()), int(dense.sum()), dense.dtype)
"""))
    first, second = out.splitlines()
    assert first == ("[512, 512, 512, 512, 512, 440] uint64 (512, 26) Counts(epoch=0, samples=3000, bad=0, text='') 1 of 1 file")
    assert second == (f"{fnv(14, rows[0][14])} {fnv(39, rows[2999][39])} True {sum(row[0] for row in rows)} "
                      f"{sum(x for row in rows for x in row[1:14] if x != '')} float32")


def test_slots_ragged_and_padded(python, tmp_path):
    (tmp_path / "lines").write_text("click:1 user:7 tag:3 tag:18446744073709551615 dense_feature:0.5 dense_feature:2\n"
                                    "\nclick:0 tag:9\nclick:0 tag:x\nclick:1 user:1\n")
    out, = finish(python("""
import warnings
from paddlert.data import Dataset
warnings.simplefilter("error")
spec = dict(slots=["user", "tag"], dense={"dense_feature": 2}, batch=8)
try:
    for b in Dataset("lines", "slots", **spec):
        print(b["tag"].values.tolist(), b["tag"].offsets, b["user"].offsets, b["dense_feature"][0], b["click"], b.values.dtype)
except UserWarning as w:
    print(w)
try:
    list(Dataset("lines", "slots", **spec, max_bad=0))
except paddlert.InvalidError as e:
    print(e)
"""))
    lines = out.splitlines()
    assert lines[0] == "[3, 18446744073709551615, 9] [0 2 3 3] [0 1 1 2] [0.5 2. ] [1. 0. 1.] uint64"
    assert lines[1] == "lines that cannot be used: 1 skipped, first: lines:4: word 2 is \"tag:x\", expected an id, a whole number below 2^64, 3 samples"
    assert lines[2].startswith("\"lines\" has too many lines that cannot be used: 1 skipped, first: lines:4: ")


def test_a_worker_without_a_line_is_a_warning(python, tmp_path):
    """Of fewer lines than workers: its steps would be waited for."""
    (tmp_path / "short").write_text("y,a\n0,1\n1,2\n")
    out, = finish(python("""
import warnings
from paddlert.data import Dataset
for rank in range(3):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        n = len(list(Dataset("short", "csv", label="y", dense=["a"], rank=rank, world=3)))
    print(n, *(str(w.message) for w in said if w.category is UserWarning))
"""))
    lines = out.splitlines()
    assert lines[0].startswith('0 worker 0 of 3 has no line of "short" (') and lines[1:] == ["1", "1"], out


def test_columns_and_counted_values(python, tmp_path):
    (tmp_path / "a.csv").write_text("user,age,bought\n12,0.5,true\n,NA,0\n")
    (tmp_path / "b.tsv").write_text("0\t3\tx\n")
    (tmp_path / "multi").write_text("2 7 8 1 1 1 0.25\n")
    out, = finish(python("""
from paddlert.data import Dataset
for d in (Dataset("a.csv", "csv", label="bought", dense="age", slots="user", ids="number", batch=4, fill=99),
          Dataset("b.tsv", "tsv", label="y", dense="x", slots=["z"], columns=["y", "x", "z"], vocabulary=1000),
          Dataset("multi", "multislot", label="y", dense="x", slots=["z"], columns=["z", "y", "x"], pad=2)):
    for b in d:
        print(b.labels, b.dense.ravel(), b.ids.tolist(), b.counts.tolist(), d.slots)
for wrong in (dict(format="csv", label="bought", slots=["usr"]), dict(format="arff"), dict(format="slots", slots=2, rank=2, world=2),
              dict(format="criteo", slots=3), dict(format="multislot", slots=["z"], columns=["y"])):
    try:
        list(Dataset("a.csv", **wrong))
    except ValueError as e:
        print(e)
"""))
    assert out.splitlines() == [
        "[1. 0.] [0.5 0. ] [[12], [99]] [[1], [0]] ['user']", f"[0.] [3.] [[{fnv(14, 'x') % 1000}]] [[1]] ['z']",
        "[1.] [0.25] [[[7, 8]]] [[2]] ['z']",
        "a.csv:1: no column \"usr\" in the header \"user,age,bought\", did you mean \"user\"?",
        "format is 'arff', expected one of slots, criteo, csv, tsv, multislot", "rank is 2, expected 0 to 1, as world is 2",
        "dense, slots and columns of \"criteo\" are fixed, expected none of them",
        "columns are ['y'], expected the names of label, dense and slots, in the order of a line: ['label', 'z']"]


def test_shares_orders_and_positions(python, tmp_path):
    """Workers of the environment's job read each line once; another pass has another order; a stored position continues it."""
    for i in range(3):
        (tmp_path / f"part-{i}").write_text("".join(f"click:1 n:{100 * i + k}\n" for k in range(100)))
    out = finish(*(python("""
import json
from paddlert.data import Dataset
def data(**more):
    return Dataset("part-*", "slots", slots="n", pad=1, batch=7, shuffle=40, seed=3, **more)
d = data()
passes = [[int(i) for b in d for i in b.ids[:, 0]] for _ in range(2)]
twice = [int(i) for b in data(repeat=2) for i in b.ids[:, 0]]
d, seen = data(repeat=2), []
for b in d:
    seen += map(int, b.ids[:, 0])
    if len(seen) > 110:
        break
at = json.loads(json.dumps(d.position()))
d = data(repeat=2)
d.restore(at)
seen += [int(i) for b in d for i in b.ids[:, 0]]
first = d.position()                       # the iteration has ended: where the next one begins
e = data(repeat=2)
e.restore(first)
assert [int(i) for b in e for i in b.ids[:, 0]] == [int(i) for b in d for i in b.ids[:, 0]]
assert first["pass"] == first["began"] == 2 and e.position()["pass"] == 4
at_last = data()
for b in at_last:
    at = at_last.position()
e = data()
e.restore(at)                              # within the iteration, behind its last batch: nothing is left of it
assert [len(list(e)), [int(i) for b in e for i in b.ids[:, 0]] == passes[1]] == [0, True]
print(json.dumps([passes, passes[0] == passes[1], twice == sum(passes, []), seen == twice, d.describe(), d.rank]))
""", TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(w), PADDLE_TRAINERS_NUM="2", PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:1")
        for w in range(2)))
    found = [json.loads(o) for o in out]
    assert sorted(found[0][0][0] + found[1][0][0]) == list(range(300)) == sorted(found[0][0][1] + found[1][0][1])
    assert [f[1:] for f in found] == [[False, True, True, f"{2 - w} of 3 files", w] for w in range(2)]


def test_a_signal_ends_a_wait_and_a_fork_is_refused(python, tmp_path):
    """Ctrl-C while nobody writes to a pipe; a child of the process has to open its own reader, and can."""
    os.mkfifo(tmp_path / "pipe")
    p = python("""
import os, threading
from paddlert.data import Dataset
d = Dataset("pipe", "slots", slots=1)
try:
    print("waits", flush=True)
    next(iter(d))
except KeyboardInterrupt:
    print("ended", flush=True)
os._exit(0)
""")
    assert p.stdout.readline() == "waits\n"
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    time.sleep(0.3)                      # mostly it waits by then
    p.send_signal(signal.SIGINT)
    assert finish(p) == ["ended\n"]
    os.close(writer)
    (tmp_path / "lines").write_text("click:1 1:5\nclick:1 1:6\n")
    out, = finish(python("""
import os
from paddlert.data import Dataset
d = Dataset("lines", "slots", slots=1, pad=1)
i = iter(d)
first = next(i)
child = os.fork()
try:
    print(next(i).ids, flush=True)
except paddlert.InvalidError as e:
    print(e, [int(b.ids[0, 0]) for b in d], flush=True)
if not child:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""))
    assert sorted(out.splitlines()) == ["0", "[[6]]", "the reader of samples belongs to the process that opened it: iterate over the Dataset again "
                                        "[5, 6]"]


def test_two_iterations_at_once_and_arguments_that_are_wrong(python, tmp_path):
    """One in the other, as over any sequence; an iterator that is read by two threads says so."""
    (tmp_path / "lines").write_text("click:1 1:5\nclick:1 1:6\n")
    out, = finish(python("""
import pickle, threading
from paddlert.data import Dataset
d = Dataset("lines", "slots", slots=1, pad=1)
print([(int(a.ids[0, 0]), [int(b.ids[0, 0]) for b in d]) for a in d])
i = iter(d)
next(i)
print([int(b.ids[0, 0]) for b in pickle.loads(pickle.dumps(d))], [int(b.ids[0, 0]) for b in i])
for wrong in (dict(batch=0), dict(batch=1.5), dict(pad=-1), dict(share="lines"), dict(repeat=0), dict(max_bad=-1), dict(pipe_command=3), dict(rank=0, world=0)):
    try:
        Dataset("lines", "slots", slots=1, **wrong)
        print("taken", wrong)
    except (TypeError, ValueError):
        pass
for position in ({}, {**d.position(), "file": 7}, {**d.position(), "check": 1}, {**d.position(), "began": 10**12}, 3):
    try:
        d.restore(position)
        print("taken", position)
    except (TypeError, ValueError):
        pass
print(Dataset("lines", "slots", slots=np.int64(1)).slots)
try:
    Dataset(None, "slots")
except TypeError as e:
    print(e)
"""))
    assert out.splitlines() == ["[(5, [5, 6]), (6, [5, 6])]", "[6] [6]", "['1']", "files is None, expected a path"]


def test_mixed_lines_have_another_worker_in_each_pass(python, tmp_path):
    """Three workers, uneven files; each line once in each pass, by whatever seed."""
    for i, n in enumerate((7, 500, 93)):
        (tmp_path / f"part-{i}").write_text("".join(f"click:1 n:{1000 * i + k}\n" for k in range(n)))
    out = finish(*(python(f"""
import json
from paddlert.data import Dataset
d = Dataset("part-*", "slots", slots="n", pad=1, batch=64, shuffle=50, seed={w}, rank={w}, world=3, share="mixed")
print(json.dumps([[int(i) for b in d for i in b.ids[:, 0]] for _ in range(2)] + [d.describe()]))
""") for w in range(3)))
    found = [json.loads(o) for o in out]
    every = [1000 * i + k for i, n in enumerate((7, 500, 93)) for k in range(n)]
    for epoch in range(2):
        assert sorted(sum((f[epoch] for f in found), [])) == every
    assert all(f[2] == "1/3 of the lines of 3 files" and len(set(f[0]) & set(f[1])) < 120 and 100 < len(f[0]) < 300 for f in found), found


def test_global_shuffle_moves_each_sample_to_one_worker(python, tmp_path):
    """Uneven files; samples arrive whole; again and again; over a group of one's own or of the job's addresses."""
    for i, n in enumerate((5, 900, 95)):
        (tmp_path / f"part-{i}").write_text("".join(f"1 {1000 * i + k} 1 {k}.5 {k % 4} {' '.join(['7'] * (k % 4))}\n" for k in range(n)))
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    program = """
import json, sys, types
from paddlert import _kept, fleet
_kept.ROUND = 1000                          # many rounds, of which workers have uneven numbers
rank = int(sys.argv[1])
price = types.SimpleNamespace(name="price", dtype="paddle.float32", shape=[-1, 1])
fleet.init()
d = fleet.InMemoryDataset()
d.init(batch_size=16, use_var=["key", price, "tags"])
d.set_filelist([f"part-{rank}"])
d.load_into_memory()
def keys():
    found = []
    for b in d:
        k = b["key"].values
        assert (np.diff(b["tags"].offsets) == k % 1000 % 4).all() and (b["tags"].values == 7).all() and (b["price"] == k % 1000 + .5).all()
        found += map(int, k)
    return found
orders = [keys()]
d.global_shuffle(fleet)
orders.append(keys())
with paddlert.Group(paddlert.Job()) as group:
    d.global_shuffle(group)
    orders.append(keys())
    other = fleet.InMemoryDataset()
    other.init(use_var=["key", price, "tags"] if rank else ["key", price, "words"])
    other.set_filelist([f"part-{rank}"])
    other.load_into_memory()
    try:
        other.global_shuffle(fleet, group=group)
    except ValueError as e:
        orders.append(str(e))
print(json.dumps(orders), d.get_shuffle_data_size())
"""
    out = finish(*(python(program, rank, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM="3",
                          PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:1", PADDLE_TRAINER_ENDPOINTS=",".join(endpoints)) for rank in range(3)))
    found = [json.loads(o.rpartition(" ")[0]) for o in out]
    every = [1000 * i + k for i, n in enumerate((5, 900, 95)) for k in range(n)]
    for i in range(3):
        assert sorted(sum((f[i] for f in found), [])) == every
    for f, o in zip(found, out):
        assert 250 < len(f[1]) < 420 and 250 < len(f[2]) < 420 and f[1] != sorted(f[1]) and len(set(f[1]) & set(f[2])) < 200
        assert int(o.split()[-1]) == len(f[2]) and f[3].startswith("the variables of rank ")


def test_fleets_datasets(python, tmp_path):
    """QueueDataset in the order of lines, through a command; InMemoryDataset in an order of its own, with the same samples."""
    (tmp_path / "lines").write_text("".join(f"{k};{','.join(['7'] * (k % 3))}\n" for k in range(50)))
    (tmp_path / "generator.py").write_text("""
import sys
for line in sys.stdin:
    key, tags = line.strip().split(";")
    tags = tags.split(",") if tags else []
    print(1, key, 1, 0.5, len(tags), *tags)
""")
    out, = finish(python("""
import sys, types
from paddlert import fleet
price = types.SimpleNamespace(name="price", dtype="paddle.float32", shape=[-1, 1])
def made(kind):
    d = kind()
    d.init(batch_size=20, thread_num=2, use_var=["key", price, "tags"], pipe_command=f"{sys.executable} generator.py")
    d.set_filelist(["lines"])
    return d
d = made(fleet.QueueDataset)
keys = [int(k) for b in d for k in b["key"].values]
print([len(b) for b in d], keys == list(range(50)))
m = made(fleet.InMemoryDataset)
m.load_into_memory()
orders = []
for _ in range(3):
    orders.append([int(k) for b in m for k in b["key"].values])
    for b in m:
        sizes = np.diff(b["tags"].offsets)
        assert (sizes == b["key"].values % 3).all() and (b["tags"].values == 7).all() and (b["price"] == 0.5).all()
    m.local_shuffle()
print(m.get_memory_data_size(), orders[0] == keys, orders[1] != orders[2], [sorted(o) == keys for o in orders])
m.release_memory()
fleet.init(fleet.UserDefinedRoleMaker(worker_num=2, server_endpoints=["127.0.0.1:1"]))
n = made(fleet.InMemoryDataset)
n.load_into_memory()
for wrong in (lambda: next(iter(m)), lambda: n.global_shuffle(), lambda: m.init(fs_name="hdfs://a"), lambda: next(iter(fleet.QueueDataset()))):
    try:
        wrong()
    except paddlert.Error as e:
        print(e)
for wrong in (lambda: m.set_batch_size(0), lambda: m.set_batch_size(-1), lambda: m.set_thread(-1), lambda: m.set_filelist("lines"),
              lambda: m.set_use_var("key"), lambda: m.set_use_var(["key", price, "price"])):
    try:
        wrong()
    except (TypeError, ValueError) as e:
        print(e)
"""))
    lines = out.splitlines()
    assert lines[:2] == ["[20, 20, 10] True", "50 True True [True, True, True]"]
    assert [line.partition(",")[0] for line in lines[2:]] == [
        "this dataset is not in memory", "global_shuffle sends samples to other workers", "fs_name is 'hdfs://a'",
        "this dataset has no files or no variables", "batch_size is 0", "batch_size is -1", "thread_num is -1", "filelist is 'lines'",
        "use_var is 'key'", "use_var has a name twice"]


CLIENT = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
echo "click:1 1:$(wc -l <"$CALLS")"
"""


def test_the_page_s_commands_for_stores(python, tmp_path):
    """Each row of its table, with a stand-in for the client: what it is asked for, and that what it prints arrives."""
    rows = re.findall(r"^\| [^|]*\| (.*?) \| `(.*)` \|$", PAGE.read_text().partition("### HDFS and object stores")[2].partition("\n## ")[0], re.M)[1:]
    (tmp_path / "bin").mkdir()
    for name in ("hadoop", "curl", "aws", "ossutil", "gcloud"):
        (tmp_path / "bin" / name).write_text(CLIENT)
        (tmp_path / "bin" / name).chmod(0o755)
    paths = [path.strip("`") for path, _ in rows]
    paths = [paths[i - 1] if path == "the same" else path for i, path in enumerate(paths)]
    (tmp_path / "stores.list").write_text("\n".join(paths))
    out, = finish(python("""
import json, sys
from paddlert.data import Dataset
paths = open("stores.list").read().split()
for path, command in zip(paths, json.loads(sys.argv[1])):
    print([b.ids[:, 0].tolist() for b in Dataset(path, "slots", slots=1, pad=1, batch=2, pipe_command=command)])
print([b.ids[:, 0].tolist() for b in Dataset("stores.list", "slots", slots=1, pad=1, batch=8, pipe_command="echo click:1 1:7")])
""", json.dumps([command for _, command in rows]), PATH=f"{tmp_path}/bin:{os.environ['PATH']}", CALLS=str(tmp_path / "calls"), UGI="me,secret",
                         ENDPOINT="https://bos"))
    assert out.splitlines() == [*(f"[[{i + 1}]]" for i in range(8)), "[[7, 7, 7, 7, 7, 7, 7, 7]]"]
    assert (tmp_path / "calls").read_text().splitlines() == [
        "hadoop fs -cat hdfs://namenode:9000/clicks/part-0",
        "curl -sSfL http://namenode:9870/webhdfs/v1/clicks/part-0?op=OPEN",
        "hadoop fs -Dhadoop.job.ugi=me,secret -cat afs://host:9902/clicks/part-0",
        "aws s3 cp s3://bucket/clicks/part-0 -",
        "aws s3 cp --endpoint-url https://bos s3://bucket/clicks/part-0 -",
        "ossutil cat oss://bucket/clicks/part-0",
        "gcloud storage cat gs://bucket/clicks/part-0",
        "curl -sSf --retry 5 https://host/clicks/part-0",
    ]


def test_the_page_as_it_stands(python, tmp_path):
    """All its programs, one after the other, in one Python."""
    (tmp_path / "criteo").mkdir()
    for i in range(2):
        (tmp_path / f"criteo/part-{i}").write_text("\n".join("\t".join(["1"] + [str(k)] * 13 + ["a"] * 26) for k in range(1200)))
    (tmp_path / "clicks.txt").write_text("click:1 user:17 tag:3 tag:9 price:0.5\nclick:x\nclick:0 user:4\n")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S))
    out, = finish(python("import warnings; warnings.simplefilter('ignore')\n" + program + "print(step, len(batch), later.counts().samples)"))
    assert out.splitlines() == ["1.0 [17] [3 9]", "0.0 [4] []", "[[1, 2], [3]]", "2 1 1 skipped, first: clicks.txt:2: word 1 is \"click:x\", expected "
                                "a number from -1e15 to 1e15, or nothing", "3 352 2400"]
