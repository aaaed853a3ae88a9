"""``apex doctor --security``: what confines task code here, tried and not claimed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_framework.cli.checks.security import started_code
from apex_framework.interfaces import Grade


@pytest.mark.slow
def test_every_sandbox_is_tried_and_what_runs_get_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--security", "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"sandbox bwrap", "sandbox landlock", "sandbox plain", "code of suites"} <= set(rows)
    assert "RLIMITS" in rows["sandbox plain"]["found"] and "read_canary" in rows["sandbox plain"]["found"]
    verdict = rows["code of live models and foreign repositories"]
    strong = any("NAMESPACES" in row["found"] or "LANDLOCK" in row["found"] for row in rows.values())
    assert ("confined by default" in verdict["found"]) == strong
    assert ("refused" in verdict["found"]) == (not strong)


def test_it_does_not_go_with_a_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--security", "--backend", "repair"]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_code_at_every_start_is_named(tmp_path: Path) -> None:
    (tmp_path / "paths.pth").write_text("/somewhere\n# import nothing\n")
    (finding,) = started_code([str(tmp_path), str(tmp_path / "absent")])
    assert finding.grade is Grade.OK
    (tmp_path / "evil.pth").write_text("/somewhere\nimport os; os.getpid()\n")
    (finding,) = started_code([str(tmp_path)])
    assert finding.grade is Grade.WARN and str(tmp_path / "evil.pth") in finding.found
    assert "paths.pth" not in finding.found
