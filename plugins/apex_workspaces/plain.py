"""The ``plain`` sandbox: resource limits, and nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from apex_framework.interfaces.sandbox import Confinement, Level, SandboxStatus

_LACKS = ("network", "file reads", "file writes outside the workspace", "signals to other processes")

_ENTER_AND_EXEC = (
    "import os,sys;sys.path[:0]=sys.argv[1].split(os.pathsep);"
    "from pathlib import Path;from apex_workspaces.plain import PlainSandbox;"
    "from apex_framework.interfaces.sandbox import Confinement;"
    "m,c,p,f=sys.argv[3:7];"
    "PlainSandbox().enter(Confinement(Path(sys.argv[2]),int(m),float(c),int(p),int(f)));"
    "os.execvp(sys.argv[7],sys.argv[7:])"
)


class PlainSandbox:
    """Limits memory, CPU time, processes, file size, open files and core dumps with ``setrlimit``.

    It does not confine files or the network, and says so. Enough for code that its user would run anyway.
    """

    name = "plain"

    def probe(self) -> SandboxStatus:
        """What the limits hold here, found by running into one of them in a child."""
        try:
            import resource  # noqa: F401 - absent on Windows
        except ImportError:
            return SandboxStatus(Level.NONE, ("resource limits", *_LACKS))
        lacks = [] if self._memory_holds() else ["memory"]
        if os.geteuid() == 0:
            lacks.append("processes (the superuser is exempt)")
        return SandboxStatus(Level.RLIMITS, (*lacks, *_LACKS))

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """The command behind a small launcher which enters the limits and then replaces itself."""
        numbers = (limits.memory, limits.cpu_s, limits.processes, limits.file_size)
        path = os.pathsep.join(p for p in sys.path if p)
        return [
            *(sys.executable, "-I", "-S", "-B", "-c", _ENTER_AND_EXEC, path),
            *(str(limits.root), *map(str, numbers), *argv),
        ]

    def enter(self, limits: Confinement) -> None:
        """Limit the calling process and what it starts; can only be tightened afterwards. Raises OSError."""
        import resource

        cpu = max(1, round(limits.cpu_s))
        wanted = {
            resource.RLIMIT_CORE: (0, 0),
            resource.RLIMIT_CPU: (cpu, cpu + 1),
            resource.RLIMIT_FSIZE: (limits.file_size, limits.file_size),
            resource.RLIMIT_NOFILE: (256, 256),
            resource.RLIMIT_AS: (limits.memory, limits.memory),
        }
        if hasattr(resource, "RLIMIT_NPROC"):
            # The kernel counts every process of the user, so those that exist already come on top.
            processes = limits.processes + _tasks_on_machine()
            wanted[resource.RLIMIT_NPROC] = (processes, processes)
        for kind, (soft, hard) in wanted.items():
            _, present = resource.getrlimit(kind)
            if present != resource.RLIM_INFINITY:
                soft, hard = min(soft, present), min(hard, present)
            try:
                resource.setrlimit(kind, (soft, hard))
            except ValueError as error:
                # macOS refuses limits on address space: nothing to hold there, and probe says so.
                if sys.platform != "darwin":
                    raise OSError(f"limit {kind} cannot be set to {soft}: {error}") from error

    def _memory_holds(self) -> bool:
        import subprocess
        from pathlib import Path

        limits = Confinement(Path("/"), memory=256 * 1024**2)
        code = "import mmap; mmap.mmap(-1, 1 << 30)"
        argv = self.wrap([sys.executable, "-I", "-S", "-c", code], limits)
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
            return done.returncode not in (0, -signal.SIGSYS)
        return False


def _tasks_on_machine() -> int:
    """An upper bound of the processes and threads that the user has now; 4,096 where it is not known."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, IndexError, ValueError):
        return 4096
