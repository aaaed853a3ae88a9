"""``apex suite check`` of a suite that knows no gold patch: every task is told, with the reason, and no workspace stays."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.cli.context import Context
from apex_framework.cli.suite_check import check
from apex_framework.errors import WorkspaceError
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import Task, Verdict
from apex_framework.plugins import load_plugins

NAMES = ("good", "solved", "cannot", "breaks")


class Suite:
    """Of its tasks one is solved, one cannot be judged, and one breaks its judge."""

    name, digest = "four", "d1"

    def __init__(self, **_options: object) -> None:
        self.open: list[str] = []
        SUITES.append(self)

    def tasks(self, split: str) -> list[Task]:
        return [Task(name, self.name, split, "?", cluster=name) for name in NAMES]

    def workspaces(self) -> Any:
        return SimpleNamespace(create=self.workspace, close=lambda: self.open.append("closed"))

    def workspace(self, task: Task) -> Any:
        self.open.append(task.id)
        return SimpleNamespace(dispose=lambda: self.open.remove(task.id))

    def grade(self, task: Task, workspace: object) -> Verdict:
        if task.id == "breaks":
            raise WorkspaceError("it is gone", "look for it")
        return Verdict(task.id == "solved", "four", infrastructure_error="no judge" * (task.id == "cannot"))


SUITES: list[Suite] = []


class World(ApexSpec):
    """Registers it."""

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("four", Suite)


@pytest.mark.parametrize("as_json", [True, False])
def test_every_task_is_told_with_its_reason(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    context = Context(json=as_json)
    context._plugins = load_plugins(plugins={"world": World()})
    assert check.main(["four/dev"], obj=context, standalone_mode=False) == 5
    assert SUITES[-1].open == ["closed"], "a workspace stayed where it was"
    out = capsys.readouterr().out
    if not as_json:
        assert "four/dev: 1 of 4 tasks behave" in out and "does not behave: solved: it is solved before" in out
        assert "could not be judged: cannot: no judge" in out and "could not be judged: breaks: it is gone" in out
        return
    told = json.loads(out)
    assert [(one["task"], one["behaves"]) for one in told["checks"]] == [(name, name == "good") for name in NAMES]
    assert list(told["do_not_behave"]) == ["solved"]
    assert told["not_judged"] == {"cannot": "no judge", "breaks": told["checks"][3]["infrastructure_error"]}
    assert "it is gone" in told["not_judged"]["breaks"]
