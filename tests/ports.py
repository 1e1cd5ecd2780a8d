"""Port numbers for tests whose programs need a port to listen on; common/ports_testing.h has those of C."""
import contextlib
import random
import socket
import threading


class Ports:
    """Ports that stay free until somebody listens on them: below those that the kernel gives to outgoing connections and above
    those of well-known services, and no other process of these tests has them, whoever's session it is."""
    FIRST, LAST, BLOCK = 11000, 19999, 150

    def __init__(self):
        self.held, self.block, self.lock = [], iter(()), threading.Lock()

    def claim(self):
        """A block of ports that is nobody else's until this process ends: a name that only one can bind."""
        blocks = list(range(self.FIRST, self.LAST, self.BLOCK))
        random.SystemRandom().shuffle(blocks)
        for first in blocks:
            s = socket.socket(socket.AF_UNIX)
            with contextlib.suppress(OSError):
                s.bind(f"\0paddlejob-tests-ports-{first}")
                self.held.append(s)
                return iter(range(first, first + self.BLOCK))
            s.close()
        raise AssertionError(f"all ports from {self.FIRST} to {self.LAST} are claimed by tests that run")

    def next(self):
        with self.lock:
            while True:
                for port in self.block:
                    with contextlib.suppress(OSError), socket.socket() as s:
                        s.bind(("", port))
                        return port
                self.block = self.claim()


free_port = Ports().next
