"""``apex bench crashes``: nothing lost and nothing invented at any stop; and a journal that does not sync is seen."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apex_framework.benches import crashes
from apex_framework.interfaces import Epoch
from apex_framework.runtime.journal import COMMIT, JournalSwitchLog
from apex_framework.runtime.switchlog import SwitchRecord


def _rows() -> dict[str, float]:
    return {str(row["metric"]): float(str(row["value"])) for row in crashes.run(SimpleNamespace(n=3))}


def test_no_stop_loses_an_acknowledged_record_or_invents_a_switch() -> None:
    rows = _rows()
    assert (rows["lost"], rows["phantom"], rows["unlike"]) == (0, 0, 0)
    assert rows["calls to the disk at which it stopped"] > 15
    for model in ("killed", "lost", "prefix", "reordered", "torn"):
        assert rows[f"stopped and read again, {model}"] > 10


def test_a_commit_that_is_not_synced_is_seen_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(self: JournalSwitchLog, record: SwitchRecord) -> None:
        self._journal.append(COMMIT, record.epoch, {"origin": record.origin, "target": record.target, "roster": ROSTER})

    monkeypatch.setattr(JournalSwitchLog, "commit", commit)
    assert _rows()["lost"] > 0


def test_a_commit_that_was_never_decided_is_seen_as_phantom(monkeypatch: pytest.MonkeyPatch) -> None:
    def abort(self: JournalSwitchLog, record: SwitchRecord, reason: str) -> None:
        self.commit(SwitchRecord(record.origin, record.target, Epoch(record.epoch), record.roster))

    monkeypatch.setattr(JournalSwitchLog, "abort", abort)
    assert _rows()["phantom"] > 0


ROSTER = {"members": [{"id": "a0", "role": "coder"}], "lead": "a0"}
