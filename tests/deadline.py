"""A deadline for each test, as a plugin that a folder's conftest.py registers with its own default."""
import faulthandler
import signal
import subprocess
import sys

import pytest

from supervise import Patience


def patient(call):
    """call(seconds) of Popen until its time is over, of which a second counts as much as the share of the machine is."""
    def patiently(seconds):
        if seconds is None:
            return call(None)
        patience = Patience(seconds)
        while True:
            try:
                return call(max(0.05, min(5, patience.left)))
            except subprocess.TimeoutExpired as e:
                if patience.over():
                    raise subprocess.TimeoutExpired(e.cmd, seconds, e.output, e.stderr) from None
    return patiently


def be_patient():
    """All of a test's waits for its processes."""
    wait, communicate = subprocess.Popen.wait, subprocess.Popen.communicate

    def patient_communicate(self, input=None, timeout=None):
        inputs = iter([input])      # once: what it had to send, it has
        return patient(lambda seconds: communicate(self, next(inputs, None), seconds))(timeout)

    subprocess.Popen.wait = lambda self, timeout=None: patient(lambda seconds: wait(self, seconds))(timeout)
    subprocess.Popen.communicate = patient_communicate


class Deadline:
    """A test fails when it takes longer than `seconds`; `@pytest.mark.deadline(n)` gives it n.  Both times `slow`,
    and longer on a machine with much else to do."""

    def __init__(self, seconds, slow=1):
        self.seconds, self.slow = seconds, slow

    def pytest_configure(self, config):
        be_patient()
        config.addinivalue_line("markers", "deadline(seconds): the test fails when it takes longer")
        faulthandler.register(signal.SIGUSR2, sys.__stderr__, all_threads=True)     # who ends a run that hangs asks where it does

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        mark = item.get_closest_marker("deadline")
        seconds = (mark.args[0] if mark else self.seconds) * self.slow

        patience = Patience(seconds)

        def look(*_):
            if patience.over():
                raise AssertionError(f"the test took longer than {seconds} s")

        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, min(5, seconds), min(5, seconds))
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
