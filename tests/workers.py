"""Workers of an elastic job, which tests kill and start again (members.py and elastic.py of tests/python/programs)."""
import os
import signal
import time

from ports import free_port
from supervise import Patience

SECONDS = 240                                   # until a process that was started has joined, on a machine that does much else


def wait_for(what, why):
    patience = Patience(SECONDS)
    while not what():
        assert not patience.over(), why()
        time.sleep(.02)


NEVER = 1 << 40


class Workers:
    """Four of them.  None takes a step whose number is not below the gate's, and all end before that of `end`: training does not end before all
    was done to it."""

    def __init__(self, start, folder):
        """start(**variables) starts one."""
        self.program, self.folder = start, folder
        self.endpoints = ",".join(f"127.0.0.1:{free_port()}" for _ in range(4))
        self.gate(0)
        self.at = [self.start(home) for home in range(4)]

    def start(self, home):
        return self.program(PADDLE_TRAINER_ENDPOINTS=self.endpoints, PADDLE_TRAINER_ID=str(home), PADDLE_TRAINERS_NUM="4",
                            GATE=str(self.folder / "gate"), OMP_NUM_THREADS="1")

    def gate(self, step, end=NEVER):
        (self.folder / "next").write_text(f"{step} {end}")
        os.replace(self.folder / "next", self.folder / "gate")

    def lines(self):
        return [line.split() for log in self.folder.glob("log.*") for line in log.read_text().splitlines(True) if line.endswith("\n")]

    def steps(self):
        """That were done."""
        return 1 + max((int(line[0]) for line in self.lines() if line[0].isdecimal()), default=-1)

    def kill(self, home, again=True):
        self.at[home].send_signal(signal.SIGKILL)
        self.at[home].communicate()
        if again:
            self.at[home] = self.start(home)

    def are_in(self):
        """All four have joined, as they are now; or the gate opens for one more step, after which others can join."""
        here = {line[1] for line in self.lines() if line[0] == "in"}
        if {str(p.pid) for p in self.at} <= here:
            return True
        assert all(p.poll() is None for p in self.at), [p.communicate() for p in self.at if p.poll() is not None]
        self.gate(self.steps() + 1)
        return False

    def join(self):
        wait_for(self.are_in, lambda: self.lines()[-20:])

    def disturb(self, rng, kills, within, joins=.7):
        """Kills one after the other, each somewhere in the next `within` steps.  Returns with how many steps training ends."""
        self.join()
        for _ in range(kills):
            done = self.steps()
            self.gate(done + within)
            after = done + rng.randrange(within // 2)
            wait_for(lambda: self.steps() >= after, lambda: self.lines()[-20:])
            self.kill(rng.randrange(4))
            if rng.random() < joins:
                self.join()
        self.join()
        end = self.steps() + within
        self.gate(NEVER, end)
        return end


def alone(start, folder, end):
    """A worker to which nothing happens: start(folder, **variables)."""
    folder.mkdir()
    (folder / "gate").write_text(f"{NEVER} {end}")
    return start(folder, GATE=str(folder / "gate"))


def losses(lines):
    return {(int(step), float(loss)) for step, loss in (line for line in lines if line[0].isdecimal())}
