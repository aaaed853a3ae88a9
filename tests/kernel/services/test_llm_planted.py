"""The checks of model calls catch bugs: each of these, planted in the shipped source, is complained about."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from apex_framework.testing.misbehaviour import complaints, misbehave

PACKAGE = "apex_framework.services"


@dataclass(frozen=True)
class Bug:
    """In ``module``, ``new`` stands for ``old``; it shows in one of ``shows`` (misbehaviour, streamed, staged)."""

    name: str
    module: str
    old: str
    new: str
    shows: str
    streamed: bool = False
    staged: bool = False
    options: dict[str, Any] = field(default_factory=dict)


BUGS = [
    Bug(
        "a_late_answer_is_delivered",
        "bounded",
        "if task.cancelling() > before:\n                    raise asyncio.CancelledError from None",
        "if False:\n                    raise asyncio.CancelledError from None",
        "answers_when_cancelled",
    ),
    Bug(
        "an_error_hides_the_cancellation",
        "bounded",
        "if task.cancelling() > before:\n                    raise asyncio.CancelledError from error",
        "if False:\n                    raise asyncio.CancelledError from error",
        "fails_when_cancelled",
    ),
    Bug("grace_without_end", "bounded", "GRACE_S: Final = 0.1", "GRACE_S: Final = 10.0", "ignores_cancellation"),
    Bug("nobody_is_left_behind", "bounded", "            elif grace is None:\n", "            elif False:\n", "spins_on"),
    Bug("what_is_left_is_not_ended", "bounded", "                    _leave(work)\n                    if", "                    if", "tidies_up_for_ever"),
    Bug("everything_is_asked_again", "retrying", "return error.retryable and attempt", "return attempt", "fails"),
    Bug("unloaded_for_ever", "retrying", "min(retries, 1) if", "retries if", "unloaded"),
    Bug(
        "retry_after_beyond_the_deadline",
        "call",
        "                    if pause >= (limit.when() or math.inf) - asyncio.get_running_loop().time():\n                        raise\n",
        "",
        "busy_for_ever",
    ),
    Bug("understated_usage_is_believed", "usage", "TOLERANCE: Final = 0.1", "TOLERANCE: Final = 1.0", "understates"),
    Bug("credit_is_given", "usage", "return _true(reported, counted > 0) and type(reported) is int and reported >= least", "return True", "credits"),
    Bug("absurd_usage_is_charged", "usage", "tokens <= MOST_TOKENS and ", "", "absurd_usage"),
    Bug("keep_alives_are_data", "streaming", "                    if chunk.text:\n", "                    if True:\n", "keeps_alive", staged=True),
    Bug(
        "the_first_deadline_for_all",
        "streaming",
        "                        stage.reschedule(None if idle_s is None else loop.time() + idle_s)\n",
        "",
        "drips",
        staged=True,
    ),
    Bug("nothing_is_cut", "streaming", "            self.cut = True\n            return LLMResult(kept", "            self.cut = True\n        if False:\n            return LLMResult(kept", "says_too_much", True),
    Bug("asked_again_after_data", "streaming", "if self.text and error.retryable:", "if False:", "retryable_too_late", True),
    Bug("closing_takes_its_time", "streaming", "CLOSE_S: Final = 0.1", "CLOSE_S: Final = 10.0", "never_closes", True),
    Bug("what_had_come_is_free", "call", "        return self._least(partial)\n", "        return self._least(\"\")\n", "breaks_off", True),
    Bug(
        "a_timeout_is_free",
        "call",
        "            cost = self._everything() if self.in_flight else Usage(0, 0)\n            ours",
        "            cost = Usage(0, 0)\n            ours",
        "never_answers",
    ),
    Bug("refusals_are_charged", "call", "self.in_flight = not error.free", "self.in_flight = True", "wrong_key"),
    Bug("the_heart_beats_on", "call", "            heartbeat.stop()\n", "", "wrong_key"),
    Bug("settled_twice", "call", "        self._settle(cost, result, started)\n        return replace", "        self._settle(cost, result, started)\n        self._settle(cost, result, started)\n        return replace", ""),
    Bug("never_settled", "call", "        self._settle(cost, result, started)\n        return replace", "        return replace", ""),
    Bug("exits_end_the_process", "call", "            if is_interrupt(error):\n", "            if True:\n", "exits"),
    Bug("no_deadline", "call", "asyncio.timeout_at(self.ends)", "asyncio.timeout(None)", "never_answers"),
    Bug("pieces_are_lost", "streaming", "        if self._pieces:\n            return Chunk", "        if self._pieces and not self._task.done():\n            return Chunk", "says_more_than_nothing", True),
    Bug("the_handle_stays", "llm", "            self._handles.pop(request.request_id, None)\n", "            pass\n", "cancel"),
    Bug("cancel_does_nothing", "desk", "        self.stopped = True\n", "", "cancel"),
]  # fmt: skip


@contextmanager
def planted(bug: Bug) -> Iterator[ModuleType]:
    """The services over the patched source, as long as the context lasts; nothing on disk is touched."""
    real = {name: module for name, module in sys.modules.items() if name == PACKAGE or name.startswith(PACKAGE + ".")}
    name = f"{PACKAGE}.{bug.module}"
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    source = spec.loader.get_source(name)
    assert source.count(bug.old) == 1, f"{bug.name}: its text stands {source.count(bug.old)} times in {bug.module}"
    code = compile(source.replace(bug.old, bug.new), spec.origin or name, "exec", dont_inherit=True)

    class Loader(importlib.abc.Loader):
        def exec_module(self, module: ModuleType) -> None:
            exec(code, module.__dict__)

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> Any:
            return importlib.util.spec_from_loader(name, Loader()) if fullname == name else None

    parent = sys.modules["apex_framework"]
    finder = Finder()
    for each in real:
        del sys.modules[each]
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.meta_path.remove(finder)
        for each in [each for each in sys.modules if each == PACKAGE or each.startswith(PACKAGE + ".")]:
            del sys.modules[each]
        sys.modules.update(real)
        parent.services = real[PACKAGE]


def complained(services: ModuleType, bug: Bug) -> list[str]:
    """What the checks say about the patched services."""
    how = {"spins_on": "ignores_cancellation", "says_more_than_nothing": "", "cancel": ""}.get(bug.shows, bug.shows)
    if bug.shows == "cancel":
        return cancelled(services)
    try:
        outcome = misbehave(how, streamed=bug.streamed, staged=bug.staged, service=services.LLMService, **bug.options)
    except BaseException as error:  # a bug may do anything
        if isinstance(error, KeyboardInterrupt):
            raise
        return [repr(error)]
    return complaints(outcome)


def cancelled(services: ModuleType) -> list[str]:
    """Cancel a call by its id, and look whether it ended and is forgotten."""
    import asyncio

    from apex_framework import timeloop
    from apex_framework.budget import Guard, Ledger
    from apex_framework.interfaces import LLMRequest
    from apex_framework.ports import LoopClock
    from apex_framework.testing.misbehaviour import TAGS, Ceiling
    from apex_framework.testing.unruly import UnrulyBackend

    async def work() -> list[str]:
        clock = LoopClock(asyncio.get_running_loop())
        guard = Guard(Ledger(), [Ceiling()], clock=clock)
        service = services.LLMService({"*": UnrulyBackend("never_answers")}, guard, clock=clock)
        call = asyncio.create_task(service.generate(TAGS, LLMRequest("p", 5, request_id="call")))
        await asyncio.sleep(1)
        service.cancel("call")
        answer = await call
        found = [] if str(answer.failure) == "cancelled" else [f"told {answer.failure}"]
        return found + (["still under way"] if service.cancel("call") else [])

    return timeloop.run(work())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_complained_about(bug: Bug) -> None:
    with planted(bug) as services:
        assert complained(services, bug)
    assert sys.modules[PACKAGE] is importlib.import_module(PACKAGE)


def test_without_a_bug_nobody_complains() -> None:
    services = importlib.import_module(PACKAGE)
    assert {bug.name: complained(services, bug) for bug in BUGS} == {bug.name: [] for bug in BUGS}
