"""What may stand around and in the way of a call: interceptors in their declared order, policies one by one.

And the line between what a plugin raises and what the process is told: ``is_interrupt``.
"""

from __future__ import annotations

import asyncio
import logging
import opcode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..errors import RuntimeFault
from ..interfaces.interceptor import Intercepted, Interceptor
from ..interfaces.policy import Policy, Ruling, Subject

_log = logging.getLogger(__name__)

Proceed = Callable[[Intercepted], Awaitable[Any]]


async def chain(interceptors: Sequence[Interceptor], passing: Intercepted, work: Proceed) -> Any:
    """Pass the interceptors that stand at this point, the first being the outermost, on the way to ``work``.

    Raises RuntimeFault when an interceptor proceeds twice, and whatever interceptors and ``work`` raise.
    """
    if not interceptors:
        return await work(passing)
    outer, inner = interceptors[0], interceptors[1:]
    if passing.point not in outer.points:
        return await chain(inner, passing, work)
    proceeded = False

    async def proceed(changed: Intercepted) -> Any:
        nonlocal proceeded
        if proceeded:
            raise RuntimeFault(f"interceptor {outer.name!r} proceeded twice")
        proceeded = True
        return await chain(inner, changed, work)

    return await outer.around(passing, proceed)


def denial(policies: Sequence[Policy], subject: Subject) -> tuple[str, str] | None:
    """(policy, reason) of the first policy that denies, or None. One that raises or answers nonsense denies."""
    for policy in policies:
        try:
            ruling: object = policy.check(subject)
        except BaseException as error:
            if is_interrupt(error):
                raise
            _log.exception("policy %r failed; denied", policy.name)
            return policy.name, "policy_error"
        if not isinstance(ruling, Ruling):
            _log.error("policy %r answered %r; denied", policy.name, ruling)
            return policy.name, "policy_error"
        if ruling.allow is not True:
            return policy.name, ruling.reason or "denied"
    return None


def is_interrupt(error: BaseException) -> bool:
    """Whether a KeyboardInterrupt, a SystemExit or a time limit comes from outside, not from the code that was at work.

    It does when a signal handler is in its traceback, or when the interpreter put a KeyboardInterrupt where
    nobody said ``raise``. In doubt it does: Ctrl-C must work. An Exception and a CancelledError never do.
    """
    if isinstance(error, Exception | asyncio.CancelledError):
        return False
    code, at, before, trace = None, -1, None, error.__traceback__
    while trace is not None:
        frame, code, at = trace.tb_frame, trace.tb_frame.f_code, trace.tb_lasti
        arguments = code.co_varnames[: code.co_argcount]
        # A handler is called with the frame that it interrupts; nothing else is called with its caller's frame.
        if before is not None and any(frame.f_locals.get(name) is before for name in arguments):
            return True
        before, trace = frame, trace.tb_next
    if not isinstance(error, KeyboardInterrupt):
        return False
    return code is None or code.co_code[at] != opcode.opmap["RAISE_VARARGS"]
