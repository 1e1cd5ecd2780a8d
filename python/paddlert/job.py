"""This process's place in its job."""
from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from . import _abi
from ._lib import C, CanceledError, Owner, addresses, call, call_long, instance, number, real, struct_of, text, with_options
from ._options import ServerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,63}")           # of a number that is reported


def _place(servers: Sequence[str] | None, worker: int | None, server: int | None) -> dict[str, str]:
    """The variables of a place in the job that arguments say; who may join is still the environment's."""
    variables = {k: os.environ.get(k, "") for k in ("PADDLE_JOB_TOKEN", "PADDLE_JOB_ENCRYPT")}
    variables["PADDLE_TRAINERS_NUM"] = "1"
    if servers:
        variables["PADDLE_PSERVERS_IP_PORT_LIST"] = ",".join(servers)
    if server is None:
        return {**variables, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(worker or 0)}
    if not servers or not 0 <= server < len(servers):
        raise ValueError(f"server is {server}, expected the place of this one in servers, which are {servers or []}")
    host, _, port = servers[server].rpartition(":")
    return {**variables, "TRAINING_ROLE": "PSERVER", "POD_IP": host.strip("[]"), "PADDLE_PORT": port}


class _Signals:
    """SIGTERM and SIGINT end a server meanwhile.  Python's handlers get those that any thread takes: NumPy's, say, which block
    none.  Handlers that were there before come back, for a signal that came when the server had ended by itself, too."""

    def __init__(self, job: ctypes.c_void_p | None) -> None:
        self.job, self.seen, self.serves = job, 0, True
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for s in (signal.SIGTERM, signal.SIGINT):
            self.before[s] = signal.signal(s, self._end)
        return self

    def _end(self, number: int, _: object) -> None:
        self.seen = number
        C.rt_server_end(self.job)
        if self.serves:
            raise CanceledError(f"the server was ended by signal {number}")          # also a wait for its port, in C

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.serves = False
        for s, handler in self.before.items():
            signal.signal(s, signal.SIG_DFL if handler is None else handler)
        if self.seen and kind is None:
            signal.raise_signal(self.seen)


