"""Resource limits of a process; what it starts inherits them, each process its own."""

from __future__ import annotations

import resource
from collections.abc import Mapping


def apply(limits: Mapping[str, int]) -> None:
    """``memory`` (bytes of address space), ``cpu_s``, ``processes``, ``file_size``, ``open_files``; never raised. Raises OSError."""
    cpu = max(1, int(limits["cpu_s"]))
    wanted = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_FSIZE: (limits["file_size"],) * 2,
        resource.RLIMIT_NOFILE: (limits["open_files"],) * 2,
        resource.RLIMIT_AS: (limits["memory"],) * 2,
        # The kernel counts every process of the user, so those that exist already come on top.
        resource.RLIMIT_NPROC: (limits["processes"] + _present(),) * 2,
    }
    for kind, (soft, hard) in wanted.items():
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def _present() -> int:
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, IndexError, ValueError):
        return 4096
