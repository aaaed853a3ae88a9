"""Who somebody is, and how much is left to them."""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Mapping

from apex_framework.interfaces import CallTags, Limits
from apex_framework.ports import Clock

from .refusal import E_QUOTA, Refusal
from .settings import Principal, token_hash

MINUTE_S = 60.0


class Doorman:
    """Knows principals by the hash of their token, and counts what each has under way.

    ``anyone`` names the principal of requests without a token; empty: those are refused.
    """

    def __init__(
        self, principals: Mapping[str, Principal], *, clock: Clock, requests: int, tasks_at_once: int, anyone: str = ""
    ) -> None:
        self._principals, self._clock = dict(principals), clock
        self._requests, self._tasks_at_once, self._anyone = requests, tasks_at_once, anyone
        self._running: dict[str, int] = dict.fromkeys(principals, 0)
        self._asking: dict[str, int] = dict.fromkeys(principals, 0)
        self._bytes: dict[str, deque[tuple[float, int]]] = {name: deque() for name in principals}

    def who(self, authorization: str) -> str | None:
        """The principal of an ``Authorization`` header; None when nobody has this token."""
        if not authorization:
            return self._anyone or None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > 1024:
            return None
        digits, found = token_hash(token.strip()), None
        for name, principal in self._principals.items():  # all of them, so that time tells nothing
            if hmac.compare_digest(digits, principal.token_sha256):
                found = name
        return found

    def of(self, name: str) -> Principal:
        """A principal's rights and quotas."""
        return self._principals[name]

    def begin_request(self, name: str) -> None:
        """Count a request under way. Raises Refusal E_QUOTA."""
        if self._asking[name] >= self._requests:
            raise Refusal(E_QUOTA, f"{self._requests} requests are under way")
        self._asking[name] += 1

    def end_request(self, name: str) -> None:
        """The request is over."""
        self._asking[name] -= 1

    def asking(self, name: str) -> int:
        """Requests of a principal that are under way."""
        return self._asking[name]

    def take_bytes(self, name: str, size: int) -> None:
        """Count bytes of a request. Raises Refusal E_QUOTA; a refused one counts nothing."""
        now, log = self._clock.monotonic(), self._bytes[name]
        while log and log[0][0] <= now - MINUTE_S:
            log.popleft()
        if sum(each for _, each in log) + size > self._principals[name].bytes_per_minute:
            raise Refusal(E_QUOTA, "too many bytes within a minute")
        if log and now - log[-1][0] < 1:  # one entry a second: the log stays short
            log[-1] = (log[-1][0], log[-1][1] + size)
        else:
            log.append((now, size))

    def may_begin(self, name: str) -> None:
        """Raises Refusal E_QUOTA when no task of this principal may begin now."""
        if self._running[name] >= self._principals[name].tasks:
            raise Refusal(E_QUOTA, f"{self._running[name]} tasks are at work")
        if sum(self._running.values()) >= self._tasks_at_once:
            raise Refusal(E_QUOTA, "the server is at work on as many tasks as it may")

    def begin(self, name: str) -> None:
        """Count a task. Raises Refusal E_QUOTA."""
        self.may_begin(name)
        self._running[name] += 1

    def end(self, name: str) -> None:
        """The task is over."""
        self._running[name] -= 1


class PrincipalScope:
    """All tasks of a principal together take at most its tokens. Calls carry its name as their run's."""

    name = "principal"
    parent: str | None = None

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self._principals = dict(principals)

    def key(self, tags: CallTags) -> str:
        return f"principal/{tags.run_id}"

    def limits(self, tags: CallTags) -> Limits:
        """A stranger has none."""
        principal = self._principals.get(tags.run_id)
        return Limits(0 if principal is None else principal.tokens)
