"""A proxy between operator and API server that does what networks and servers do: refuse, reset, tear, stall, trickle,
lose or repeat answers, serve old lists.  Plain HTTP/1.1 in front, TLS with a client certificate behind, one connection a request.
Each request's User-Agent becomes the time at which it was received: the API server signs with it what the request writes."""
import asyncio
import json
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Callable


def split(data, framed):
    """Events of a watch, and the rest: lines of JSON, or frames of protobuf behind their length."""
    if not framed:
        *lines, tail = data.split(b"\n")
        return [line + b"\n" for line in lines], tail
    events = []
    while len(data) >= 4 and len(data) >= (n := 4 + int.from_bytes(data[:4], "big")):
        events.append(data[:n])
        data = data[n:]
    return events, data


def frame(line):
    """An event that is an error, as protobuf; anything else becomes a frame that is none."""
    def field(number, value):
        data = value.encode() if isinstance(value, str) else value
        size = len(data)
        assert size < 1 << 14
        return bytes([number << 3 | 2, *([size] if size < 128 else [size & 127 | 128, size >> 7])]) + data
    try:
        event = json.loads(line)
        o = event["object"]
        status = field(3, o.get("message", "")) + field(4, o.get("reason", "")) + bytes([6 << 3, o["code"] & 127 | 128, o["code"] >> 7])
        unknown = b"k8s\0" + field(1, field(1, "v1") + field(2, "Status")) + field(2, status)
        data = field(1, event["type"]) + field(2, field(1, unknown))
    except ValueError:
        data = line.encode()
    return len(data).to_bytes(4, "big") + data


@dataclass
class Fault:
    """What to do to requests whose "METHOD path?query" matches; `times` of them, each with `chance`."""
    match: str
    do: str                 # status, reset, lose, tear, stall, slow, late, line, double, replay, half, stale
    times: int = 1 << 30
    chance: float = 1.0
    status: int = 503
    headers: dict = field(default_factory=dict)
    body: str = '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"ServiceUnavailable"}'
    after: int = 200        # bytes of the answer let through before tear or stall
    delay: float = 1.0      # for "late": seconds before the server receives it; less, where the fault is over before
    line: str = ""          # for "line": sent as an event in the middle of a watch
    hits: int = 0


@dataclass
class Trap:
    """Calls fn() before the server receives the n-th write or after it has acted on it; nothing that came later passes."""
    n: int
    after: bool
    fn: Callable
    seen: int = 0
    sprung: bool = False

    def catches(self, method):
        self.seen += method != "GET" and not self.sprung
        self.sprung = self.sprung or self.seen == self.n
        return self.sprung


PING = b"PING\r\n\r\n"       # catch_up's


