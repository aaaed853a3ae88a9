"""The proof of the attack catalogue notices where a defence is missing: each of these plants one bug."""

from __future__ import annotations

import os
from typing import Any

import pytest

from apex_framework.errors import SandboxError
from apex_framework.testing.attack_range import Outcome, prove


def proved(topology: str = "star", seed: int = 1, **options: Any) -> Outcome:
    try:
        return prove(topology, seed, **options)
    except SandboxError as error:
        pytest.skip(f"no sandbox holds hostile code here: {error.cause}")


def caught(outcome: Outcome, *words: str) -> None:
    assert outcome.findings, "the planted bug was not seen"
    for word in words:
        assert any(word in finding for finding in outcome.findings), outcome.findings[:10]


def test_planted_a_door_that_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_framework.services.tools import ToolService

    monkeypatch.setattr(ToolService, "_refusal", lambda self, call, passage: None)
    caught(proved(only=("A68 not its own: 'fs.", "A70 forged")), "ended with ok", "changed the workspace")


def test_planted_a_gate_that_follows_links(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_mcp.beneath import Root

    def follow(self: Any, parts: Any, flags: int) -> int:
        return os.open("/".join(parts) or ".", flags & ~os.O_NOFOLLOW, dir_fd=self.fd)

    monkeypatch.setattr(Root, "open", follow)
    caught(proved(only=("A4 link to a folder",)), "outside: secret.txt was changed", "leak:", "ended with ok")


def test_planted_a_gate_that_opens_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_mcp import files, reading
    from apex_mcp.beneath import Root

    def lenient(path: str) -> tuple[str, ...]:
        return tuple(part for part in path.split("/") if part)

    def follow(self: Any, parts: Any, flags: int) -> int:
        return os.open("/".join(parts) or ".", flags & ~os.O_NOFOLLOW, dir_fd=self.fd)

    monkeypatch.setattr(Root, "open", follow)
    for module in (files, reading):
        if hasattr(module, "split"):
            monkeypatch.setattr(module, "split", lenient)
    caught(proved(only=("A1 up/fs.",)), "ended with ok")


def test_planted_names_that_are_not_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_mcp import names

    monkeypatch.setattr(names, "_protected", lambda name: False)
    caught(proved(only=("A17 write",)), "A17 write conftest.py: ended with ok and changed the workspace")


def test_servers_refuse_wrong_arguments_also_where_the_door_reads_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_framework.services.schema import Schema

    monkeypatch.setattr(Schema, "problem", lambda self, value: "")
    assert proved(only=("A68 arguments",)).findings == []


def test_planted_a_sandbox_that_holds_nothing() -> None:
    outcome = proved(only=("A35",), sandbox="plain", settings={"allow_weaker_sandbox": True})
    caught(outcome, "showed a secret")


def test_planted_usage_that_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_framework.services import usage

    monkeypatch.setattr(usage, "believed", lambda reported, counted, exact=True: type(reported) is int)
    monkeypatch.setattr(usage, "_true", lambda tokens, text: type(tokens) is int)
    caught(proved(only=("A68 arguments", "A70", "A72")), "budget:")


def test_planted_a_loop_that_nobody_ends() -> None:
    caught(proved(only=("A68 the same call",), settings={"tool_loop_after": 0}), "did not end with E_LOOP")


def test_planted_a_transaction_that_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_mcp import fs, writing

    def halves(files: Any, arguments: Any, deadline_s: float) -> dict[str, Any]:
        writing.write(files, {"path": "half.txt", "text": "half"}, deadline_s)
        return writing.transaction(files, arguments, deadline_s)

    monkeypatch.setitem(fs._CHANGES, "fs.transaction", halves)
    caught(proved(only=("A1 up/fs.transaction",)), "ended with E_PATH and changed the workspace")


def test_planted_a_tool_that_shows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_mcp import git

    monkeypatch.setitem(git._LOOKS, "git.status", lambda *_: dict(os.environ))
    caught(proved(only=("A27",)), "showed a secret")


def test_planted_a_judge_that_believes_the_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_framework.interfaces import Verdict
    from apex_framework.testing import attack_range

    monkeypatch.setattr(attack_range._Range, "grade", lambda *_: Verdict(True, "the agents' own"))
    caught(proved(only=("A70",)), "a success that nobody earned")
