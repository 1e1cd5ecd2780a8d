"""The package paddlert, from its wheel: tables and groups on NumPy arrays, errors as exceptions, Ctrl-C."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from rig import ROOT, free_port, wait_for
from wheel import finish, package, python  # noqa: F401


def test_tables_on_a_server_of_the_program(python):
    out, = finish(python("""
s = paddlert.Server(workers=1)
s.job().report(3, "loss", 0.5)
tables = [paddlert.Dense("w", 3, "sgd:lr=0.5"), paddlert.Sparse("e", 4, "sgd:lr=1", init="zero")]
with paddlert.Client(s.job(), tables) as c:
    w = c.init("w", [1, 2, 3])
    c.push("e", [[1, 2], [3, 1]], np.ones((2, 2, 4)))
    c.exchange("w", np.ones(3), w)
    c.flush()
    print(c.pull("e", [1, 9])[:, 0], c.pull("w"), c.pull_start("e", [3]).wait()[0, 0], c.stat("e")["rows"])
    c.save("ck")
s.wait(60)
m = paddlert.Model("ck")
print(m.sparse("e", [2, 1])[:, 3], m.dense("w"))
"""))
    assert out.splitlines() == ["[-2.  0.] [0.5 1.5 2.5] -1.0 3", "[-1. -2.] [0.5 1.5 2.5]"]


def test_rates_places_and_checkpoints(python):
    """What else a client does; a trainer that is started again finds where it was."""
    out, = finish(python("""
s = paddlert.Server()
tables = [paddlert.Dense("w", 2, "sgd:lr=0.5"), paddlert.Sparse("e", 2, "sgd:lr=1", init="zero", evict="ctr:delete_threshold=0.8")]
c = paddlert.Client(s.job(), tables, mode="async", queue_max=4, lease=20)
w = c.init("w", [1, 1])
print(c.mode, c.resume(), c.rate("w")["lr"])
c.set_rate("w", 0.25)
c.push("e", [1, 2], np.ones((2, 2)), shows=[9, 9], clicks=[5, 0])
c.exchange("w", [1, 1], w)
c.keep(b"line 7")
c.step()
c.flush()
print(c.rate("w")["lr"], c.pull("w"), c.pull("e", [1, 2])[:, 0], c.checkpoint("points"))
c.push("e", [1], np.ones((1, 2)))
c.flush()
print(c.restore("points"), c.pull("e", [1])[0], c.shrink("e") >= 0, c.stat("e")["late"])
c.close()
try:
    c.pull("w")
except paddlert.InvalidError as e:
    print(e)
with paddlert.Client(s.job(), tables, mode="async") as c:
    c.init("w", [0, 0])
    print(c.resume())
try:
    paddlert.Client(s.job(), tables, lease_ms=3)
except TypeError as e:
    print(str(e)[:48])
s.wait(60)
"""))
    assert out.splitlines() == ["async (0, b'') 0.5", "0.25 [0.75 0.75] [-1. -1.] 1", "1 [-1. -1.] True 0", "the client is closed",
                                "(1, b'line 7')", "there is no option 'lease_ms', expected one of b"]


def test_a_server_on_an_older_kernel(python):
    """One that has no epoll_pwait2 (before 5.11), as seccomp makes this one."""
    out, = finish(python("""
import ctypes, struct
LOAD_NUMBER, IS, RETURN, EPOLL_PWAIT2, FAILS, ALLOWED = 0x20, 0x15, 0x06, 441, 0x50000 + 38, 0x7fff0000
rows = ((LOAD_NUMBER, 0, 0, 0), (IS, 0, 1, EPOLL_PWAIT2), (RETURN, 0, 0, FAILS), (RETURN, 0, 0, ALLOWED))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *r) for r in rows))
program = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, ctypes.get_errno()
assert libc.syscall(EPOLL_PWAIT2, 0, None, 0, None, None, 0) == -1 and ctypes.get_errno() == 38
s = paddlert.Server()
with paddlert.Client(s.job(), [paddlert.Sparse("e", 4, "sgd:lr=1", init="zero")], call_timeout=60) as c:
    c.push("e", [1], np.ones((1, 4)))
    c.flush()
    print(c.pull("e", [1])[0, 0])
s.wait(60)
"""))
    assert out == "-1.0\n"


def test_two_servers_and_two_trainers_in_step(python):
    """python -m paddlert server; sync: the mean of both gradients."""
    servers = ",".join(f"127.0.0.1:{free_port()}" for _ in range(2))
    run = [python("", "-m", "paddlert", "server", "--servers", servers, "--index", i, "--workers", 2) for i in range(2)]
    run += [python(f"""
job = paddlert.Job(servers="{servers}".split(","), worker={i}, workers=2)
with paddlert.Client(job, [paddlert.Dense("w", 2, "sgd:lr=1")], mode="sync") as c:
    w = c.init("w", np.zeros(2))
    for _ in range(3):
        c.exchange("w", np.full(2, {i} + 1.0), w)
        c.step()
    print(w, job.worker_index, job.worker_num, job.is_first_worker)
""") for i in range(2)]
    out = finish(*run)
    assert out[2:] == ["[-4.5 -4.5] 0 2 True\n", "[-4.5 -4.5] 1 2 False\n"]


@pytest.mark.parametrize("role", ["job", "fleet"])
def test_a_server_that_is_named_keeps_the_environments_token(python, role):
    """One without the token is refused; who names the servers in arguments, too, has that of its environment."""
    port = free_port()
    server = python("", "-m", "paddlert", "server", "--servers", f"127.0.0.1:{port}", PADDLE_JOB_TOKEN="secret", PADDLE_JOB_ENCRYPT="1")
    worker = f"""
from paddlert import fleet
if {role == "job"}:
    job = paddlert.Job(servers=["127.0.0.1:{port}"], worker=0)
else:
    job = fleet.UserDefinedRoleMaker(server_endpoints=["127.0.0.1:{port}"]).job()
"""
    says = {"the server encrypts, this trainer does not": {}, "the token is not this job's": {"PADDLE_JOB_TOKEN": "other", "PADDLE_JOB_ENCRYPT": "1"}}
    try:
        for why, environment in says.items():
            assert why in finish(python(worker + """
try:
    paddlert.Client(job, [paddlert.Dense("w", 3)], start_timeout=20)
except paddlert.Error as e:
    print(e)
""", **environment))[0]
        finish(python(worker + "paddlert.Client(job, [paddlert.Dense('w', 3)]).finish()", PADDLE_JOB_TOKEN="secret", PADDLE_JOB_ENCRYPT="1"))
        finish(server)
    finally:
        server.kill()
        server.communicate()


def test_a_token_in_arguments_goes_before_the_environments(python):
    out, = finish(python("""
s = paddlert.Server(token="mine", encrypt=False)
for token in (None, "mine"):
    try:
        paddlert.Client(paddlert.Job(servers=[s.endpoint], worker=0, token=token, encrypt=False), [paddlert.Dense("w", 3)]).finish()
        print("joined")
    except paddlert.DeniedError as e:
        print("refused")
s.wait(60)
""", PADDLE_JOB_TOKEN="other", PADDLE_JOB_ENCRYPT="1"))
    assert out.split() == ["refused", "joined"]


def test_arguments_without_a_place_go_before_the_environment(python):
    """Token, encryption, name and number of trainers; the place, and an option that is not given, are the environment's."""
    address = f"127.0.0.1:{free_port()}"
    place = {"PADDLE_PSERVERS_IP_PORT_LIST": address, "PADDLE_JOB_TOKEN": "other"}
    server = python("paddlert.Job(name='n', token='mine', encrypt=True, workers=2).serve()", **place, TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1",
                    PADDLE_PORT=address.rpartition(":")[2])
    out = finish(server, *(python("""
job = paddlert.Job(name="n", token="mine", encrypt=True, workers=2)
paddlert.Client(job, [paddlert.Dense("w", 3)]).finish()
print(job.name, job.worker_index, job.worker_num, paddlert.Job(workers=2).name)
for argument in ({"token": "mine"}, {"encrypt": False}, {"name": "n"}, {"workers": 1}, {"worker": 0}, {"servers": []}):
    try:
        paddlert.Job(variables={}, **argument)
    except TypeError as e:
        print(e)
""", **place, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(i), PADDLE_JOB_ID="m", ODD=os.fsdecode(b"\xff")) for i in range(2)))
    says = ["variables are all of the environment, expected no other argument beside them"] * 6
    assert [o.splitlines() for o in out[1:]] == [[f"n {i} 2 m", *says] for i in range(2)], out


@pytest.mark.parametrize("server, trainer", [(True, True), (False, False), (True, False), (False, True)])
def test_encrypt_is_an_option_of_servers_and_of_clients(python, server, trainer):
    """It goes before the job's, which here says the opposite."""
    address = f"127.0.0.1:{free_port()}"
    out, = finish(python(f"""
import threading
end = paddlert._lib.C.rt_server_end
place = {{"servers": ["{address}"], "token": "t"}}
s = paddlert.Job(server=0, encrypt={not server}, **place)
job = paddlert.Job(worker=0, encrypt={not trainer}, **place)
def serve():
    try:
        s.serve(handle_signals=False, encrypt={server})
    except paddlert.CanceledError as e:
        print(e)
thread = threading.Thread(target=serve)
thread.start()
for encrypt in ({trainer}, 2):
    try:
        paddlert.Client(job, [paddlert.Dense("w", 3)], encrypt=encrypt, start_timeout=20).finish()
        print("joined")
    except (paddlert.Error, TypeError) as e:
        print(type(e).__name__, e)
end(s._job)
thread.join()
"""))
    assert "option 'encrypt' is 2, expected True or False" in out
    assert out.startswith("joined\n" if server == trainer else "InvalidError "), out


def test_a_server_that_cannot_start_raises_where_it_is_made(python, tmp_path):
    """It has its port before it looks at its checkpoints."""
    (tmp_path / "file").touch()
    out, = finish(python(f"""
for _ in range(5):
    try:
        paddlert.Server(checkpoint_dir={str(tmp_path / "file")!r})
    except paddlert.Error as e:
        print(type(e).__name__, e)
"""))
    assert out.count(f'cannot list "{tmp_path}/file"') == 5, out


def test_a_server_on_a_thread_can_be_stopped(python):
    """With a trainer, without one, at the end of with; its port is free then."""
    out, = finish(python("""
import socket
with paddlert.Server() as s:
    c = paddlert.Client(s.job(), [paddlert.Dense("w", 3)], lease=1)
    c.init("w", np.ones(3))
s.close()
try:
    c.pull("w")
except paddlert.Error as e:
    print(type(e).__name__)
c.close()
with socket.socket() as again:
    again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    again.bind(("127.0.0.1", int(s.endpoint.rpartition(":")[2])))
    again.listen()
    try:
        paddlert.Server(port=again.getsockname()[1]).wait(60)
    except paddlert.UnavailableError as e:
        print("taken")
paddlert.Server().close()
"""))
    assert out.split() == ["PeerLostError", "taken"]


def test_a_server_takes_the_options_of_c(python, tmp_path):
    """By name, times in seconds; what Python has a keyword for with an underscore."""
    out, = finish(python(f"""
import pathlib
kept = pathlib.Path({str(tmp_path)!r}) / "kept"
with paddlert.Server(return_=2.5, lease=5, shards=1, memory_max=1 << 26, nonfinite="skip", checkpoint_dir=kept) as s:
    with paddlert.Client(s.job(), [paddlert.Dense("w", 3, "sgd:lr=1")], return_=1) as c:
        c.init("w", np.zeros(3))
        c.push("w", [1, np.nan, 2])
        print(c.pull("w").tolist(), c.stat("w")["nonfinite"])
        try:
            c.checkpoint({str(tmp_path / "elsewhere")!r})
        except paddlert.Error as e:
            print("kept" in str(e), (kept.parent / "elsewhere").exists())
for options in ({{"nonfinite": "skipp"}}, {{"returns": 3}}, {{"lease_ms": 3}}, {{"lease_": 3}}, {{"lease": "3"}}, {{"shards": -1}},
                {{"memory_max": 1.5}}, {{"cold_dir": 3}}):
    try:
        paddlert.Server(**options).wait(60)
    except (TypeError, ValueError) as e:
        print(e)
"""))
    said = out.splitlines()
    assert said[:2] == ["[-1.0, 0.0, -2.0] 1", "True False"], out
    assert said[2] == "nonfinite is 'skipp', expected one of refuse, skip, allow", out
    assert said[3].startswith("there is no option 'returns', expected one of ") and " return_," in said[3], out
    assert said[4].startswith("there is no option 'lease_ms', expected one of "), out
    assert said[5].startswith("there is no option 'lease_', expected one of "), out
    assert said[6:] == ["option 'lease' is '3', expected seconds", f"option 'shards' is -1, expected a whole number from 0 to {2**32 - 1}",
                        "option 'memory_max' is 1.5, expected a whole number",
                        "option 'cold_dir' is 3, expected a text or a path"], out


@pytest.mark.parametrize("words, says", [
    (["--servers", "a:1", "--index", 3], "--index is 3, expected 0 to 0 as --servers names 1"),
    (["--index", -1], "argument --index: '-1', expected a whole number of at least 0"),
    (["--servers", "a"], '"a"'),
    ([], "the environment describes worker 0 of 1, expected TRAINING_ROLE=PSERVER in it, or --servers")])
def test_a_server_that_is_started_wrong(python, words, says):
    p = python("", "-m", "paddlert", "server", *words)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 2 and says in err.splitlines()[-1] and "Traceback" not in err, err


def test_a_cell_that_runs_again_leaves_nothing_open(python):
    """As in a notebook: the second run's names take the place of the first one's, whose server and trainer end; one that is still open is named at
    once, and so is a server that has ended."""
    out, = finish(python("""
import os
def tell(f, *a, **k):
    try:
        print("taken:", f(*a, **k))
    except paddlert.InvalidError as e:
        print(str(e).replace(server.endpoint, "HERE"))
idle = paddlert.Server(start_timeout=3600)       # which no trainer joins
thread = idle._thread
del idle
thread.join(60)
print(thread.is_alive())
tables = [paddlert.Dense("w", 3), paddlert.Sparse("e", 2)]
cell = "server = paddlert.Server(return_=3600); client = paddlert.Client(server.job(), tables)"
endpoints = []
for _ in range(3):
    exec(cell)
    endpoints.append(server.endpoint)
    threads = [t for t in paddlert.ps.threading.enumerate() if t.name == "paddlert-server"]
    for t in threads[:-1]:
        t.join(60)
    print(len([t for t in threads if t.is_alive()]), client.pull("w"))
tell(exec, "client = paddlert.Client(server.job(), tables)")
client.finish()
server.wait(60)
tell(paddlert.Client, server.job(), tables)
job = paddlert.Server().job()                    # keeps it
with paddlert.Client(job, tables) as c:
    print(c.pull("w"), repr(c).replace(job.servers[0], "THERE"))
print(repr(c).replace(job.servers[0], "THERE"), repr(server).replace(server.endpoint, "HERE"))
for _ in range(2):                               # tables of this process are each client's own
    alone = paddlert.Client(paddlert.Job(worker=0), tables)
    other = paddlert.Client(paddlert.Job(worker=0), tables)
    print(other.pull("w"))
"""))
    assert out.splitlines() == [
        "False", *["1 [0. 0. 0.]"] * 3,
        "<paddlert.Client of w, e on HERE, trainer 0> is open in this process, expected its finish() or close() before another client of trainer 0",
        "<paddlert.Server HERE, ended>: it ends with its last trainer, expected a new paddlert.Server()",
        "[0. 0. 0.] <paddlert.Client of w, e on THERE, trainer 0>", "<paddlert.Client of w, e on THERE, trainer 0, closed> <paddlert.Server HERE, ended>",
        "[0. 0. 0.]", "[0. 0. 0.]"], out


def test_the_notebooks_cells_are_a_program(python):
    """As plain Python, whose progress is lines; tests/python runs them in a kernel."""
    cells = json.loads((ROOT / "examples/python/notebook.ipynb").read_text())["cells"]
    assert not any(c.get("outputs") or c.get("execution_count") for c in cells)          # nothing of who ran it last
    out, = finish(python("\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")))
    lines = out.splitlines()
    assert lines[-2:] == [lines[-2], "{0: [-4.5, -4.5], 1: [-4.5, -4.5]}"] and lines[-2].startswith("accuracy "), out
    assert lines[-3].startswith("train: 300 of 300 batches, ") and ", loss 0." in lines[-3], out


def test_progress_is_a_line_once_in_a_while(python):
    out, = finish(python("""
import re
def tell(f, *a, **k):
    try:
        f(*a, **k)
    except TypeError as e:
        print(e)
for i in (p := paddlert.Progress([1, 2], name="train", seconds=0)):
    p.show(loss=np.float32(0.5) / i, auc=i)
for i in paddlert.Progress((i for i in range(9)), seconds=1e9):
    if i == 3:
        break
for i in paddlert.Progress([]):
    pass
tell(p.show, loss="0.5")
tell(paddlert.Progress, 3)
tell(paddlert.Progress, [3], seconds=None)
"""))
    speed = r"\d+\.\d a second"
    assert re.fullmatch(fr"train: 1 of 2 batches, {speed}, loss 0.5, auc 1\ntrain: 2 of 2 batches, {speed}, loss 0.25, auc 2\n3 batches, {speed}\n"
                        r"loss is '0.5', expected a number\nbatches is 3, expected something to iterate over\nseconds is None, expected a number\n",
                        out), out


def test_a_group_of_two(python):
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python(f"""
with paddlert.Group(endpoints={endpoints}, rank={i}) as g:
    a = np.full(5, {i} + 1.0, np.float32)
    work = g.all_reduce(a, "max", start=True)
    b = np.array([{i} * 7], np.int64)
    g.broadcast(b, root=1)
    print(work.wait()[0], g.all_reduce(a)[4], g.all_gather(a)[:, 0], b, g.reduce_scatter(np.stack([a, a]), "avg")[0])
    half = g.split({i})
    print(half.size, g.all_to_all(np.arange(2.0) + 10 * {i}))
""") for i in range(2)))
    assert out == [f"2.0 3.0 [1. 2.] [7] 1.5\n1 [ {i}. 1{i}.]\n" for i in range(2)], out


def test_an_export_takes_the_old_ones_place_when_it_is_on_the_disk(python):
    """A disk that is full leaves what was there, and nothing beside it."""
    out, = finish(python("""
import os
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Dense("w", 3)]) as c:
    c.save("saved")
model, said = paddlert.Model("saved"), []
sync, replace = os.fsync, os.replace
def synced(fd):
    parts = os.path.basename(os.readlink(f"/proc/self/fd/{fd}")).split(".")
    said.append(f"sync {parts[0]} {parts[-1]}")
    sync(fd)
os.fsync = synced
os.replace = lambda *names: said.append("replace") or replace(*names)
os.mkdir("out")
model.export("out/w.npz")
print(said)
def full(out, array, **more):
    out.write(b"half")
    raise OSError(28, "No space left on device")
np.lib.format.write_array = full
for file in ("out/w.npz", "nowhere/w.npz"):
    try:
        model.export(file)
    except OSError as e:
        print(e)
print(os.listdir("out"), np.load("out/w.npz")["w"])
"""))
    assert out.splitlines() == ["['sync w part', 'replace', 'sync out out']", "[Errno 28] No space left on device: 'out/w.npz'",
                                "[Errno 2] No such file or directory: 'nowhere/w.npz'", "['w.npz'] [0. 0. 0.]"], out


