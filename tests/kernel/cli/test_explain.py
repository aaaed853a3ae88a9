"""``apex explain``: every code, every kind of failure and every reason of a denial has its words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from apex_framework import errors
from apex_framework.cli import explanations
from apex_framework.cli.boundary import run
from apex_framework.cli.explain import error_classes, everything
from apex_framework.errors import Failure

ROOT = Path(__file__).parents[3]
SOURCES = [p for top in ("apex_framework", "plugins") for p in (ROOT / top).rglob("*.py") if "testing" not in p.parts]


def missing(codes: dict[str, tuple[str, str]]) -> set[str]:
    return {c.code for c in error_classes()} - {code for code, words in codes.items() if all(words)}


def test_every_code_has_causes_and_a_remedy() -> None:
    assert missing(explanations.CODES) == set()
    assert set(explanations.CODES) - {c.code for c in error_classes()} == {"E0130"}, "words for no error"


def test_a_code_without_words_is_found_out() -> None:
    assert missing({**explanations.CODES, "E0330": ("", "")}) == {"E0330"}


def test_codes_that_the_program_prints_are_known() -> None:
    printed = {code for p in SOURCES if "cli" in p.parts for code in re.findall(r'"(E0\d{3})"', p.read_text())}
    assert printed <= set(explanations.CODES)


def test_every_kind_of_failure_has_a_meaning_and_a_remedy() -> None:
    assert set(explanations.FAILURES) == {kind.value for kind in Failure}
    assert all(e.meaning and e.remedy and e.cost for e in everything() if e.kind == "failure")


def test_every_reason_of_a_denial_in_the_sources_is_explained() -> None:
    found: set[str] = set()
    for path in SOURCES:
        if path.name == "explanations.py":
            continue
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'"((?:tok|ms)_headroom|policy:\w+)"', text))
        found |= {f"policy:{reason}" for reason in re.findall(r'reason="(store_\w+)"', text)}
    assert {"tok_headroom", "policy:store_locked", "policy:closed"} <= found
    assert found - set(explanations.DENIALS) == set()


@pytest.mark.parametrize("name", [e.name for e in everything()])
def test_each_is_found_by_its_name_whatever_the_case(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", name.upper()]) == 0
    out = capsys.readouterr().out
    assert out.startswith(name) and "means:" in out and "do:" in out and "``" not in out
    assert run(["explain", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == name


def test_other_ways_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    for written, code in (("ModelError", "E0330"), ("error[E0331]:", "E0331"), ("store_locked", "policy:store_locked")):
        assert run(["explain", written]) == 0
        assert capsys.readouterr().out.startswith(code)
    assert run(["explain", "policy:quiet_hours"]) == 0
    assert "A policy denied the call" in capsys.readouterr().out


def test_the_exit_status_is_that_of_the_class() -> None:
    told = {e.name: e.exit_status for e in everything() if e.kind == "error"}
    assert {c.code: c.exit_status for c in error_classes()}.items() <= told.items()
    assert len({c.code for c in error_classes()}) == len(list(error_classes())), "a code of its own for each"
    assert issubclass(errors.ModelError, errors.EnvironmentProblem) and told["E0330"] == 3


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {e.name} " in out for e in everything())


def test_an_unknown_name_ends_with_status_2_and_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for name, nearest in (
        ("E0339", "E033"),
        ("rate_limit", "rate_limited"),
        ("", ""),
        ("policy:", ""),
        ("x" * 300, ""),
    ):
        assert run(["explain", name]) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 2 and nearest in lines[1] and "apex explain" in lines[1]


def test_the_help_says_how_codes_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    assert capsys.readouterr().out.count("apex explain E") == 1
