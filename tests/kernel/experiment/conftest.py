from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from apex_framework.episode.arm import Arm
from apex_framework.experiment.plan import Plan, PlannedTask


@pytest.fixture
def fake_episodes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The stand-ins, importable here and in worker processes."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import fake_episodes

    return fake_episodes


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    """A plan of two arms and four tasks, with changes."""

    def make(**changes: object) -> Plan:
        values: dict[str, object] = {
            "suite": "mini",
            "split": "dev",
            "suite_digest": "d1",
            "tasks": tuple(PlannedTask(f"{c}-{i}", c) for c in ("alpha", "beta") for i in range(2)),
            "arms": (Arm("static_star"), Arm("bandit_v1", controller="bandit_v1")),
            "versions": {"apex-framework": "0.1.0"},
        }
        return Plan(**{**values, **changes})  # type: ignore[arg-type]  # values are checked by the dataclass's users

    return make
