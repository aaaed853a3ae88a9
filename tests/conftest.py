"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernel must not block the event loop: in tests marked asyncio or simulation, a call that does is an error.

    Real work under virtual time is the exception: the loop stands still on purpose while it is done.
    """
    if not any(request.node.get_closest_marker(name) for name in ("asyncio", "simulation")):
        yield
        return
    with blockbuster_ctx("apex_framework") as detector:
        for function in detector.functions.values():
            function.can_block_in("apex_framework/ports.py", {"run"})
        yield


FULL = "APEX_TEST_FULL"
"""Set to anything, this variable also runs the tests marked ``rest``."""


def pytest_configure(config: pytest.Config) -> None:
    """Workers get the files in the order in which they stand: xdist would begin with those of many short tests.

    And whoever runs the tests in the background ignores Ctrl-C, which what tests start and interrupt would inherit.
    """
    config.option.loadscopereorder = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # -m has had its say
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, or one worker would end with them alone."""
    weights: Counter[str] = Counter()
    for item in items:
        slow, rest = item.get_closest_marker("slow"), item.get_closest_marker("rest")
        if rest and not os.environ.get(FULL):
            item.add_marker(pytest.mark.skip(reason=f"more of the same: {FULL}=1 runs it"))
        elif slow:
            weights[item.nodeid.partition("::")[0]] += int(slow.kwargs.get("seconds", 10))
    items.sort(key=lambda item: -weights[item.nodeid.partition("::")[0]])


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
