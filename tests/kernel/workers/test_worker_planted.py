"""Planted bugs: the tests of this folder find them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import test_stops_and_frames
import test_worker_faults
import test_workers

from apex_framework.workers import StopCutter, counting, fleet, process
from apex_framework.workers.process import Event, Worker, WorkerGone


def caught(test: Callable[..., None], *arguments: object) -> None:
    """The test must fail."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(*arguments)


def test_restarting_without_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "RESTARTS", 100)
    caught(test_worker_faults.test_f33_after_three_restarts_within_a_minute_it_is_not_started_again)


def test_a_call_silently_asked_twice_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    honest = Worker.ask

    async def lying(self: Worker, *arguments: Any) -> Event:
        try:
            return await honest(self, *arguments)
        except WorkerGone as gone:
            raise WorkerGone(str(gone), begun=False) from gone

    monkeypatch.setattr(Worker, "ask", lying)
    caught(test_worker_faults.test_f33_a_crash_under_a_call_fails_it_typed_and_the_next_gets_a_new_process, tmp_path)


def test_a_cancellation_that_is_not_passed_on_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Worker._send

    def forgetful(self: Worker, frame: Mapping[str, Any]) -> None:
        if frame["do"] != "cancel":
            honest(self, frame)

    monkeypatch.setattr(Worker, "_send", forgetful)
    caught(test_worker_faults.test_a_cancelled_call_ends_in_the_process_which_goes_on)


def test_secrets_handed_on_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_SECRET", re.compile("never"))
    caught(test_workers.test_what_is_named_like_a_secret_is_not_handed_on, monkeypatch)


def test_roles_that_depend_on_the_process_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_workers, "instance_of", lambda role, instances: (hash(role) ^ id(role)) % 7919)
    caught(test_workers.test_a_role_always_asks_the_same_instance_and_instances_are_processes)


def test_a_hash_without_its_salt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "ROLE_SALT", "")
    caught(test_workers.test_a_role_always_asks_the_same_instance_and_instances_are_processes)
    caught(lambda: test_workers.test_the_roles_of_a_team_are_spread_as_evenly_as_they_can_be(5, 5))


def test_a_stop_that_is_passed_on_in_parts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: StopCutter, text: str) -> str:
        self.stopped = self.stopped or any(stop in text for stop in self._stops)
        return "" if self.stopped else text

    monkeypatch.setattr(StopCutter, "feed", hasty)
    with pytest.raises((AssertionError, ExceptionGroup)):  # of one example, or of several
        test_stops_and_frames.test_however_a_text_is_cut_it_ends_before_its_first_stop()


def test_a_prompt_confused_with_a_text_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_key", lambda text: "".join(text).encode())
    caught(test_stops_and_frames.test_counts_are_remembered_least_recently_used_first_to_go)
