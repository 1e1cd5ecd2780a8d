#!/usr/bin/env python3
"""Runs a program that is stopped for a few seconds again and again, at random moments, as on a machine that stands still.

    tests/stops.py PROGRAM [ARGUMENT...]        SEED=n: other moments

Its exit code is the program's.  A test that fails then expects one rule of a clock that it does not hold.
"""
import os
import random
import signal
import subprocess
import sys

STOP_SECONDS, RUN_SECONDS = 3, 1.5      # what one stop takes; how long it runs in between, at most


def main():
    rng = random.Random(int(os.environ.get("SEED") or os.getpid()))
    p = subprocess.Popen(sys.argv[1:])
    stopped = False
    while True:
        try:
            code = p.wait(STOP_SECONDS if stopped else rng.uniform(0, RUN_SECONDS))
            sys.exit(code if code >= 0 else 128 - code)
        except subprocess.TimeoutExpired:
            stopped = not stopped
            p.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)


main()
