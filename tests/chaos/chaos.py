#!/usr/bin/env python3
"""Breaks the operator's world in every way at every moment, and looks at what is left.

    tests/chaos/chaos.py [options] [FAULT[/MOMENT] ...]

      --seed N        the same again; default: random, printed
      --seconds S     stops beginning rounds after S seconds; what is first comes from the seed
      --at-once N     rounds beside each other (default 3); those that break the control plane run alone
      --list          faults and moments

FAULT is a row of faults.py or `kill-at-write`, MOMENT a row of moments.py; PADDLE_BIN: other programs."""
import argparse
import concurrent.futures
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in (".", "integration"))]

import faults                                                              # noqa: E402
import moments                                                             # noqa: E402
from kills import MOMENTS as KILLED, Killed                                # noqa: E402
from rig import ControlPlane, Kubelet, SANITIZED                           # noqa: E402
from round import Round                                                    # noqa: E402

KILL = "kill-at-write"


class Runner:
    def __init__(self, plane, kubelet, seed, directory, seconds=1e9, at_once=3, say=print):
        self.plane, self.kubelet, self.seed, self.dir, self.say = plane, kubelet, seed, directory, say
        self.seconds, self.end = seconds, time.monotonic() + seconds
        self.at_once = at_once
        self.patience = 3.0 if SANITIZED else 2.0
        self.cells = {}             # (fault, moment) -> [runs, failures, last trouble]
        self.rss = 0

    def late(self):
        return time.monotonic() > self.end

    def count(self, fault, round_):
        for m in round_.moments:
            cell = self.cells.setdefault((fault, m.row_name), [0, 0, ""])
            cell[0] += bool(m.wrong or not round_.spared)
            if m.wrong:
                cell[1] += 1
                cell[2] = m.wrong[0]
                self.say(f"  FAILED {fault}/{m.row_name}: " + "; ".join(m.wrong)[:1500] + f"\n{m.received()}\n    files: {round_.dir}\n"
                         f"    again: make chaos SEED={self.seed} CELL={fault}/{m.row_name}")
        self.rss = max(self.rss, round_.figures.get("rss", 0))

    def guarded(self, fault, round_):
        start = time.monotonic()
        try:
            round_.run()
        except Exception as e:
            for m in round_.moments:
                m.wrong.append(f"{type(e).__name__}: {e}")
        f = round_.figures
        slow = sorted(((float(f[m.row_name]), m.row_name) for m in round_.moments if m.row_name in f), reverse=True)[:2]
        self.say(f"{round_.fault_name}: {time.monotonic() - start:.1f} s, {f.get('hits', 0)} faults, settled "
                 f"{f.get('settled', -1):.1f} s after {slow}, {f.get('rss', 0)} KiB, "
                 f"{sum(bool(m.wrong) for m in round_.moments)} of {len(round_.moments)} failed")
        self.count(fault, round_)
        return round_

    def fault(self, name, only=None):
        if self.late():
            return
        names = [only] if only else [n for n in moments.ROWS if n not in faults.ROWS[name].without]
        self.guarded(name, Round(self.plane, self.kubelet, name, faults.ROWS[name], names, self.seed, self.dir, self.patience))

    def killed(self, moment, n, after):
        return self.guarded(KILL, Killed(self.plane, self.kubelet, faults.Row(), moment, n, after, self.seed, self.dir,
                                         self.patience))

    def kills(self, only=None):
        """Every k of every moment, both in the seed's order."""
        rng = random.Random(self.seed)
        for moment in [only] if only else rng.sample(KILLED, len(KILLED)):
            if self.late():
                return
            writes = self.killed(moment, 0, False).figures.get("writes", 0)
            runs = [(moment, n + 1, after) for n in range(writes) for after in (False, True)]
            rng.shuffle(runs)
            with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
                list(pool.map(lambda run: None if self.late() else self.killed(*run), runs))

    def matrix(self):
        """All of it in the seed's order; where time is short, some of each kind."""
        names = list(faults.ROWS)
        random.Random(self.seed).shuffle(names)
        alone = [n for n in names if faults.ROWS[n].plane]
        beside = [n for n in names if n not in alone]
        start = time.monotonic()
        self.end = start + .2 * self.seconds
        for n in alone:
            self.fault(n)
        self.end = start + .7 * self.seconds
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            list(pool.map(self.fault, beside))
        self.end = start + self.seconds
        self.kills()

    def some(self, wanted):
        for w in wanted:
            fault, _, moment = w.partition("/")
            self.kills(moment or None) if fault == KILL else self.fault(fault, moment or None)

    def bad(self):
        """"fault/moment: its last trouble" of every cell that failed."""
        return [f"{f}/{m}: {trouble[:700]}" for (f, m), (_, failed, trouble) in self.cells.items() if failed]

    def table(self):
        """Fault by moment: runs, and failures where there are any."""
        columns = [m for m in moments.ROWS if any(c[1] == m for c in self.cells)]
        rows = [["", *columns]]
        for f in [*faults.ROWS, KILL]:
            if any(c[0] == f for c in self.cells):
                cells = [self.cells.get((f, m)) for m in columns]
                rows.append([f, *("-" if not c else f"{c[1]}/{c[0]} BAD" if c[1] else str(c[0]) for c in cells)])
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(t.ljust(w) for t, w in zip(r, widths)).rstrip() for r in rows]
        runs, bad = sum(c[0] for c in self.cells.values()), sum(c[1] for c in self.cells.values())
        lines.append(f"{runs} runs of {len(self.cells)} cells, {bad} failed; at most {self.rss} KiB; seed {self.seed}")
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 6))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cells", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("faults:", *faults.ROWS, KILL, "\nmoments:", *moments.ROWS)
        return 0
    directory = tempfile.mkdtemp(prefix="chaos-")
    print(f"seed {args.seed}, files in {directory}")
    plane = ControlPlane()
    kubelet = Kubelet(plane)
    runner = Runner(plane, kubelet, args.seed, directory, args.seconds, args.at_once,
                    lambda text: print(text, flush=True))
    try:
        runner.some(args.cells) if args.cells else runner.matrix()
    finally:
        kubelet.stopping = True
        plane.down()
    print(runner.table())
    return any(c[1] for c in runner.cells.values())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))        # takes the control plane down, too
    os.chdir(HERE.parent.parent)
    sys.exit(main())
