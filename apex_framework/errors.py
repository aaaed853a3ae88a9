"""One tree of errors. Each class writes its own message: a cause, a remedy, a code, an exit status."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Final


class ApexError(Exception):
    """Base of everything that APEX raises on purpose. ``str(error)`` is the cause in one line."""

    code: ClassVar[str] = "E0001"
    exit_status: ClassVar[int] = 1

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


# --- usage: exit status 2 -------------------------------------------------------------------


class UsageError(ApexError):
    """What the user asked for does not make sense."""

    code = "E0200"
    exit_status = 2


class UnknownNameError(UsageError):
    """No plugin of this kind has this name."""

    code = "E0201"

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        import difflib

        known = sorted(known)
        close = difflib.get_close_matches(name, known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
        super().__init__(f"unknown {kind} {name!r}", f"{remedy} {hint}".strip())
        self.kind, self.name, self.known = kind, name, tuple(known)


class ConfigError(UsageError):
    """A setting is unknown or has an impossible value."""

    code = "E0202"


class BudgetTooSmallError(UsageError):
    """The token budget cannot pay for a single call."""

    code = "E0203"


class PlanChangedError(UsageError):
    """A run cannot be resumed under another plan."""

    code = "E0204"


class NotComparableError(UsageError):
    """Two runs do not share what a comparison needs."""

    code = "E0205"


class StaleResultError(UsageError):
    """Results are older than the plan that they are claimed for."""

    code = "E0206"


# --- environment: exit status 3 -------------------------------------------------------------


class EnvironmentProblem(ApexError):
    """This machine lacks something."""

    code = "E0300"
    exit_status = 3


class MissingExtraError(EnvironmentProblem):
    """A plugin needs packages that an extra brings."""

    code = "E0301"

    def __init__(self, name: str, extra: str, module: str = "", distribution: str = "apex-framework") -> None:
        super().__init__(
            f"{name} needs the extra [{extra}]" + (f" (no module {module!r})" if module else ""),
            f"pip install '{distribution}[{extra}]'",
        )
        self.name, self.extra = name, extra


class RunFolderError(EnvironmentProblem):
    """A run folder cannot be made, written or locked."""

    code = "E0302"


class ArtifactError(EnvironmentProblem):
    """A run folder's file is missing, damaged or of another version."""

    code = "E0303"


class PluginError(EnvironmentProblem):
    """A plugin is broken: names who, where and why."""

    code = "E0304"


class NameTakenError(PluginError):
    """Two plugins registered the same name."""

    code = "E0305"

    def __init__(self, kind: str, name: str, first: str, second: str) -> None:
        super().__init__(
            f"{kind} {name!r} is registered by {first} and by {second}",
            f"leave one out: -p no:{second}",
        )
        self.kind, self.name, self.owners = kind, name, (first, second)


class SuiteError(EnvironmentProblem):
    """A suite cannot make its tasks here."""

    code = "E0306"


class JournalError(EnvironmentProblem):
    """A journal is damaged, of another version, in use by another process, or can no longer be written.

    ``in_doubt`` is true when a write failed and could not be undone either: only the next opening will show
    whether records that were not durable are there.
    """

    code = "E0307"

    def __init__(self, cause: str, remedy: str = "", *, in_doubt: bool = False) -> None:
        super().__init__(cause, remedy)
        self.in_doubt = in_doubt


class SandboxError(EnvironmentProblem):
    """No sandbox here is as strong as the code of the tasks demands, or the one that was named cannot be used."""

    code = "E0308"


class ExecutorError(EnvironmentProblem):
    """Where episodes are to be run cannot be reached, has no room, is of other versions, lacks a file that they share, or loses results."""

    code = "E0309"


class BudgetStoreError(EnvironmentProblem):
    """A ceiling that processes share, or a ledger's log, cannot be reached; nothing is spent until it can.

    ``reason`` is the word that a denial carries: ``store_locked``, ``store_damaged``, ``store_unwritable``, ``store_version``.
    """

    code = "E0320"

    def __init__(self, cause: str, remedy: str = "", *, reason: str) -> None:
        super().__init__(cause, remedy)
        self.reason = reason


class ModelError(EnvironmentProblem):
    """A model's files are missing, damaged, of a kind that cannot be used, or too large for this machine."""

    code = "E0330"


class ModelServerError(EnvironmentProblem):
    """A model's server cannot be reached, refuses us, or has no such model; found before anything was run."""

    code = "E0331"


# --- a check did not hold: exit status 5 -------------------------------------------------------


class CheckFailedError(ApexError):
    """What was checked does not hold: a signature, or a server under attack."""

    code = "E0500"
    exit_status = 5


# --- the global budget: exit status 6 ----------------------------------------------------------


class GlobalBudgetSpentError(ApexError):
    """A ceiling that a run shares with others pays for no further call; what was not run can be resumed."""

    code = "E0600"
    exit_status = 6


# --- at work: exit status 4 when an episode fails for infrastructure --------------------------


class RuntimeFault(ApexError):
    """Something broke while agents worked."""

    code = "E0400"
    exit_status = 4


class PayloadError(RuntimeFault):
    """A payload has no JSON form."""

    code = "E0401"


class PayloadTooLargeError(PayloadError):
    """A payload exceeds the size guard."""

    code = "E0402"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"payload of {size:,} bytes exceeds {limit:,}", "send a pointer (anchor) instead")
        self.size, self.limit = size, limit


class CarrierClosedError(RuntimeFault):
    """The other end of a carrier is gone."""

    code = "E0403"


