"""The built-in backends keep their contract, and each check of the kit catches what it is for."""

from __future__ import annotations

import pytest

from apex_framework.testing.broken.llm_backend import BROKEN, DAYS, Sound
from apex_framework.testing.conformance import ConformanceError
from apex_framework.testing.llm import check_llm_backend
from apex_llm import plugin


def backends():
    found = {}
    plugin.apex_llm_backends(lambda name, factory, **_: found.setdefault(name, factory))
    return found


@pytest.mark.parametrize("answers", ["ok", DAYS, lambda request: f"{DAYS} {request.seed}"])
def test_scripted_passes(answers):
    check_llm_backend(lambda: backends()["scripted"](answers=answers))


def test_scripted_in_order_passes():
    check_llm_backend(lambda: backends()["scripted"](answers=[DAYS] * 20, latency_ms=1.0))


def test_replay_passes_while_it_records_and_when_it_replays(tmp_path):
    path = tmp_path / "kit.jsonl"
    check_llm_backend(lambda: backends()["replay"](path=path, inner=Sound()))
    check_llm_backend(lambda: backends()["replay"](path=path))


@pytest.mark.parametrize("check", BROKEN)
def test_each_broken_backend_fails_exactly_its_check(check):
    with pytest.raises(ConformanceError) as caught:
        check_llm_backend(BROKEN[check])
    assert caught.value.failed == (check,)