class Proxy:
    def __init__(self, host, port, cert, key, ca, rng):
        self.target, self.rng = (host, port), rng
        self.tls = ssl.create_default_context(cafile=ca)
        self.tls.load_cert_chain(cert, key)
        self.tls.check_hostname = False
        self.faults, self.log, self.writers = [], [], set()
        self.frozen = False     # bytes stop in both directions, connections stay
        self.limit = 0          # page size of lists instead of the client's
        self.lists = {}         # path -> the first answer, for "stale"
        self.trap = None
        self.names = {}         # time in the log -> name of what a POST makes
        self.loop = asyncio.new_event_loop()
        self.port = None
        ready = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait(60)

    def _run(self, ready):
        asyncio.set_event_loop(self.loop)
        self.server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24))
        self.port = self.server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    def close(self):
        async def end():
            self.server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            await asyncio.sleep(0)
            self.loop.stop()
        asyncio.run_coroutine_threadsafe(end(), self.loop)
        self.thread.join(5)

    def cut(self):
        """Resets every connection there is."""
        self.loop.call_soon_threadsafe(lambda: [w.transport.abort() for w in list(self.writers)])

    def catch_up(self):
        """Returns when it has read what was sent to it before: on a busy machine that may be long ago."""
        for _ in range(2):      # connections that waited have been accepted; and read
            with socket.create_connection(("127.0.0.1", self.port), 60) as s:
                s.sendall(PING)
                assert s.recv(1), "the proxy does not answer"

    def requests(self, since=0.0, watches=False):
        """(time, "METHOD path") of requests, leases left out."""
        return [r for r in self.log if r[0] >= since and (watches or "watch=" not in r[1]) and "/leases" not in r[1]]

    def _pick(self, line):
        for f in self.faults:
            if f.do == "stale" and line.split(" ")[1] not in self.lists:
                continue
            if f.hits < f.times and re.search(f.match, line) and self.rng.random() < f.chance:
                f.hits += 1
                return f
        return None

    async def _serve(self, reader, writer):
        self.writers.add(writer)
        try:
            await self._request(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            writer.transport.abort()
        finally:
            self.writers.discard(writer)
            writer.close()

    async def _thawed(self):
        while self.frozen:
            await asyncio.sleep(0.02)

    async def _request(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if head == PING:
            return writer.write(b"!")
        first, *rest = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = [h for h in rest if h and not re.match(r"(?i)(connection|host|upgrade|http2-settings|accept-encoding|user-agent):", h)]
        length = next((int(h.split(":")[1]) for h in rest if h.lower().startswith("content-length:")), 0)
        body = await reader.readexactly(length) if length else b""
        if self.limit:
            path = re.sub(r"limit=\d+", f"limit={self.limit}", path)
            first = f"{method} {path} HTTP/1.1"
        line = f"{method} {path}"
        now = time.monotonic()
        self.log.append((now, line))
        if method == "POST":
            name = re.search(rb'"name": *"([^"]+)"', body[body.find(b'"metadata"'):])
            self.names[now] = name.group(1).decode() if name else ""
        await self._thawed()
        if self.trap and self.trap.sprung:
            return writer.transport.abort()
        caught = self.trap and self.trap.catches(method)
        if caught and not self.trap.after:
            self.trap.fn()
            return writer.transport.abort()
        fault = self._pick(line)
        if fault and fault.do == "reset":
            writer.transport.abort()
            return
        if fault and fault.do == "status":
            extra = "".join(f"{k}: {v}\r\n" for k, v in fault.headers.items())
            writer.write((f"HTTP/1.1 {fault.status} Injected\r\nContent-Type: application/json\r\n{extra}"
                          f"Content-Length: {len(fault.body)}\r\nConnection: close\r\n\r\n{fault.body}").encode())
            await writer.drain()
            return
        if fault and fault.do == "stale":
            writer.write(self.lists[path])
            await writer.drain()
            return
        if fault and fault.do == "late":
            while fault in self.faults and time.monotonic() < now + fault.delay:
                await asyncio.sleep(0.02)
        up_reader, up_writer = await asyncio.open_connection(*self.target, ssl=self.tls, limit=1 << 24)
        self.writers.add(up_writer)
        try:
            out = [first, f"Host: {self.target[0]}:{self.target[1]}", "Connection: close", f"User-Agent: {now}", *headers, "", ""]
            up_writer.write("\r\n".join(out).encode("latin-1") + body)
            await up_writer.drain()
            if caught:
                await up_reader.read()
                self.trap.fn()
                return writer.transport.abort()
            if fault and fault.do in ("double", "replay", "half"):
                await self._events(fault, up_reader, writer)
            else:
                await self._answer(fault, up_reader, writer, path if "limit=" in path else None)
        finally:
            self.writers.discard(up_writer)
            up_writer.close()

    async def _events(self, fault, reader, writer):
        """A watch whose events come twice, come again after later ones, or end in the middle of one."""
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        if b"chunked" not in head:
            return writer.write(await reader.read())
        tail, seen, framed = b"", [], b"protobuf" in head
        while size := int(await reader.readuntil(b"\r\n"), 16):
            events, tail = split(tail + (await reader.readexactly(size + 2))[:-2], framed)
            for text in events:
                seen = [*seen[-2:], text]
                if fault.do == "half":
                    text = text[:len(text) // 2]
                again = {"double": [text], "replay": seen}.get(fault.do, [])
                for t in [text, *again]:
                    await self._thawed()
                    writer.write(b"%x\r\n%s\r\n" % (len(t), t))
                await writer.drain()
                if fault.do == "half":
                    return writer.write(b"0\r\n\r\n")
        writer.write(b"0\r\n\r\n")

    async def _answer(self, fault, reader, writer, keep=None):
        sent, framed = 0, False
        whole = b""
        if fault and fault.do == "lose":         # the server acts, its answer is lost
            while await reader.read(65536):
                pass
            writer.transport.abort()
            return
        while True:
            data = await reader.read(65536)
            await self._thawed()
            whole += data if keep else b""
            if not data:
                break
            if fault and fault.do in ("tear", "stall") and sent + len(data) > fault.after:
                writer.write(data[:max(0, fault.after - sent)])
                await writer.drain()
                if fault.do == "tear":
                    writer.transport.abort()
                    return
                await asyncio.sleep(600)         # half-open: bytes stop, the connection stays
            if fault and fault.do == "slow":
                for i in range(0, len(data), 64):
                    writer.write(data[i:i + 64])
                    await writer.drain()
                    await asyncio.sleep(0.001)
            else:
                writer.write(data)
                await writer.drain()
            framed = framed or not sent and b"protobuf" in data
            sent += len(data)
            if fault and fault.do == "line" and sent > len(data):
                text = frame(fault.line) if framed else fault.line.encode() + b"\n"
                writer.write(b"%x\r\n%s\r\n" % (len(text), text))
                await writer.drain()
                fault = None
        if keep:
            self.lists.setdefault(keep, whole)
