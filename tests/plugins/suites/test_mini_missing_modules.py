"""A Python that lacks modules of its standard library: said in one line, never a wrong or silent suite."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from apex_framework.errors import SuiteError
from apex_suites.mini.suite import MiniSuite


def without(monkeypatch: pytest.MonkeyPatch, folder: Path, *lacking: str) -> None:
    """Let the standard library be a copy, by links, in which some files are not there."""
    real = sysconfig.get_paths()
    folder.mkdir()
    for entry in Path(real["stdlib"]).iterdir():
        if entry.name not in lacking and "*" not in lacking:
            (folder / entry.name).symlink_to(entry)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {**real, "stdlib": str(folder)})


def test_a_missing_module_is_left_out_aloud_and_changes_the_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    complete = MiniSuite().digest
    without(monkeypatch, tmp_path / "stdlib", "shlex.py")
    suite = MiniSuite(limit=4, cache_dir=tmp_path / "cache", progress=lambda done, wanted: None)
    tasks = suite.tasks("dev")
    assert len(tasks) == 4 and "shlex" not in {t.cluster for t in tasks}
    assert suite.missing["dev"] == ("shlex",)
    assert "mini/dev: this Python cannot serve shlex; the digest says so" in capsys.readouterr().err
    assert suite.digest != complete


def test_without_a_standard_library_there_is_no_suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, tmp_path / "stdlib", "*")
    suite = MiniSuite(limit=4, cache_dir=tmp_path / "cache", progress=lambda done, wanted: None)
    with pytest.raises(SuiteError) as refusal:
        suite.tasks("dev")
    assert refusal.value.cause and refusal.value.remedy
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
