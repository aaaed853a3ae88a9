"""What holds for every test."""

from __future__ import annotations

import gc
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


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
