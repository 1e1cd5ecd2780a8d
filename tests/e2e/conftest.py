"""Fixtures: the cluster (once), a namespace for each test, a deadline for each test.

    tests/run e2e                                   all, as root: several side by side, and beside them, one at a time in a second
                                                    cluster, those marked `alone`
    E2E_KEEP=1 build/venv/bin/python -m pytest tests/e2e -k quota
                                                    some, one at a time; the cluster stays for the next time
    TEST_SEED=n                                     those random moments instead of the usual ones; random: any
    E2E_CLUSTER=2                                   in the second cluster
    E2E_CLUSTERS_FROM=3                             in clusters 4 to 6: of a second checkout, tested at the same time
    deploy/local/down /var/tmp/paddlejob-e2e-1      the end of a cluster that was kept
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
from sharing import share_modules  # noqa: E402

# What takes longest, which begins first.
LONG = ["test_example_completes[examples/resnet50/job.yaml]", "test_an_elastic_job_survives_a_kill_and_a_scale",
        "test_two_workers_train_to_the_end", "test_a_killed_server_comes_back_and_the_job_completes",
        "test_a_job_runs_in_a_namespace_with_every_rule"]

def pytest_configure(config):
    config.pluginmanager.register(Deadline(120, SLOW))
    config.addinivalue_line("markers", "alone: stops or changes the operator, the API server or the node, or measures the operator")
    # Figures and progress are for the reader, whether or not the test passes.
    cluster_module.live = config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled


def owns_cluster(config):
    """Whether this process brings it up: of xdist's, the one that begins the others."""
    return not hasattr(config, "workerinput") and not config.option.collectonly


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    if owns_cluster(session.config):
        c = Cluster()
        try:
            c.up()
        except BaseException as e:
            c.down()
            # Once, and not as an error of every test.
            pytest.exit(f"no cluster: {e}", returncode=1)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if owns_cluster(session.config):
        Cluster().down()


@pytest.hookimpl(tryfirst=True)         # xdist's own looks at the groups
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: (LONG + [item.name]).index(item.name))
    share_modules(items)


@pytest.fixture(scope="session")
def cluster():
    c = Cluster()
    c.connect()
    return c


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
    print(f"seed {n} (again: TEST_SEED={n})")
    return n