class Failure(StrEnum):
    """Why a model call failed."""

    UNKNOWN = "unknown"
    CONNECT = "connect"
    """The request never got there: refused, no such host, no route, TLS."""
    AUTH = "auth"
    NOT_FOUND = "not_found"
    """No such model or address."""
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    """The server failed while it had the request."""
    UNAVAILABLE = "unavailable"
    """The server says that it did not begin: 503, overloaded."""
    UNLOADED = "unloaded"
    """The model was unloaded before it had answered anything."""
    CIRCUIT_OPEN = "circuit_open"
    """Not asked, because the last calls to this backend failed."""
    CONTEXT_EXCEEDED = "context_exceeded"
    """The prompt does not fit, and the server refused it."""
    CONTEXT_TRUNCATED = "context_truncated"
    """The prompt did not fit, and the server answered a part of it."""
    TRUNCATED = "truncated"
    """The connection ended in the middle of an answer."""
    MALFORMED = "malformed"
    """An answer that cannot be read."""
    INCOMPLETE = "incomplete"
    """A stream ended without its result."""
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    """Too long between two pieces of data; keep-alive comments are none."""
    TOTAL_TIMEOUT = "total_timeout"
    CANCELLED = "cancelled"
    WORKER_DIED = "worker_died"
    """The process that had the request is gone."""
    NOT_RECORDED = "not_recorded"
    """The cassette has no answer to this."""

    @property
    def retryable(self) -> bool:
        """Whether asking again makes sense and cannot be charged twice."""
        return self in _RETRYABLE

    @property
    def free(self) -> bool:
        """Whether nothing can have been charged."""
        return self in _RETRYABLE or self in _REFUSED

    @property
    def infrastructure(self) -> bool:
        """Whether it says nothing about who asked and what: the backend, its server or the way there is at fault."""
        return self not in _ASKED_FOR

    @property
    def remedy(self) -> str:
        """What to do about it, in a line; empty for UNKNOWN."""
        return _REMEDIES.get(self, "")


_RETRYABLE: Final = frozenset({Failure.CONNECT, Failure.RATE_LIMITED, Failure.UNAVAILABLE, Failure.UNLOADED})
_REFUSED: Final = frozenset(
    {Failure.AUTH, Failure.NOT_FOUND, Failure.CONTEXT_EXCEEDED, Failure.CIRCUIT_OPEN, Failure.NOT_RECORDED}
)
_ASKED_FOR: Final = frozenset({Failure.CONTEXT_EXCEEDED, Failure.CONTEXT_TRUNCATED, Failure.CANCELLED})
_REMEDIES: Final = {
    Failure.CONNECT: "start the server, or correct its address",
    Failure.AUTH: "give the server's key",
    Failure.NOT_FOUND: "correct the model's name or the server's address, or load the model there",
    Failure.RATE_LIMITED: "ask with fewer workers, or wait",
    Failure.SERVER: "read the server's log",
    Failure.UNAVAILABLE: "wait, or ask with fewer workers",
    Failure.UNLOADED: "let the server keep the model loaded for longer",
    Failure.CIRCUIT_OPEN: "see why the last calls failed; it is tried again by itself",
    Failure.CONTEXT_EXCEEDED: "give the model a larger context, or the team a smaller budget",
    Failure.CONTEXT_TRUNCATED: "give the model a larger context: it answered what it was not asked",
    Failure.TRUNCATED: "see whether the server, or a proxy before it, closes connections",
    Failure.MALFORMED: "see whether the address is that of this kind of server, and of its version",
    Failure.INCOMPLETE: "see whether a proxy ends streams early",
    Failure.FIRST_TOKEN_TIMEOUT: "allow more time until the first token, or ask with fewer workers",
    Failure.IDLE_TIMEOUT: "see whether the server is stuck, or allow more time between tokens",
    Failure.TOTAL_TIMEOUT: "allow more time for a call, or fewer tokens",
    Failure.CANCELLED: "ask again",
    Failure.NOT_RECORDED: "record it: the cassette is of another model, suite, seed or version",
    Failure.WORKER_DIED: "see its last words in the log; it is started again by itself",
}


class BackendError(RuntimeFault):
    """A model backend failed: ``kind`` says how.

    ``retryable`` is true only when nothing was charged; ``free`` also when asking again would not help. ``retry_after``
    is what the server said, in seconds or as the header's text. ``partial`` is what of an answer had come.
    """

    code = "E0404"

    def __init__(
        self,
        cause: str,
        remedy: str = "",
        *,
        retryable: bool | None = None,
        kind: Failure = Failure.UNKNOWN,
        retry_after: str | float | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(cause, remedy or kind.remedy)
        self.kind = kind
        self.retryable = kind.retryable if retryable is None else retryable
        self.free = self.retryable or kind.free
        self.retry_after = retry_after
        self.partial = partial


class StoreError(RuntimeFault):
    """A blob store refused a key or is full."""

    code = "E0405"


class LedgerError(RuntimeFault):
    """The ledger was used wrongly: an unknown reservation, a negative amount."""

    code = "E0406"


class WorkspaceError(RuntimeFault):
    """A workspace cannot be made, changed or removed."""

    code = "E0407"


class GitError(WorkspaceError):
    """Git refuses or fails; ``refusal`` is a stable code such as ``E_REF``."""

    code = "E0411"

    def __init__(self, refusal: str, cause: str, remedy: str = "") -> None:
        super().__init__(cause, remedy)
        self.refusal = refusal


class DeadlockError(RuntimeFault):
    """On a virtual-time loop everybody waits and no timer is set: nothing can happen any more."""

    code = "E0408"

    def __init__(self, now: float) -> None:
        super().__init__(f"every task waits and no timer is set, at {now:.3f} virtual seconds")
        self.now = now


class SessionError(RuntimeFault):
    """A session cannot begin: its router refuses the team's task."""

    code = "E0409"
