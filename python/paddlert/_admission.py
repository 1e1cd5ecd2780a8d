"""How processes of a job find the group that trains: each has a home, its place in PADDLE_TRAINER_ENDPOINTS.

One that is not in a group waits at its home to be invited, in a group of two: itself, and whoever invites it.  Rank 0 of a group that
trains invites the homes that are not in it; a first group is formed by home 0, once all others wait.  The invitation has the endpoints
and the generation of the group that forms then.
"""
from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence

import numpy as np

from ._lib import Error, NoResourceError, OutOfMemoryError, PeerLostError, TimeoutError, UnavailableError, ended_by
from .arrays import Array
from .group import Group
from .job import Job

logger = logging.getLogger("paddlert")

ANYWHERE = "127.0.0.1:0"       # endpoint of who invites, to which nobody connects
CALL = 1.0                     # seconds in which somebody who waits is there
WAIT = 2.0                     # seconds of one wait at home
FORM = 2.0                     # seconds in which those who were invited have formed the group
SAY = 10.0                     # seconds without an invitation, until a line of log
AGAIN = 0.05                   # seconds between two rounds of calls
REST = 5.0                     # seconds without an invitation after a larger group did not form


def _name(job: Job) -> str:
    return f"{job.name}/join"


def _generation() -> int:
    """Never used before, whoever draws it."""
    return int.from_bytes(os.urandom(8), "little") >> 1


class Roster:
    """Of the group that forms: the home of each rank, in order.  first: nobody trains yet."""

    def __init__(self, generation: int, homes: Sequence[int], first: bool = False) -> None:
        self.generation, self.homes, self.first = generation, list(homes), first

    def pack(self, most: int) -> Array:
        """Of as many numbers as `most` ranks need."""
        packed = self.nobody(most)
        packed[:3] = self.generation, len(self.homes), self.first
        packed[3:3 + len(self.homes)] = self.homes
        return packed

    @staticmethod
    def nobody(most: int) -> Array:
        packed: Array = np.zeros(most + 3, np.int64)
        return packed

    @classmethod
    def unpack(cls, packed: Array) -> Roster | None:
        """None: of nobody."""
        generation, n, first = (int(number) for number in packed[:3])
        return cls(generation, [int(h) for h in packed[3:3 + n]], bool(first)) if n else None


