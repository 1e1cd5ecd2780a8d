"""The operator is killed at its k-th write, for every k: before the server receives it, and after it has acted."""
import concurrent.futures
import random
import time

from proxy import Trap
from rig import wait_for
from round import Round

MOMENTS = ("start", "finish", "finish-many", "fail", "spent", "deadline", "scale", "delete", "again", "pods-lost", "node-lost", "restart",
           "suspend", "resume", "ttl")


class Killed(Round):
    """A round of one moment; the fault is a kill at the n-th write after it began (0: none, to count them)."""

    def __init__(self, plane, kubelet, row, moment, n, after, seed, directory, patience):
        name = f"kill-{moment}-{n}{'a' if after else 'b'}"
        super().__init__(plane, kubelet, name, row, [moment], seed, directory, patience)
        self.n, self.after = n, after

    def break_things(self):
        o = self.operators[0]
        self.proxy.trap = Trap(self.n or 1 << 30, self.after, o.kill)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            acting = pool.submit(self.each, lambda m: m.row.during(m))
            if self.n:
                end = start + 8
                while not self.proxy.trap.sprung and time.monotonic() < end:
                    time.sleep(.02)
                if self.proxy.trap.sprung:
                    wait_for(lambda: o.p.poll() is not None, 30)
                    self.figures["hits"] = 1
                self.proxy.trap.sprung, self.proxy.trap.n = False, 0
                if o.p.poll() is not None:
                    o.start()
            acting.result()
        self.spared = self.n and "hits" not in self.figures      # it wrote less this time

    def settle(self):
        super().settle()
        self.figures["writes"] = self.proxy.trap.seen
