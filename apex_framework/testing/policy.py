"""Conformance kit of policies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..interfaces import (
    AgentID,
    Capability,
    Epoch,
    LLMRequest,
    Member,
    Message,
    ModelCall,
    Policy,
    Ruling,
    Subject,
    ToolCall,
    Workspace,
)
from .conformance import run_checks

KIND: Final = "policy"

Make = Callable[[], Policy]


def check_policy(make: Make) -> None:
    """Run every check on fresh policies. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "never_raises": lambda: check_never_raises(make),
            "answers_with_a_ruling": lambda: check_answers_with_a_ruling(make),
            "denials_have_a_reason": lambda: check_denials_have_a_reason(make),
            "leaves_subjects_alone": lambda: check_leaves_subjects_alone(make),
            "same_subjects_same_rulings": lambda: check_same_subjects_same_rulings(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is: the name stands in denials."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_never_raises(make: Make) -> None:
    """Ordinary subjects of every kind get an answer; an exception would count as a denial."""
    for subject, answer in _answers(make()):
        assert not isinstance(answer, Exception), f"{type(subject).__name__}: {answer!r}"


def check_answers_with_a_ruling(make: Make) -> None:
    """The answer is a Ruling, not a bool."""
    for subject, answer in _answers(make()):
        if not isinstance(answer, Exception):
            assert isinstance(answer, Ruling), f"{type(subject).__name__}: {answer!r}"


def check_denials_have_a_reason(make: Make) -> None:
    """A denial names its reason as a short code without blanks."""
    for subject, answer in _answers(make()):
        if isinstance(answer, Ruling) and not answer.allow:
            code = answer.reason
            assert code and len(code) <= 64 and not any(c.isspace() for c in code), (
                f"{type(subject).__name__}: {code!r}"
            )


def check_leaves_subjects_alone(make: Make) -> None:
    """What was judged is as it was."""
    policy = make()
    for subject, before in zip(subjects(), subjects(), strict=True):
        _answer(policy, subject)
        assert subject == before, f"changed the {type(subject).__name__}"


def check_same_subjects_same_rulings(make: Make) -> None:
    """Two policies that judge the same subjects in the same order agree: no chance, no clock."""
    first = [answer for _, answer in _answers(make()) if isinstance(answer, Ruling)]
    again = [answer for _, answer in _answers(make()) if isinstance(answer, Ruling)]
    assert first == again, f"{first} and then {again}"


def subjects() -> tuple[Subject, ...]:
    """One plain and one large or empty subject of every kind; equal at every call."""
    workspace = _NoWorkspace()
    capability = Capability(workspace, frozenset({"fs.read", "fs.write"}), "coder-1", "coder")
    found: list[Subject] = []
    for payload in ({"text": "a"}, {}, {"text": "b" * 10_000}):
        found.append(
            Message("e1", "m1", AgentID("planner-1"), AgentID("coder-1"), Epoch(0), dict(payload), created_ts=0.0)
        )
        text = str(payload.get("text", ""))
        found.append(ModelCall("coder-1", "coder", LLMRequest(text, max_tokens=100)))
        found.append(ToolCall("fs.write", {"path": "a.py", "content": text}, capability))
        found.append(ToolCall("fs.read", {"path": "../outside"}, capability))
    found.append(Member(AgentID("coder-1"), "coder"))
    found.append(Member(AgentID("stranger"), "unknown role"))
    return tuple(found)


def _answers(policy: Policy) -> list[tuple[Subject, object]]:
    return [(subject, _answer(policy, subject)) for subject in subjects()]


def _answer(policy: Policy, subject: Subject) -> object:
    try:
        return policy.check(subject)
    except Exception as error:  # noqa: BLE001 - one check of this kit is about exceptions, the others are not
        return copy.copy(error)


class _NoWorkspace:
    """Stands where a workspace is asked for and none is used; equal to its like."""

    root = Path("/nonexistent")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NoWorkspace)

    def __hash__(self) -> int:
        return 0

    def fork(self) -> Workspace:
        """Itself."""
        return self

    def commit(self) -> str:
        """The only state."""
        return "0"

    def rollback(self) -> None:
        """Nothing."""

    def dispose(self) -> None:
        """Nothing."""