class Job(Owner):
    """From the environment (TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, ...), or from arguments in its place.

    servers: list of "host:port", one for each server
    worker: which trainer this process is, from 0
    workers: how many trainers there are
    server: which of the servers this process is, from 0, in place of worker
    name: the job's, PADDLE_JOB_ID
    token: the job's secret, without which nobody joins; None: PADDLE_JOB_TOKEN
    encrypt: TLS 1.3 between trainers and servers, and between the ranks of groups, by keys that come from the token; the same in all
        of the job; None: PADDLE_JOB_ENCRYPT
    variables: all of the environment, in place of the process's and of all arguments

    Without servers, worker and server, what else is given goes before the environment, which says the rest.  InvalidError: a variable
    is wrong; the message names it.
    """

    def __init__(self, *, servers: Sequence[str] | None = None, worker: int | None = None, workers: int | None = None,
                 server: int | None = None, name: str = "", token: str | None = None, encrypt: bool | None = None,
                 variables: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._job: ctypes.c_void_p | None = None
        self.server: Any = None                          # of paddlert.Server.job(): lives as long as its trainers
        servers = None if servers is None else addresses("servers", servers)
        worker, workers, server = (None if n is None else number(what, n, ctypes.c_int32, int(what == "workers"))
                                   for what, n in (("worker", worker), ("workers", workers), ("server", server)))
        if worker is not None and workers is not None and worker >= workers:
            raise ValueError(f"worker is {worker}, expected less than workers, which is {workers}")
        if worker is not None and server is not None:
            raise ValueError(f"worker is {worker} and server is {server}, expected one of them: a process is a trainer or a server")
        for what, said_by in {"name": name, "token": token, "encrypt": encrypt}.items():
            if said_by is not None:
                instance(what, said_by, bool if what == "encrypt" else str)
        self._job = ctypes.c_void_p()
        said = {"PADDLE_TRAINERS_NUM": None if workers is None else str(workers), "PADDLE_JOB_ID": name or None, "PADDLE_JOB_TOKEN": token,
                "PADDLE_JOB_ENCRYPT": None if encrypt is None else str(int(encrypt))}
        given = {k: v for k, v in said.items() if v is not None}
        placed = servers is not None or worker is not None or server is not None
        if placed and not servers and ((worker or 0) > 0 or (workers or 1) > 1):
            raise ValueError(f"worker is {worker or 0} of {'some' if workers is None else workers}, but servers is {servers}: expected the "
                             "addresses of the servers on which they share tables")
        if variables is not None:
            if given or placed:
                raise TypeError("variables are all of the environment, expected no other argument beside them")
        elif placed:
            variables = {**_place(servers, worker, server), **given}
        elif given:
            variables = {**os.environ, **given}
        else:
            call("rt_init", ctypes.byref(self._job))
            return
        lines = [text(k, f"{k}={v if isinstance(v, int) else instance(k, v, str)}") for k, v in instance("variables", variables, Mapping).items()]
        array = (ctypes.c_char_p * (len(lines) + 1))(*lines, None)
        call("rt_init_list", array, ctypes.byref(self._job))
        if not placed and workers is not None and workers > self.worker_num:
            known = f"{n} trainer endpoint{'s' * (n > 1)}" if (n := len(self.workers)) else "no servers or trainers"
            raise ValueError(f"workers is {workers}, but this program knows {known}, expected servers=[...], or PADDLE_TRAINER_ENDPOINTS with one "
                             "for each")

    def __del__(self) -> None:
        if getattr(self, "_job", None) and self.may_close():
            C.rt_done(self._job)
            self._job = None

    @property
    def is_server(self) -> bool:
        """Whether this process is a parameter server: then serve()."""
        return bool(C.rt_is_server(self._job))

    @property
    def is_worker(self) -> bool:
        """Whether this process is a trainer."""
        return bool(C.rt_is_worker(self._job))

    @property
    def is_first_worker(self) -> bool:
        """Whether it is trainer 0, which saves and prints for all."""
        return bool(C.rt_is_first_worker(self._job))

    @property
    def worker_index(self) -> int:
        """The number of this trainer, 0 to worker_num - 1."""
        return int(C.rt_worker_index(self._job))

    @property
    def worker_num(self) -> int:
        """How many trainers the job has."""
        return int(C.rt_worker_num(self._job))

    @property
    def server_index(self) -> int:
        """The number of this server, from 0."""
        return int(C.rt_server_index(self._job))

    @property
    def servers(self) -> list[str]:
        """["host:port", ...]; empty: the tables live in this process."""
        return [C.rt_server_endpoint(self._job, i).decode() for i in range(C.rt_server_num(self._job))]

    @property
    def workers(self) -> list[str]:
        """["host:port", ...] of PADDLE_TRAINER_ENDPOINTS; empty: not known."""
        found = takewhile(bool, (C.rt_worker_endpoint(self._job, i) for i in count()))
        return [endpoint.decode() for endpoint in found]

    @property
    def name(self) -> str:
        """PADDLE_JOB_ID; "" without one."""
        return str(C.rt_job_name(self._job).decode())

    def report(self, step: int, name: str, value: float) -> None:
        """A number for the metrics (PADDLERT_METRICS) and TensorBoard (PADDLERT_TENSORBOARD): "loss", "auc", ...

        step: of this trainer, from 0
        name: 1 to 63 of A-Z a-z 0-9 _ . : / -, at most 64 different ones
        value: any number, or an array or tensor of one
        """
        if not NAME.fullmatch(instance("name", name, str)):
            raise ValueError(f"name is {name!r}, expected 1 to 63 of A-Z a-z 0-9 _ . : / -")
        C.rt_report(self._job, number("step", step, ctypes.c_uint64), text("name", name), real("value", value))

    @with_options(ServerOptions)
    def serve(self, *, handle_signals: bool = True, **options: Unpack[ServerOptions]) -> None:
        """Serves until every trainer has finished.  SIGTERM and SIGINT (Ctrl-C) end it with CanceledError; handle_signals=False
        where this is not the main thread.  PeerLostError: a trainer was lost; TimeoutError: some never came; UnavailableError: the address is taken.

        An option that is not given is the environment's, or has its default; times are in seconds."""
        here = handle_signals and threading.current_thread() is threading.main_thread()
        given = {"handle_signals": handle_signals and not here, **options}
        made = struct_of(_abi.rt_server_options, given)
        if not here:
            call("rt_server_run", self._job, ctypes.byref(made))
            return
        with _Signals(self._job):
            call_long(self, "rt_server_run", self._job, ctypes.byref(made))
