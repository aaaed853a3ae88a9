"""``apex bench attacks``: nothing is found, on any topology."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apex_framework.benches import attacks
from apex_framework.errors import SandboxError
from apex_framework.testing import attack_range


@pytest.mark.slow
@pytest.mark.parametrize("topologies", [("chain",), pytest.param(("star", "chain", "flat"), marks=pytest.mark.rest)])
def test_nothing_is_found(topologies: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """All topologies, with another seed, are tried in tests/kernel/testing/test_attacks.py."""
    monkeypatch.setattr(attack_range, "TOPOLOGIES", topologies)
    try:
        rows = list(attacks.run(SimpleNamespace(seeds=1, seed=5)))
    except SandboxError as error:
        pytest.skip(f"no sandbox holds hostile code here: {error.cause}")
    assert {row["case"] for row in rows} == {*topologies, "all"}
    assert all(row["value"] == 0 for row in rows if row["metric"] == "findings")
    assert all(isinstance(row["value"], int) and row["value"] > 500 for row in rows if row["metric"] == "attacks")
