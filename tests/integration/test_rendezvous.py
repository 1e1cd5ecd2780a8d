"""Nodes meet, lose one another and part: over our key-value service, beside Paddle's, and by a real etcd."""
import base64
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from rig import BIN, FEWER, ROOT, free_port, listens as port_listens, stand_still, wait_for
from wire import Wire

MEET = BIN / "meet"


class Node:
    """One node as a process that trains nothing; `lines` are (seconds, text)."""
    def __init__(self, name, master, *flags, nnodes="2", prefix=(), **options):
        args = [*prefix, MEET, "--name", name, "--nnodes", nnodes, "--value", json.dumps({"name": name})]
        if master:
            args += ["--master", master]
        for k, v in options.items():
            args += ["--" + k.replace("_", "-"), str(v)]
        self.name, self.lines = name, []
        self.p = subprocess.Popen([*map(str, args), *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.p.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def text(self):
        return "\n".join(f"{self.name}: {l}" for _, l in self.lines)

    def say(self, letter):
        self.p.stdin.write(letter)
        self.p.stdin.flush()

    def find(self, pattern, nth=1):
        hits = [(t, re.search(pattern, l)) for t, l in list(self.lines) if re.search(pattern, l)]
        return hits[nth - 1] if len(hits) >= nth else None

    def wait(self, pattern, seconds=60, nth=1):
        """The moment and the match of the nth line that matches."""
        return wait_for(lambda: self.find(pattern, nth), seconds, lambda: f"{pattern!r} in:\n{self.text()}")

    def met(self, round=1, seconds=60):
        m = self.wait(rf"^met round {round} rank (\d+) of (\d+)", seconds)[1]
        return int(m[1]), int(m[2])

    def roster(self, round=1):
        self.met(round)
        rank, n = self.met(round)
        lines = [l for _, l in self.lines]
        at = next(i for i, l in enumerate(lines) if l.startswith(f"met round {round} "))
        wait_for(lambda: len(self.lines) > at + n)
        return [l.split(" ", 3)[3] for _, l in self.lines[at + 1:at + 1 + n]]


@pytest.fixture
def nodes():
    with contextlib.ExitStack() as all:
        def start(*args, **kw):
            n = Node(*args, **kw)
            all.callback(lambda: (n.p.kill(), n.p.wait()))
            return n
        yield start


class Etcd:
    def __init__(self, directory, *flags, scheme="http"):
        subprocess.run([ROOT / "deploy/local/build", "etcd"], check=True, capture_output=True, timeout=900)
        self.bin = subprocess.run(["bash", "-c", f". {ROOT}/deploy/local/lib.sh; bin etcd"], check=True,
                                  capture_output=True, text=True).stdout.strip()
        self.dir, self.flags, self.scheme = directory, flags, scheme
        self.port, self.peer = free_port(), free_port()
        self.url = f"etcd://127.0.0.1:{self.port}"
        self.up()

    def up(self):
        mine, peer = f"{self.scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        self.p = subprocess.Popen(
            [self.bin, "--data-dir", f"{self.dir}/etcd", "--listen-client-urls", mine, "--advertise-client-urls", mine,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
             "--unsafe-no-fsync", "--log-level", "error", *self.flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._serves, 60, why="etcd serves")

    def _serves(self):
        if not port_listens(self.port):
            return False
        with contextlib.suppress(OSError):
            return self.scheme == "https" or self.call("maintenance/status", {}, check=False) is not None

    def call(self, path, body, token=None, check=True):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", f"/v3/{path}", json.dumps(body), {"Authorization": token} if token else {})
        r = c.getresponse()
        text = r.read()
        assert r.status == 200 or not check, text
        return json.loads(text) if r.status == 200 else None

    def keys(self, prefix):
        """Name below the prefix -> lease of each key."""
        text = [base64.b64encode(t.encode()).decode() for t in (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))]
        found = self.call("kv/range", {"key": text[0], "range_end": text[1]})
        return {base64.b64decode(kv["key"]).decode()[len(prefix):]: kv.get("lease") for kv in found.get("kvs", [])}

    def down(self):
        self.p.kill()
        self.p.wait()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    e = Etcd(tmp_path_factory.mktemp("etcd"))
    yield e
    e.down()


@pytest.fixture(params=["kv", "etcd"])
def way(request):
    """(master, options): both ways to meet have to keep the same promises."""
    if request.param == "kv":
        return f"127.0.0.1:{free_port()}", {}
    e = request.getfixturevalue("etcd")
    return e.url, {"job": f"j{free_port()}", "silent_ms": 5000}


# ---- who gets which rank ----

def test_all_nodes_agree_on_the_ranks(nodes, way):
    master, o = way
    all = [nodes(n, master, nnodes="3", **o) for n in ("cc", "aa", "bb")]
    rosters = [n.roster() for n in all]
    assert rosters[0] == rosters[1] == rosters[2] and len(rosters[0]) == 3
    assert [r[:2] for r in rosters[0][1:]] == sorted(r[:2] for r in rosters[0][1:])
    assert sorted(n.met()[0] for n in all) == [0, 1, 2]


def test_a_rank_that_was_asked_for_is_given(nodes, way):
    master, o = way
    all = [nodes(n, master, nnodes="3", rank=r, **o) for n, r in (("cc", 1), ("aa", 2), ("bb", 0))]
    assert [n.met()[0] for n in all] == [1, 2, 0]


@pytest.mark.parametrize("first, second, why", [
    (dict(rank=0), dict(rank=0), "rank 0 is asked for by node aa and by node bb"),
    (dict(rank=0), dict(rank=2), "node bb asks for rank 2 in a job of 2 nodes"),
    (dict(rank=0), dict(), "node aa asks for rank 0 and node bb for none"),
    (dict(), dict(nnodes="3"), "node bb was started with --nnodes 3:3, the job with 2:2"),
    (dict(rank=0), dict(name="aa", rank=1), "the name aa is taken by node aa"),
])
def test_a_node_that_does_not_fit_learns_what_it_clashes_with(nodes, first, second, why):
    master = f"127.0.0.1:{free_port()}"
    a = nodes("aa", master, **first)
    wait_for(lambda: listens(master))
    second = dict(second)
    b = nodes(second.pop("name", "bb"), master, **second)
    b.wait(f"^ended .*{re.escape(why)}")
    assert b.p.wait(60) == 1
    a.wait("^warning refused: ")         # whose fault it is stands in both logs
    nodes("cc", master, **({"rank": 1} if "rank" in first else {})).met()
    a.met()


@pytest.mark.parametrize("first, second", [(0, 0), (0, 5), (0, -1)])
def test_a_node_that_clashes_with_those_in_an_etcd_ends(nodes, etcd, first, second):
    o = {"job": f"j{free_port()}", "silent_ms": 5000}
    a, b = nodes("aa", etcd.url, rank=first, **o), nodes("bb", etcd.url, rank=second, **o)
    ended = wait_for(lambda: next((n for n in (a, b) if n.find(r"^ended (exists|invalid): .*rank")), None))
    time.sleep(0.5)
    assert not (b if ended is a else a).find("^ended")       # another one may come still


def listens(master):
    host, port = master.rsplit(":", 1)
    return port_listens(int(port), host.strip("[]"))


@pytest.mark.parametrize("master", ["localhost:{}", "[::1]:{}", "127.0.0.7:{}"])
def test_the_master_may_be_a_name_or_any_address_of_this_machine(nodes, master):
    if "::1" in master and not os.path.exists("/proc/net/if_inet6"):
        master = "127.0.0.8:{}"          # a machine without IPv6
    master = master.format(free_port())
    a, b = nodes("aa", master), nodes("bb", master)
    assert {a.met()[0], b.met()[0]} == {0, 1}


def test_without_a_master_the_first_node_says_where_it_serves(nodes):
    a = nodes("zz", None, host="127.0.0.1")
    endpoint = a.wait(r"^serving (\S+)")[1][1]
    assert nodes("bb", endpoint).met() == (1, 2) and a.met() == (0, 2)


def test_a_late_master_is_found_soon(nodes):
    master = f"127.0.0.9:{free_port()}"
    holder = socket.create_server(("127.0.0.9", int(master.rsplit(":", 1)[1])))    # is no master
    a = nodes("aa", master)
    time.sleep(1)
    holder.close()
    b = nodes("bb", master)
    b.met()
    a.met()                                   # within a minute, and not when it would give up


# ---- somebody is missing ----

def test_the_deadline_names_who_is_missing(nodes):
    master = f"127.0.0.1:{free_port()}"
    a = nodes("aa", master, nnodes="3", rank=0, deadline_ms=6000, silent_ms=3000)
    b = nodes("bb", master, nnodes="3", rank=2, deadline_ms=6000, silent_ms=3000)
    for n in (a, b):                     # whichever of them serves, and ends first
        n.wait("^ended timeout: .*not meet within 6 s: 2 of 3 nodes are here, missing: rank 1")


def test_a_master_that_never_comes(nodes):
    n = nodes("aa", "192.0.2.1:9", deadline_ms=1200, host="127.0.0.1")
    n.wait("^ended timeout: .*within 1.2 s: ")
    n = nodes("aa", "no-such-host.invalid:9", deadline_ms=4000)
    n.wait("^ended timeout: .*cannot find host no-such-host.invalid")


def test_a_listener_that_says_nothing_is_named_in_the_first_line(nodes):
    """It takes connections: a program that is stopped, or one that waits for the other side to speak."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        n = nodes("a", f"127.0.0.1:{port}")
        said = n.wait(r"waiting for the other nodes since \d+ s: (.*); giving up")      # the first such line
        assert said[1][1] == f"the master at 127.0.0.1:{port} has not answered yet", n.text()


def test_an_etcd_that_never_comes(nodes):
    n = nodes("aa", f"etcd://etcd-svc.invalid:{free_port()}", deadline_ms=4000)
    n.wait("^ended timeout: .*cannot find host etcd-svc.invalid")      # the name is whole


# ---- somebody is lost ----

def three(nodes, way, **more):
    master, o = way
    all = [nodes("aa", master, nnodes="3", rank=0, **o, **more)]
    if not master.startswith("etcd"):
        wait_for(lambda: listens(master))      # aa serves
    all += [nodes(n, master, nnodes="3", rank=r, **o, **more) for n, r in (("bb", 1), ("cc", 2))]
    for n in all:
        n.met()
    return all


def stop_until_known(node, known):
    """Returns when it was stopped. By an etcd only a node that has reported can be mute: a node that had no time for that is continued, and stopped again."""
    end = time.monotonic() + 100
    while True:
        begin = time.monotonic()
        node.p.send_signal(signal.SIGSTOP)
        with contextlib.suppress(AssertionError):
            wait_for(known, 5)
            return begin
        node.p.send_signal(signal.SIGCONT)
        assert time.monotonic() < end, f"the others do not know that {node.name} is mute"
        time.sleep(0.5)


def test_a_killed_node_is_known_to_all(nodes, way):
    """Also by an etcd: not when its lease ends, which here is long after this test."""
    way[1]["silent_ms"] = 300 * 1000
    a, b, c = three(nodes, way)
    stop_until_known(b, lambda: a.find("^warning silent for a second: node bb"))
    b.p.send_signal(signal.SIGCONT)
    a.wait("^note all nodes answer again", 60)
    begin = time.monotonic()
    b.p.kill()
    known = [n.wait(r"^ended peer.?lost: node bb \(rank 1.* is gone: its launcher ended without a word", 60)[0] - begin
             for n in (a, c)]
    print(f"known to the others after {', '.join(f'{s:.2f}' for s in known)} s")


def test_a_failed_node_is_known_to_all_with_its_reason(nodes, way):
    """At once: it is not lost before five minutes are over."""
    way[1]["silent_ms"] = 300 * 1000
    a, b, c = three(nodes, way)
    begin = time.monotonic()
    b.say("f")
    known = [n.wait(r"^ended peer.?lost: node bb \(rank 1.* failed: worker 0: exit code 3")[0] - begin for n in (a, c)]
    print(f"known to the others after {', '.join(f'{s:.2f}' for s in known)} s")


@pytest.mark.parametrize("sign, silent_ms", [(signal.SIGKILL, 300 * 1000), (signal.SIGSTOP, 4000)])
def test_a_master_that_dies_or_hangs_ends_all(nodes, sign, silent_ms):
    """Dead it is known at once, not when its time is over."""
    a, b, c = three(nodes, (f"127.0.0.1:{free_port()}", {"silent_ms": silent_ms}))
    a.p.send_signal(sign)
    for n in (b, c):
        n.wait(r"^ended peer.?lost: the master at 127.0.0.1:\d+ is gone: ")


def test_a_node_that_hangs_is_lost(nodes, way):
    way[1]["silent_ms"] = 5000
    a, b, c = three(nodes, way)
    b.p.send_signal(signal.SIGSTOP)
    for n in (a, c):
        n.wait(r"^ended peer.?lost: node bb \(rank 1.*(has been silent for 5.0 s|is gone)")


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_mute_node_is_known_long_before_it_is_lost(nodes, way, stopped):
    """Known within a second; acted upon only after silent_ms, here never: a busy machine must not end a job."""
    way[1]["silent_ms"] = 300 * 1000
    all = three(nodes, way)
    mute, others = all[stopped], all[:stopped] + all[stopped + 1:]
    who = r"node bb \(rank 1, 127.0.0.1\)" if stopped else "the master at" if "etcd" not in way[0] else r"node aa \(rank 0, 127.0.0.1\)"
    for turn in (1, 2):                      # the second time with twice the patience
        line = f"^warning silent for a second: .*{who}.*; lost after 30[02] s"
        begin = stop_until_known(mute, lambda: {bool(n.find(line, turn)) for n in others} == {True})
        known = [n.find(line, turn)[0] - begin for n in others]
        print(f"known to the others after {', '.join(f'{s:.2f}' for s in known)} s")
        mute.p.send_signal(signal.SIGCONT)
        for n in others:
            n.wait("^note (all nodes|the master) answers? again", 60, turn)
    for n in all:
        n.say("d")
    for n in all:
        n.wait("^all done", 60)
    assert not any(n.find("^(ended|changed)") for n in all)


def test_a_node_that_dies_between_an_answer_and_its_next_question_is_gone(nodes):
    """It has no request at the master then, only a connection; without that it would be mute, and lost much later."""
    port = free_port()
    a = nodes("aa", f"127.0.0.1:{port}")
    wait_for(lambda: listens(f"127.0.0.1:{port}"))
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for word, answer in (("join", b"paddlerun met 1 "), ("run", (b"paddlerun wait 1 ", b"paddlerun mute "))):
        c.request("POST", "/default/info/bb/-1", "{}", {"Paddlerun": f"1 b0b {word} 1 2:2 -"})
        assert c.getresponse().read().startswith(answer)
    c.close()
    a.wait("^ended .*: node bb .*is gone: its launcher ended without a word", 30)


def test_a_master_that_was_stopped_reads_before_it_judges(nodes):
    """What a node says while the master stands still counts, although its time is over when the master continues."""
    port = free_port()
    a = nodes("aa", f"127.0.0.1:{port}", silent_ms=3000)
    wait_for(lambda: listens(f"127.0.0.1:{port}"))
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(word):
        c.request("POST", "/default/info/bb/-1", "{}", {"Paddlerun": f"1 b0b {word} 1 2:2 -"})

    ask("join")
    assert c.getresponse().read().startswith(b"paddlerun met 1 ")
    stand_still(a.p)
    ask("run")
    time.sleep(3.5)                      # it is configured to report within 3 s
    a.p.send_signal(signal.SIGCONT)
    assert c.getresponse().read().startswith((b"paddlerun wait 1 ", b"paddlerun mute 0 "))
    assert not a.find("^ended")


def listing(master):
    """Who is there, as Paddle's launcher asks for it."""
    c = http.client.HTTPConnection(master, timeout=60)
    c.request("GET", "/default/info")
    return c.getresponse().read().decode()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_lost_while_gathering_is_replaced(nodes, sign):
    master = f"127.0.0.1:{free_port()}"
    o = dict(nnodes="3", silent_ms=3000)
    a = nodes("aa", master, rank=0, **o)
    wait_for(lambda: listens(master))
    b = nodes("bb", master, rank=1, **o)
    wait_for(lambda: "/bb/" in listing(master))
    b.p.send_signal(sign)
    wait_for(lambda: "/bb/" not in listing(master))
    c, d = nodes("cc", master, rank=1, **o), nodes("dd", master, rank=2, **o)
    assert [n.met()[0] for n in (a, c, d)] == [0, 1, 2]


def test_one_node_too_many(nodes, way):
    a, b, c = three(nodes, way)
    d = nodes("dd", way[0], nnodes="3", **way[1])
    d.wait("^ended .*(one too many|is late|asks for rank)")
    assert d.p.wait(60) == 1
    assert all(n.p.poll() is None and not n.find("^(ended|changed)") for n in (a, b, c))


def test_all_done_is_reported_when_all_nodes_are_done(nodes, way):
    a, b, c = three(nodes, way)
    for n in (a, c):
        n.say("d")
    time.sleep(0.3)
    assert not a.find("all done")
    b.say("d")
    for n in (a, b, c):
        n.wait("^all done")
    a.say("l")
    a.wait("^gone")
    time.sleep(1)
    assert not b.find("^ended") and not c.find("^ended")


def test_a_node_that_has_finished_is_not_missed(nodes, way):
    a, b, c = three(nodes, way)
    for n in (b, a):
        n.say("l")
        n.wait("^gone")
        assert n.p.wait(60) == 0
    time.sleep(1)
    assert not c.find("^(ended|changed)")


# ---- elastic ----

def test_scale_out_and_in(nodes, way):
    master, o = way
    e = dict(nnodes="1:3", level=1, restarts=1, elastic_ms=600, **o)
    a = nodes("aa", master, **e)
    assert a.met(1) == (0, 1)
    b = nodes("bb", master, **e)
    a.wait(r"^changed node bb .*came")
    assert a.met(2) == (0, 2) and b.met(2) == (1, 2)
    c = nodes("cc", master, **e)
    assert [n.met(3) for n in (a, b, c)] == [(0, 3), (1, 3), (2, 3)]
    b.say("s")
    for i, n in enumerate((a, c)):
        n.wait("^changed node bb .*left: SIGTERM")
        assert n.met(4) == (i, 2)
    c.say("f")                                   # a failure costs a restart: the only one
    a.wait("^changed node cc .*failed: worker 0: exit code 3")
    assert a.met(5) == (0, 1)
    b = nodes("dd", master, **e)
    assert a.met(6)[1] == b.met(6)[1] == 2
    b.say("f")
    a.wait("^ended .*failed: .*no restart is left")


def test_a_replaced_node_joins_again(nodes, way):
    master, o = way
    e = dict(nnodes="2", level=0, **o)
    a = nodes("aa", master, rank=0, **e)
    if not master.startswith("etcd"):
        wait_for(lambda: listens(master))      # aa serves
    b = nodes("bb", master, rank=1, **e)
    a.met(), b.met()
    b.p.kill()
    a.wait("^changed node bb")
    b = nodes("bb", master, rank=1, **e)
    assert b.met(2) == (1, 2) and a.met(2) == (0, 2)


def test_a_restart_restarts_all_nodes(nodes, way):
    master, o = way
    all = [nodes(n, master, level=1, restarts=1, **o) for n in ("aa", "bb")]
    for n in all:
        n.met()
    all[1].say("r")
    for n in all:
        n.wait("^changed node (bb|aaaaaa) .*starts again: worker 0: exit code 1")
        n.met(2)
    all[0].say("r")
    for n in all:
        n.wait("^ended .*no restart is left")


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_restart_that_was_lost_on_the_wire_is_asked_for_again(nodes, lost):
    """Until it is answered; that it was received twice costs one restart, of which there is no more."""
    port, cuts = free_port(), []

    def cut(data):
        if b" restart " in data and not cuts:
            cuts.append(lost)
            return lost

    wire = Wire(port, cut)
    a = nodes("aa", f"127.0.0.1:{port}", rank=0, level=1, restarts=1)
    wait_for(lambda: listens(f"127.0.0.1:{port}"))
    b = nodes("bb", wire.address, rank=1, level=1, restarts=1)
    a.met(), b.met()
    b.say("r")
    for n in (a, b):
        n.wait("^changed node bb .*starts again: worker 0: exit code 1", 60)
        n.met(2, 60)
    assert cuts == [lost]
    for n in (a, b):
        n.say("d")
    for n in (a, b):
        n.wait("^all done", 60)
    wire.close()


def test_a_node_that_asks_for_a_restart_gets_the_result(nodes):
    """The master may be gone before that node could ask again; its waiting request ended when it asked for this."""
    port = free_port()
    a = nodes("aa", f"127.0.0.1:{port}", level=1, restarts=0)
    wait_for(lambda: listens(f"127.0.0.1:{port}"))

    def ask(method, word, number):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        c.request(method, "/default/info/bb/-1", "worker 0: exit code 1", {"Paddlerun": f"1 b0b {word} {number} 2:2 -"})
        return c

    joined = ask("POST", "join", 0)
    assert joined.getresponse().read().startswith(b"paddlerun met 1 ")
    waiting = ask("POST", "run", 1)
    answer = ask("DELETE", "restart", 1).getresponse().read()
    assert re.match(rb"paddlerun over -\d+ node bb .*starts again: worker 0: exit code 1, and restarts are not allowed\n", answer)
    a.wait("^ended .*restarts are not allowed")
    waiting.close()


def test_the_master_returns(nodes):
    master = f"127.0.0.1:{free_port()}"
    e = dict(level=1, nnodes="3")
    a = nodes("aa", master, rank=0, **e)
    wait_for(lambda: listens(master))
    b, c = nodes("bb", master, rank=1, host="127.0.0.2", **e), nodes("cc", master, rank=2, **e)
    for n in (a, b, c):
        n.met()
    a.p.kill()
    for n in (b, c):
        n.wait("^changed (the master at|another node is the master) ")     # it is gone, or the other of the two serves already
    d = nodes("dd", master, rank=0, **e)
    assert [n.wait(r"^met round \d+ rank (\d)", 60, nth)[1][1] for n, nth in ((b, 2), (c, 2), (d, 1))] == ["1", "2", "0"]


# ---- etcd itself ----

def test_etcd_dies_and_returns(nodes, tmp_path):
    e = Etcd(tmp_path)
    try:
        o = dict(job="j", silent_ms=30000)
        a = nodes("aa", e.url, **o)
        time.sleep(0.5)
        e.down()                                 # while nodes gather
        a.wait("^warning master not ready: etcd")
        e.up()
        b = nodes("bb", e.url, **o)
        a.met(), b.met()
        e.down()                                 # while they run: nothing has to end
        time.sleep(1)
        e.up()
        time.sleep(1)
        assert not a.find("^(ended|changed)") and not b.find("^(ended|changed)")
        b.say("f")
        a.wait("^ended peer.?lost: node bb .*exit code 3")
    finally:
        e.down()


def test_what_waits_for_an_etcd_that_is_away_has_a_bound(nodes, tmp_path):
    """A job whose workers all run well needs none. One whose worker failed, or that has ended, does."""
    e = Etcd(tmp_path)
    try:
        o = dict(silent_ms=30000, level=1, nnodes="2:3", elastic_ms=500, deadline_ms=5000)
        well, fails, leaves, done = ([nodes(n, e.url, job=job, **o) for n in (f"{job}a", f"{job}b")]
                                     for job in ("well", "fails", "leaves", "done"))
        for a, b in (well, fails, leaves, done):
            a.met(), b.met()
        time.sleep(1)                            # neighbours have answered
        e.down()
        fails[1].say("r")
        leaves[1].say("l")                       # its workers ended well: no loss for the other node
        done[0].say("d")
        fails[1].wait(r"^ended timeout: the restart of all nodes did not begin within 5 s \(--join_timeout\): .*cannot connect")
        fails[0].wait(r"^ended peer.?lost: node failsb is gone, and etcd did not take that within 5 s")
        done[0].wait(r"^overdue etcd did not say whether the workers of all nodes have ended within 5 s")
        leaves[1].wait("^gone")
        time.sleep(1)                            # its neighbour has read from it that its workers ended well
        done[0].p.kill()
        time.sleep(9)
        for n in (*well, *done, leaves[0]):
            assert not n.find("^(ended|changed)"), n.text()
    finally:
        e.down()


def test_who_ended_well_while_etcd_was_away_is_no_loss_when_it_returns(nodes, tmp_path):
    """Nor is it when the key that says so ends before the others do: in an etcd it lives for ten minutes."""
    e = Etcd(tmp_path)
    try:
        all = [nodes(n, e.url, nnodes="3", silent_ms=5000) for n in ("aa", "bb", "cc")]
        for n in all:
            n.met()
        a, b, c = all
        time.sleep(1)                            # neighbours have answered
        e.down()
        b.say("l")
        b.wait("^gone")
        e.up()
        wait_for(lambda: "bb" not in e.keys("/paddlerun/default/node/"), 60, "its lease ends")
        assert "bb" in e.keys("/paddlerun/default/done/")
        time.sleep(2)
        e.call("lease/revoke", {"ID": e.keys("/paddlerun/default/done/")["bb"]})
        time.sleep(2)
        for n in (a, c):
            assert not n.find("^(ended|changed)"), n.text()
            n.say("d")
        for n in (a, c):
            n.wait("^all done")
    finally:
        e.down()


CONNECTED = """#!/usr/bin/python3
import os, socket, sys, time
if os.environ["TRAINING_ROLE"] == "PSERVER":
    s = socket.create_server(("", int(os.environ["PADDLE_PORT"])))
    clients = []
    while True:
        clients.append(s.accept())
servers = []
for server in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(","):
    host, port = server.split(":")
    while True:
        try:
            servers.append(socket.create_connection((host, int(port))))
            break
        except OSError:
            time.sleep(0.1)
open("started.TRAINER." + sys.argv[1], "w").close()
while not os.path.exists("go." + sys.argv[1]):
    time.sleep(0.1)
"""


APART = """#!/bin/sh
[ "$TRAINING_ROLE" = PSERVER ] && exec sleep 1000
touch "started.TRAINER.$1"
until [ -e "go.$1" ]; do sleep 0.1; done
"""


@contextlib.contextmanager
def two_nodes_with_servers(tmp_path, program, silent_timeout):
    """An etcd that is away, and two launchers whose servers and workers run the program."""
    job = tmp_path / "job"
    job.write_text(program)
    job.chmod(0o755)
    e = Etcd(tmp_path)
    words = [BIN / "paddlerun", "launch", "--master", e.url, "--nnodes", "2", "--run_mode", "ps", "--server_num", "1", "--trainer_num", "1",
             "--job_id", "ps", "--join_timeout", "3s", "--silent_timeout", silent_timeout]
    ps = [subprocess.Popen([*words, "--log_dir", f"log{i}", "./job", str(i)], cwd=tmp_path, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True) for i in range(2)]
    try:
        wait_for(lambda: len(list(tmp_path.glob("started.TRAINER.*"))) == 2, 60)
        time.sleep(1)                            # neighbours have answered
        e.down()
        yield e, ps
    finally:
        e.down()
        for p in ps:
            p.send_signal(signal.SIGTERM)
        for p in ps:
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(10)
            p.kill()


def test_an_etcd_that_returns_ends_no_job_with_servers(tmp_path):
    """The first node's servers serve the other's worker, longer than it waits for etcd: it is still a member then."""
    with two_nodes_with_servers(tmp_path, CONNECTED, "5s") as (e, ps):
        (tmp_path / "go.0").touch()
        line = next(l for l in ps[0].stdout if "the servers of this node end when" in l)
        assert "etcd did not say whether the workers of all nodes have ended within 3 s" in line
        e.up()
        wait_for(lambda: len(e.keys("/paddlerun/ps/done/")) == 1, 60, "it says that its worker has ended")
        time.sleep(8)                            # a lease that nobody renews ends
        assert [p.poll() for p in ps] == [None, None] and len(e.keys("/paddlerun/ps/node/")) == 2
        (tmp_path / "go.1").touch()
        for p in ps:
            out, _ = p.communicate(timeout=60)
            assert p.returncode == 0 and "no worker has been connected" not in out, out


def test_servers_of_a_job_whose_etcd_is_away_end_with_its_workers(tmp_path):
    """The first node's worker ends long before the other's, which must not take that node for a lost one."""
    with two_nodes_with_servers(tmp_path, APART, "30s") as (_, ps):
        (tmp_path / "go.0").touch()
        out, _ = ps[0].communicate(timeout=60)
        assert ps[0].returncode == 0 and "etcd did not say whether the workers of all nodes have ended within 3 s" in out, out
        time.sleep(5)
        assert ps[1].poll() is None
        (tmp_path / "go.1").touch()
        out, _ = ps[1].communicate(timeout=60)
        assert ps[1].returncode == 0, out


def test_etcd_with_users(nodes, tmp_path):
    e = Etcd(tmp_path)
    try:
        e.call("auth/user/add", {"name": "root", "password": "secret"})
        e.call("auth/role/add", {"name": "root"})
        e.call("auth/user/grant", {"user": "root", "role": "root"})
        e.call("auth/enable", {})
        a, b = nodes("aa", e.url, user="root:secret"), nodes("bb", e.url, user="root:secret")
        a.met(), b.met()
        c = nodes("cc", e.url, user="root:wrong")
        c.wait("^ended permission.*authentication failed")
        assert "wrong" not in c.text().replace("wrong user", "")
        nodes("dd", e.url).wait("^ended permission")
    finally:
        e.down()


def certificates(directory):
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=directory)
    for ca in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{ca}.key", "-out", f"{ca}.crt", "-days", "2",
                "-subj", f"/CN={ca}")
    for who, san in (("server", "IP:127.0.0.1"), ("client", "DNS:client")):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{who}.key", "-out", f"{who}.csr", "-subj", f"/CN={who}")
        (directory / "ext").write_text(f"subjectAltName={san}\n")
        openssl("x509", "-req", "-in", f"{who}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "ext", "-out", f"{who}.crt")


def test_etcd_with_tls(nodes, tmp_path):
    certificates(tmp_path)
    e = Etcd(tmp_path, "--cert-file", f"{tmp_path}/server.crt", "--key-file", f"{tmp_path}/server.key", "--client-cert-auth",
             "--trusted-ca-file", f"{tmp_path}/ca.crt", scheme="https")
    try:
        url = e.url.replace("etcd:", "etcds:")
        files = dict(ca=tmp_path / "ca.crt", cert=tmp_path / "client.crt", key=tmp_path / "client.key")
        a, b = nodes("aa", url, **files), nodes("bb", url, **files)
        a.met(), b.met()
        bad = nodes("cc", url, deadline_ms=5000, **{**files, "ca": tmp_path / "other.crt"})
        bad.wait("^ended .*certificate of 127.0.0.1 rejected")
        none = nodes("dd", url, ca=tmp_path / "no-such-file")
        none.wait("^ended .*no CA certificate in .*no-such-file|no-such-file")
    finally:
        e.down()


# ---- beside Paddle's launcher ----

class PaddlesService(http.server.BaseHTTPRequestHandler):
    """Speaks as the service in Paddle's launcher was recorded to: HTTP/1.0, one request at a time, values by prefix."""
    def _answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json; charset=utf8")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        hits = {k: v for k, v in self.server.kv.items() if k.startswith(self.path)}
        self._answer(200 if hits else 404, json.dumps(hits).encode() if hits else b"")

    def do_POST(self):
        self.server.kv[self.path] = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        self._answer(200)

    def log_message(self, *_):
        pass


def test_beside_a_service_of_paddles(nodes):
    server = http.server.HTTPServer(("127.0.0.1", 0), PaddlesService)
    server.kv = {"/healthy": "ok"}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        master = f"127.0.0.1:{server.server_port}"
        a, b = nodes("zz", master, nnodes="3"), nodes("bb", master, nnodes="3")
        a.wait("^note the master is Paddle's launcher")
        server.kv["/default/info/aaaaaa/-1"] = '{"paddle": 0}'
        assert a.roster() == b.roster() == ['{"paddle": 0}', '{"name": "bb"}', '{"name": "zz"}']
        assert (a.met()[0], b.met()[0]) == (2, 1) and "unwatched" in a.text()
        a.say("l")
        a.wait("^gone")
        more = [nodes(n, master, nnodes="3", job="other") for n in ("cc", "dd", "ee", "ff")]
        ends = [n.wait("^(met|ended resource|ended no ?resource: 4 nodes came to a job of 3)") for n in more]
        assert any(e[1][0].startswith("ended") for e in ends)
    finally:
        server.shutdown()


def test_paddles_launcher_finds_what_it_expects(nodes):
    port = free_port()
    master = f"127.0.0.1:{port}"
    a = nodes("zz", master, nnodes="3")
    wait_for(lambda: listens(master))

    def ask(method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        return r.status, json.loads(text) if text.startswith(b"{") else text

    assert ask("GET", "/healthy") == (200, {"/healthy": "ok"})
    assert ask("GET", "/nothing") == (404, b"")
    assert ask("DELETE", "/nothing") == (404, b"")
    assert ask("PUT", "/some/key", "v") == ask("POST", "/some/other", "w") == (200, b"")
    assert ask("GET", "/some") == (200, {"/some/key": "v", "/some/other": "w"})
    assert ask("DELETE", "/some/key") == (200, b"") and ask("GET", "/some") == (200, {"/some/other": "w"})
    with socket.create_connection(("127.0.0.1", port)) as s:       # a client of HTTP/1.0
        s.sendall(b"GET /healthy HTTP/1.0\r\n\r\n")
        assert s.makefile("rb").read().endswith(b'{"/healthy":"ok"}')
    assert ask("POST", "/default/info/pppppp/-1", '{"name": "pppppp"}') == (200, b"")
    assert ask("POST", "/default/info/pppppp/-1", '{"name": "pppppp"}') == (200, b"")      # posted again each round
    b = nodes("bb", master, nnodes="3")
    listing = wait_for(lambda: (lambda l: l if len(l) == 3 else None)(ask("GET", "/default/info")[1]))
    assert sorted(listing) == ["/default/info/aaaaaa/-1", "/default/info/bb/-1", "/default/info/pppppp/-1"]
    assert a.met()[0] == 0 and b.met()[0] == 1
    assert b.roster() == [listing[k] for k in sorted(listing)]
    status, text = ask("POST", "/default/info/qqqqqq/-1", "{}")    # one too many does not spoil the others' count
    assert status == 409 and b"one too many" in text and len(ask("GET", "/default/info")[1]) == 3


@pytest.mark.parametrize("path, body, headers, status", [
    ("/default/info/x/notanumber", "{}", {}, 400),
    ("/default/info/x/y/0", "{}", {}, 400),
    ("/default/info/x/0", "a\0b", {}, 400),
    ("/default/info/x/0", "{}", {"Paddlerun": "2 what"}, 400),
    ("/default/info/x/0", "v" * 70000, {}, 413),
    ("/default/info/%ff/0", "{}", {}, 400),
    ("/%c3%28", "v", {}, 400),
])
def test_malformed_requests_are_refused(nodes, path, body, headers, status):
    port = free_port()
    nodes("zz", f"127.0.0.1:{port}")
    wait_for(lambda: listens(f"127.0.0.1:{port}"))
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("POST", path, body, headers)
    answer = c.getresponse()
    answer.read()
    assert answer.status == status
    c.request("GET", "/")       # all keys
    assert "/healthy" in json.loads(c.getresponse().read())


TOKEN = {"token": "correct horse"}


def refused(master, method, path, body="{}", headers=None):
    """What a stranger is answered; its connection is its own."""
    c = http.client.HTTPConnection(*master.split(":"), timeout=60)
    c.request(method, path, body, headers or {})
    r = c.getresponse()
    return r.status, r.read().decode(), r.headers


@pytest.mark.parametrize("elastic", [False, True])
def test_nodes_that_prove_the_token_meet(nodes, elastic):
    master = f"127.0.0.1:{free_port()}"
    more = {"nnodes": "2:2", "level": 1, "elastic_ms": 100} if elastic else {}
    a, b = nodes("aa", master, **TOKEN, **more), nodes("bb", master, **TOKEN, **more)
    assert a.roster() == b.roster()
    if elastic:
        b.say("r")
        a.wait("^changed .*worker 0: exit code 1")
        assert a.roster(2) == b.roster(2)
    for n in (a, b):
        n.say("d")
    for n in (a, b):
        n.wait("^all done")
        n.say("l")
    for n in (a, b):
        n.wait("^gone")
        assert "refused" not in n.text()


def test_without_a_named_master_the_token_is_proven_too(nodes):
    a = nodes("aa", None, **TOKEN)
    master = a.wait("^serving (.*)")[1][1]
    b = nodes("bb", master, **TOKEN)
    assert a.roster() == b.roster()


@pytest.mark.parametrize("token, first, why", [
    ({"token": "battery"}, TOKEN, "it refuses this node: the token is not this job's .PADDLE_JOB_TOKEN"),
    ({}, TOKEN, "asks for a proof of the job's token: all nodes need --require_token and PADDLE_JOB_TOKEN"),
    (TOKEN, {}, "it asks for no proof of the job's token: all nodes need --require_token"),
])
def test_a_node_with_another_token_or_none_is_refused(nodes, token, first, why):
    master = f"127.0.0.1:{free_port()}"
    a = nodes("aa", master, **first)
    wait_for(lambda: listens(master))
    b = nodes("bb", master, **token)
    b.wait(f"^ended permission: the master at {re.escape(master)}:? .*{why}")
    if first:
        a.wait("^warning refused: 127.0.0.1: (the token is not this job's|no proof of the job's token)")
    c = nodes("cc", master, **first)        # and the job continues
    assert a.roster() == c.roster() and len(a.roster()) == 2


def test_peers_without_the_token_read_and_write_nothing(nodes):
    master = f"127.0.0.1:{free_port()}"
    a = nodes("aa", master, **TOKEN)
    wait_for(lambda: listens(master))
    for method, path in [("PUT", "/default/info/zz/-1"), ("POST", "/default/info/zz/-1"), ("GET", "/"), ("GET", "/healthy"),
                         ("DELETE", "/default/info/aaaaaa/-1"), ("GET", "/default/info")]:
        status, text, headers = refused(master, method, path)
        assert status == 401 and "aa" not in text.split("\n")[1] and "Paddlerun-Proof" not in headers
    hello = {"Paddlerun": "1 0123456789abcdef join 0 2:2 h"}
    assert refused(master, "POST", "/default/info/zz/-1", headers=hello)[0] == 401
    b = nodes("bb", master, **TOKEN)
    assert a.roster() == b.roster() == ['{"name": "aa"}', '{"name": "bb"}']
    for path in ("aaaaaa/-1", "bb/-1"):
        bye = {"Paddlerun": "1 0123456789abcdef leave 3 2:2 h"}
        assert refused(master, "DELETE", "/default/info/" + path, "oom", bye)[0] == 401
    for n in (a, b):
        n.say("d")
    for n in (a, b):
        n.wait("^all done")
    lines = [l for _, l in a.lines if "refused" in l]
    assert len(lines) == 1 and "no proof of the job's token (PADDLE_JOB_TOKEN, --require_token)" in lines[0]


def test_a_master_of_paddles_is_no_master_with_a_token(nodes):
    server = http.server.HTTPServer(("127.0.0.1", 0), PaddlesService)
    server.kv = {"/healthy": "ok"}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        a = nodes("zz", f"127.0.0.1:{server.server_port}", **TOKEN)
        a.wait("^ended permission: .*none may be Paddle's own launcher")
        assert server.kv == {"/healthy": "ok"}
    finally:
        server.shutdown()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_node_is_known_with_the_token_too(nodes, sign):
    master = f"127.0.0.1:{free_port()}"
    a = nodes("aa", master, **TOKEN, silent_ms=2000)
    wait_for(lambda: listens(master))
    b = nodes("bb", master, **TOKEN, silent_ms=2000)
    assert a.roster() == b.roster()
    b.p.send_signal(sign)
    a.wait("^ended peer ?lost: .*bb")


def test_a_stopped_machine_ends_no_job(nodes):
    """When it continues, each node is late for its deadlines, and finds what the other has sent before it judges."""
    master = f"127.0.0.1:{free_port()}"
    a = nodes("aa", master, silent_ms=2000)
    wait_for(lambda: listens(master))
    b = nodes("bb", master, silent_ms=2000)
    assert a.roster() == b.roster()
    for n in (b, a):
        stand_still(n.p)
    until = time.monotonic() + 4.5          # silent_ms, and 2 s for the answer
    wait_for(lambda: time.monotonic() > until)
    b.p.send_signal(signal.SIGCONT)
    wait_for(lambda: time.monotonic() > until + 0.2)
    a.p.send_signal(signal.SIGCONT)
    for n in (b, a):
        n.say("d")
    for n in (a, b):
        n.wait("^all done")
        assert not n.find("^ended"), n.text()


@pytest.mark.memory            # of the network: all thousand, as shipped; fewer with sanitizers
@pytest.mark.deadline(400)     # 10 s alone, 100 s beside sixteen others on two processors
def test_a_thousand_nodes_meet():
    nodes = 1000 // FEWER
    run = [MEET, "--simulate", str(nodes), "--port", str(free_port())]
    if os.geteuid() == 0 and shutil.which("unshare"):          # a loopback of its own: its bytes are ours
        run = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *run]
    p = subprocess.run(run, capture_output=True, text=True, timeout=390)
    assert p.returncode == 0, p.stdout + p.stderr
    row = json.loads(p.stdout)
    print(row)
    assert row["nodes"] == nodes and (run[0] == MEET or row["bytes_a_node"] < 60 * 1000)