def test_a_save_into_a_checkpoint_of_servers_is_refused(python):
    out, = finish(python("""
import os
c = paddlert.Client(paddlert.Job(variables={}), [paddlert.Dense("w", 4), paddlert.Sparse("e", 2)])
c.checkpoint("ck")
c.checkpoint("ck")
try:
    c.save("ck/ckpt-000000000002")
except paddlert.InvalidError as e:
    print(e)
print(sorted(name for name in os.listdir("ck/ckpt-000000000002") if "part" not in name))
c.restore("ck")
"""))
    said = 'save to "ck/ckpt-000000000002": "ck/ckpt-000000000002/MANIFEST" is not of save(), which would replace it: '
    assert out.startswith(said + "it is of a checkpoint that servers wrote") and out.endswith("\n['MANIFEST']\n"), out


def test_an_export_follows_links_and_replaces_only_files(python):
    out, = finish(python("""
import os, stat
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Dense("w", 3)]) as c:
    c.save("saved")
model = paddlert.Model("saved")
os.mkdir("out")
open("out/w.npz", "w").close()
os.symlink("out/w.npz", "link.npz")
model.export("link.npz")
print(os.path.islink("link.npz"), os.listdir("out"), np.load("out/w.npz")["w"])
os.mkfifo("fifo.npz")
os.symlink("nowhere", "lost.npz")
for name in ["fifo.npz", "lost.npz", "out"]:
    try:
        model.export(name if "." in name else os.rename("out", "out.npz") or "out.npz")
    except paddlert.InvalidError as e:
        print(e)
print(stat.S_ISFIFO(os.stat("fifo.npz").st_mode), sorted(os.listdir(".")))
"""))
    kind = "it is a directory, a device or the like, expected a file"
    assert out.splitlines() == [
        "True ['w.npz'] [0. 0. 0.]", f'cannot write "fifo.npz": {kind}', 'cannot write "lost.npz": it is a link that leads to no file',
        f'cannot write "out.npz": {kind}', "True ['fifo.npz', 'link.npz', 'lost.npz', 'out.npz', 'saved']"], out


def test_calls_that_differ_are_named_in_pythons_words(python):
    """On both ranks, in a call of a group, too, as a barrier is."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python(f"""
with paddlert.Group(endpoints={endpoints}, rank={i}) as g:
    try:
        g.all_reduce(np.ones(3, np.int64)) if {i} else g.barrier()
    except paddlert.InvalidError as e:
        print(e)
""") for i in range(2)))
    assert out == ["barrier: ranks make different calls: rank 1: all_reduce of 3 int64, sum; this rank: barrier\n",
                   "all_reduce: ranks make different calls: rank 0: barrier; this rank: all_reduce of 3 int64, sum\n"], out


def test_models_that_differ_are_an_invalid_argument_on_all_ranks(python):
    """Whichever is the first to learn it, and gives the group up: to the others it is no rank that was lost."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    out = finish(*(python(f"""
from paddlert._parallel import agree
for n in range(20):
    try:
        with paddlert.Group(endpoints={endpoints}, rank={i}, generation=n + 1) as g:
            agree(g, [("w", "float32 [{i // 2}]")])
    except paddlert.InvalidError as e:
        print(e)
""") for i in range(3)))
    says = 'the models of the ranks differ: on rank 2 "w" is float32 [1], on rank 0 "w" is float32 [0]; expected the same model and options on all ranks'
    assert [o.splitlines() for o in out] == [[says] * 20] * 3, out


@pytest.mark.parametrize("job", ["", "servers=['127.0.0.1:1'], workers=2"])
def test_a_group_has_all_trainers_or_none(python, job):
    """Two trainers without any addresses made two groups of one."""
    out, = finish(python(f"""
try:
    paddlert.Group(paddlert.Job({job}))
except paddlert.InvalidError as e:
    print(e)
""", PADDLE_TRAINERS_NUM="2"))
    assert out == "PADDLE_TRAINER_ENDPOINTS has 0 endpoints, expected one of each of 2 trainers\n", out


def test_started_calls_outlive_their_group(python):
    """Rank 1 goes while calls are running.  Each handle says so, also when the group has been shrunk; and each has its
    result when the group is closed."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out, _ = finish(*(python(f"""
both = paddlert.Group(endpoints={endpoints}, rank={i})
g = both.split(0)
works = [] if {i} else [g.all_reduce(np.ones(3), start=True) for _ in range(4)]
both.barrier()
if {i}:
    raise SystemExit
smaller = None
for work in works:
    try:
        work.wait()
    except paddlert.PeerLostError as e:
        print(e)
        smaller = smaller or g.shrink()
g.close()
with smaller:
    works = [smaller.all_reduce(np.full(3, k), start=True) for k in range(4)]
print([int(work.wait()[2]) for work in works])
""") for i in range(2)))
    lines = out.splitlines()
    assert len(lines) == 5 and len(set(lines[:4])) == 1 and "rank 1 " in lines[0] and lines[4] == "[0, 1, 2, 3]", out


@pytest.mark.parametrize("raised, says", [("ValueError('bad batch')", "ValueError: bad batch"), ("KeyboardInterrupt", "KeyboardInterrupt")])
def test_an_exception_gives_a_group_up(python, raised, says):
    """It leaves `with` at once, though a call waits that the other rank does not make; and that one gets the reason."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python(f"""
import time
begun = 0
try:
    with paddlert.Group(endpoints={endpoints}, rank={i}, call_timeout=100) as g:
        g.barrier()
        begun = time.monotonic()        # both are there
        if {i}:
            g.recv(np.zeros(3), 0)
        work = g.all_reduce(np.ones(3), start=True)
        raise {raised}
except BaseException as e:
    print(f"{{type(e).__name__}}: {{e}}", time.monotonic() - begun < 50)
if not {i}:
    try:
        work.wait()
    except paddlert.CanceledError as e:
        print(e)
""") for i in range(2)))
    assert out[0] == f"{says}{': ' if says == 'KeyboardInterrupt' else ''} True\nall_reduce: this rank has given the group up: {says}\n", out
    assert out[1].startswith("PeerLostError: recv: rank 0 (127.0.0.1:") and f"given the group up: {says}, as" in out[1], out


def test_a_group_on_dlpack_arrays(python):
    """Of another kind than NumPy's: no copy, bfloat16 too, results of the same kind."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python(f"""
import sys, types
mine = sys.modules["mine"] = types.ModuleType("mine")
class Tensor:
    __module__ = "mine"
    def __init__(self, values):
        self.values, self.dtype, self.shape = values, values.dtype, values.shape
    def __dlpack__(self, **_):
        return self.values.__dlpack__()
mine.empty = lambda shape, dtype: Tensor(np.empty(shape, dtype))
with paddlert.Group(endpoints={endpoints}, rank={i}) as g:
    a = Tensor(np.full((2, 3), {i} + 1.0, np.float32))
    print(g.all_reduce(a, out=a) is a, a.values[1, 2], type(g.all_gather(a)).__name__, g.broadcast(a, start=True).wait() is a)
    if {i}:
        g.recv(a, 0)
    else:
        g.send(Tensor(np.full(6, 7, np.float32)), 1)
    print(a.values[0, 0])
    apart = Tensor(np.full((4, 4), {i} + 1.0, np.float32)[:, ::2])
    print(g.all_reduce(apart, out=apart) is apart, apart.values.sum(), g.all_reduce(Tensor(np.zeros((0, 3), np.float32))).shape)
    class OnGPU(Tensor):
        device = "cuda:0"
        def __dlpack__(self, **_):
            capsule = self.values.__dlpack__()
            paddlert.arrays._DLTensor.from_address(paddlert.arrays._capsule_pointer(capsule, b"dltensor")).device = 2
            return capsule
    for bad in (Tensor(np.zeros(3, np.int16)), np.zeros(3, np.complex64), OnGPU(np.zeros(3, np.float32))):
        try:
            g.all_reduce(bad)
        except ValueError as e:
            print(e)
try:
    g.barrier()
except paddlert.InvalidError as e:
    print(e)
""") for i in range(2)))
    wrong = ["True 24.0 (0, 3)", "array is of int16, expected one of float32, float64, float16, bfloat16, int64, int32, uint8",
             "array is of complex64, expected one of float32, float64, float16, bfloat16, int64, int32, uint8",
             "array is on cuda:0, expected one in main memory, as .cpu() makes it", "the group is closed"]
    assert [o.splitlines() for o in out] == [["True 3.0 Tensor True", value, *wrong] for value in ("3.0", "7.0")], out


def test_a_group_on_arrays_in_any_order(python):
    """Transposed, with gaps, reversed, of a class of the program's own, without elements: as those in C's order."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python(f"""
class Mine(np.ndarray):
    pass
with paddlert.Group(endpoints={endpoints}, rank={i}, transport="tcp") as g:
    whole = np.arange(24.0).reshape(2, 3, 4) + {i}
    for a in (whole, whole.transpose(2, 0, 1), whole[:, ::2, 1:3], whole[::-1], whole.view(Mine), whole[:, :0], np.array(5.0 + {i})):
        at = np.array(np.broadcast_to(np.nan, a.shape)) if {i} else a.copy("A")
        work, gathered = g.all_reduce(a, start=True), g.all_gather(a)
        twice = a.copy("A")
        g.all_reduce(twice, out=twice)
        g.broadcast(at, root=0)
        row = g.reduce_scatter(np.stack([a, a], axis=-1).transpose(-1, *range(a.ndim)))
        assert (work.wait() == 2 * a + 1 - 2 * {i}).all() and (twice == work.wait()).all() and (row == twice).all(), a.shape
        assert gathered.shape == (2, *a.shape) and (gathered[{i}] == a).all() and (at == a - {i}).all(), a.shape
    started = np.asfortranarray(np.full((2, 2), {i} + 1.0))
    g.broadcast(started, root=1, start=True).wait()
    part = np.zeros((4, 3))[:, 1]
    print(started[0, 1], g.recv(part, 0).sum() if {i} else g.send(whole[0, :, 0][[0, 1, 2, 2]], 1), end=" ")
    dropped = np.asfortranarray(np.zeros((2, 2)))
    g.all_reduce(np.full((2, 2), {i} + 1.0), out=dropped, start=True)            # a Work that nobody keeps
    g.barrier()
    print(dropped[1, 0], len(g.dropped))
""") for i in range(2)))
    assert out == ["2.0 None 3.0 0\n", "2.0 20.0 3.0 0\n"], out


def test_started_calls_on_one_array_are_one_after_another(python):
    """In C's order or not: a call has the results of those that were started before it, and none of them is written over its own."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    out = finish(*(python(f"""
import itertools
views = (lambda a: a, lambda a: a[::-1])
with paddlert.Group(endpoints={endpoints}, rank={i}, call_timeout=20) as g:
    for places in itertools.product(views, repeat=4):
        at_once, started, dropped = (np.arange(4.0) + 1 for _ in range(3))
        for array in (at_once, started, dropped):
            a, b, c, d = (view(array) for view in places)
            works = []
            for x, y in ((a, a), (b, c), (c, d)):
                work = g.all_reduce(x, out=y, start=array is not at_once)
                works += [work] if array is started else []
                del work
            assert [work.wait() is y for work, y in zip(works[::-1], (d, c, a))] == [True] * len(works)
        g.barrier()
        assert (at_once == started).all() and (at_once == dropped).all(), (places, at_once, started, dropped)
    m = np.array([[1.0, 2.0]] * 3)
    columns = m[:, 0], m[:, 1]                           # apart: a send of one does not wait until the other is received
    if {i}:
        work = g.recv(columns[0], 0, start=True)
        g.send(columns[1], 0)
        work.wait()
    else:
        m += 10
        g.recv(columns[1], 1)
        g.send(columns[0], 1)
    print(m.tolist())
""") for i in range(2)))
    assert out == ["[[11.0, 2.0], [11.0, 2.0], [11.0, 2.0]]\n"] * 2, out


def test_wrong_arguments_are_named_with_what_is_expected(python):
    out, = finish(python("""
import copy, pickle
def tell(f, *a, **k):
    try:
        f(*a, **k)
    except (TypeError, ValueError) as e:
        print(e)
g = paddlert.Group(endpoints=["127.0.0.1:1"])
tell(g.broadcast, [1, 2])
tell(g.all_reduce, np.ones(2), out=[0, 0])
tell(g.recv, (1, 2), 0)
tell(g.broadcast, np.ones(2), root=-1)
tell(g.reduce, np.ones(2), root=1)
tell(g.send, np.ones(2), "a")
tell(g.split, "red")
tell(paddlert.Group, transport="udp")
tell(paddlert.Sparse, "e", 4, dict)
tell(paddlert.Dense, "w", -3)
tell(paddlert.Sparse, 7, 4)
tell(pickle.dumps, g)
tell(copy.deepcopy, paddlert.Job(worker=0))
tell(paddlert.Group, "127.0.0.1:1")
tell(paddlert.Group, endpoints="127.0.0.1:1")
tell(paddlert.Job, servers="127.0.0.1:1")
tell(paddlert.Job, worker=-1)
tell(paddlert.Job, workers="2")
tell(paddlert.Job, worker=5, workers=2)
tell(paddlert.Model, None)
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Dense("w", 3), paddlert.Sparse("e", 2)]) as c:
    tell(c.push, "e", [1])
    tell(c.pull, "e")
    tell(c.pull, "w", [1])
    tell(c.save, None)
    tell(c.keep, "text")
    tell(c.set_rate, "w", "fast")
    tell(c.pull, "w", out=[0, 0, 0])
"""))
    assert out.splitlines() == [
        "array is a list, expected a NumPy array or a tensor, as it is written to",
        "out is a list, expected a NumPy array or a tensor, as it is written to",
        "array is a tuple, expected a NumPy array or a tensor, as it is written to",
        "root is -1, expected a rank from 0 to 0", "root is 1, expected a rank from 0 to 0", "to is 'a', expected a rank from 0 to 0",
        "colour is 'red', expected a whole number", "transport is 'udp', expected one of auto, tcp, shm",
        "option 'optimizer' is <class 'dict'>, expected a text of docs/rules.md or an object of paddlert.optim",
        f"option 'size' is -3, expected a whole number from 0 to {2**64 - 1}", "name is 7, expected a text, the table's name",
        "a Group belongs to this process, and cannot be copied or pickled", "a Job belongs to this process, and cannot be copied or pickled",
        "job is '127.0.0.1:1', expected a paddlert.Job", "endpoints is '127.0.0.1:1', expected a list of texts",
        "servers is '127.0.0.1:1', expected a list of texts", f"worker is -1, expected a whole number from 0 to {2**31 - 1}", "workers is '2', expected a whole number",
        "worker is 5, expected less than workers, which is 2",
        "directory is None, expected a path", "push to table 'e' got 1 arrays, expected ids and gradients, as it is sparse",
        "pull of table 'e' got no ids, but it is sparse", "pull of table 'w' got ids, but it is dense", "directory is None, expected a path",
        "data is a str, expected bytes", "lr is 'fast', expected a number", "out is list, expected a contiguous array of float32 (3,)"], out


def test_values_that_c_types_would_change_are_refused(python):
    """Numbers that its types cut off, texts that end at a NUL, times of less than a millisecond; and what NumPy would."""
    out, = finish(python("""
def tell(f, *a, **k):
    try:
        print("taken:", f(*a, **k))
    except (TypeError, ValueError) as e:
        print(str(e).replace(chr(0), "NUL"))
g = paddlert.Group(endpoints=["127.0.0.1:1"], call_timeout=1e9)
tell(g.split, 1 << 32)
tell(g.split, 0, -1 << 40)
tell(g.all_reduce, np.ma.array([1.0, 2.0], mask=[0, 1]))
tell(paddlert.Group, endpoints=[])
tell(paddlert.Group, endpoints=["127.0.0.1:1"], rank=1 << 32)
tell(paddlert.Group, endpoints=["127.0.0.1:1"], name="a\\0b")
tell(paddlert.Group, endpoints=["127.0.0.1:1"], call_timeout=float("nan"))
tell(paddlert.Group, endpoints=["127.0.0.1:1"], call_timeout=float("inf"))
tell(paddlert.Sparse, "e", (1 << 32) + 8)
tell(paddlert.Dense, "w", (1 << 64) + 3)
tell(paddlert.Dense, "w\\0", 3)
tell(paddlert.Job, variables={"A": "x\\0y"})
tell(paddlert.Job, variables={"PADDLE_JOB_TOKEN": None})
for wrong in ({"token": b"secret"}, {"encrypt": "yes"}, {"name": 3}):
    tell(paddlert.Job, worker=0, **wrong)
job = paddlert.Job(worker=0)
tell(job.report, -1, "loss", 1)
tell(job.report, 1, 2, 1)
with paddlert.Client(job, [paddlert.Dense("w", 4), paddlert.Sparse("e", 2), paddlert.Dense("v", 4)]) as c:
    tell(paddlert.Client, job, [], k_steps=1 << 32)
    tell(c.save, "here\\0there")
    tell(c.push, "e", [1, 2, 3], np.ones((2, 3)))
    tell(c.push, "e", [1], [None, 2])
    tell(c.push, "w", ["1", "2", "3", "4"])
    tell(c.push, "w", np.ones(4, complex))
    tell(c.push, "w", np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 0]))
    tell(c.push, "w", np.ones(3))
    tell(c.init, "e", [1, 2])
    tell(c.pull, "e", np.ma.array([1, 2], mask=[0, 1]))
    c.push("e", [1, 2, 3], np.ones(6))
    c.push("w", np.ones((2, 2)))
print(paddlert.ps.struct_of(paddlert._abi.rt_client_options, {"lease": 1e-4, "return_": -1e-4}).lease_ms)
with paddlert.Server(host="::1") as s, paddlert.Client(s.job(), [paddlert.Dense("w", 1)]) as c:
    print(s.endpoint.startswith("[::1]:"), c.pull("w"))
"""))
    assert out.splitlines() == [
        f"colour is {1 << 32}, expected a whole number from {-1 << 31} to {(1 << 31) - 1}",
        f"key is {-1 << 40}, expected a whole number from {-1 << 31} to {(1 << 31) - 1}",
        "array: a masked array, expected one without a mask: .filled(0) makes it",
        "endpoints is [], expected one for each rank, or None: those of the job",
        f"rank is {1 << 32}, expected a whole number from 0 to {(1 << 32) - 1}",
        "option 'name' is 'a\\x00b', expected no NUL in it", "option 'call_timeout' is nan, expected seconds, less than 1e+12",
        "option 'call_timeout' is inf, expected seconds, less than 1e+12",
        f"option 'dim' is {(1 << 32) + 8}, expected a whole number from 0 to {(1 << 32) - 1}",
        f"option 'size' is {(1 << 64) + 3}, expected a whole number from 0 to {(1 << 64) - 1}",
        "option 'name' is 'w\\x00', expected no NUL in it", "A is 'A=x\\x00y', expected no NUL in it",
        "PADDLE_JOB_TOKEN is None, expected a str", "token is b'secret', expected a str", "encrypt is 'yes', expected a bool",
        "name is 3, expected a str",
        f"step is -1, expected a whole number from 0 to {(1 << 64) - 1}", "name is 2, expected a str",
        f"option 'k_steps' is {1 << 32}, expected a whole number from 0 to {(1 << 32) - 1}",
        "directory is 'here\\x00there', expected no NUL in it",
        "gradients of 3 ids are of shape (2, 3), expected (3, 2) or (6,)", "gradients of 1 ids: object, expected numbers",
        "gradient: <U1, expected numbers", "gradient: complex128, expected numbers",
        "gradient: a masked array, expected one without a mask: .filled(0) makes it",
        "gradient of table 'w': shape (3,), expected 4 numbers", "table 'e' is sparse, expected a dense one",
        "ids: a masked array, expected one without a mask: .filled(0) makes it", "1", "True [0.]"], out


def test_values_of_wrong_python_types_are_named(python):
    """What no table can look up, numbers that no float holds, one thing where a list is expected; and words that the program used."""
    out, = finish(python("""
