"""Fixtures: the cluster (once), a namespace for each test, a deadline for each test.

    tests/run e2e                                   all, as root
    E2E_KEEP=1 build/venv/bin/python -m pytest tests/e2e -k quota
                                                    some; the cluster stays for the next time
    TEST_SEED=n                                     those random moments instead of the usual ones; random: any
    deploy/local/down /var/tmp/paddlejob-e2e        the end of a cluster that was kept
"""
import os
import random
import re
import sys
import pathlib

import pytest

sys.path[:0] = [str(p) for p in pathlib.Path(__file__).parents[:2]]

import cluster as cluster_module  # noqa: E402
from cluster import SLOW, Cluster, Space, say  # noqa: E402

from deadline import Deadline  # noqa: E402


def pytest_configure(config):
    config.pluginmanager.register(Deadline(120, SLOW))
    # Figures and progress are for the reader, whether or not the test passes.
    cluster_module.live = config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled


@pytest.fixture(scope="session")
def cluster():
    c = Cluster()
    try:
        c.up()
    except BaseException as e:
        c.down()
        # Once, and not as an error of every test.
        pytest.exit(f"no cluster: {e}", returncode=1)
    yield c
    c.down()


@pytest.fixture
def space(cluster, request):
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")[:48].strip("-")
    s = Space(cluster, f"{name}-{random.SystemRandom().randrange(16 ** 4):04x}")
    yield s
    s.delete()


@pytest.fixture
def seed():
    """The same in every run; TEST_SEED=random looks elsewhere, a number again."""
    asked = os.environ.get("TEST_SEED", "1")
    n = random.SystemRandom().randrange(10 ** 6) if asked == "random" else int(asked)
    say(f"\n  seed {n} (again: TEST_SEED={n})")
    return n