class Admission:
    """Of one process: its home, and whom it invites."""

    def __init__(self, job: Job, timeout: float, call_timeout: float) -> None:
        self.job, self.endpoints, self.home = job, job.workers, job.worker_index
        self.timeout, self.call_timeout = timeout, call_timeout
        self.alone = job.worker_num == 1
        self.homes: list[int] = []                        # of the group's ranks
        self._waiting: dict[int, Group] = {}              # by home: who waits to be invited
        self._again = 0.0                                 # until then nobody is
        self._lock, self._came = threading.Lock(), threading.Event()
        self._caller: threading.Thread | None = None
        self._stopped = threading.Event()

    def form(self) -> tuple[Group, bool]:
        """The group of the job, when it begins, or one that trains already and invites this process; whether it is the first."""
        if self.alone:
            self.homes = [0]
            return Group(self.job), True
        begun = said = time.monotonic()
        while (now := time.monotonic()) < begun + self.timeout:
            if now > said + SAY:
                said = now
                logger.warning("worker %d (%s) has waited %d s for the other workers, or those that train, to connect", self.home,
                               self.endpoints[self.home], now - begun)
            roster = (self._first() if self.home == 0 else None) or self._wait()
            if roster is None:
                continue
            try:
                group = Group(self.job, endpoints=[self.endpoints[h] for h in roster.homes], rank=roster.homes.index(self.home),
                              generation=roster.generation, form_timeout=FORM, call_timeout=self.call_timeout)
            except (TimeoutError, PeerLostError):         # one of them died meanwhile: there will be another invitation
                continue
            self.homes = roster.homes
            return group, roster.first
        raise TimeoutError(f"worker {self.home} has waited {self.timeout:g} s at {self.endpoints[self.home]}, and no group of the job came into "
                           f"being or invited it: expected the other workers at {', '.join(e for e in self.endpoints if e != self.endpoints[self.home])}")

    def _wait(self) -> Roster | None:
        """At home, for a while."""
        packed = Roster.nobody(len(self.endpoints))
        try:
            with Group(endpoints=[self.endpoints[self.home], ANYWHERE], rank=0, name=_name(self.job), form_timeout=WAIT,
                       _waits_for=f"the workers that train to invite worker {self.home} ({self.endpoints[self.home]})") as two:
                # no deadline: who invites holds this process until a step ends, or is lost
                two.recv(packed, 1)
        except (TimeoutError, PeerLostError):
            return None
        return Roster.unpack(packed)

    def _call(self, home: int) -> Group | None:
        """Somebody who waits at that home."""
        try:
            return Group(endpoints=[self.endpoints[home], ANYWHERE], rank=1, name=_name(self.job), form_timeout=CALL)
        except Error:
            return None

    def _invite(self, two: Group, roster: Roster) -> bool:
        """Whether it is still there."""
        try:
            two.send(roster.pack(len(self.endpoints)), 0)
            return True
        except Error:
            return False
        finally:
            two.close()

    def _first(self) -> Roster | None:
        """Home 0 has all others waiting, or releases them: a group may be there that invites them."""
        here: list[Group] = []
        try:
            for home in range(1, len(self.endpoints)):
                two = self._call(home)
                if two is None:
                    return None
                here.append(two)
        finally:
            if len(here) + 1 < len(self.endpoints):
                for other in here:
                    other.close()
        roster = Roster(_generation(), range(len(self.endpoints)), first=True)
        for two in here:                                  # one that has died meanwhile: the others' group does not form
            self._invite(two, roster)
        return roster

    def lead(self) -> None:
        """As rank 0: calls absent homes, in a thread."""
        if self._caller is None and not self.alone:
            self._stopped.clear()
            self._caller = threading.Thread(target=self._look, daemon=True, name="paddlert-admission")
            self._caller.start()

    def _look(self) -> None:
        with ended_by(self._stopped):
            self._call_absent()

    def _call_absent(self) -> None:
        while not self._stopped.is_set():
            for home in sorted(set(range(len(self.endpoints))) - set(self.homes) - set(self._waiting)):
                two = None if self._stopped.is_set() else self._call(home)
                if two is not None:
                    with self._lock:
                        self._waiting[home] = two
                    self._came.set()
            self._forget_dead()
            self._stopped.wait(AGAIN)

    def _forget_dead(self) -> None:
        """Of those that wait: another process may wait at that home."""
        with self._lock:
            for home, two in list(self._waiting.items()):
                try:
                    two.check()
                except Error:
                    del self._waiting[home]
                    two.close()

    def wait(self, seconds: float) -> None:
        """Until somebody may have come."""
        self._came.wait(seconds)

    def invite(self) -> Roster | None:
        """As rank 0: the group as it will be, with one of those who wait, who is notified; None: nobody waits."""
        self._came.clear()
        while time.monotonic() >= self._again:
            with self._lock:
                if not self._waiting:
                    return None
                home = min(self._waiting)
                two = self._waiting.pop(home)
            roster = Roster(_generation(), [*self.homes, home])
            if self._invite(two, roster):
                return roster
        return None

    def grow(self, group: Group, roster: Roster) -> Group | None:
        """Collective: the larger group; None: it did not form, and this one continues."""
        try:
            grown = group.grow([self.endpoints[h] for h in roster.homes], roster.homes.index(self.home), generation=roster.generation,
                               form_timeout=FORM)
        except (TimeoutError, PeerLostError, UnavailableError, NoResourceError, OutOfMemoryError):
            group.check()
            self._again = time.monotonic() + REST
            return None
        self.homes = roster.homes
        return grown

    def shrunk(self, gone: Sequence[bool]) -> None:
        self.homes = [home for home, lost in zip(self.homes, gone) if not lost]

    def stop(self) -> None:
        """Who waits is released."""
        self._stopped.set()
        if self._caller is not None:
            # no deadline: what it waits for in C ends, too (ended_by)
            self._caller.join()
            self._caller = None
        for two in self._waiting.values():
            two.close()
        self._waiting.clear()
