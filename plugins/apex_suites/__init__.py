"""Sets of tasks. ``mini`` is made on the spot from the user's own standard library; others are read from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import TaskSuite

if TYPE_CHECKING:
    import click


def _mini(**options: Any) -> TaskSuite:
    from .mini.suite import MiniSuite

    return MiniSuite(**options)


def _humaneval(**options: Any) -> TaskSuite:
    from .humaneval.suite import HumanEvalSuite

    return HumanEvalSuite(**options)


def _humanevalfix(**options: Any) -> TaskSuite:
    from .humaneval.suite import HumanEvalFixSuite

    return HumanEvalFixSuite(**options)


def _mbpp(**options: Any) -> TaskSuite:
    from .mbpp.suite import MbppSuite

    return MbppSuite(**options)


def _quixbugs(**options: Any) -> TaskSuite:
    from .quixbugs.suite import QuixBugsSuite

    return QuixBugsSuite(**options)


def _swebench_lite(**options: Any) -> TaskSuite:
    from .swebench.suite import SweBenchSuite

    return SweBenchSuite(name="swebench_lite", **options)


def _swebench_verified(**options: Any) -> TaskSuite:
    from .swebench.suite import SweBenchSuite

    return SweBenchSuite(name="swebench_verified", **options)


def _make() -> click.Command:
    from .synth.command import command

    return command


class Suites(ApexSpec):
    """The bundled suites."""

    @hookimpl
    def apex_commands(self, add: Add[click.Command]) -> None:
        add("suite.make", _make, summary="Make fault tasks out of a Python repository with passing tests.")

    @hookimpl
    def apex_suites(self, add: Add[TaskSuite]) -> None:
        add("mini", _mini, summary="faults in modules of this Python's own standard library; train, dev and test")
        add("humaneval", _humaneval, summary="HumanEval turned round: find the injected fault; --data FILE")
        add("humanevalfix", _humanevalfix, summary="HumanEvalPack's faults that people wrote; test only; --data FILE")
        add("mbpp", _mbpp, summary="MBPP with an injected fault; --data FILE")
        add("quixbugs", _quixbugs, summary="a checkout of QuixBugs; test only, nobody tunes on it; --data FOLDER")
        add(
            "swebench_lite",
            _swebench_lite,
            summary="SWE-bench Lite, natively or in containers; --data FILE --repos DIR",
        )
        add(
            "swebench_verified",
            _swebench_verified,
            summary="SWE-bench Verified, natively or in containers; --data FILE --repos DIR",
        )


plugin = Suites()
