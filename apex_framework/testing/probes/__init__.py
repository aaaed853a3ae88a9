"""Tries a sandbox: attempts to get out, with canaries outside that tell whether one did."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...interfaces.sandbox import Confinement, Sandbox

SCRIPT: Final = Path(__file__).with_name("inside.py")
SECONDS: Final = 120.0
"""The attempts together may take so long."""
GREEDY: Final = ("many_processes", "much_memory_together", "much_work_together")
"""Attempts to take more than is permitted by several processes; each is made in a sandbox of its own."""
WHOLE_TREE: Final = frozenset(("live_on", *GREEDY))
"""Attempts that only something outside the confined process can stop."""
HOLDING: Final = ("read_canary", "write_outside", "tcp_to_host", "signal_to_outside")
"""Quick attempts that a sandbox stops which says that it holds files, network and processes."""
LIMITING: Final = ("much_memory", "endless_work")
"""Quick attempts that a sandbox stops which says that it limits amounts."""
_QUICK_S: Final = 20.0
_ENTER: Final = (
    "import sys,pickle,base64,os;sys.path[:0]=sys.argv[1].split(os.pathsep);"
    "sandbox,within=(pickle.loads(base64.b64decode(t)) for t in sys.argv[2:4]);"
    "sandbox.enter(within);sys.argv=sys.argv[4:];import runpy;runpy.run_path(sys.argv[0],run_name='__main__')"
)
_LIVED: Final = 0.3
"""Seconds between the two looks at the mark of a process that may have outlived its sandbox."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt: its name, whether it got out, and what was seen."""

    name: str
    out: bool
    seen: str


def run_probes(sandbox: Sandbox, limits: Confinement | None = None, *, entered: bool = False) -> tuple[Attempt, ...]:
    """Make every attempt inside ``sandbox.wrap``. Blocking, seconds. Nothing when it refuses to confine.

    With ``entered`` inside a process that called ``sandbox.enter``; then those of WHOLE_TREE are left out, for they are
    the affair of who started that process. ``limits`` besides the folder; by default those of a ``Confinement``. Raises
    OSError and subprocess.SubprocessError.
    """
    with contextlib.ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="apex-probes-", dir="/var/tmp" if os.path.isdir("/var/tmp") else None))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        root, outside = place / "root", place / "outside"
        for folder in (root, outside):
            folder.mkdir()
        given = limits or Confinement(root)
        within = replace(given, root=root, readable=(*given.readable, SCRIPT.parent))
        canaries = stack.enter_context(_canaries(outside))
        greedy = [] if entered else [_start(sandbox, _small(within, place / name), canaries, name) for name in GREEDY]
        child = _start(sandbox, within, canaries, "", entered=entered)
        output = _output_of(child)
        together = [_outcome(process, name) for process, name in zip(greedy, GREEDY, strict=False)]
        lived = _lives_on(root / "alive")
        _end_what_lives(place)
        if child.returncode != 0:
            return ()
        seen = {name: Attempt(name, out, why) for name, (out, why) in json.loads(output).items()}
        if seen["write_to_shared_tmp"].out and not _took_away(str(canaries["mark"])):
            seen["write_to_shared_tmp"] = Attempt("write_to_shared_tmp", False, "written to a folder of its own")
        if entered:
            return tuple(a for a in seen.values() if a.name not in WHOLE_TREE)
        if lived:
            seen["live_on"] = Attempt("live_on", True, "still running")
        return (*seen.values(), *together)


def run_some(sandbox: Sandbox, names: Sequence[str]) -> tuple[Attempt, ...]:
    """Make these attempts only, in a wrapped process and at the same time in one that was entered: a fraction of a second.

    One that got out either way is told as out. Nothing when no wrapped process runs; one that cannot be entered counts for
    nothing. Blocking. Raises OSError and subprocess.SubprocessError.
    """
    with contextlib.ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="apex-probes-", dir="/var/tmp" if os.path.isdir("/var/tmp") else None))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        stack.callback(_end_what_lives, place)
        outside = place / "outside"
        children: list[subprocess.Popen[bytes]] = []
        outside.mkdir()
        canaries = stack.enter_context(_canaries(outside))
        for entered in (False, True):
            root = place / f"root{len(children)}"
            root.mkdir()
            within = Confinement(root, readable=(SCRIPT.parent,))
            children.append(_start(sandbox, within, {**canaries, "some": list(names)}, "", entered=entered))
            stack.callback(_end, children[-1])
        outputs = [_output_of(child, _QUICK_S) for child in children]
    if children[0].returncode != 0:
        return ()
    wrapped, entered_ = (json.loads(o) if c.returncode == 0 else {} for c, o in zip(children, outputs, strict=True))
    return tuple(
        Attempt(name, *max((facts[name] for facts in (wrapped, entered_) if name in facts), key=lambda fact: fact[0]))
        for name in names
    )


