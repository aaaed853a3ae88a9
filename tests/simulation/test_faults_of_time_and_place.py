"""F25–F27 and F55 under simulation: clocks that jump, sleep and tick, and the surroundings of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apex_framework.testing import simulate
from apex_framework.testing.chaos import TEN_YEARS_S, ChaosClock
from apex_framework.timeloop import VirtualTimeLoop
from apex_lanes.fifo import Fifo
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

PARTS: dict[str, Any] = {
    "topologies": {"star": Star(), "chain": Chain(), "flat": Flat()},
    "lanes": Fifo(),
    "transport": InProcess(),
}
LOAD = {"exception", "never_acks", "acks_late", "abandoned", "slow_consumer"}


@pytest.mark.simulation
@pytest.mark.parametrize("clock", ["wall_jump", "clock_pause", "clock_leap", "equal_ticks"])
def test_f25_f26_f27_clocks_that_jump_sleep_or_tick_break_no_promise(clock: str) -> None:
    outcome = simulate(seeds=30, steps=400, faults={clock, *LOAD}, **PARTS)
    assert not outcome.violations, outcome.report()
    assert outcome.faults[clock] > 5
    assert outcome.acked > 500


def test_f25_f26_monotonic_time_never_goes_back() -> None:
    loop = VirtualTimeLoop()
    try:
        clock = ChaosClock(loop)
        readings = [clock.monotonic()]
        clock.jump_wall(-TEN_YEARS_S)
        readings.append(clock.monotonic())
        assert clock.wall() < 1.75e9 - 0.9 * TEN_YEARS_S
        clock.suspend(3600, counted=False)
        readings.append(clock.monotonic())
        clock.suspend(3600, counted=True)
        readings.append(clock.monotonic())
        assert readings == [0.0, 0.0, 0.0, 3600.0]
    finally:
        loop.close()


def test_f55_hash_seed_locale_time_zone_umask_folder_and_optimisation_change_nothing(tmp_path: Path) -> None:
    code = (
        "import os; os.umask({umask}); from apex_framework.testing import simulate; print(simulate(seeds=6).trace_hash)"
    )
    surroundings: list[tuple[dict[str, str], int, Path]] = [
        ({"PYTHONHASHSEED": "1"}, 0o022, Path.cwd()),
        ({"PYTHONHASHSEED": "2", "LC_ALL": "C", "TZ": "Pacific/Chatham", "PYTHONOPTIMIZE": "1"}, 0o777, tmp_path),
    ]
    answers = {
        subprocess.run(
            [sys.executable, "-c", code.format(umask=umask)],
            env={**os.environ, **environment},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for environment, umask, folder in surroundings
    }
    assert answers == {simulate(seeds=6, **PARTS).trace_hash}
