"""What may stand around and in the way of a call: interceptors in their declared order, policies one by one."""

from __future__ import annotations

import logging
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
        except Exception:  # noqa: BLE001 - a plugin's edge: a rule that cannot judge must not let pass
            _log.exception("policy %r failed; denied", policy.name)
            return policy.name, "policy_error"
        if not isinstance(ruling, Ruling):
            _log.error("policy %r answered %r; denied", policy.name, ruling)
            return policy.name, "policy_error"
        if ruling.allow is not True:
            return policy.name, ruling.reason or "denied"
    return None
