"""Real processes, really killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = """
import dataclasses, json, pathlib, sys
from apex_framework.benches.journal import kill_cycles
print(json.dumps(dataclasses.asdict(kill_cycles(pathlib.Path(sys.argv[1]), 20, seed=1))))
"""


@pytest.mark.slow
def test_twenty_writers_killed_at_random_moments_lose_nothing_acknowledged_and_leave_nothing_else(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", KILLS, str(tmp_path)]  # it forks, which a process with threads should not
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    kills = json.loads(done.stdout)
    assert (kills["cycles"], kills["lost"], kills["phantom"]) == (20, 0, 0)
    assert kills["acknowledged"] > 20
