"""Which tests one of xdist's processes has to itself (--dist loadgroup)."""
import pytest


def share_modules(items):
    """A process runs all tests that share a fixture of their module; any other test goes to whichever process is free."""
    for item in items:
        if any(d[-1].scope == "module" for d in item._fixtureinfo.name2fixturedefs.values()):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
