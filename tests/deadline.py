"""A deadline for each test, as a plugin that a folder's conftest.py registers with its own default."""
import faulthandler
import signal
import sys

import pytest

from supervise import Patience


class Deadline:
    """A test fails when it takes longer than `seconds`; `@pytest.mark.deadline(n)` gives it n.  Both times `slow`,
    and longer on a machine with much else to do."""

    def __init__(self, seconds, slow=1):
        self.seconds, self.slow = seconds, slow

    def pytest_configure(self, config):
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