def how_many() -> int:
    """Attempts that ``run_probes`` makes in a wrapped process."""
    from .inside import PROBES

    return len(PROBES) + len(GREEDY)


def _small(within: Confinement, root: Path) -> Confinement:
    root.mkdir()
    return replace(within, root=root, memory=256 << 20, cpu_s=2.0, processes=24)


def _start(
    sandbox: Sandbox, within: Confinement, canaries: Mapping[str, object], only: str, *, entered: bool = False
) -> subprocess.Popen[bytes]:
    amounts = {name: getattr(within, name) for name in ("memory", "file_size", "open_files", "processes", "cpu_s")}
    where = json.dumps({**canaries, **amounts, "only": only})
    python = [sys.executable, "-I", "-S", "-B"]
    if entered:
        sent = [base64.b64encode(pickle.dumps(thing)).decode() for thing in (sandbox, within)]
        argv = [*python[:2], "-B", "-c", _ENTER, os.pathsep.join(p for p in sys.path if p), *sent, str(SCRIPT), where]
    else:
        argv = sandbox.wrap([*python, str(SCRIPT), where], within)
    return subprocess.Popen(
        argv,
        cwd=within.root,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _output_of(child: subprocess.Popen[bytes], seconds: float = SECONDS) -> bytes:
    try:
        output, _ = child.communicate(timeout=seconds)
    finally:
        _end(child)
    return output


def _end(child: subprocess.Popen[bytes]) -> None:
    """With all of its group, whether or not it ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _outcome(process: subprocess.Popen[bytes], name: str) -> Attempt:
    """Of an attempt that takes too much with several processes: it got out when it ended by itself."""
    try:
        output = _output_of(process, 60.0).decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        return Attempt(name, True, "did not end")
    return Attempt(name, "took it" in output, output or f"ended with {process.returncode}")


@contextlib.contextmanager
def _canaries(outside: Path) -> Iterator[Mapping[str, object]]:
    """What must not be read, written, reached or disturbed."""
    secret, name = secrets.token_hex(16), f"apex-probe-{secrets.token_hex(8)}"
    (outside / "canary").write_text(f"canary {secret}", encoding="ascii")
    (outside / "victim").write_text("still here", encoding="ascii")
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix, abstract = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        unix.bind(str(outside / "socket"))
        abstract.bind(f"\0{name}" if sys.platform == "linux" else str(outside / "second"))
        for server in (tcp, unix, abstract):
            server.listen()
            threading.Thread(target=_greet, args=(server,), daemon=True).start()
        threading.Thread(target=_echo, args=(udp,), daemon=True).start()
        shared = _shared_memory(secret.encode())
        stack.callback(_remove, shared)
        victim = subprocess.Popen(["sleep", str(2 * SECONDS)], env={"SECRET": secret}, start_new_session=True)
        try:
            yield {
                "canary": str(outside / "canary"),
                "outside": str(outside),
                "victim_file": str(outside / "victim"),
                "mark": os.path.join(tempfile.gettempdir(), name),
                "secret": secret,
                "tcp": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
                "unix": str(outside / "socket"),
                "abstract": name,
                "victim": victim.pid,
                "shared_memory": shared,
            }
        finally:
            victim.kill()
            victim.wait()


def _shared_memory(data: bytes) -> int:
    """The number of a System V segment that holds ``data``; -1 where there is none."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    segment = int(libc.shmget(0, 4096, 0o600))
    if segment >= 0 and (address := libc.shmat(segment, None, 0)) not in (None, ctypes.c_void_p(-1).value):
        ctypes.memmove(address, data, len(data))
        libc.shmdt(ctypes.c_void_p(address))
    return segment


def _remove(segment: int) -> None:
    if segment >= 0:
        ctypes.CDLL(None).shmctl(segment, 0, None)


def _greet(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            with client:
                client.send(b"hello")


def _echo(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            _, sender = server.recvfrom(16)
            server.sendto(b"hello", sender)


def _took_away(mark: str) -> bool:
    """Whether the mark was there."""
    try:
        os.unlink(mark)
    except OSError:
        return False
    return True


def _lives_on(mark: Path) -> bool:
    """Whether something still writes there."""
    with contextlib.suppress(FileNotFoundError):
        before = mark.read_bytes()
        time.sleep(_LIVED)
        return mark.read_bytes() != before
    return False


def _end_what_lives(place: Path) -> None:
    """Kill what outlived its sandbox: its working directory is below ours."""
    if not os.path.isdir("/proc/self"):
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/cwd").startswith(f"{place}/"):
                    os.kill(int(name), signal.SIGKILL)
