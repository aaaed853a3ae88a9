"""One call to an unruly backend in virtual time, and what of it is not as promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..budget import Guard, Ledger
from ..errors import Failure
from ..events import CallSettled, Event
from ..interfaces import CallTags, Denied, Limits, LLMRequest, LLMResult, LLMStatus
from ..ports import LoopClock
from ..services import LLMService
from .scripted import rule_of_four
from .unruly import STREAMED, TEXT, UnrulyBackend
from .virtual_time import run

DEADLINE_S, FIRST_TOKEN_S, IDLE_S = 5.0, 1.0, 0.8
MARGIN_S: Final = 0.25
"""A call may end so much after its deadline."""
TAGS: Final = CallTags("run", "ep1", "coder1", "coder", 10_000)
PROMPT: Final = "p" * 399
MAX_TOKENS: Final = 20

SOUND, ANY_TIMEOUT = "", "timeout"
EXPECTED: Mapping[str, str] = MappingProxyType(
    {
        "refuses": Failure.CONNECT,
        "wrong_key": Failure.AUTH,
        "no_model": Failure.NOT_FOUND,
        "busy": Failure.RATE_LIMITED,
        "busy_until": Failure.RATE_LIMITED,
        "busy_for_ever": Failure.RATE_LIMITED,
        "busy_nonsense": Failure.RATE_LIMITED,
        "fails": Failure.SERVER,
        "overloaded": Failure.UNAVAILABLE,
        "prompt_too_long": Failure.CONTEXT_EXCEEDED,
        "unloaded": Failure.UNLOADED,
        "dies": Failure.WORKER_DIED,
        "unreadable": Failure.MALFORMED,
        "never_answers": ANY_TIMEOUT,
        "ignores_cancellation": ANY_TIMEOUT,
        "ignores_everything": ANY_TIMEOUT,
        "tidies_up_for_ever": ANY_TIMEOUT,
        "answers_when_cancelled": ANY_TIMEOUT,
        "fails_when_cancelled": ANY_TIMEOUT,
        "limits_itself": Failure.TOTAL_TIMEOUT,
        "spins": ANY_TIMEOUT,
        "exits": Failure.UNKNOWN,
        "bug": Failure.UNKNOWN,
        "no_first_token": ANY_TIMEOUT,
        "keeps_alive": ANY_TIMEOUT,
        "stalls": ANY_TIMEOUT,
        "drips": Failure.TOTAL_TIMEOUT,
        "no_result": Failure.INCOMPLETE,
        "breaks_off": Failure.TRUNCATED,
        "retryable_too_late": Failure.TRUNCATED,
        "garbage": Failure.MALFORMED,
        "bad_result": Failure.MALFORMED,
        "endless_nothing": Failure.MALFORMED,
        "no_stream": Failure.MALFORMED,
    }
)
"""Misbehaviour -> the failure that an agent is told, streamed; one that is not here is put right, and answered."""

FREE: Final = frozenset(how for how, kind in EXPECTED.items() if kind in set(Failure) and Failure(kind).free)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call went."""

    how: str
    streamed: bool
    staged: bool
    answer: LLMResult | Denied
    seconds: float
    text: str
    """What a reader of the stream saw."""
    used: int
    open: int
    events: tuple[Event, ...]
    tasks: int
    """Tasks that are left."""
    timers: int
    """Timers that are left."""
    calls: int
    """Times that the backend was asked."""
    running: int
    """Calls that the backend still has in its hands."""

    @property
    def in_pieces(self) -> bool:
        """Whether the backend's stream was read."""
        return self.streamed or self.staged


def misbehave(
    how: str,
    *,
    streamed: bool = False,
    staged: bool = False,
    times: int | None = None,
    seed: int = 0,
    service: Callable[..., Any] = LLMService,
    **options: Any,
) -> Outcome:
    """Make one call to a backend that misbehaves, read as a stream or not, with deadlines for its stages or not."""

    async def call() -> Outcome:
        loop = asyncio.get_running_loop()
        clock, events, backend = LoopClock(loop), list[Event](), UnrulyBackend(how, times=times)
        guard = Guard(Ledger(), [Ceiling()], clock=clock)
        stages = {"first_token_s": FIRST_TOKEN_S, "idle_s": IDLE_S} if staged else {}
        settings = {"deadline_s": DEADLINE_S, **stages, **options}
        llm = service({"*": backend}, guard, clock=clock, on_event=events.append, **settings)
        request, text = LLMRequest(PROMPT, MAX_TOKENS, seed=seed), ""
        if streamed:
            async with llm.stream(TAGS, request) as stream:
                async for chunk in stream:
                    text += chunk.text
                answer = await stream.answer()
        else:
            answer = await llm.generate(TAGS, request)
        seconds = loop.time()
        tasks = len(asyncio.all_tasks(loop)) - 1
        timers = sum(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]  # of asyncio's base loop
        ledger = guard.ledger
        used = ledger.used("episode:ep1") if ledger.knows("episode:ep1") else 0
        return Outcome(
            how,
            streamed,
            staged,
            answer,
            seconds,
            text,
            used,
            len(ledger.open),
            tuple(events),
            tasks,
            timers,
            len(backend.requests),
            backend.open,
        )

    return run(call(), seed=seed)