def tell(f, *a, **k):
    try:
        print("taken:", f(*a, **k))
    except (TypeError, ValueError) as e:
        print(str(e))
from paddlert import fleet
job = paddlert.Job(worker=True - 1, workers=1, servers=["127.0.0.1:1"])
one = ["127.0.0.1:1"]
huge = 2**2000
tell(paddlert.Group, job, endpoints=one, transport=[])
tell(paddlert.Group(endpoints=one).all_reduce, np.ones(2), op=np.ones(2))
tell(paddlert.Group(endpoints=one).send, np.ones(2), 0)
tell(paddlert.Group(endpoints=one).recv, np.ones(2), source=0)
tell(paddlert.Group)
tell(paddlert.Group, endpoints=one, name=[])
tell(paddlert.Group, endpoints=one, token=0)
tell(paddlert.Group, endpoints=one, name="\\ud800")
tell(paddlert.Group, endpoints=one, call_timeout=huge)
tell(paddlert.Group, endpoints=one, rank=1)
tell(paddlert.Job, name={})
tell(paddlert.Job, workers=1 << 40)
tell(paddlert.Job, servers=one, worker=0, workers=True)
tell(paddlert.Dense, "w", True)
tell(paddlert.Group(endpoints=one).broadcast, np.ones(2), root=False)
tell(paddlert.Group, endpoints=one, call_timeout=True)
tell(paddlert.Client, job, [paddlert.Dense("w", 4)], lease=True)
tell(paddlert.Client, job, [paddlert.Dense("w", 4)], merge_max=True)
tell(paddlert.Job, variables=3)
tell(paddlert.Server, host=None)
tell(paddlert.Server, host="")
tell(job.report, 1, "loss", huge)
tell(job.serve, nonfinite=[])
tell(job.serve)
tell(fleet.UserDefinedRoleMaker, server_endpoints="127.0.0.1:1")
tell(fleet.UserDefinedRoleMaker, server_endpoints=one, role=3)
tell(fleet.UserDefinedRoleMaker, server_endpoints=one, current_id="0")
tell(fleet.init, True)
job = paddlert.Job(worker=0)
tell(paddlert.Client, job, None)
tell(paddlert.Client, job, paddlert.Dense("w", 4).name)
tell(paddlert.Client, job, [paddlert.Dense("w", 4)], mode=["sync"])
with paddlert.Client(job, [paddlert.Dense("w", 4), paddlert.Sparse("e", 2)]) as c:
    tell(c.pull, np.ones(2))
    tell(c.pull_start, "w", [1])
    tell(c.set_rate, "w", huge)
    tell(c.set_rate, "w", 1e-60)
    tell(c.shrink, "w")
    tell(c.push, "e", [1, 2], np.ones((2, 2)), shows=[1, 2, 3])
    tell(c.push, "e", [1, 2], np.ones((2, 2)), clicks="ab")
    tell(c.pull, "e", [1, 2], out=np.ones((2, 4), np.float32)[:, ::2])
"""))
    word = f"expected a whole number from 1 to {2**31 - 1}"
    assert out.splitlines() == [
        "transport is [], expected one of auto, tcp, shm", "op is array([1., 1.]), expected one of sum, prod, max, min, avg",
        "to is 0, which is this rank, expected another one", "source is 0, which is this rank, expected another one",
        "job and endpoints are None, expected a paddlert.Job, whose workers these are, or an endpoint for each rank",
        "option 'name' is [], expected a text or a path", "option 'token' is 0, expected a text or a path",
        "option 'name' is '\\ud800', expected a text that can be encoded: surrogates not allowed",
        f"option 'call_timeout' is {str(2**2000)[:160]}..., expected seconds, less than 1e+12",
        "rank 1 of 1 ranks: expected 1 to 4096 ranks, and a rank below their number",
        "name is {}, expected a str", f"workers is {1 << 40}, {word}", "workers is True, expected a whole number",
        "option 'size' is True, expected a whole number", "root is False, expected a rank from 0 to 0",
        "option 'call_timeout' is True, expected seconds", "option 'lease' is True, expected seconds",
        "option 'merge_max' is True, expected a whole number", "variables is 3, expected a mapping", "host is None, expected a str",
        "host is '', expected a name or an address", "value is too large, expected a number that a float holds",
        "nonfinite is [], expected one of refuse, skip, allow",
        "this process is worker 0 of a job with 1 workers, expected a server (TRAINING_ROLE=PSERVER) and at least one worker",
        "server_endpoints is '127.0.0.1:1', expected a list of texts", "role is 3, expected Role.WORKER or Role.SERVER",
        "current_id is '0', expected a whole number", "role_maker is True, expected a paddlert.PaddleCloudRoleMaker",
        "tables is None, expected a list of tables", "tables is 'w', expected a list of tables", "mode is ['sync'], expected one of async, sync, geo",
        "table is a ndarray, expected the name of one: w, e", "pull_start of table 'w', but it is dense",
        "lr is too large, expected a number that a float holds",
        'table "w": sgd: lr is 1e-60, which is 0 as a float: expected 0 or from 1.4013e-45 to 1e+30', 'table "w" is dense, expected a sparse one', "shows are of shape (3,), expected (2,), or one number for all rows",
        "clicks: <U2, expected numbers",
        "out is float32 (2, 2), not contiguous, expected a contiguous array of float32 (2, 2)"], out


def test_what_a_newcomer_writes_is_named_in_pythons_words(python):
    """None where a gradient was expected, a framework's words for its own things, memory that is several values' at once: one line each,
    which says what was given and what was expected, and nothing of C."""
    out, = finish(python("""
def tell(f, *a, **k):
    try:
        print("taken:", f(*a, **k))
    except (TypeError, ValueError, paddlert.Error) as e:
        print(e)
class Tensor:
    def __init__(self, why, negative=False):
        self.dtype, self.device, self.why, self.negative = "float32", "meta", why, negative
    def is_neg(self):
        return self.negative
    def __dlpack__(self, **_):
        raise BufferError(self.why)
class Adam:
    def __repr__(self):
        return "Adam (\\n    lr: 1\\n" + "x" * 300
class Loss:
    ndim = 0
    def item(self):
        return 0.5
from paddlert import init, optim
one = ["127.0.0.1:1"]
g = paddlert.Group(endpoints=one, call_timeout=None, form_timeout=None)
tell(g.all_reduce, None)
tell(g.all_reduce, [[1], [1, 2]])
tell(g.all_reduce, np.ndarray)
tell(g.all_reduce, Tensor("Cannot pack tensors on meta"))
tell(g.all_reduce, Tensor("", negative=True))
tell(g.all_reduce, np.ones(3), out=np.lib.stride_tricks.as_strided(np.ones(1), (3,), (0,)))
tell(g.all_reduce, np.ones(3, int), "avg")
tell(paddlert.Group, endpoints=one, call_timeout=-1)
tell(optim.Adam, learning_rate=1)
tell(optim.Adam, betas=1)
tell(optim.Sum, momentum=1)
tell(init.Constant, value=10**400)
tell(paddlert.Dense, "w", 3, Adam())
tell(paddlert.Dense, "w", 3, lr=0.1)
tell(paddlert.Client, paddlert.Job, [])
tell(paddlert.Sparse, 1000, 8)
tell(paddlert.Sparse, b"e", 8)
tell(paddlert.Sparse, "e", None)
job = paddlert.Job(worker=0)
job.report(1, "loss", Loss())
tell(job.report, 1, "my loss", 1)
tables = [paddlert.Dense("w", 3), paddlert.Sparse("e", 2)]
tell(paddlert.Client, job, tables, lease=-1)
with paddlert.Client(job, tables) as c:
    tell(c.push, "w", None)
    tell(c.init, "w", Tensor("Cannot pack tensors on meta"))
    tell(c.pull, "e", Tensor("Cannot pack tensors on meta"))
    tell(c.checkpoint, "points", "yes")
    c.save("saved")
    tell(c.restore, "saved")
m = paddlert.Model("saved")
tell(m.dense, 3)
tell(m.dense, "e")
tell(m.sparse, "w", [1])
tell(m.export, 3)
with paddlert.Server() as s:
    tell(s.wait, "3")
    tell(s.wait, float("nan"))
"""))
    lines = out.splitlines()
    assert not [line for line in lines if any(word in line for word in ("rt_", "RT_", "CO_", "i64"))], out
    ragged, restored = lines.pop(1), lines.pop(23)
    assert ragged.startswith("array makes no array, expected numbers in rows of equal length: "), out
    assert restored.endswith("expected checkpoints that servers wrote: load() loads it"), out
    meta = "is a Tensor of float32 on meta whose memory cannot be used: Cannot pack tensors on meta; expected a dense one in main memory"
    own = "expected memory of its own for each, as it is written to"
    assert lines == [
        "array is None, expected an array", "array is <class 'numpy.ndarray'>, expected an array", f"array {meta}",
        "array is a view that stands for the negative of its memory, expected .resolve_neg() of it",
        f"out has the same memory for several of its values (expand, broadcast_to), {own}",
        "all_reduce: op avg has no meaning for int64", "option 'call_timeout' is -1, expected seconds, from 0",
        "Adam has no parameter 'learning_rate', expected lr", "Adam has no parameter 'betas', expected beta1",
        "Sum has no parameter 'momentum', expected one of lr, l2, l1, clip_value, clip_norm, min, max",
        "value of Constant is too large, expected a number that a float holds",
        f"option 'optimizer' is Adam ( lr: 1 {'x' * 147}..., expected a text of docs/rules.md or an object of paddlert.optim",
        "there is no option 'lr' of a table, expected the optimizer to have it: paddlert.optim.SGD(lr=0.1)",
        "job is <class 'paddlert.job.Job'>, expected a paddlert.Job, an object of this class: Job(...)",
        "name is 1000, expected a text, the table's name", "name is b'e', expected a text, the table's name",
        "dim of table 'e' is None, expected a whole number", "name is 'my loss', expected 1 to 63 of A-Z a-z 0-9 _ . : / -",
        "option 'lease' is -1, expected seconds, from 0", "gradient is None, expected an array", f"values {meta}", f"ids {meta}",
        "full is 'yes', expected a bool", "table is 3, expected a text",
        "table 'e' is sparse, expected a dense one: sparse() has its rows", "table 'w' is dense, expected a sparse one: dense() has its values",
        "file is 3, expected a path", "timeout is '3', expected seconds", "timeout is nan, expected seconds, less than 1e+12"], out


@pytest.mark.parametrize("addresses, says", [
    ([""], 'has "", expected host:port'), (["127.0.0.1:1,127.0.0.1:2"], 'has "127.0.0.1:1,127.0.0.1:2", expected host:port'),
    (["here"], 'has "here", expected host:port'), (["127.0.0.1:99999"], "the port is not a number from 0 to 65535")])
def test_one_address_is_one_server_or_one_rank(python, addresses, says):
    """An empty one was none: tables of this process, a group of one; of one with a comma a group of one was made, too."""
    out, = finish(python(f"""
for f, name in (paddlert.Job, "servers"), (paddlert.Group, "endpoints"):
    try:
        print("taken:", f(**{{name: {addresses}}}))
    except paddlert.InvalidError as e:
        print(e)
"""))
    assert [line.endswith(says) for line in out.splitlines()] == [True, True], out


def test_what_is_no_list_and_no_reader_is_named(python):
    """An array of one number is no list, though it has __iter__; a list of batches, as other trainers take, is no reader that can go back."""
    out, = finish(python("""
from paddlert.data import Dataset
from paddlert.elastic import Elastic, Order, states
from paddlert._parallel import DGC, _megabytes
def tell(f, *a, **k):
    try:
        print("taken:", f(*a, **k))
    except (TypeError, ValueError, paddlert.Error) as e:
        print(f"{type(e).__name__}: {e}")
class Weights:
    def state_dict(self):
        return {}
    load_state_dict = print
one, order, job = np.array(3), Order(4, 2), paddlert.Job(worker=0)
tell(paddlert.Client, job, one)
tell(paddlert.Job, servers=one)
tell(paddlert.Group, endpoints=one)
tell(Dataset, one, "csv")
tell(Dataset("none.csv", "csv", slots=["a"], rank=0, world=1).part, 0, 1, None)
tell(DGC, sparsity=one)
tell(_megabytes, "bucket size", -float("inf"))
tell(paddlert.Server, host="a\\0b")
for data in ([np.ones(3)], None, Order):
    tell(Elastic, {"w": Weights()}, data, job=job)
tell(Elastic, {"w": Weights()}, order, job=job, values=["lr"])
tell(Elastic, {"w": Weights()}, order, job=job, start_timeout=float("nan"))
tell(Elastic, {"w": Weights()}, order, job=job, call_timeout=-1)
tell(states, None, [], ["scheduler"])
with paddlert.Client(job, [paddlert.Dense("w", 3)]) as c:
    c.save("saved")
tell(paddlert.Model("saved").check, "w")
"""))
    reader = "expected an Order, a paddlert.data.Dataset or another reader that has __iter__(), position() and restore()"
    assert out.splitlines() == [
        "TypeError: tables is array(3), expected a list of tables", "TypeError: servers is array(3), expected a list of texts",
        "TypeError: endpoints is array(3), expected a list of texts", "TypeError: files is array(3), expected a path",
        "TypeError: seed is None, expected a whole number", "ValueError: sparsity is array(3), expected at least 0 and below 1",
        "ValueError: bucket size is -inf, expected megabytes, more than 0",
        "ValueError: host is 'a\\x00b', expected no NUL in it",
        f"TypeError: data is [array([1., 1., 1.])], {reader}", f"TypeError: data is None, {reader}", f"TypeError: data is <class 'paddlert.elastic.Order'>, {reader}",
        "TypeError: values is ['lr'], expected a mapping", "TypeError: option 'start_timeout' is nan, expected seconds, less than 1e+12",
        "ValueError: option 'call_timeout' is -1, expected seconds, from 0", "TypeError: others is ['scheduler'], expected a mapping",
        "TypeError: table is 'w', expected a paddlert.Table"], out


def test_a_group_that_does_not_form_says_for_whom_it_waits(python):
    """A rank that is connected to by the others, and one that connects to them."""
    alone = [python(f"paddlert.Group(endpoints=['127.0.0.1:{free_port()}', '127.0.0.1:{free_port()}'], rank={rank})") for rank in range(2)]
    try:
        paddles = [alone[0].stderr.readline() for _ in range(2)]        # as its rank 0 has them, after 3 s
        lines = [p.stderr.readline() for p in alone]
    finally:
        for p in alone:
            p.kill()
            p.communicate()
    assert paddles[0] == "server not ready, wait 3 sec to retry...\n" and re.fullmatch(r"not ready endpoints:\['127.0.0.1:\d+'\]\n", paddles[1]), paddles
    assert 'msg="waiting for rank 1 for 10 s to form the group" rank=0' in lines[0], lines
    assert re.search(r'msg="waiting for rank 0 \(127.0.0.1:\d+\) for 1\d s to form the group" error="connect: Connection refused" rank=1', lines[1]), lines


def test_two_ranks_have_two_endpoints(python):
    """Otherwise each would wait for the other one for ten minutes."""
    out, = finish(python("""
try:
    paddlert.Group(endpoints=["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"], rank=1)
except paddlert.InvalidError as e:
    print(e)
"""))
    assert out == 'endpoint of rank 2 is "127.0.0.1:1", as that of rank 0: expected one for each rank\n', out


def test_arrays_that_are_not_aligned_are_copied(python):
    """As of a file's bytes behind a head."""
    out, = finish(python("""
def odd(values, dtype):
    data = np.asarray(values, dtype)
    return np.frombuffer(bytearray(1) + bytearray(data.tobytes()), np.uint8)[1:].view(dtype).reshape(data.shape)
g, a, w = paddlert.Group(endpoints=["127.0.0.1:1"]), odd([1, 2, 3], "f8"), odd([0, 0], "f4")
out = odd([0, 0, 0], "f8")
print(a.flags.aligned, g.all_reduce(a), g.all_reduce(a, out=out) is out, out, g.broadcast(a) is a, a)
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Dense("w", 2, "sgd:lr=1"), paddlert.Sparse("e", 1, "sgd:lr=1", "zero")]) as c:
    c.push("w", odd([1, 2], "f4"))
    c.push("e", odd([7, 9], "u8"), odd([3, 4], "f4"))
    print(c.pull("w"), c.pull("e", odd([9, 7], "i8")).ravel())
    try:
        c.pull("w", out=w)
    except ValueError as e:
        print(e)
"""))
    assert out.splitlines() == ["False [1. 2. 3.] True [1. 2. 3.] True [1. 2. 3.]", "[-1. -2.] [-4. -3.]",
                                "out cannot be written to: it is not aligned"], out


def test_a_step_writes_to_arrays_that_nobody_else_keeps(python):
    """Sync: of two tables."""
    out, = finish(python("""
import weakref
tables = [paddlert.Dense("a", 1 << 16, "sgd:lr=1"), paddlert.Dense("b", 1 << 16, "sgd:lr=1")]
with paddlert.Server() as s, paddlert.Client(s.job(), tables, mode="sync") as c:
    kept = []
    for t in tables:
        w = np.zeros(1 << 16, np.float32)
        kept.append(weakref.ref(w))
        c.exchange(t.name, np.ones(1 << 16), w)
        del w
    print([k() is not None for k in kept])
    c.step()
    print([float(k()[-1]) for k in kept])
"""))
    assert out.splitlines() == ["[True, True]", "[-1.0, -1.0]"], out


def test_a_refused_exchange_leaves_the_memory_of_the_one_before(python):
    """The step writes there, though the program has let it go, and not to what the refused one was given."""
    out, = finish(python("""
import weakref
n, tables = 1 << 16, [paddlert.Dense("w", 1 << 16, "sgd:lr=1"), paddlert.Sparse("e", 2)]
with paddlert.Server() as s, paddlert.Client(s.job(), tables, mode="sync") as c:
    w = np.zeros(n, np.float32)
    kept = weakref.ref(w)
    c.exchange("w", np.ones(n), w)
    c.push("e", [1], [[np.nan, 0]])
    c.pull("e", [1])                    # the answer to the push is before its own
    w = np.zeros(n, np.float32)
    try:
        c.exchange("w", np.ones(n), w)
    except paddlert.InvalidError:
        print(kept() is not None)
    c.step()
    print(kept()[-1], w[-1])
"""))
    assert out.splitlines() == ["True", "-1.0 0.0"], out


