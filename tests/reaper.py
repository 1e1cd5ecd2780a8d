#!/usr/bin/env python3
"""Runs a command as init would, and says how much of the processors went to what it started apart.

    tests/reaper.py COMMAND...

Whose parent ends gets this program as the next one, whatever session it is in: the daemons of a local cluster, and by the shims
of containerd all that runs in pods.  So their times count with those of whoever waits for this program, and none stays as
a zombie.  What still runs when the command ends is left to the next init.
"""
import collections
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

import tally

PR_SET_CHILD_SUBREAPER = 36


def reap(options):
    """(process id, name, exit code, seconds of processors) of a child that ended; None where none has, or none is left."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | options)
    except ChildProcessError:
        return None
    if not ended:
        return None
    name = pathlib.Path(f"/proc/{ended.si_pid}/comm").read_text().strip()
    _, status, used = os.wait4(ended.si_pid, 0)
    return ended.si_pid, name, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def main(command):
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    main_pid = subprocess.Popen(command).pid
    for s in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda number, _: os.kill(main_pid, number))
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)       # supervise.interrupt asks each process of pytest itself
    spent, code = collections.Counter(), None
    while child := reap(0 if code is None else os.WNOHANG):
        pid, name, status, seconds = child
        if pid == main_pid:
            code = status
        else:
            spent[name] += seconds
    for name, seconds in spent.most_common():
        tally.took("apart", name, 0, seconds)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
