"""Fixtures: one control plane and one kubelet for all tests, a namespace for each, a deadline for each."""
import contextlib
import os
import pathlib
import random
import re
import sys

import pytest
from kubernetes.client.rest import ApiException

sys.path[:0] = [str(p) for p in pathlib.Path(__file__).parents[:2]]

from deadline import Deadline  # noqa: E402
from sharing import share_modules  # noqa: E402


def pytest_configure(config):
    config.pluginmanager.register(Deadline(180, 2 if "PADDLE_SANITIZED" in os.environ else 1))
    config.addinivalue_line("markers", "memory: measures how much a program takes, which says nothing of one built with sanitizers")


@pytest.hookimpl(tryfirst=True)         # xdist's own looks at the groups
def pytest_collection_modifyitems(items):
    share_modules(items)


@pytest.fixture(scope="session")
def plane():
    from rig import ControlPlane
    # Autoscalers are looked at every 15 s otherwise.
    p = ControlPlane(up=["--controller-manager-arg", "--horizontal-pod-autoscaler-sync-period=1s"])
    yield p
    p.down()


@pytest.fixture(scope="session")
def kubelet_thread(plane):
    from rig import Kubelet
    k = Kubelet(plane)
    yield k
    k.stopping = True


@pytest.fixture
def kubelet(kubelet_thread):
    kubelet_thread.finish = None
    kubelet_thread.hold = set()
    kubelet_thread.dead = set()
    kubelet_thread.family = "4"
    return kubelet_thread


@pytest.fixture
def seed():
    """The same in every run, so that a red one is the change's fault; TEST_SEED=random looks elsewhere, a number again."""
    asked = os.environ.get("TEST_SEED", "1")
    n = random.SystemRandom().randrange(10 ** 6) if asked == "random" else int(asked)
    print(f"seed {n} (again: TEST_SEED={n})")
    return n


@pytest.fixture
def ns(plane, request):
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")[:40].strip("-")
    name = f"{name}-{random.SystemRandom().randrange(16 ** 4):04x}"
    plane.namespace(name)
    yield name
    for j in plane.jobs(name):
        with contextlib.suppress(ApiException):     # it goes by itself meanwhile
            plane.delete(name, j["metadata"]["name"])
    plane.core.delete_namespace(name, grace_period_seconds=0)


@pytest.fixture
def operator(plane):
    """Starts operators; they are gone, and their logs printed on failure, at the end."""
    from rig import Operator
    started = []

    def start(*flags, kubeconfig=None, **options):
        o = Operator(kubeconfig or plane.kubeconfig, *flags, **options)
        started.append(o)
        o.started()
        return o

    yield start
    wrong = []
    for o in started:
        print(f"--- operator log (last 60 lines)\n" + "\n".join(o.text().splitlines()[-int(os.environ.get("OPERATOR_LOG_LINES", "60")):]))
        try:
            o.close()
        except Exception as e:      # the others must go, too
            wrong.append(f"{type(e).__name__}: {e}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def proxied_rig(plane, seed, tmp_path):
    """(proxy, a kubeconfig that leads through it)"""
    from rig import proxied
    proxy = plane.proxy(random.Random(seed))
    yield proxy, proxied(plane, proxy, tmp_path)
    proxy.close()
