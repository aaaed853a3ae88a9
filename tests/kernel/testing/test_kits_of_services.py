"""Each shipped broken plugin fails exactly the check that it is named after; the sound ones pass."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from apex_framework.testing.conformance import ConformanceError

KINDS = ("policy", "interceptor", "store", "exporter", "command")


def kit(kind: str) -> Callable[[Callable[[], Any]], None]:
    return getattr(import_module(f"apex_framework.testing.{kind}"), f"check_{kind}")  # type: ignore[no-any-return]  # chosen by name


CASES = [
    pytest.param(kind, check, id=f"{kind}-{check}")
    for kind in KINDS
    for check in import_module(f"apex_framework.testing.broken.{kind}").BROKEN
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_plugin_passes(kind: str) -> None:
    kit(kind)(import_module(f"apex_framework.testing.broken.{kind}").Sound)


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_a_broken_plugin_fails_exactly_its_check(kind: str, check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        kit(kind)(import_module(f"apex_framework.testing.broken.{kind}").BROKEN[check])
    assert caught.value.failed == (check,)
    assert caught.value.kind == kind


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_has_a_broken_plugin(kind: str) -> None:
    module = import_module(f"apex_framework.testing.{kind}")
    checks = {n.removeprefix("check_") for n in vars(module) if n.startswith("check_")} - {kind}
    assert checks == set(import_module(f"apex_framework.testing.broken.{kind}").BROKEN)


def test_every_check_of_model_backends_has_a_broken_one_and_a_backend_that_can_everything_passes() -> None:
    from apex_framework.testing import llm
    from apex_framework.testing.broken.llm_backend import BROKEN, Able

    checks = {name.removeprefix("check_") for name in vars(llm) if name.startswith("check_")} - {"llm_backend"}
    assert checks == set(BROKEN)
    llm.check_llm_backend(Able)
