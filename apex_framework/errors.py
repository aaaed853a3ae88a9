"""One tree of errors. Each class writes its own message: a cause, a remedy, a code, an exit status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


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
    """A journal is damaged, of another version, in use by another process, or can no longer be written."""

    code = "E0307"


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


class BackendError(RuntimeFault):
    """A model backend failed. ``retryable`` is true only when nothing was charged."""

    code = "E0404"

    def __init__(self, cause: str, remedy: str = "", *, retryable: bool = False) -> None:
        super().__init__(cause, remedy)
        self.retryable = retryable


class StoreError(RuntimeFault):
    """A blob store refused a key or is full."""

    code = "E0405"


class LedgerError(RuntimeFault):
    """The ledger was used wrongly: an unknown reservation, a negative amount."""

    code = "E0406"


class WorkspaceError(RuntimeFault):
    """A workspace cannot be made, changed or removed."""

    code = "E0407"


class DeadlockError(RuntimeFault):
    """On a virtual-time loop everybody waits and no timer is set: nothing can happen any more."""

    code = "E0408"

    def __init__(self, now: float) -> None:
        super().__init__(f"every task waits and no timer is set, at {now:.3f} virtual seconds")
        self.now = now
