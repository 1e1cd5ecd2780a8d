"""paddlert with PyTorch and Paddle. `make python-test` installs what is needed."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[1])]

from deadline import Deadline  # noqa: E402


def pytest_configure(config):
    config.pluginmanager.register(Deadline(600))      # every process imports a framework first