def test_a_failed_wait_gives_no_result(python):
    """Each further wait says what the first one did, or that a signal has ended it: memory that nobody wrote is no rows."""
    address, endpoints = f"127.0.0.1:{free_port()}", [f"127.0.0.1:{free_port()}" for _ in range(2)]
    server = python("", "-m", "paddlert", "server", "--servers", address)
    other = python(f"""
import time
with paddlert.Group(endpoints={endpoints}, rank=1) as g:
    g.barrier()
    time.sleep(600)
""")
    p = python(f"""{STILL}
c = paddlert.Client(paddlert.Job(servers=["{address}"], worker=0), [paddlert.Sparse("e", 2)], call_timeout=3, return_=-1)
g = paddlert.Group(endpoints={endpoints}, rank=0)
g.barrier()
still({server.pid})
pending, work = [c.pull_start("e", [1]) for _ in range(2)], g.all_reduce(np.ones(3), start=True)
for x in (pending[0], work):
    interrupted(x.wait)
for x in (pending[0], work, pending[1], pending[1]):
    try:
        print(x.wait())
    except paddlert.Error as e:
        print(type(e).__name__, e)
os._exit(0)
""")
    try:
        out = finish(p)[0].splitlines()
        ended = "CanceledError there is no result: a signal has ended the wait for it, or another thread is waiting"
        assert out[:2] == [ended] * 2 and out[2] == out[3] and out[2].startswith("TimeoutError "), out
    finally:
        for p in (server, other):
            p.kill()
            p.communicate()


def test_a_server_that_cannot_start_says_so(python):
    """At once, and no trainer waits for it.  Nobody else is given its port before it listens."""
    out, = finish(python("""
import socket
taken = socket.create_server(("127.0.0.1", 0))
port = taken.getsockname()[1]
for options in ({"port": port}, {"host": "192.0.2.1"}, {"shards": -1}, {"encrypt": True}):
    try:
        with paddlert.Server(**options) as s:
            paddlert.Client(s.job(), [paddlert.Dense("w", 1)])
    except (ValueError, paddlert.Error) as e:
        print(str(e).replace(f" {port} ", " N "))
serve = paddlert.ps._serve
def tried_before(job, *more):
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", int(job.servers[0].rpartition(":")[2])))
        except OSError as e:
            print(e.strerror)
    serve(job, *more)
paddlert.ps._serve = tried_before
with paddlert.Server(workers=2) as s:
    print(s.job(1).worker_num)
"""))
    assert out.splitlines() == [
        "a server cannot listen on port N of 127.0.0.1: Address already in use",
        "a server cannot listen on port 0 of 192.0.2.1: Cannot assign requested address",
        f"option 'shards' is -1, expected a whole number from 0 to {2**32 - 1}",
        "encryption (PADDLE_JOB_ENCRYPT) without a token: expected PADDLE_JOB_TOKEN, the same secret in all processes of the job",
        "Address already in use", "2"], out


def test_a_forked_child_leaves_its_parents_server_alone(python):
    """Whatever it leaves by: the end of a with, a signal whose handler is its parent's."""
    address = f"127.0.0.1:{free_port()}"
    out, = finish(python(f"""
import os, signal, sys, threading
with paddlert.Server() as s:
    if not (child := os.fork()):
        for call in (s.wait, lambda: s.ended, lambda: paddlert.Client(s.job(), [paddlert.Dense("w", 1)])):
            try:
                print("no:", call())
            except paddlert.Error as e:
                print(type(e).__name__, e, flush=True)
        print(repr(s).replace(s.endpoint, "there"), flush=True)
        s.close()
        os._exit(0)
    os.waitpid(child, 0)
    with paddlert.Client(s.job(), [paddlert.Dense("w", 1)], return_=-1) as c:
        print(c.pull("w"))
    s.wait(60)
def fork():
    if not (child := os.fork()):
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    os.waitpid(child, 0)
    with paddlert.Client(paddlert.Job(servers=["{address}"], worker=0), [paddlert.Dense("w", 1)], return_=-1) as c:
        print(c.pull("w"), flush=True)
thread = threading.Thread(target=fork)
thread.start()
paddlert.Job(servers=["{address}"], server=0).serve()
thread.join()
"""))
    theirs = "InvalidError the server belongs to the process that this one was forked from"
    said = out.splitlines()
    assert said[2].startswith("UnsupportedError this process was forked from one that had a client or a server open"), out
    assert said[:2] + said[3:] == [theirs, theirs, "<paddlert.Server there, of the process that this one was forked from>", "[0.]", "[0.]"], out


def test_a_model_is_connected_once(python):
    """Not twice at a time; after one that failed it is free again, and the servers do not wait for it."""
    out, = finish(python(f"""{NUMPY}
d = Dense(Model(paddlert.Sparse("e", 2)))
with paddlert.Server() as s:
    try:
        d.connect(s.job(), load="/nowhere")
    except paddlert.NotFoundError:
        print(d.client)
    try:
        s.wait(60)
    except paddlert.PeerLostError:
        print("left")
with paddlert.Server() as s, d.connect(s.job()):
    try:
        d.connect(s.job())
    except paddlert.InvalidError as e:
        print(e)
"""))
    assert out.splitlines() == ["None", "left", "the model is connected already, expected finish() before"], out


def test_models_are_copied_and_pickled_while_they_train(python):
    out, = finish(python(f"""{NUMPY}
import copy, pickle
m = Model(paddlert.Sparse("e", 2, "sgd:lr=1", init="zero", evict="lfu:capacity=9"))
ids = np.array([1], np.uint64)
with Dense(m).connect(paddlert.Job(worker=0)) as d:
    m.rows[0].push(ids, np.ones((1, 2)))
    d.client.flush()
    m.rows[0].prefetch(ids)
    print(copy.deepcopy(m).rows[0].pull(ids))
    other = pickle.loads(pickle.dumps(m.rows))[0]
    try:
        other.pull(ids)
    except paddlert.InvalidError as e:
        print(e)
    d.save("model")
other.attach(paddlert.Model("model"))
print(other.pull(ids), other.table.spec.evict)
"""))
    assert out.splitlines() == ["[[-1. -1.]]", "table 'e' has no servers yet, expected DistributedModel(model).connect() or .predict() before",
                                "[[-1. -1.]] b'lfu:capacity=9'"], out


def test_a_nan_is_named_and_the_model_saved(python):
    """One gradient with NaN: the next call says so and how servers leave it out; training continues, and ends well."""
    out, = finish(python(f"""{NUMPY}
m = Model()
with Dense(m, "sgd:lr=1").connect(paddlert.Job(worker=0)) as d:
    for gradient in (np.nan, 1, 1, 1):
        try:
            m.b.grad = np.full(1, gradient)
            d.step()
            d.client.flush()
        except paddlert.InvalidError as e:
            print(e)
    d.save("model")
print(paddlert.Model("model").dense("dense")[4])
"""))
    lines = out.splitlines()
    assert len(lines) == 2 and "NaN" in lines[0] and "PADDLE_PS_NONFINITE=skip" in lines[0] and lines[1] in ("3.0", "2.0"), out


def test_tables_on_dlpack_arrays(python):
    """Of a framework that knows no versions of DLPack: what is written to, too."""
    out, = finish(python("""
class Tensor:
    def __init__(self, values):
        self.values = np.asarray(values)
    def __dlpack__(self):
        return self.values.__dlpack__()
    def __dlpack_device__(self):
        return self.values.__dlpack_device__()
s = paddlert.Server()
with paddlert.Client(s.job(), [paddlert.Dense("w", 3, "sgd:lr=1"), paddlert.Sparse("e", 2, "sgd:lr=1", init="zero")], mode="sync") as c:
    w, g, rows, ids = (Tensor(np.ones(n, t)) for n, t in ((3, "f4"), (3, "f4"), ((2, 2), "f4"), (2, "i8")))
    c.init("w", w)
    c.push("e", ids, rows)
    assert c.exchange("w", g, w) is w
    c.step()
    assert c.pull("e", ids, out=rows) is rows
    print(w.values, rows.values[1])
    g.values[:] = 7
    assert c.pull("w", out=g) is g
    print(g.values)
    for bad in (Tensor(np.zeros(3)), Tensor(np.zeros(4, np.float32)), Tensor(np.zeros((3, 2), np.float32)[:, 0]), np.broadcast_to(np.float32(0), 3), [0, 0, 0]):
        try:
            c.pull("w", out=bad)
        except ValueError as e:
            print(e)
    c.no_more()
"""))
    fits = "expected a contiguous array of float32 (3,)"
    assert out.splitlines() == ["[0. 0. 0.] [-2. -2.]", "[0. 0. 0.]", f"out is float64 (3,), {fits}", f"out is float32 (4,), {fits}",
                                *[f"out is float32 (3,), not contiguous, {fits}"] * 2, f"out is list, {fits}"]


def test_ids_are_whole_numbers(python):
    out, = finish(python("""
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Sparse("e", 2)]) as c:
    for ids in ([1.7], np.array([True]), np.array([3.0], np.float32), [2**64], ["a"]):
        for call in (lambda: c.pull("e", ids), lambda: c.pull_start("e", ids), lambda: c.push("e", ids, np.ones((1, 2)))):
            try:
                call()
                print("taken:", ids)
            except ValueError as e:
                why = e
    print(why)
    for ids in ([], [-1], [2**64 - 1], [1, 2**63], [[2**64 - 1], [-1]], np.array([7], np.int32), np.array([7], np.uint8)):
        c.pull("e", ids)
    c.push("e", [2**64 - 1, 5], np.array([[1, 2], [3, 4]], np.float32))
    assert (c.pull("e", [-1, 5]) == c.pull("e", np.array([2**64 - 1, 5], np.uint64))).all()
    print([c.pull("e", one).shape for one in (5, np.int64(5), np.array(5))], c.pull("e", 5, out=np.zeros(2, np.float32)).shape)
    c.push("e", 5, [1, 2])
    for ids in ([5, 2**64], [-2**63 - 1, 5]):
        try:
            c.pull("e", ids)
        except ValueError as e:
            print(e)
"""))
    assert out == ("ids are <U1, expected whole numbers of 64 bits\n[(2,), (2,), (2,)] (2,)\nids have 18446744073709551616, expected whole numbers below 2^64\n"
                   "ids have -9223372036854775809, expected whole numbers below 2^64\n")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_ctrl_c_ends_a_collective_call(python, elsewhere):
    """The other rank does not come to it.  A signal that another thread takes does not interrupt the wait, nor does one that
    comes just before it."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    both = [python(f"""
import signal, time
with paddlert.Group(endpoints={endpoints}, rank={i}) as g:
    g.barrier()
    if {elsewhere}:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print("waits", flush=True)
    g.all_reduce(np.zeros(3)) if {i} else time.sleep(600)
""") for i in range(2)]
    try:
        assert [p.stdout.readline() for p in both] == ["waits\n"] * 2
        time.sleep(0.5 if elsewhere else 0)     # until it waits
        both[1].send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in both[1].communicate(timeout=60)[1]
        assert elsewhere or both[1].returncode == -signal.SIGINT
    finally:
        for p in both:
            p.kill()
            p.communicate()


def test_errors_are_exceptions_of_their_kind(python):
    out, = finish(python("""
import socket
def tell(f, *a, **k):
    try:
        f(*a, **k)
    except Exception as e:
        print(type(e).__name__, str(e)[:120])
tell(paddlert.Model, "/nowhere")
tell(paddlert.Job, variables={"TRAINING_ROLE": "BOSS", "PADDLE_PSERVERS_IP_PORT_LIST": "h:1"})
tell(paddlert.Client, paddlert.Job(worker=0), [paddlert.Dense("w", 3, "sdg")])
tell(paddlert.Client, paddlert.Job(worker=0), [], mode="geo!")
tell(paddlert.Sparse, "e", 4, storag="bf16")
tell(paddlert.Dense, "w", 4, init_="zero")
tell(paddlert.Sparse, "e", 4, mode="synk")
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    job = paddlert.Job(servers=[f"127.0.0.1:{s.getsockname()[1]}"], worker=0)
    tell(paddlert.Client, job, [paddlert.Dense("w", 3)], start_timeout=0.3)
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Dense("w", 3)]) as c:
    tell(c.pull, "v")
    tell(c.exchange, "w", np.zeros(3), np.zeros(3))
    def push(w):  # the server's no may be back before push is
        c.push("w", w)
        c.flush()
    tell(push, [float("nan"), 0, 0])
    c.close()
"""))
    kinds = [line.split()[0] for line in out.splitlines()]
    assert kinds == ["NotFoundError", "InvalidError", "InvalidError", "ValueError", "TypeError", "TypeError", "ValueError", "TimeoutError", "KeyError",
                     "ValueError", "InvalidError"], out
    assert "there is no option 'storag' of a sparse table, expected one of admit, " in out, out
    assert "trainer 0 pushed NaN or Inf" in out and "expected a contiguous array of float32 (3,)" in out, out


def test_ctrl_c_ends_a_wait(python):
    p = python(f"""
print("waits", flush=True)
paddlert.Client(paddlert.Job(servers=["127.0.0.1:{free_port()}"], worker=0), [paddlert.Dense("w", 3)])
""")
    assert p.stdout.readline() == "waits\n"
    wait_for(lambda: "not ready" in p.stderr.readline())
    p.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in p.communicate(timeout=60)[1]


# A framework of NumPy arrays: what paddlert.torch and paddlert.paddle say of theirs.
NUMPY = """
from paddlert import _training

class Parameter:
    def __init__(self, values):
        self.values, self.grad = np.array(values, np.float32), None

class Model:
    def __init__(self, *sparse):
        self.w, self.b = Parameter([[1, 2], [3, 4]]), Parameter([5])
        self.rows = [_training.Rows(s) for s in sparse]

class Dense(_training.Synchroniser):
    _parameters = staticmethod(lambda model: [("w", model.w), ("b", model.b)])
    _embeddings = staticmethod(lambda model: model.rows)
    _shape = staticmethod(lambda p: p.values.shape)
    _read = staticmethod(lambda p, out: np.copyto(out, p.values))
    _write = staticmethod(lambda p, values: np.copyto(p.values, values))

    @staticmethod
    def _gradient(p, out):
        out[...] = 0 if p.grad is None else p.grad
        p.grad = None
"""


def test_a_model_is_a_dense_table_and_its_rows(python):
    """Steps, a save and a load by two trainers, values for prediction without servers."""
    server = f"127.0.0.1:{free_port()}"
    run = [python("", "-m", "paddlert", "server", "--servers", server, "--workers", 2)]
    run += [python(f"""{NUMPY}
m = Model(paddlert.Sparse("e", 2, "sgd:lr=1", init="zero"))
m.w.values += {i}                                   # worker 1's own are not taken
with Dense(m, "sgd:lr=1").connect(paddlert.Job(servers=["{server}"], worker={i}, workers=2), mode="sync") as d:
    e, ids = m.rows[0], np.array([7, {i}], np.uint64)
    for step in range({2 + i}):                     # the second trainer has more data
        e.prefetch(ids)
    for step in range({2 + i}):
        rows = e.pull(ids)
        e.push(ids, np.ones((2, 2)))
        m.b.grad = np.full(1, 1.0)
        d.step()
        assert rows[0, 0] == (0, -1, -2)[step], rows   # what was prefetched before the step comes after it
    assert not e._ahead and not e._later
    d.no_more()
    d.save("ck")
    m.w.values[:] = 0
    d.load("ck")
    print(m.w.values[1], m.b.values, e.pull(np.array([7, 0, 1], np.uint64))[:, 0], [t.name for t in d.tables])
p = Model(paddlert.Sparse("e", 2))
Dense(p).predict("ck")
print(p.b.values, p.rows[0].pull(ids)[0, 1])
""") for i in range(2)]
    assert finish(*run)[1:] == ["[3. 4.] [2.] [-3. -1. -2.] ['dense', 'e']\n[2.] -3.0\n"] * 2


def test_a_saved_model_that_does_not_fit_is_refused(python):
    """Before anything of it is used: rows of another length would go through a sum without a word."""
    out, = finish(python(f"""{NUMPY}
m = Model(paddlert.Sparse("e", 2, "sgd:lr=1", init="zero"))
with Dense(m, "sgd:lr=1").connect(paddlert.Job(worker=0)) as d:
    try:
        d.client.push("dense", np.zeros(5), shows=[1] * 5)
    except TypeError as e:
        print(e)
    d.save("ck")
for sparse, name in ((paddlert.Sparse("e", 4), "dense"), (paddlert.Sparse("f", 2), "dense"), (paddlert.Sparse("dense", 2), "e")):
    p = Model(sparse)
    p.b.values[:] = 9
    try:
        Dense(p, name=name).predict("ck")
    except paddlert.Error as e:
        print(e, p.b.values)
