"""``apex run`` says which of its controllers is untrained, before it runs and in what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_world import Terminal

from apex_framework.cli.run import run


@pytest.fixture
def ran(apex: Terminal) -> Any:
    """Runs ``apex run`` with these arguments: status, policies in run.json, stdout, stderr."""
    apex.world.inline = True

    def go(*arguments: str) -> tuple[int, dict[str, str], str, str]:
        options = ("--suite", "fake/dev", "--backend", "scripted", "--episodes", "4", "--out", "r")
        status, out, err = apex(run, *options, *arguments)
        return status, json.loads(Path("r/run.json").read_text())["plan"]["policies"], out, err

    return go


def test_an_untrained_controller_is_told_before_the_run_recorded_and_reported(ran: Any) -> None:
    status, policies, out, err = ran("--topology-set", "star,flat")
    assert status == 0, err
    line = (
        "controller bandit_v1 has no trained policy for star,flat: it is untrained; apex train --topology-set star,flat"
    )
    assert err.splitlines()[0] == line
    assert policies == {"bandit_v1": "untrained"}
    assert "bandit_v1 was untrained" in out
    assert "bandit_v1 was untrained" in Path("r/report/report.md").read_text()


def test_the_shipped_policy_serves_its_topologies_in_any_order(ran: Any) -> None:
    status, policies, out, err = ran("--topology-set", "flat,star,chain")
    assert status == 0, err
    assert len(policies["bandit_v1"]) == 64
    assert "is untrained" not in err and "was untrained" not in out
