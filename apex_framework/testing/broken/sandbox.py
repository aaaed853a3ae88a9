"""One broken sandbox per check of the kit: each fails exactly that one."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence

from ...interfaces import Confinement, Level, Sandbox, SandboxStatus

_LAUNCH = (
    "import os,resource as r,sys\n"
    "for kind, n in zip((r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE), sys.argv[1:4]): r.setrlimit(kind, (int(n), int(n)))\n"
    "os.execvp(sys.argv[4], sys.argv[4:])"
)


class Sound:
    """A sandbox with nothing wrong: three resource limits."""

    name = "sound"

    def probe(self) -> SandboxStatus:
        """Limits only."""
        return SandboxStatus(Level.RLIMITS, ("network",))

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """Behind a launcher."""
        numbers = map(str, self.numbers(limits))
        return [sys.executable, "-I", "-S", "-B", "-c", _LAUNCH, *numbers, *argv]

    def enter(self, limits: Confinement) -> None:
        """The same limits here."""
        import resource as r

        for kind, number in zip((r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE), self.numbers(limits), strict=True):
            r.setrlimit(kind, (number, number))

    def numbers(self, limits: Confinement) -> tuple[int, int, int]:
        """Memory, CPU time, file size."""
        return limits.memory, round(limits.cpu_s), limits.file_size


class Nameless(Sound):
    """Has no name."""

    name = ""


class Moody(Sound):
    """Says something else every time."""

    def __init__(self) -> None:
        self._looks = 0

    def probe(self) -> SandboxStatus:
        """Once this, once that."""
        self._looks += 1
        return SandboxStatus(Level.RLIMITS, ("network", f"reason {self._looks}"))


class Boasts(Sound):
    """Says that it lacks nothing."""

    def probe(self) -> SandboxStatus:
        """Not true."""
        return SandboxStatus(Level.RLIMITS)


class SplitsWords(Sound):
    """Splits arguments at blanks."""

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """As a shell would, for what comes after the program's text."""
        at = argv.index("-c") + 2 if "-c" in argv else len(argv)
        return super().wrap([*argv[:at], *itertools.chain(*(a.split() for a in argv[at:]))], limits)


class LosesTheStatus(Sound):
    """Every failure becomes status 1."""

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """Behind a shell that forgets."""
        return super().wrap(["/bin/sh", "-c", '"$@" || exit 1', "sh", *argv], limits)


class UnlimitedMemory(Sound):
    """Forgets memory when it wraps."""

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """Without the first limit."""
        wrapped = super().wrap(argv, limits)
        return [*wrapped[:6], "-1", *wrapped[7:]]


class UnlimitedCpu(Sound):
    """Forgets CPU time."""

    def numbers(self, limits: Confinement) -> tuple[int, int, int]:
        """Without the second limit."""
        return limits.memory, -1, limits.file_size


class UnlimitedFiles(Sound):
    """Forgets file sizes."""

    def numbers(self, limits: Confinement) -> tuple[int, int, int]:
        """Without the third limit."""
        return limits.memory, round(limits.cpu_s), -1


class EntersNothing(Sound):
    """Confines only what it wraps."""

    def enter(self, limits: Confinement) -> None:
        """Nothing."""


class TiedHere(Sound):
    """Loses what it is when it is sent away."""

    def __init__(self) -> None:
        self._here: object = threading.get_ident()

    def probe(self) -> SandboxStatus:
        """Something else where it was not made."""
        return SandboxStatus(Level.RLIMITS if self._here else Level.NONE, ("network",))

    def __getstate__(self) -> dict[str, object]:
        return {"_here": None}


BROKEN: dict[str, Callable[[], Sandbox]] = {
    "has_a_name": Nameless,
    "probe_is_stable": Moody,
    "gaps_are_named": Boasts,
    "wrap_keeps_the_command": SplitsWords,
    "wrap_keeps_the_exit_status": LosesTheStatus,
    "memory_is_limited": UnlimitedMemory,
    "cpu_is_limited": UnlimitedCpu,
    "file_size_is_limited": UnlimitedFiles,
    "enter_confines": EntersNothing,
    "can_be_sent_to_a_helper": TiedHere,
}
"""Check -> factory of a sandbox that fails it and no other."""