"""))
    assert out.splitlines() == ["push to table 'dense' got shows or clicks, but it is dense: they count rows",
                                "table 'e' in ck has rows of 2, expected the model's rows of 4 [9.]", 'the model has no table "f" [9.]',
                                "table 'e' in ck has rows of 2, expected the model's 5 values [9.]"]


def test_a_fleet_program_trains_by_its_environment(python):
    """A program as of Paddle 2.x, by its environment; the strategy is geo's."""
    port = free_port()
    job = {"PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.1:2"}
    program = f"""{NUMPY}
from paddlert import fleet
fleet.init()
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    print("served", fleet.server_index(), fleet.server_endpoints(to_string=True))
else:
    m = Model(paddlert.Sparse("e", 2))
    strategy = fleet.DistributedStrategy()
    strategy.a_sync_configs = {{"k_steps": 2}}
    optimizer = fleet.distributed_optimizer(Dense(m, "sgd:lr=1"), strategy)
    fleet.init_worker()
    mode = optimizer.client.mode
    for _ in range(4):
        m.b.grad = np.full(1, 1.0)
        optimizer.step()
    fleet.barrier_worker()
    if fleet.is_first_worker():
        fleet.save_persistables(None, "model")
    fleet.stop_worker()
    print(mode, fleet.worker_index(), fleet.worker_num(), fleet.server_num(), fleet.worker_endpoints(to_string=True), fleet.node_num())
    if fleet.is_first_worker():
        *w, b = paddlert.Model("model").dense("dense")
        print(w == [1, 2, 3, 4], b < 5)
"""
    out = finish(python(program, **job, TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1", PADDLE_PORT=str(port)),
                 *(python(program, **job, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(i)) for i in range(2)))
    assert out == [f"served 0 127.0.0.1:{port}\n", "geo 0 2 1 10.0.0.1:1,10.0.0.1:2 1\nTrue True\n", "geo 1 2 1 10.0.0.1:1,10.0.0.1:2 1\n"]


def test_the_recipe_of_paddlerec_by_hand(python, tmp_path):
    """Its ten lines around a model, its variables, and its command: two servers and two trainers by `python -u train.py --is_cloud=1`."""
    ports = [free_port(), free_port()]
    (tmp_path / "train.py").write_text(f"""import numpy as np, paddlert
from paddlert import fleet
from paddlert.fleet import StrategyFactory, role_maker
{NUMPY}
role = role_maker.PaddleCloudRoleMaker()
fleet.init(role)
model = Model()
optimizer = Dense(model, "sgd:lr=1")
strategy = StrategyFactory.create_sync_strategy()
optimizer = fleet.distributed_optimizer(optimizer, strategy)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
if fleet.is_worker():
    fleet.init_worker()
    for _ in range(2):
        model.b.grad = np.full(1, 1.0)
        optimizer.step()
    fleet.stop_worker()
    print("trained", fleet.worker_index(), model.b.values)
""")
    job = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{p}" for p in ports), "PADDLE_TRAINERS_NUM": "2"}
    start = lambda **more: python("", "-u", "train.py", "--is_cloud=1", **job, **more)
    out = finish(*(start(TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(i)) for i in range(2)),
                 *(start(TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1", PADDLE_PORT=str(p)) for p in ports))
    assert out[:2] == ["trained 0 [3.]\n", "trained 1 [3.]\n"], out


def test_a_trainer_says_itself_what_paddle_init_said(python):
    """0.10: by PADDLE_INIT_*, or by the same names in the program, which go before the environment."""
    port = free_port()
    server = subprocess.Popen([ROOT / "build/bin/paddlerun", "pserver", f"--port={port}", "--ports_num=1", "--ports_num_for_sparse=1",
                               "--num_gradient_servers=2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = {"PADDLE_INIT_USE_GPU": "False", "PADDLE_INIT_TRAINER_COUNT": "1", "PADDLE_INIT_PORT": str(port), "PADDLE_INIT_PORTS_NUM": "1",
            "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1", "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2", "PADDLE_INIT_PSERVERS": "127.0.0.1"}
    program = """
with paddlert.Client(paddlert.Job({}), [paddlert.Dense("w", 2)]) as c:
    c.barrier()
    print(c.job.worker_index, c.job.worker_num)
"""
    by_name = program.format(f"variables={({**said, 'PADDLE_INIT_TRAINER_ID': '1'})!r}")
    *out, _ = finish(python(program.format(""), **said, PADDLE_INIT_TRAINER_ID="0"),
                     python(by_name, **said, PADDLE_INIT_TRAINER_ID="7"), server)
    assert out == ["0 2\n", "1 2\n"], out


def test_fleet_has_the_names_of_paddle_1(python):
    """role_maker and StrategyFactory; the runtime takes each text that a strategy becomes, and the bound of half async."""
    out, = finish(python(f"""{NUMPY}
from paddlert import fleet
from paddlert.fleet import StrategyFactory, role_maker
for strategy in (StrategyFactory.create_sync_strategy(), StrategyFactory.create_async_strategy(), StrategyFactory.create_half_async_strategy(),
                 StrategyFactory.create_geo_strategy(update_frequency=7)):
    fleet.init(role_maker.PaddleCloudRoleMaker())
    optimizer = fleet.distributed_optimizer(Dense(Model(), "sgd:lr=1"), strategy)
    fleet.init_worker()
    print(optimizer.client.mode, strategy.text().split())
    fleet.stop_worker()
print(role_maker.Role.SERVER == fleet.Role.SERVER, role_maker.UserDefinedRoleMaker is fleet.UserDefinedRoleMaker)
try:
    StrategyFactory.create_geo_strategy(0)
except paddlert.InvalidError as e:
    print(e)
"""))
    assert out.splitlines() == [
        "sync ['a_sync:', 'false', 'a_sync_configs:', '{}']", "async ['a_sync:', 'true', 'a_sync_configs:', '{}']",
        "async ['a_sync:', 'true', 'a_sync_configs:', '{}', 'staleness:', '1']", "geo ['a_sync:', 'true', 'a_sync_configs:', '{\"k_steps\":', '7}']",
        "True True", "update_frequency is 0, expected at least 1"], out


def test_unsupported_options_of_fleet_are_refused(python):
    out, = finish(python(f"""{NUMPY}
from paddlert import fleet
def tell(f, *a, **k):
    try:
        f(*a, **k)
    except (paddlert.Error, TypeError) as e:
        print(type(e).__name__, e)
tell(fleet.is_server)
tell(lambda: fleet.minimize)
tell(lambda: fleet.BoxPSDataset)
tell(fleet.init, is_collective=1)
tell(fleet.init, fleet.UserDefinedRoleMaker(current_id=0, worker_num=1))
tell(fleet.distributed_optimizer, 3)
tell(fleet.init_worker)
tell(fleet.init_server, "model")
strategy = fleet.DistributedStrategy()
strategy.a_sync_configs = {{"k_step": 1}}
fleet.distributed_optimizer(Dense(Model()), strategy)
tell(fleet.init_worker)
tell(setattr, strategy, "amp", True)
tell(setattr, strategy, "ampp", True)
tell(fleet.distributed_model, Model())
tell(fleet.util.barrier)
print(hasattr(fleet, "UtilBase"), hasattr(fleet, "nothing"))
"""))
    want = ["InvalidError the role is not known yet", "DifferentError there is no fleet.minimize in paddlert, expected loss.backward()",
            "DifferentError there is no fleet.BoxPSDataset in paddlert, expected QueueDataset, InMemoryData",
            "TypeError is_collective is 1", "UnsupportedError optimizer is a int, expected paddlert.torch.DistributedModel",
            "InvalidError this worker has no model yet", "UnsupportedError init_server('model')",
            'DistributedStrategy:2: unknown key "k_step" in a_sync_configs: did you mean "k_steps"?', "UnsupportedError strategy.amp is True, expected paddle.amp.auto_cast",
            "UnsupportedError there is no strategy.ampp, expected one of a_sync", "UnsupportedError there is no fleet.distributed_model with servers",
            "InvalidError the workers are not a group yet", "False False"]
    assert len(want) == len(out.splitlines()) and all(w in line for w, line in zip(want, out.splitlines())), out


def test_a_collective_fleet_program_meets(python):
    """By the environment, and by a role maker; the workers' names, sums and parts of files."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    programs = []
    for rank in range(2):
        text = f"""
import warnings
from paddlert import fleet
fleet.init(is_collective=True)
print(fleet.worker_index(), fleet.worker_num(), fleet.is_first_worker(), fleet.is_worker(), fleet.is_server(), fleet.server_num(), fleet.local_rank())
fleet.barrier_worker()
files = [str(i) for i in range(5)]
print(fleet.util.all_reduce(np.array([1.0, fleet.rank()])).tolist(), fleet.util.get_file_shard(files),
      [a.tolist() for a in fleet.util.all_gather(np.array([fleet.rank()]))])
fleet.util.print_on_rank("one", 1)
def tell(f, *a, **k):
    try:
        f(*a, **k)
    except (paddlert.Error, TypeError) as e:
        print(type(e).__name__, e)
tell(fleet.distributed_model, 3)
tell(fleet.distributed_optimizer, 3)
tell(fleet.save_persistables, None, "model")
strategy = fleet.DistributedStrategy()
strategy.dgc = strategy.lars = True
strategy.lamb = False
strategy.hybrid_configs = {{"dp_degree": 2, "mp_degree": 1}}
fleet.init(fleet.UserDefinedRoleMaker(is_collective=True, current_id={rank}, worker_endpoints={endpoints}), strategy=strategy)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    tell(fleet.distributed_model, 3)
    tell(fleet.distributed_model, 3)
    strategy.hybrid_configs = {{"mp_degree": 2}}
    tell(fleet.distributed_model, 3)
print([str(w.message)[:40] for w in said])
print(fleet.worker_index(), fleet.worker_num())
fleet.stop_worker()
tell(fleet.barrier_worker)
tell(fleet.UserDefinedRoleMaker, True, current_id=2, worker_endpoints=["a:1"])
"""
        programs.append(python(text, PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM="2", PADDLE_TRAINER_ENDPOINTS=",".join(endpoints),
                               PADDLE_CURRENT_ENDPOINT=endpoints[rank], PADDLE_LOCAL_RANK=str(rank)))
    for rank, out in enumerate(finish(*programs)):
        want = [f"{rank} 2 {rank == 0} True False 0 {rank}", f"[2.0, 1.0] {[['0', '1', '2'], ['3', '4']][rank]} [[0], [1]]", *["one"] * rank,
                "UnsupportedError model is a int, expected a paddle.nn.Layer", "UnsupportedError optimizer is a int, expected one of paddle.optimizer",
                "UnsupportedError there are no servers in collective training", *["UnsupportedError model is a int"] * 2,
                "UnsupportedError hybrid_configs['mp_degree'] is 2, expected 1", "['of the strategy, dgc, lars do nothing he']", f"{rank} 2",
                "InvalidError this worker has no servers yet", "InvalidError current_id is 2, expected 0 to 0"]
        assert len(want) == len(out.splitlines()) and all(w in line for w, line in zip(want, out.splitlines())), out


def test_rows_are_pulled_ahead(python):
    out, = finish(python(f"""{NUMPY}
s = paddlert.Server()
m = Model(paddlert.Sparse("e", 2, "sgd:lr=1", init="constant:value=1"))
with Dense(m).connect(s.job()) as d:
    e = m.rows[0]
    batches = [np.array([i, i + 1], np.uint64) for i in range(4)]
    for b in _training.ahead(batches, e.prefetch, depth=2):
        assert e.pull(b).sum() == 4
    print(d.client.stat("e")["pulls"], len(e._ahead))       # not one twice
    e.prefetch(batches[0])
    e.prefetch(batches[1])
    print(e.pull(batches[1]).sum(), len(e._ahead))          # in another order
    try:
        for _ in range(100):
            e.prefetch(batches[0])
    except ValueError as x:
        print(x)
try:
    e.pull(batches[0])
except paddlert.InvalidError as x:
    print(x)
try:
    Dense(Model(paddlert.Sparse("e", 2), paddlert.Sparse("e", 2)))
except ValueError as x:
    print(x)
"""))
    assert out.splitlines() == [
        "8 0", "4.0 1", "64 batches of table 'e' are prefetched and none of them was used",
        "table 'e' has no servers yet, expected DistributedModel(model).connect() or .predict() before",
        "two tables of the model have the same name, expected different ones in dense, e, e"]


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_loops_over_batches_ahead_may_be_left_early(python, mode):
    """What they had prefetched is dropped in time; the loops after them find theirs."""
    out, = finish(python(f"""{NUMPY}
s = paddlert.Server()
m = Model(paddlert.Sparse("e", 2, "sgd:lr=1", init="constant:value=1"))
with Dense(m).connect(s.job(), mode={mode!r}) as d:
    e, most = m.rows[0], 0
    for epoch in range(100):
        batches = [np.array([epoch * 9 + i], np.uint64) for i in range(9)]
        for i, b in enumerate(_training.ahead(batches, e.prefetch, depth=3)):
            assert e.pull(b).sum() == 2
            d.step()
            most = max(most, len(e._ahead) + len(e._later))
            if i == 2:
                break
    print(most <= 64)
    d.no_more()
"""))
    assert out == "True\n"


def test_rows_that_travelled_before_a_step_are_not_taken_after_it(python):
    """In step with the others; who did not use them asks again."""
    out, = finish(python(f"""{NUMPY}
s = paddlert.Server()
m, ids = Model(paddlert.Sparse("e", 2, "sgd:lr=1", init="zero")), np.array([5], np.uint64)
with Dense(m).connect(s.job(), mode="sync") as d:
    e = m.rows[0]
    e.prefetch(ids)
    d.step()                        # they begin to travel
    e.push(ids, np.ones((1, 2)))
    d.step()
    print(e.pull(ids)[0])
    d.no_more()
"""))
    assert out == "[-1. -1.]\n"


@pytest.mark.parametrize("waits", ["d.client.step()", "e.prefetch(ids); e.pull(ids)", "e.push(ids, 1.0 * np.ones((9, 2))); d.client.flush()"])
def test_ctrl_c_ends_a_call_that_nobody_answers(python, waits):
    """The server stands still; what the call uses is left alone, and the program ends."""
    address = f"127.0.0.1:{free_port()}"
    server = python("", "-m", "paddlert", "server", "--servers", address)
    p = python(f"""{NUMPY}
import os, signal
m, ids = Model(paddlert.Sparse("e", 2)), np.arange(9, dtype=np.uint64)
with Dense(m).connect(paddlert.Job(servers=["{address}"], worker=0), mode="sync") as d:
    e = m.rows[0]
    os.kill({server.pid}, signal.SIGSTOP)
    while any(open(f"/proc/{server.pid}/task/{{t}}/stat").read().rsplit(")")[-1].split()[0] != "T" for t in os.listdir("/proc/{server.pid}/task")):
        pass                            # each thread stops in its own time
    print("waits", flush=True)
    {waits}
    print("did not wait")
""")
    try:
        assert p.stdout.readline() == "waits\n"
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert "KeyboardInterrupt" in err and not out and p.returncode == -signal.SIGINT, (out, err)
    finally:
        server.kill()
        server.communicate()


def test_rows_and_results_after_their_client_or_group_is_closed(python):
    """What a group has started it finishes; with another rank that is gone, that is an error."""
    out, = finish(python("""
s = paddlert.Server()
with paddlert.Client(s.job(), [paddlert.Sparse("e", 2)]) as c:
    pending = [c.pull_start("e", [1]) for _ in range(2)]
    print(pending[0].wait().shape)
for p in pending:
    try:
        print(p.wait().shape)
    except paddlert.InvalidError as e:
        print(e)
"""))
    assert out.splitlines() == ["(1, 2)", "(1, 2)", "the client is closed"]
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    run = [python(f"""
with paddlert.Group(endpoints={endpoints}, rank={i}) as g:
    two = g.split(0 if {i} < 2 else 1)
    if {i} == 2:
        raise SystemExit
    with two:
        works = [two.all_reduce(np.full(1 << 20, {i} + 1.0), start=True) for _ in range(3)]
    print(*(w.wait()[-1] for w in works for _ in range(2)), works[0].done())
    left = g.all_reduce(np.ones(3), start=True)
    shrunk = g.shrink()
for _ in range(2):
    try:
        left.wait()
    except paddlert.Error:              # rank 2 is gone, or rank 0 or 1 shrinks already
        print("lost")
print(shrunk.size)
""") for i in range(3)]
    assert finish(*run)[:2] == ["3.0 3.0 3.0 3.0 3.0 3.0 True\nlost\nlost\n2\n"] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("main", [True, False])
def test_a_signal_ends_a_server_whichever_thread_takes_it(python, number, main):
    """A thread that a library started, as NumPy's does, blocks no signals.  The handlers that were there come back."""
    address = f"127.0.0.1:{free_port()}"
    p = python(f"""
import signal, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
if not {main}:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
signal.signal(signal.SIGTERM, lambda *_: print("mine"))
try:
    paddlert.Job(servers=["{address}"], server=0).serve()
except paddlert.CanceledError as e:
    print(e)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
signal.raise_signal(signal.SIGTERM)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""")
    try:
        wait_for(lambda: "selected port" in p.stderr.readline())
        p.send_signal(number)
        out, err = p.communicate(timeout=60)
        assert out.splitlines() == [f"the server was ended by signal {number:d}", "mine", "True"] and not p.returncode, (out, err)
    finally:
        p.kill()
        p.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_program(python, number):
    p = python("", "-m", "paddlert", "server", "--servers", f"127.0.0.1:{free_port()}")
    try:
        wait_for(lambda: "selected port" in p.stderr.readline())
        p.send_signal(number)
        _, err = p.communicate(timeout=60)
        assert p.returncode == 1 and err.splitlines()[-1] == f"paddlert server: error: the server was ended by signal {number:d}", err
    finally:
        p.kill()
        p.communicate()


# A server that stands still, and Ctrl-C a second later.
STILL = """
import os, signal, threading, time
def still(pid):
    os.kill(pid, signal.SIGSTOP)
    while any(open(f"/proc/{pid}/task/{t}/stat").read().rsplit(")")[-1].split()[0] != "T" for t in os.listdir(f"/proc/{pid}/task")):
        pass                            # each thread stops in its own time
def interrupted(call, *arguments):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        call(*arguments)
        print("did not wait")
    except KeyboardInterrupt:
        pass
"""


# What waits, and whether the client works after it: trainers of one server that stands still.
WAITS = [("c.pull('w')", True), ("c.pull('e', [1, 2])", True), ("c.pull_start('e', [1]).wait()", True), ("c.stat('e')", True), ("c.rate('e')", True),
         ("c.push('v', w[:8]); c.flush()", True), ("c.barrier()", True), ("c.save('saved')", True), ("[c.push('e', ids, rows) for _ in range(9)]", False),
         ("[c.exchange('v', w[:8], w[:8]) for _ in range(9)]", True), ("c.set_rate('w', 0.5)", False), ("c.init('w', w)", True)]


def test_ctrl_c_ends_each_call_and_says_what_the_client_is(python):
    """Nothing of the program's is written to afterwards; a call that has changed nothing can be made again."""
    address = f"127.0.0.1:{free_port()}"
    server = python("", "-m", "paddlert", "server", "--servers", address, "--workers", len(WAITS))
    p = python(f"""{STILL}
w, ids = np.ones(1 << 20, np.float32), np.arange(1 << 16)
rows = np.ones((1 << 16, 64), np.float32)
tables = [paddlert.Dense("w", w.size), paddlert.Sparse("e", 64), paddlert.Dense("v", 8)]
clients = [None] * {len(WAITS)}
def begin(i):
    clients[i] = paddlert.Client(paddlert.Job(servers=["{address}"], worker=i, workers={len(WAITS)}), tables)
threads = [threading.Thread(target=begin, args=(i,)) for i in range({len(WAITS)})]
[t.start() for t in threads]
[t.join() for t in threads]
still({server.pid})
threads = threading.active_count()
for c, (call, _) in zip(clients, {WAITS}):
    interrupted(exec, call, dict(globals()))
while threading.active_count() > threads:              # of a Timer
    time.sleep(0.01)
print("no thread more")
os.kill({server.pid}, signal.SIGCONT)
for c, (call, works) in zip(clients, {WAITS}):
    for _ in range(2):
        try:
            c.pull("w")
            print("works", c.may_close())
        except paddlert.CanceledError as e:
            print(e)
    c.close()
os._exit(0)
""")
    try:
        out = finish(p, seconds=120)[0].splitlines()
        closed = ": the program has ended the wait, as by Ctrl-C; how much of it was done is unknown, so the client can only be closed"
        failed = {call: call.partition("c.")[2].partition("(")[0].replace("_", " ") + closed for call, _ in WAITS}
        assert out == ["no thread more"] + [line for call, works in WAITS for line in ["works True" if works else failed[call]] * 2], out
    finally:
        for q in (server, p):
            q.kill()
            q.communicate()


def test_handlers_of_signals_run_while_a_call_waits(python):
    """Those that raise nothing do not end it, whatever thread takes the signal; one may make calls, and a second signal end these."""
    address = f"127.0.0.1:{free_port()}"
    server = python("", "-m", "paddlert", "server", "--servers", address)
    p = python(f"""{STILL}
c, seen = paddlert.Client(paddlert.Job(servers=["{address}"], worker=0), [paddlert.Sparse("e", 2)]), []
def usr1(*_):
    seen.append("one")
    if len(seen) == 3:
        os.kill({server.pid}, signal.SIGCONT)
    else:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
signal.signal(signal.SIGUSR1, usr1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
other = threading.Event()
def takes():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    other.wait()
t = threading.Thread(target=takes)
t.start()
still({server.pid})
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
print(c.pull("e", [1]).shape, seen)
other.set()
t.join()
def usr2(*_):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        c.stat("e")
    except KeyboardInterrupt:
        seen.append("in a handler")
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGALRM)).start()
def alarm(*_):
    raise ValueError("of a handler")
signal.signal(signal.SIGUSR2, usr2)
signal.signal(signal.SIGALRM, alarm)
still({server.pid})
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR2)).start()
try:
    c.pull("e", [1])
except ValueError as e:
    print(e, seen[3:])
os.kill({server.pid}, signal.SIGCONT)
print(c.pull("e", [1]).shape)
interrupted(lambda: still({server.pid}) or c.pull("e", [1]))
os.kill({server.pid}, signal.SIGCONT)
c.finish()
""")
    try:
        out = p.communicate(timeout=60)
        assert out[0].splitlines() == ["(1, 2) ['one', 'one', 'one']", "of a handler ['in a handler']", "(1, 2)"] and "ignored" not in out[1], out
        finish(server)
    finally:
        for q in (server, p):
            q.kill()
            q.communicate()


GROUP_WAITS = ["g.barrier()", "g.all_reduce(np.ones(3))", "g.all_reduce(np.ones(1 << 22), start=True).wait()", "g.recv(np.ones(3), 1)",
               "g.send(np.ones(1 << 22), 1)", "g.split(0)", "g.shrink()"]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_ctrl_c_ends_each_call_of_a_group(python, transport):
    """The group is given up: later calls say so, and the other rank learns why at once.  One that forms ends, too."""
    n, ports = len(GROUP_WAITS), [[f"127.0.0.1:{free_port()}" for _ in range(2)] for _ in range(len(GROUP_WAITS) + 1)]
    other = python(f"""
import os, time
groups = [paddlert.Group(endpoints=ports, rank=1, transport="{transport}") for ports in {ports[:n]}]
while not os.path.exists("done"):
    time.sleep(0.05)
for g in groups:
    try:
        g.barrier()
    except paddlert.PeerLostError as e:
        print("given the group up: the program has ended the wait" in str(e))
    except paddlert.GoneError:
        print("gone")
""")
    p = python(f"""{STILL}
groups = [paddlert.Group(endpoints=ports, rank=0, transport="{transport}") for ports in {ports[:n]}]
for g, call in zip(groups, {GROUP_WAITS}):
    interrupted(eval, call, dict(globals()))
    try:
        g.barrier()
    except paddlert.CanceledError as e:
        print("canceled", call)
    except paddlert.GoneError:             # it was shrunk
        print("over", call)
interrupted(lambda: paddlert.Group(endpoints={ports[n]}, rank=0, transport="{transport}"))
open("done", "w").close()
print("done", flush=True)
os._exit(0)
""")
    try:
        ours, others = (out.splitlines() for out in finish(p, other))
        assert ours == [f"{'over' if 'shrink' in call else 'canceled'} {call}" for call in GROUP_WAITS] + ["done"], ours
        assert others == ["gone" if "shrink" in call else "True" for call in GROUP_WAITS], others
    finally:
        for q in (other, p):
            q.kill()
            q.communicate()


def test_a_barrier_that_ends_names_who_did_not_come(python):
    """Not the server, which waits as well."""
    out, = finish(python("""
with paddlert.Server(workers=2) as s:
    c = paddlert.Client(s.job(), [paddlert.Dense("w", 3)], barrier_timeout=0.5)
    for call in (c.barrier, c.flush):
        try:
            call()
        except paddlert.TimeoutError as e:
            print(e)
"""))
    line = r"server 0 \(127.0.0.1:\d+\): barrier 1 waits for trainer 1 \(not here yet\)\n"
    assert re.fullmatch(line + line, out), out


def test_a_worker_of_several_names_its_servers(python):
    """Without them each would train tables of its own, as worker 0 of 1."""
    out, = finish(python("""
for place in ({"worker": 1}, {"worker": 1, "workers": 2}, {"worker": 0, "workers": 2}, {"worker": 1, "workers": 2, "servers": []}):
    try:
        print(paddlert.Job(**place).worker_num)
    except ValueError as e:
        print(e)
print(paddlert.Job(worker=0, workers=1).worker_num, paddlert.Job(workers=1).worker_num)
"""))
    said = out.splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "worker is 1 of some, but servers is None", "worker is 1 of 2, but servers is None", "worker is 0 of 2, but servers is None",
        "worker is 1 of 2, but servers is []", "1 1"]


def test_a_number_of_workers_is_of_a_job_that_the_program_knows(python):
    """Without addresses each of them would be worker 0 of 1, and read all the data."""
    program = """
import warnings
for job in ({"workers": 2}, {"workers": 3, "name": "n"}):
    try:
        print(paddlert.Job(**job).worker_num)
    except ValueError as e:
        print(e)
"""
    trainers, one = ({"PADDLE_TRAINER_ENDPOINTS": ends, "PADDLE_TRAINER_ID": "0"} for ends in ("127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1"))
    servers = {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:1", "PADDLE_TRAINER_ID": "0", "TRAINING_ROLE": "TRAINER"}
    out = finish(*(python(program, **environment) for environment in ({}, trainers, one, servers)))
    word = "workers is {}, but this program knows {}, expected servers=[...], or PADDLE_TRAINER_ENDPOINTS with one for each"
    assert [o.splitlines() for o in out] == [
        [word.format(n, "no servers or trainers") for n in (2, 3)], ["2", word.format(3, "2 trainer endpoints")],
        [word.format(n, "1 trainer endpoint") for n in (2, 3)], ["2", "3"]], out


def test_places_that_contradict_each_other_are_refused(python):
    """One of them would not count, whichever it is."""
    out, = finish(python("""
def tell(f, *a, **k):
    try:
        print("taken:", f(*a, **k))
    except ValueError as e:
        print(e)
tell(paddlert.Job, servers=["127.0.0.1:1"], server=0, worker=0)
tell(paddlert.Group, paddlert.Job(worker=0), rank=3)
print(paddlert.Group(paddlert.Job(worker=0), rank=0), paddlert.Job(servers=["127.0.0.1:1"], server=0, workers=2).is_server)
"""))
    assert out.splitlines() == [
        "worker is 0 and server is 0, expected one of them: a process is a trainer or a server",
        "rank is 3, but this process is worker 0 of the job, expected endpoints, of which it is one", "<paddlert.Group, rank 0 of 1> True"], out


def test_a_step_that_ends_names_who_did_not_come(python):
    """Not the servers, which wait as well."""
    out, = finish(python("""
with paddlert.Server(workers=2) as s:
    w, (a, b) = np.zeros(3, np.float32), (paddlert.Client(s.job(i), [paddlert.Dense("w", 3)], mode="sync", barrier_timeout=0.5) for i in (0, 1))
    try:
        a.exchange("w", w, w)
        a.step()
    except paddlert.TimeoutError as e:
        print(e)
"""))
    assert re.fullmatch(r"server 0 \(127.0.0.1:\d+\): step 1 waits for trainer 1 \(127.0.0.1:\d+\)\n", out), out


def test_a_client_stays_while_another_thread_is_in_a_call(python):
    """Closed meanwhile: that call has its result, new ones are refused, and who ends last leaves."""
    address = f"127.0.0.1:{free_port()}"
    server = python("", "-m", "paddlert", "server", "--servers", address)
    p = python(f"""{STILL}
c, said = paddlert.Client(paddlert.Job(servers=["{address}"], worker=0), [paddlert.Dense("w", 3)]), []
c.init("w", np.ones(3))
def pull():
    said.append(c.pull("w").tolist())
    try:
        c.pull("w")
    except paddlert.InvalidError as e:
        said.append(str(e))
t = threading.Thread(target=pull)
still({server.pid})
t.start()
while c.may_close():
    time.sleep(0.01)
try:
    c.finish()
except paddlert.CanceledError as e:
    print(e)
c.close()
print(c.is_open, c.may_close(), said)
os.kill({server.pid}, signal.SIGCONT)
t.join()
print(c.may_close(), said)
""")
    try:
        assert finish(p)[0].splitlines() == ["the client cannot finish: a call of another thread, or one that a signal has interrupted, "
                                             "still uses it, or it is another process's", "False False []",
                                             "True [[1.0, 1.0, 1.0], 'the client is closed']"]
        server.communicate(timeout=60)                     # it has lost its only trainer
    finally:
        server.kill()
        server.communicate()


def test_a_group_stays_while_another_thread_is_in_a_call(python, tmp_path):
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    ranks = [python(f"""
import os, threading, time
g, said = paddlert.Group(endpoints={endpoints}, rank={i}), []
t = threading.Thread(target=lambda: said.append(g.all_reduce(np.ones(2)).tolist()))
while {i} and not os.path.exists("go"):
    time.sleep(0.01)
t.start()
if not {i}:
    while g.may_close():
        time.sleep(0.01)
    g.close()
    print("closed", flush=True)
t.join()
print(said, g.may_close())
""") for i in range(2)]
    assert ranks[0].stdout.readline() == "closed\n"
    (tmp_path / "go").touch()
    assert finish(*ranks) == ["[[2.0, 2.0]] True\n"] * 2


@pytest.mark.parametrize("close", [False, True])
def test_a_step_that_ctrl_c_interrupted_is_waited_for_again(python, close):
    """Not sent twice: the steps after it are right, for all trainers.  A client may be closed in it, too."""
    out, = finish(python(f"""{STILL}
w, c, tables = np.zeros((2, 2), np.float32), [None, None], [paddlert.Dense("w", 2, "sgd:lr=1")]
def both(f):
    threads = [threading.Thread(target=f, args=(i,)) for i in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
def begin(i):
    c[i] = paddlert.Client(s.job(i), tables, mode="sync")
    c[i].init("w", [0, 0])
def step(i):
    c[i].exchange("w", [1, 1], w[i])
    c[i].step()
with paddlert.Server(workers=2) as s:
    both(begin)
    interrupted(step, 0)
    interrupted(c[0].step)
    if {close}:
        c[0].close()
    else:
        step(1)
        c[0].step()
        print(w.tolist())
        both(step)
        both(lambda i: c[i].finish())
        s.wait(60)
        print(w.tolist())
"""))
    assert out.splitlines() == ([] if close else ["[[-1.0, -1.0], [-1.0, -1.0]]", "[[-2.0, -2.0], [-2.0, -2.0]]"]), out


def test_no_memory_is_in_use_after_ctrl_c(python):
    """Nobody writes to it, and it goes when the program has no more use for it."""
    address, endpoints = f"127.0.0.1:{free_port()}", [f"127.0.0.1:{free_port()}" for _ in range(2)]
    server = python("", "-m", "paddlert", "server", "--servers", address)
    other = python(f"""
import time
with paddlert.Group(endpoints={endpoints}, rank=1) as g:
    g.barrier()
    time.sleep(600)
""")
    p = python(f"""{STILL}
import gc, weakref
c = paddlert.Client(paddlert.Job(servers=["{address}"], worker=0), [paddlert.Sparse("e", 2)])
g = paddlert.Group(endpoints={endpoints}, rank=0)
g.barrier()
still({server.pid})
pending, rows = c.pull_start("e", [1]), np.zeros((1, 2), np.float32)
interrupted(pending.wait)
interrupted(lambda: c.pull("e", [1], rows))
out = np.zeros(3)
interrupted(lambda: g.all_reduce(np.ones(3), out=out))
os.kill({server.pid}, signal.SIGCONT)
c.flush()
print(rows.sum(), out.sum())
c.finish()
g.close()
refs = [weakref.ref(x) for x in (c, g, rows, out, pending._rows)]
del c, g, rows, out, pending
gc.collect()
print([r() is None for r in refs])
""")
    try:
        assert finish(p, seconds=120)[0].splitlines() == ["0.0 0.0", f"{[True] * 5}"]
    finally:
        for p in (server, other):
            p.kill()
            p.communicate()


# Parameters of no framework: what paddlert.torch and paddlert.paddle share, and when a backward ends.
PARALLEL = """
import sys
from types import SimpleNamespace
from paddlert._parallel import Parallel, tensors_in
ends = []
class Fake(Parallel):
    _kind = staticmethod(lambda p: f"{p.value.dtype} {list(p.value.shape)}")
    _size = staticmethod(lambda p: p.value.size)
    _bytes = staticmethod(lambda p: p.value.reshape(-1).view(np.uint8))
    _view = staticmethod(lambda values, p: values.reshape(p.value.shape))
    _made = staticmethod(lambda p: p.grad is not None)
    _at_end = staticmethod(ends.append)
    @staticmethod
    def _set_bytes(p, array):
        p.value[...] = array.view(p.value.dtype).reshape(p.value.shape)
    @staticmethod
    def _take(pairs):
        for p, view in pairs:
            view[...] = p.grad
    @staticmethod
    def _give(pairs):
        for p, view in pairs:
            p.grad = view.copy()
    @staticmethod
    def _read(pairs):
        for p, view in pairs:
            view[...] = p.value
    @staticmethod
    def _write(pairs):
        for p, view in pairs:
            p.value[...] = view
def parameter(*shape, dtype="f4"):
    return SimpleNamespace(value=np.full(shape, rank + 1, dtype), grad=None)
def wrap(named, others=(), buffers=(), group=None, **more):
    return Fake(list(named.items()), list(dict(others).items()), list(dict(buffers).items()), group, **{
        "bucket_mb": 1e-3, "last_mb": 1e-4, "compression": None, "broadcast_buffers": True, **more})
def backward(parallel, gradients):
    for i, value in gradients.items():
        p = parallel._parameters[i][1]
        p.grad = (0 if p.grad is None else p.grad) + np.full(p.value.shape, value, "f4")
        parallel.made(i)
    while ends:
        ends.pop()()
def refused(function, *arguments, **more):
    try:
        function(*arguments, **more)
    except (paddlert.Error, TypeError, ValueError) as e:
        return f"{type(e).__name__} {e}"
rank, *endpoints = sys.argv[1:]
rank = int(rank)
group = paddlert.Group(endpoints=endpoints, rank=rank, call_timeout=60)
"""


def parallel(python, program, n=2):
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(n)]
    return [python("", "-c", "import numpy as np, paddlert\n" + PARALLEL + program, i, *endpoints) for i in range(n)]


def test_gradients_are_averages_whatever_each_rank_has(python):
    """In another order on each rank; of one rank alone; of none, which stay away; of a step before that did not average."""
    out = finish(*parallel(python, """
named = {n: parameter(3, 5) for n in "abcde"}
parallel = wrap({**named, "empty": parameter(0)}, {"frozen": (frozen := parameter(2, dtype="i2"))}, {"b": (buffer := parameter(dtype="f8"))}, group)
print([float(p.value.max()) for p in named.values()], frozen.value.tolist(), buffer.value.item())
said = lambda: [None if p.grad is None else float(p.grad.max()) for p in named.values()]
backward(parallel, {0: 1, 2: 4 + rank, 1: 3} if rank else {1: 1, 2: 2, 3: 8})
print(said(), parallel._order)
for p in named.values():
    p.grad = None
parallel.forward(False, True)
backward(parallel, {4: 2} if rank else {0: 6})
print(said() == ([None] * 4 + [2] if rank else [6] + [None] * 4))
parallel.forward(True, True)
backward(parallel, {1: 1})
print(said())
for p in named.values():
    p.grad = None
parallel.begin()
ends.pop()()
print(said() == [None] * 5)
"""))
    same = ["[1.0, 1.0, 1.0, 1.0, 1.0] [1, 1] 1.0", "[0.5, 2.0, 3.5, 4.0, None] [1, 2, 3, 4, 0]", "True", "[3.0, 1.0, None, None, 1.0]", "True"]
    assert [o.splitlines() for o in out] == [same] * 2


def test_ranks_of_other_models_are_named(python):
    out = finish(*parallel(python, """
print(refused(wrap, {"w": parameter(3, 4 + rank)}, group=group))
print(refused(wrap, {"w": parameter(3), **({} if rank else {"v": parameter(1)})}, group=group))
print(refused(wrap, {"w": parameter(3)}, group=group, compression="f16" if rank else None))
print(refused(wrap, {"w": parameter(3)}, {"x": parameter(3)} if rank else {}, {} if rank else {"x": parameter(3)}, group=group))
print(refused(wrap, {"w": parameter(3, dtype="f8")}, group=group), refused(wrap, {}, group=group), sep="\\n")
print(refused(wrap, {"w": parameter(3)}, group=group, compression="f32"), refused(wrap, {"w": parameter(3)}, group=4), sep="\\n")
print(refused(wrap, {"w": parameter(3)}, group=group, bucket_mb=0), refused(wrap, {"w": parameter(3)}, group=group, last_mb="1"), sep="\\n")
"""))
    assert out[0] == out[1]
    whole, options = "InvalidError the models of the ranks differ: on rank 1 ", "; expected the same model and options on all ranks"
    assert out[0].splitlines() == [
        f'{whole}"w" is a parameter of float32 [3, 5], on rank 0 "w" is a parameter of float32 [3, 4]{options}',
        f'{whole}there is nothing more, on rank 0 "v" is a parameter of float32 [1]{options}',
        f'{whole}"bucket size, last bucket\'s size, compression, broadcast_buffers" is 0.001 MB, 0.0001 MB, f16, True, on rank 0 "bucket size, '
        f'last bucket\'s size, compression, broadcast_buffers" is 0.001 MB, 0.0001 MB, None, True{options}',
        f'{whole}"x" is a frozen parameter of float32 [3], on rank 0 "x" is a buffer of float32 [3]{options}',
        'UnsupportedError parameter "w" is float64 [3], expected one of float32, bfloat16, float16',
        "InvalidError the model has no parameter that wants a gradient, expected one at least",
        "ValueError compression is 'f32', expected one of f16, bf16, dgc",
        "TypeError group is 4, expected a paddlert.Group",
        "ValueError bucket size is 0, expected megabytes, more than 0",
        "TypeError last bucket's size is '1', expected a number"]


def test_the_largest_entries_travel_and_the_others_add_up(python):
    """dgc: nothing is lost, not even of a gradient that no rank has later; small gradients are dense; options that differ are refused."""
    out = finish(*parallel(python, """
from paddlert._parallel import DGC
large, small, other = parameter(20000), parameter(10), parameter(20000)
parallel = wrap({"large": large, "small": small, "other": other}, group=group, compression=DGC(sparsity=0.75))
own = lambda r, step: (np.random.default_rng([r, step]).permutation(20000) + 1).astype("f4")
total, given = np.zeros(20000), np.zeros(20000)
for step in range(30):
    for p in (large, small, other):
        p.grad = None
    parallel.forward(True, True)
    if step < 3:
        total += (own(0, step) + own(1, step)) / 2
        backward(parallel, {0: own(rank, step), 1: rank})
        print(step, int((large.grad != 0).sum()) <= 10000, float(small.grad[0]), other.grad is None)
    else:
        parallel.begin()
        ends.pop()()
    given += 0 if large.grad is None else large.grad
print(np.allclose(given, total, 1e-4), large.grad is None, small.grad is None)
print(refused(wrap, {"w": parameter(3)}, group=group, compression=DGC(momentum=0.9) if rank else "dgc").split("; ")[0][-30:])
for options in ({"sparsity": 1}, {"sparsity": []}, {"momentum": 2}, {"clip_norm": -1}, {"rampup_step": 0}, {"nesterov": 1}, {"sparsity": "x"}):
    print(refused(DGC, **options))
"""))
    said = out[0].splitlines()
    assert said[:4] == [*(f"{i} True 0.5 True" for i in range(3)), "True True True"] and out[0] == out[1], out
    assert "rampup_step=1), True" in said[4], said
    assert said[5:] == ["ValueError sparsity is 1, expected at least 0 and below 1", "ValueError sparsity is [], expected one at least",
                        "ValueError momentum is 2, expected 0 to 1", "ValueError clip_norm is -1, expected 0 or more",
                        "ValueError rampup_step is 0, expected a whole number from 1 to 18446744073709551615",
                        "TypeError nesterov is 1, expected a bool", "TypeError sparsity is 'x', expected a number"], said


def test_parameters_are_averaged_every_few_steps(python):
    """LocalSGD: gradients stay each rank's; a step without average_parameters() is refused, one in no_sync is not; adaptive follows the loss."""
    out = finish(*parallel(python, """
from paddlert._parallel import DGC, LocalSGD
p, buffer = parameter(4), parameter(1)
parallel = wrap({"p": p}, buffers={"b": buffer}, group=group, local_sgd=LocalSGD(k_steps=3))
said, buffer.value[:] = [], rank
for step in range(8):
    p.grad = None
    if step == 5:
        parallel.forward(False, True)
        backward(parallel, {0: 0})
    parallel.forward(True, True)
    backward(parallel, {0: rank + step})
    assert p.grad[0] == rank + step, p.grad
    p.value += rank
    said.append((parallel.average(None, None), float(p.value[0]) if step in (0, 3, 6) else 0))
print(said, float(buffer.value[0]))
parallel.forward(True, True)
backward(parallel, {0: 1})
print(refused(parallel.forward, True, True).split(",")[0])
adaptive = wrap({"p": p}, group=group, local_sgd=LocalSGD(k_steps=4, adaptive=True))
print([adaptive.average(loss, 0.1) for loss in [1] * 6 + [0.25] * 6], refused(adaptive.average, None, 0.1), sep="\\n")
print(refused(wrap, {"w": p}, group=group, local_sgd=LocalSGD(), compression="dgc"))
print(refused(wrap({"w": p}, group=group).average, None, None), refused(wrap, {"w": p}, group=group, local_sgd=4), sep="\\n")
print(refused(LocalSGD, 0), refused(wrap, {"w": p}, group=group, local_sgd=LocalSGD() if rank else None)[:44], sep="\\n")
"""))
    assert out[0] == out[1], out
    lines = out[0].splitlines()
    assert lines[0] == "[(True, 1.5), (False, 0), (False, 0), (True, 3.0), (False, 0), (False, 0), (True, 4.5), (False, 0)] 0.0", lines
    assert lines[1] == "InvalidError a forward after a backward without average_parameters()", lines
    assert lines[2].count("True") >= 3 and lines[2].count("False") >= 3, lines
    assert lines[3:] == ["TypeError loss is None and lr 0.1, expected numbers: steps adapt to them",
                         "UnsupportedError compression is 'dgc' beside local_sgd, expected None: parameters travel as they are",
                         "InvalidError gradients are averaged, expected local_sgd=LocalSGD(...) when the model is wrapped",
                         "TypeError local_sgd is 4, expected a paddlert.LocalSGD",
                         "ValueError k_steps is 0, expected a whole number from 1 to 4294967295",
                         "InvalidError the models of the ranks differ:"], lines


def test_a_model_that_changes_is_taken_on(python):
    """Parameters that are new are rank 0's, others stay each rank's; a change on one rank alone is an error that names the parameter."""
    out = finish(*parallel(python, """
from paddlert._parallel import Seen
a, b, c, d = parameter(3), parameter(2), parameter(4), parameter(5)
for p in (a, b, c, d):
    p.wants = p is not b
layer = SimpleNamespace(_parameters={"a": a, "b": b}, _children={}, _buffers={"x": 1})
model = SimpleNamespace(_parameters={}, _children={"layer": layer}, _buffers={})
look = lambda: Seen([model, layer, *layer._children.values()], "_children", lambda p: p.wants)
seen = look()
print(seen.changed(), seen.has_buffers())
b.wants = True
print(seen.changed(), look().changed())
seen = look()
layer._parameters["a"] = c
layer._buffers["x"] = 2
print(seen.changed(), look().changed(), seen.has_buffers())
seen = look()
layer._children["more"] = SimpleNamespace(_parameters={"d": d}, _children={}, _buffers={})
print(seen.changed(), look().changed())
parallel = wrap({"a": a}, {"b": b}, group=group)
a.value[:] = 10 + rank
parallel.renew([("a", a), ("b", b), ("c", c)], [], [])
print(float(a.value[0]) == 10 + rank, c.value.tolist())
backward(parallel, {0: 1, 1: rank, 2: 4 * rank})
print([float(p.grad[0]) for p in (a, b, c)])
said = refused(parallel.renew, [("a", a), ("d", d)], [], []) if rank else refused(backward, parallel, {0: 1, 1: 1, 2: 1})
print(said.split(": ")[0])
print((refused(parallel.forward, True, True) or "").split(": ")[0])
"""))
    same = ["False [1]", "True False", "True False [2]", "True False", "True [1.0, 1.0, 1.0, 1.0]", "[1.0, 0.5, 2.0]"]
    assert [o.splitlines()[:-2] for o in out] == [same] * 2, out
    assert out[1].splitlines()[-2:] == ['InvalidError the model has changed on this rank, parameter "d" for example, expected the same change before '
                                        "the same step of all", "InvalidError an earlier step failed"], out
    assert out[0].splitlines()[-1].startswith("InvalidError an earlier step failed"), out


def test_ranks_of_1_2_and_3_samples_normalise_together(python):
    """Beside NumPy: the statistics, and gradients of sum(y^3) over all ranks; channels first and last."""
    out = finish(*parallel(python, """
from paddlert._norm import Layer, Lent, Shape, Statistics
whole = np.random.default_rng(1).normal(4, 3, (6, 5, 7))
at = [0, 1, 3, 6]
own = whole[at[rank]:at[rank + 1]].astype("f4")
scale = np.linspace(1, 2, 5)
mean, variance = whole.mean((0, 2)), whole.var((0, 2))
inv = 1 / np.sqrt(variance + 1e-3)
column = lambda a: a[:, None]
xhat = (whole - column(mean)) * column(inv)
dy = 3 * xhat ** 2
dx = column(scale * inv) * (dy - column(dy.mean((0, 2))) - xhat * column((dy * xhat).mean((0, 2))))
part = lambda a: a[at[rank]:at[rank + 1]]
for last in (False, True):
    way = lambda a: np.ascontiguousarray(a.transpose(0, 2, 1) if last else a, "f4")
    s = Statistics(group, way(own), Shape(len(own), 5, 7, last), 1e-3)
    found = s.gradients(way(own), way(part(dy)), scale.astype("f4"))
    want = way(part(dx)), part(dy * xhat).sum((0, 2)), part(dy).sum((0, 2))
    print(s.count, np.allclose(s.mean, mean), np.allclose(s.variance, variance), np.allclose(s.unbiased(), variance * 42 / 41),
          *(np.allclose(a, b, 1e-4, 1e-4) for a, b in zip(found, want)))
other = group.split(0)
layers = [Layer() for _ in range(3)]
for layer, layer.group in zip(layers, (None, group, other)):
    pass
lent = Lent(group)
lent.add(layers)
print([layer.__getstate__() == {"group": g, "agreed": None, "lent": False} for layer, g in zip(layers, (None, None, other))])
print(layers[0].group is layers[1].group is not group, layers[2].group is other, layers[0].group.size)
lent.close()
print([layer.group for layer in layers] == [None, group, other])
print(refused(Statistics(group, np.zeros((int(rank == 0), 2, 1), "f4"), Shape(int(rank == 0), 2, 1, False), 1e-3).unbiased))
""", n=3))
    alone = "InvalidError the batches of all ranks have 1 value a channel together, expected 2 at least"
    assert [o.splitlines() for o in out] == [[f"42{' True' * 6}"] * 2 + ["[True, True, True]", "True True 3", "True", alone]] * 3, out


def test_layers_that_normalise_otherwise_on_a_rank_are_named(python):
    """In a model, in one that changes, and alone with a group of their own; a framework's own layer, which would be a rank's own."""
    out = finish(*parallel(python, """
from paddlert._norm import agree_once, described, refuse_foreign
layer = lambda eps: SimpleNamespace(group=group, agreed=None, extra_repr=lambda: f"3, eps={eps}")
print(refused(wrap, {"w": parameter(3)}, group=group, layers=described([("norm", layer(rank))])))
print(refused(wrap, {"w": parameter(3)}, group=group, layers=described([("norm", layer(1))] if rank else [])))
print(refused(agree_once, layer(rank)), refused(agree_once, layer(1)), sep="\\n")
parallel = wrap({"w": (w := parameter(3))}, group=group, layers=described([("norm", layer(1))]))
print((refused(parallel.renew, [("w", w)], [], [], described([("norm", layer(rank))])) or "").partition(": ")[2])
Layer = type("Layer", (), {"__module__": "torch.nn.modules"})
for there, begun in ((False, False), (True, False), (True, True)):
    print(refused(refuse_foreign, [("a", 1), ("b", Layer())], Layer, SimpleNamespace(is_available=lambda: there, is_initialized=lambda: begun)))
"""))
    text = "the models of the ranks differ: on rank 1 {} is a SyncBatchNorm(3, eps=1), on rank 0 {}; expected the same model and options on all ranks"
    foreign = ('UnsupportedError "b" is a torch.nn.SyncBatchNorm, for which torch.distributed has no ranks here: expected '
               "paddlert.torch.SyncBatchNorm.convert_sync_batchnorm(model) before the optimizer is made")
    norm = text.format('"norm"', '"norm" is a SyncBatchNorm(3, eps=0)')
    assert [o.splitlines() for o in out] == [[
        f"InvalidError {norm}", "InvalidError " + text.format('"norm"', "there is nothing more"),
        "InvalidError " + text.format('"the layer"', '"the layer" is a SyncBatchNorm(3, eps=0)'), "None", norm, foreign, foreign, "None"]] * 2, out


def test_a_step_that_fails_ends_all_ranks(python):
    """A gradient that comes twice; a backward that did not end: the others learn of it, and no later step looks as if it was whole."""
    out = finish(*parallel(python, """
for fails in (lambda parallel: [parallel.begin(), parallel.made(0), parallel.made(0), ends.pop()()],
              lambda parallel: [parallel.begin(), ends.clear(), parallel.forward(True, True)],
              lambda parallel: [parallel.begin(), ends.clear(), parallel.close(), parallel.forward(True, True)]):
    again = group.split(0)
    parallel = wrap({n: parameter(4) for n in "ab"}, group=again)
    for p in parallel._parameters:
        p[1].grad = np.zeros(4, "f4")
    backward(parallel, {0: 1, 1: 1})
    print(refused(fails if rank else lambda parallel: [backward(parallel, {0: 1, 1: 1}), backward(parallel, {0: 1})], parallel))
    print(refused(parallel.forward, True, True))
    ends.clear()
"""))
    twice = 'parameter "a" got a gradient twice in one backward, expected once: checkpoints of activations must not be reentrant'
    broken, left = "a backward ended in an error while its gradients were averaged", "it is closed in a backward that has not ended"
    closed = "InvalidError it is closed: expected a new one, or the model that it was made of"
    for said, line in zip((twice, broken, left), zip(*[iter(out[0].splitlines())] * 2)):
        assert all(re.fullmatch(rf"PeerLostError .*: rank 1 \(.*\) has given the group up: {re.escape(said)}, as reported by rank 1", x) for x in line), line
    assert out[1].splitlines() == [f"InvalidError {twice}", f"InvalidError an earlier step failed: {twice}",
                                   *[f"InvalidError an earlier step failed: {broken}"] * 2, closed, closed]


@pytest.mark.parametrize("order", ["group.close(); parallel.close()", "parallel.close(); group.close()", "del parallel", "del group, parallel"])
def test_a_group_and_its_gradients_close_in_any_order(python, order):
    out = finish(*parallel(python, f"""
import gc
parallel = wrap({{"w": parameter(300)}}, group=group)
backward(parallel, {{0: rank}})
parallel.circle = parallel
{order}
gc.collect()
print("closed")
"""))
    assert out == ["closed\n"] * 2


def test_a_rank_that_is_gone_is_named_at_the_end_of_backward(python):
    programs = parallel(python, """
import os, signal
parallel = wrap({n: parameter(1000) for n in "abc"}, group=group)
for step in range(100):
    said = refused(backward, parallel, {0: 1} if rank == 2 and step == 3 else {0: 1, 1: 1, 2: 1}) if rank < 2 else \
        step == 3 and os.kill(os.getpid(), signal.SIGKILL) or backward(parallel, {0: 1})
    if said:
        break
print(said)
print(refused(parallel.forward, True, True))
print(group.shrink().size)
""", 3)
    out = finish(*programs[:2])
    programs[2].communicate()
    for o in out:
        lines = o.splitlines()
        assert all(line.startswith("PeerLostError ") and "rank 2 (127.0.0.1:" in line for line in lines[:2]) and lines[2:] == ["2"], out


def test_a_source_tree_says_how_to_build_it(tmp_path):
    shutil.copytree(ROOT / "python/paddlert", tmp_path / "paddlert", ignore=shutil.ignore_patterns("_abi.py", "__pycache__"))
    p = subprocess.run([sys.executable, "-c", "import paddlert"], env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert p.returncode == 1 and "_abi.py is missing" in p.stderr and "pip install ./python" in p.stderr, p.stderr


def test_structs_are_as_in_c(python, package, tmp_path):
    """What python/bind reads, against what the compiler does."""
    text = (package / "paddlert/_abi.py").read_text()
    names = [line.split()[1].split("(")[0] for line in text.splitlines() if line.startswith("class ")]
    assert len(names) >= 8
    main = "".join(f'printf("{n} %zu\\n", sizeof(struct {n}));' for n in names)
    program = tmp_path / "sizes"
    subprocess.run(["gcc", "-x", "c", "-", "-I", ROOT, "-o", program], check=True, text=True,
                   input=f'#include <stdio.h>\n#include "runtime/rt.h"\nint main(void) {{ {main} }}\n')
    want = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    out, = finish(python(f"""
import ctypes
from paddlert import _abi
for n in {names}:
    print(n, ctypes.sizeof(getattr(_abi, n)))
"""))
    assert out == want


def test_the_package_is_typed(package):
    """All of it; but for what the frameworks, which are not here, do not say."""
    r = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--allow-subclassing-any",
                        "--allow-untyped-decorators", "--cache-dir", package / "cache", package / "paddlert"], capture_output=True, text=True)
    assert r.returncode == 0 and (package / "paddlert/py.typed").exists(), r.stdout + r.stderr


def test_the_wheel_has_the_licences_of_all_that_it_bundles(package):
    """Of Debian's packages; what those refer to, too."""
    info, = package.glob("*.dist-info")
    texts = {str(f.relative_to(info / "licenses")): f.read_text() for f in (info / "licenses").rglob("*") if f.is_file()}
    matches = [re.match(r"lib(absl|gmp|gnutls|grpc|nettle|unistring|uv)", f.name) for f in (package / "paddlert/lib").iterdir()]
    names = {m[1] for m in matches if m}
    assert len(names) == 7
    for name in sorted(names):
        assert any(re.match(rf"lib{name}\d+/copyright", t) for t in texts), (name, sorted(texts))
    for name in set(re.findall(r"/usr/share/common-licenses/([\w.+-]*\w)", "".join(texts.values()))):
        assert len(texts[f"common-licenses/{name}"]) > 1000
    assert "Apache License" in texts["LICENSE"] and all(f"License-File: {t}\n" in (info / "METADATA").read_text() for t in texts)


def test_import_is_quick(python):
    """50 ms at most, beside NumPy's: the best of some, on a machine that does other things too."""
    best = min(float(finish(python("", "-c", "import numpy, time; t = time.process_time(); import paddlert; print(time.process_time() - t)"))[0])
               for _ in range(5))
    assert best < 0.05


def test_a_library_that_is_there_and_cannot_be_loaded_has_no_stand_in(package, tmp_path):
    """The next place may have one of another version."""
    shutil.copytree(package / "paddlert", tmp_path / "paddlert")
    library = tmp_path / "paddlert/lib/libpaddlert.so.1"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": str(ROOT / "build/lib")}
    for broken in (lambda: library.write_text("no library"), lambda: library.symlink_to(library)):
        library.unlink(missing_ok=True)
        broken()
        done = subprocess.run([sys.executable, "-c", "import paddlert"], env=environment, capture_output=True, text=True)
        assert done.returncode == 1
        assert "libpaddlert.so.1 cannot be loaded: " in done.stderr and str(library) in done.stderr


def test_rules_are_objects_and_texts(python):
    """An object is the text that C reads; it is refused where it is made, and a framework's has its counterpart named."""
    out, = finish(python("""
import copy, pickle
from paddlert import admit, evict, init, optim, schedule
def tell(f, *a, **k):
    try:
        print("no:", f(*a, **k))
    except (TypeError, AttributeError, RuntimeError, ValueError) as e:
        print(e)
for o in (optim.Adagrad(lr=0.05), optim.SGD(), optim.Adam(beta1=0.8, l2=1e-4), init.Uniform(-0.01, 0.01), init.Xavier(uniform=False),
          schedule.Cosine(steps=10000, warmup=500), schedule.Piecewise([100, 200], [1, 0.1, 0.01]), evict.LFU(10**6), evict.TTL(steps=7),
          admit.Count(3)):
    assert copy.deepcopy(o) == o == pickle.loads(pickle.dumps(o)) and hash(o) == hash(copy.copy(o)) and eval(repr(o), {"paddlert": paddlert}) == o
    print(o)
assert optim.SGD(0.5) != optim.SGD(0.25) != optim.Sum(0.25) and schedule.Step(steps=2, gamma=0.5).rate(1, 5) == 0.25
class Adam:                                               # as torch.optim.Adam is
    def __init__(self):
        self.defaults = {"lr": 0.5, "betas": (0.5, 0.25), "eps": 1e-3, "weight_decay": 0}
Adam.__module__ = "torch.optim.adam"
Adam.__repr__ = lambda self: "theirs"
for given in (Adam(), Adam, optim.Adam, 3):
    tell(paddlert.Sparse, "e", 2, given)
tell(paddlert.Sparse, "e", 2, init=optim.SGD())
tell(optim.Adagrad, lr=-1)
tell(optim.Adagrad, lr="1")
tell(schedule.Piecewise, [1, 2], [1])
tell(schedule.MultiStep, [3, 2], [1, 0.1, 0.2])
class Ours(schedule.MultiStep):
    def __init__(self, **more):
        super().__init__(np.array([2, 3]), **more)
assert Ours() == Ours(gamma=0.1) and Ours(gamma=0.5).at == (2, 3) and schedule.MultiStep([2]).at == (2,)
tell(Ours, gamma=[1])
for of in ((float("nan"), 1), (float("inf"), 1), (-1, 1), (1, -1), (1, 1 << 64), (1, 0.5), ("1", 1)):
    tell(schedule.Cosine(steps=10).rate, *of)
tell(setattr, optim.SGD(), "lr", 1)
tell(paddlert.Dense, "w", 2, evict="lfu:capacity=1")
table = paddlert.Sparse("e", 2, optim.SGD(1), init.Constant(3), evict=evict.LFU(9), schedule=schedule.Constant())
with paddlert.Server() as s, paddlert.Client(s.job(), [table], transport="grpc") as c:
    c.push("e", [1], [[1, 2]])
    c.flush()
    print(c.pull("e", [1, 2]).tolist(), c.rate("e")["lr"])
"""))
    assert out.splitlines() == [
        "adagrad:lr=0.05", "sgd", "adam:beta1=0.8,l2=0.0001", "uniform:min=-0.01,max=0.01", "xavier:uniform=0", "cosine:steps=10000,warmup=500",
        "piecewise:at=100:200,values=1:0.1:0.01", "lfu:capacity=1e+06", "ttl:steps=7", "count:n=3",
        "option 'optimizer' is theirs, expected paddlert.optim.Adam(lr=0.5, epsilon=0.001, beta1=0.5, beta2=0.25), as the servers apply it",
        "option 'optimizer' is <class 'torch.optim.adam.Adam'>, expected paddlert.optim.Adam(...), as the servers apply it",
        "option 'optimizer' is <class 'paddlert.optim.Adam'>, expected an object: paddlert.optim.Adam(...)",
        "option 'optimizer' is 3, expected a text of docs/rules.md or an object of paddlert.optim",
        "option 'init' is paddlert.optim.SGD(), expected a text of docs/rules.md or an object of paddlert.init",
        "adagrad: lr is -1, expected 0 to 1e+30", "lr of Adagrad is '1', expected a number",
        'schedule "piecewise": 1 values for 2 steps of at, expected 3',
        "gamma of MultiStep is [1, 0.1, 0.2], expected a number", "gamma of Ours is [1], expected a number",
        *[f"lr is {lr}, expected 0 to 1e+30" for lr in ("nan", "inf", "-1")],
        *[f"step is {step}, expected a whole number from 0 to {(1 << 64) - 1}" for step in (-1, 1 << 64)],
        "step is 0.5, expected a whole number", "lr is '1', expected a number", "lr of a SGD cannot be changed, expected a new one",
        "there is no option 'evict' of a dense table, expected one of mode, optimizer, schedule, wire", "[[2.0, 1.0], [3.0, 3.0]] 1.0"], out


def test_every_option_is_in_signature_and_docstring(python):
    """So that editors complete it, and mypy sees one that is misspelt."""
    out, = finish(python("""
import ctypes, inspect
from paddlert import _abi, _lib, fleet
for call, struct, own in ((paddlert.Client.__init__, _abi.rt_client_options, set()), (paddlert.Job.serve, _abi.rt_server_options, set()),
                          (paddlert.Server.__init__, _abi.rt_server_options, {"handle_signals"}),
                          (paddlert.Sparse.__init__, _abi.rt_table_spec, {"kind", "size"}),
                          (paddlert.Dense.__init__, _abi.rt_table_spec, {"kind", "dim", "init", "seed", "storage", "admit", "evict"}),
                          (fleet.run_server, _abi.rt_server_options, {"handle_signals"}), (fleet.init_worker, _abi.rt_client_options, {"mode"})):
    named = inspect.signature(call).parameters
    assert not any(p.kind is p.VAR_KEYWORD for p in named.values())
    fields = {_lib._option_name(f[0]) for f in struct._fields_} - {"_spare"} - own
    assert fields <= named.keys(), (call, fields - named.keys())
    more = [n for n, p in named.items() if p.kind is p.KEYWORD_ONLY and n in fields - {"mode", "handle_signals"}]
    assert all(f"\\n{n}: " in f"\\n{call.__doc__}" for n in more), (call, more)
print("all")
"""))
    assert out == "all\n"


def test_mypy_sees_wrong_options(package, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""import paddlert
job = paddlert.Job()
tables = [paddlert.Dense("w", 3, paddlert.optim.Adam(lr=0.1), wire="bf16"), paddlert.Sparse("e", 2, evict=paddlert.evict.LFU(9))]
paddlert.Client(job, tables, k_steps=20, start_timeout=1.5, transport="grpc")
paddlert.Client(job, tables, k_step=20)
paddlert.Client(job, tables, mode="sink")
paddlert.Sparse("e", 2, init=paddlert.optim.SGD())
paddlert.optim.Adagrad(rho=1)
job.serve(lease="10")
""")
    r = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program], cwd=tmp_path,
                       env={**os.environ, "MYPYPATH": str(package)}, capture_output=True, text=True)
    assert [int(line.split(":")[1]) for line in r.stdout.splitlines() if re.match(r"program.py:\d+: error:", line)] == [5, 6, 7, 8, 9], r.stdout + r.stderr


def test_errors_end_in_error_and_old_names_warn(python):
    out, = finish(python("""
import pickle, warnings
from paddlert import _abi, _lib, fleet
errors = [e for e in vars(paddlert).values() if isinstance(e, type) and issubclass(e, Exception)]
assert len(errors) > 12 and all(e.__name__.endswith("Error") and e.__name__ in paddlert.__all__ for e in errors)
codes = {v for k, v in vars(_abi).items() if k.startswith("CO_") and isinstance(v, int) and v < 0}
assert codes == {e.code for e in errors}, codes ^ {e.code for e in errors}
warnings.simplefilter("error")
for module, old in ((paddlert, "Timeout"), (paddlert, "PeerLost"), (fleet, "Different")):
    try:
        getattr(module, old)
    except DeprecationWarning as w:
        print(w)
warnings.simplefilter("ignore")
assert paddlert.Timeout is paddlert.TimeoutError and paddlert.Denied is paddlert.DeniedError and issubclass(paddlert.TimeoutError, TimeoutError)
def says(code, message):
    try:
        _lib.check(_abi.co_err(code=code, msg=message), code)
    except paddlert.Error as e:
        return e
e = says(_abi.CO_GONE, b"server 0 (h:1): it was restarted; all go back to its checkpoint 12, step 345")
print(type(e).__name__, e.checkpoint, e.step, isinstance(e, paddlert.GoneError))
e = says(_abi.CO_GONE, b"the job goes back to a checkpoint")
print(type(e).__name__, e.checkpoint, e.step, type(says(_abi.CO_GONE, b"rank 1 has called rt_group_shrink")).__name__)
"""))
    assert out.splitlines() == [f"{m}.{n} is called {m}.{n}Error, and the old name goes with the next release"
                                for m, n in (("paddlert", "Timeout"), ("paddlert", "PeerLost"), ("paddlert.fleet", "Different"))] + [
        "RolledBackError 12 345 True", "RolledBackError None None GoneError"], out


def test_the_version_is_the_wheels(python, package):
    out, = finish(python("print(paddlert.__version__)"))
    info, = package.glob("*.dist-info")
    assert f"\nVersion: {out}" in (info / "METADATA").read_text()


def test_help_begins_with_what_to_call(python):
    """And each name that it has exists."""
    out, = finish(python("print(paddlert.__doc__)"))
    table = [line[4:].split("  ", 1)[1].split(";")[0].removeprefix(" ") for line in out.split("\n\n")[2].splitlines()]
    names = {n for row in table for n in re.findall(r"\b[A-Za-z_]+\b", row.replace("paddlert.", ""))} - {"and", "those", "below", "it", "as"}
    assert {"Client", "Group", "torch", "optim", "RolledBackError", "Dataset"} <= names
    names -= {"torch", "paddle", "Embedding", "DistributedModel", "DistributedDataParallel", "DataParallel"}      # frameworks are not here
    finish(python(f"assert not [n for n in {sorted(names)} if not any(hasattr(m, n) for m in (paddlert, paddlert.data, paddlert.elastic))]"))


def test_a_public_name_without_a_docstring_is_no_page(tmp_path):
    """python/interface, which prints docs/python-api.md, names it."""
    shutil.copytree(ROOT / "python", tmp_path / "python")
    for d in ("docs", "runtime"):
        (tmp_path / d).symlink_to(ROOT / d)
    assert subprocess.run([tmp_path / "python/interface", "page"], capture_output=True, text=True).stdout == (ROOT / "docs/python-api.md").read_text()
    file = tmp_path / "python/paddlert/group.py"
    text = file.read_text()
    assert text.count('        """Waits until all ranks have called it."""\n') == 1
    file.write_text(text.replace('        """Waits until all ranks have called it."""\n', ""))
    r = subprocess.run([tmp_path / "python/interface", "page"], capture_output=True, text=True)
    assert r.returncode == 1 and r.stderr == "python/interface: no docstring: paddlert.Group.barrier\n"


def test_gather_scatter_and_out(python):
    """All in place of new arrays, on each root, started or not; out that is not contiguous, too."""
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    out = finish(*(python(f"""
rank, size = {i}, 3
def tell(f, *a, **k):
    try:
        print("no:", f(*a, **k))
    except (TypeError, ValueError) as e:
        print(e)
with paddlert.Group(endpoints={endpoints}, rank=rank, form_timeout=60, call_timeout=60) as g:
    all_of = np.array([np.arange(4.0) + i for i in range(size)])
    mine = all_of[rank]
    for root in range(size):
        for start in (False, True):
            end = (lambda w: w.wait()) if start else (lambda r: r)
            into = np.zeros((size, 4)) if rank == root else None
            got = end(g.gather(mine, root=root, out=into, start=start))
            assert got is into and (got is None or np.array_equal(got, all_of))
            row = np.zeros(4)
            assert end(g.scatter(all_of * 2 if rank == root else None, root=root, out=row, start=start)) is row
            assert np.array_equal(row, mine * 2)
            into = np.full(4, 7.0)
            got = end(g.reduce(mine, root=root, out=into, start=start))
            assert got is (into if rank == root else None) and np.array_equal(into, all_of.sum(0) if rank == root else np.full(4, 7.0))
    if rank == 0:
        assert np.array_equal(g.gather(mine), all_of) and np.array_equal(g.scatter(all_of), mine)
    else:
        g.gather(mine), g.scatter(out=np.zeros(4))
    into = np.zeros((4, size)).T
    assert not into.flags.c_contiguous and g.all_gather(mine, out=into) is into and np.array_equal(into, all_of)
    row, rows = np.zeros(4), np.zeros((size, 4))
    assert g.reduce_scatter(all_of, out=row) is row and np.array_equal(row, size * mine)
    assert g.all_to_all(all_of + 10 * rank, out=rows) is rows and np.array_equal(rows, [mine + 10 * i for i in range(size)])
    tell(g.all_gather, mine, out=np.zeros(4))
    tell(g.gather, mine, root=rank, out=np.zeros((size, 4), np.float32))
    tell(g.scatter, mine, root=(rank + 1) % size)
    tell(g.scatter, root=(rank + 1) % size)
    g.barrier()
""") for i in range(3)))
    for i, o in enumerate(out):
        assert o.splitlines() == [
            "out is float64 (4,), expected float64 (3, 4)", "out is float32 (3, 4), expected float64 (3, 4)",
            *(f"scatter on rank {i} got {what}, expected an array on rank {(i + 1) % 3} alone, and an out for the row of this one"
              for what in ("an array", "no out"))], o


def test_a_model_is_exported(python):
    """Of a running job and of a saved model: all ids, also those of all 64 bits; as files, which are whole or not there."""
    out, = finish(python("""
import os, pathlib, pickle, sys, types
def tell(f, *a):
    try:
        print("no:", f(*a))
    except (ValueError, OSError) as e:
        print(type(e).__name__, e)
tables = [paddlert.Dense("w", 3), paddlert.Sparse("e", 2, "sgd:lr=1", "constant:value=1", seed=7, wire="f16"), paddlert.Sparse("none", 4)]
ids = np.array([2**64 - 1, 3, 5], np.uint64)
with paddlert.Server(workers=1) as s, paddlert.Client(s.job(), tables) as c:
    c.init("w", [1, 2, 3])
    c.push("e", ids, np.arange(6.0).reshape(3, 2))
    c.flush()
    now = c.model()
    c.push("e", [4], [[1, 1]])
    c.flush()
    c.save("saved")
assert now.ids("e").tolist() == [3, 5, 2**64 - 1] and now.ids("none").size == 0
saved = paddlert.Model("saved")
assert saved.ids("e").tolist() == [3, 4, 5, 2**64 - 1] and saved.ids("e").dtype == np.uint64
tell(saved.ids, "w")
print(*saved.tables, sep="\\n")
with paddlert.Client(paddlert.Job(worker=0), saved.tables) as c:          # they are tables of a job
    c.load("saved")
    assert c.pull("e", [4]).tolist() == [[0, 0]]
for m, n in ((now, 3), (saved, 4)):
    a = m.arrays()
    assert set(a) == {"w", "e.ids", "e.rows", "none.ids", "none.rows"} and a["w"].tolist() == [1, 2, 3]
    assert a["e.rows"].shape == (n, 2) and np.array_equal(a["e.rows"], m.sparse("e", a["e.ids"])) and a["none.rows"].shape == (0, 4)
    m.export(pathlib.Path("x.npz"))
    with np.load("x.npz") as read:
        assert set(read) == set(a) and all(np.array_equal(read[k], a[k]) for k in a)
tell(saved.export, "x.txt")
sys.modules["safetensors.numpy"] = None
tell(saved.export, "x.safetensors")
def save_file(arrays, file):                                               # as the package's
    pathlib.Path(file).write_bytes(pickle.dumps(arrays))
sys.modules["safetensors.numpy"] = types.SimpleNamespace(save_file=save_file)
sys.modules["safetensors"] = types.ModuleType("safetensors")
saved.export("x.safetensors")
assert set(pickle.loads(pathlib.Path("x.safetensors").read_bytes())) == set(saved.arrays())
print(sorted(f for f in os.listdir() if f[0] == "x"))
"""), seconds=120)
    assert out.splitlines() == [
        "ValueError table 'w' is dense, expected a sparse one, which has ids", "paddlert.Dense('w', 3, optimizer='sgd:lr=0.01', schedule='constant', wire='f32')",
        "paddlert.Sparse('e', 2, optimizer='sgd:lr=1', init='constant:value=1', schedule='constant', storage='f32', wire='f32', seed=7)",
        "paddlert.Sparse('none', 4, optimizer='sgd:lr=0.01', init='uniform:min=-0.01,max=0.01', schedule='constant', storage='f32', wire='f32')",
        'ValueError the file is "x.txt", expected a name that ends in .npz or .safetensors',
        "InvalidError x.safetensors needs the package safetensors, which is not installed: pip install safetensors, or export to a file .npz of NumPy",
        "['x.npz', 'x.safetensors']"], out


def test_an_export_has_the_arrays_of_all_tables(python):
    """Whatever their names are; two that make an array of one name are refused, by the model of a program, too."""
    out, = finish(python(f"""{NUMPY}
names = ["file", "allow_pickle", "self", "args", "a.npy"]
job = paddlert.Job(worker=0)
def tell(f, *a):
    try:
        print("no:", f(*a))
    except ValueError as e:
        print(e)
with paddlert.Client(job, [paddlert.Dense(name, 2) for name in names]) as c:
    for i, name in enumerate(names):
        c.init(name, [i, i])
    c.model().export("x.npz")
with np.load("x.npz") as read:
    print(*(f"{{name}} {{read[name].tolist()}}" for name in names))
for second in ("e.ids", "e.rows"):
    with paddlert.Client(job, [paddlert.Sparse("e", 2), paddlert.Dense(second, 3)]) as c:
        tell(c.model().export, "y.npz")
        print(c.model().dense(second).tolist())
part = Dense(Model(paddlert.Sparse("e", 2)))
part._parts = [("e.rows", *part._parts[0][1:])]
with part.connect(job):
    tell(part.export, "y.npz")
import os, sys, types
sys.modules["safetensors.numpy"] = types.SimpleNamespace(save_file=None)
sys.modules["safetensors"] = types.ModuleType("safetensors")
with paddlert.Client(job, [paddlert.Dense("__metadata__", 1)]) as c:
    tell(c.model().export, "z.safetensors")
print([f for f in os.listdir() if f[0] in "yz"])
"""))
    both = "tables 'e' and '{0}' both make the array '{0}', expected names of tables that make different ones: export them one by one, " \
        "as dense(), ids() and sparse() have them"
    assert out.splitlines() == [
        " ".join(f"{name} [{i}.0, {i}.0]" for i, name in enumerate(["file", "allow_pickle", "self", "args", "a.npy"])),
        both.format("e.ids"), "[0.0, 0.0, 0.0]", both.format("e.rows"), "[0.0, 0.0, 0.0]",
        "a parameter of the model and a table both make the array 'e.rows', expected a table of another name, or each in a file of its own: values() "
        "has the parameters, and paddlert.Model the tables",
        'z.safetensors: an array has the name "__metadata__", which no array of a .safetensors has, expected a file .npz', "[]"], out


def test_shows_that_nobody_counts_are_named(python):
    """Not those of a table that counts them."""
    out, = finish(python("""
import warnings
from paddlert import admit, evict
options = {"plain": {}, "ttl": {"admit": admit.Count(1), "evict": evict.TTL(steps=9)}, "show": {"admit": "show_click:threshold=3"}, "ctr": {"evict": evict.CTR()}}
with paddlert.Client(paddlert.Job(worker=0), [paddlert.Sparse(name, 1, **more) for name, more in options.items()]) as c:
    for name in options:
        for counts in ({}, {"shows": 3}, {"clicks": [1]}):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                c.push(name, [1], [[1]], **counts)
            print(name, *(w.message for w in found))
"""))
    said = [f"{name} table '{name}' has neither admit ShowClick nor evict CTR, so that shows and clicks count nothing there" for name in ("plain", "ttl")]
    assert out.splitlines() == ["plain", said[0], said[0], "ttl", said[1], said[1], *["show"] * 3, *["ctr"] * 3], out


def test_rows_become_a_matrix(python):
    """Of ids from 0 to the largest one, those without a row as they read."""
    out, = finish(python("""
from paddlert._training import Rows
rows = Rows(paddlert.Sparse("e", 2, "sgd:lr=1", "constant:value=1"), padding=1)
with paddlert.Client(paddlert.Job(worker=0), [rows.table]) as c:
    rows.attach(c)
    print(rows.matrix(None).tolist())
    rows.push(np.array([1, 3], np.uint64), np.ones((2, 2), np.float32))
    c.flush()
    print(rows.matrix(None).tolist(), rows.matrix(5).shape)
    c.push("e", [2**63], [[1, 1]])
    c.flush()
    try:
        rows.matrix(None)
    except paddlert.InvalidError as e:
        print(e)
"""))
    assert out.splitlines() == ["[[1.0, 1.0]]", "[[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]] (5, 2)",
                                f"table 'e' would be a matrix of {2**63 + 1} rows of 2, expected 1 to 134217728: paddlert.Model has the rows by id"], out