def complaints(outcome: Outcome) -> list[str]:
    """What is not as promised, in words; empty when all is well."""
    found, answer, how = [], outcome.answer, outcome.how
    settled = [event for event in outcome.events if isinstance(event, CallSettled)]
    if outcome.seconds > DEADLINE_S + MARGIN_S:
        found.append(f"late: it took {outcome.seconds:.3f} s of {DEADLINE_S:g} s")
    if outcome.open or len(settled) != 1 or len(outcome.events) != 1:
        found.append(f"settled {len(settled)} times, {outcome.open} reservations open")
    if outcome.tasks or outcome.timers or outcome.running:
        found.append(f"left: {outcome.tasks} tasks, {outcome.timers} timers, {outcome.running} calls")
    if not isinstance(answer, LLMResult):
        return [*found, f"denied: {answer}"]
    expected = EXPECTED.get(how, SOUND) if outcome.in_pieces or how not in STREAMED else SOUND
    if how == "answers_nothing":
        expected = Failure.INCOMPLETE if outcome.in_pieces else Failure.MALFORMED
    if how == "answers_at_once" and not outcome.in_pieces:
        expected = Failure.MALFORMED
    if expected == ANY_TIMEOUT:
        stalled = how == "stalls" and outcome.staged
        first = outcome.staged and outcome.in_pieces
        expected = Failure.IDLE_TIMEOUT if stalled else Failure.FIRST_TOKEN_TIMEOUT if first else Failure.TOTAL_TIMEOUT
    if answer.failure != expected:
        found.append(f"told {answer.failure or answer.status!s}, not {expected or 'an answer'}")
    if bool(answer.failure) == (answer.status in (LLMStatus.OK, LLMStatus.LENGTH)):
        found.append(f"status {answer.status} with failure {answer.failure!r}")
    again = outcome.how in EXPECTED and Failure(EXPECTED[how]).retryable if EXPECTED.get(how) != ANY_TIMEOUT else False
    if outcome.calls > 1 and not again:
        found.append(f"asked {outcome.calls} times what may have been charged")
    if outcome.calls > 2 and how == "unloaded":
        found.append("a model that was unloaded is asked more than once more")
    found.extend(_charges(outcome, answer))
    return found


def _charges(outcome: Outcome, answer: LLMResult) -> list[str]:
    found, delivered = [], answer.text or outcome.text
    prompt, reserved = rule_of_four(PROMPT), rule_of_four(PROMPT) + MAX_TOKENS
    if outcome.used != answer.tokens_in + answer.tokens_out:
        found.append(f"charged {outcome.used}, told {answer.tokens_in} + {answer.tokens_out}")
    if outcome.how in FREE and outcome.calls and outcome.used:
        found.append(f"charged {outcome.used} for nothing")
    least = prompt + (rule_of_four(delivered) if delivered else 0)
    if outcome.how not in FREE and outcome.used < least:
        found.append(f"charged {outcome.used} for {least}")
    if outcome.used > 10 * reserved:
        found.append("charged what cannot be true")
    late = answer.status in (LLMStatus.TIMEOUT, LLMStatus.CANCELLED)
    if late and outcome.used != reserved:
        found.append(f"charged {outcome.used} of {reserved} though nobody knows what was generated")
    if outcome.in_pieces and rule_of_four(delivered) > MAX_TOKENS:
        found.append(f"delivered {rule_of_four(delivered)} tokens of {MAX_TOKENS}")
    if outcome.streamed and answer.text and outcome.how != "says_more_than_it_says" and outcome.text != answer.text:
        found.append(f"the reader saw {outcome.text!r}, the answer is {answer.text!r}")
    if not answer.failure and answer.status is LLMStatus.OK and outcome.how == "" and answer.text != TEXT:
        found.append(f"answered {answer.text!r}")
    return found


@dataclass(frozen=True, slots=True)
class Ceiling:
    """An episode's token budget, as planned."""

    name: str = "episode"
    parent: str | None = None

    def key(self, tags: CallTags) -> str:
        """The episode."""
        return tags.episode_id

    def limits(self, tags: CallTags) -> Limits:
        """As planned."""
        return Limits(tags.token_budget)
