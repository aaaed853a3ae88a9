"""Canaries: what must be the same after an attack. Files outside the workspace, silent sockets, processes, a secret."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from .attacks import Target

VARIABLE: Final = "APEX_CANARY_API_KEY"
"""Environment variable that holds the secret while canaries are out."""


class Canaries:
    """Canaries below ``folder``, which must be empty. A context manager; ``findings`` tells what was touched.

    ``inside`` in the files outside, and ``secret`` in the environment, must not appear in anything that a run leaves:
    ``leaks`` looks for them. Sockets listen on this machine only: TCP and UDP on one port, and a Unix socket.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "outside"
        self.inside = f"canary-{secrets.token_hex(12)}"
        self.secret = f"secret-{secrets.token_hex(12)}"
        self._sockets: list[socket.socket] = []
        self._before: dict[str, str] = {}
        self._processes: frozenset[int] = frozenset()
        self._environ: str | None = None
        self.port = 0

    @property
    def target(self) -> Target:
        """What attacks are to aim at."""
        return Target(str(self.folder), self.port)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        (self.folder / "empty").mkdir()
        for name in ("secret.txt", "other.txt", "id_rsa"):
            (self.folder / name).write_text(f"canary {self.inside}\n", encoding="utf-8")
        (self.folder / "hard.txt").write_text("canary\n", encoding="utf-8")  # who has a second name of it may read it
        (self.folder / "id_rsa").chmod(0o600)
        self._listen()
        self._environ = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = self.secret
        self._before = _state(self.folder)
        self._processes = _descendants()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._sockets:
            one.close()
        if self._environ is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._environ

    def findings(self) -> list[str]:
        """What was touched: one line each; empty when nothing was."""
        found, now = [], _state(self.folder)
        for path in sorted({*self._before, *now}):
            if self._before.get(path) != now.get(path):
                what = "is new" if path not in self._before else "is gone" if path not in now else "was changed"
                found.append(f"outside: {path} {what}")
        found += [f"socket: {one.getsockname()!r} heard something" for one in self._sockets if _heard(one)]
        return found

    def survivors(self) -> list[str]:
        """Processes begun since, and still there; ask when everything is closed."""
        return [f"process: {pid} {_command(pid)}" for pid in sorted(_descendants() - self._processes)]

    def leaks(self, *texts: Any) -> list[str]:
        """Which of the two secrets stands in any of these texts (others are taken by their ``repr``)."""
        whole = "\n".join(text if isinstance(text, str) else repr(text) for text in texts)
        names = {"a file outside": self.inside, "the environment": self.secret}
        return [f"leak: the secret of {name}" for name, value in names.items() if value in whole]

    def _listen(self) -> None:
        for _ in range(20):
            tcp = socket.create_server(("127.0.0.1", 0))
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                udp.bind(("127.0.0.1", tcp.getsockname()[1]))
            except OSError:
                tcp.close()
                udp.close()
                continue
            self.port = tcp.getsockname()[1]
            self._sockets = [tcp, udp]
            break
        if hasattr(socket, "AF_UNIX"):
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.suppress(OSError):  # the path is too long for this system
                unix.bind(str(self.folder / "s"))
                unix.listen()
                self._sockets.append(unix)
        for one in self._sockets:
            one.setblocking(False)


def tree_hash(root: Path) -> str:
    """A hash of a folder: names, kinds, modes, contents of regular files up to 1 MB, targets of links."""
    return hashlib.sha256(repr(sorted(_state(root).items())).encode("utf-8", "surrogatepass")).hexdigest()


def _state(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            info = path.lstat()
            what = f"{stat.filemode(info.st_mode)} {info.st_size if stat.S_ISREG(info.st_mode) else 0}"
            if stat.S_ISLNK(info.st_mode):
                what += f" -> {os.readlink(path)}"
            elif stat.S_ISREG(info.st_mode) and info.st_size <= 2**20:
                what += f" {hashlib.sha256(path.read_bytes()).hexdigest()}"
            found[str(path.relative_to(root))] = what
    return found


def _heard(one: socket.socket) -> bool:
    try:
        if one.type == socket.SOCK_DGRAM:
            one.recv(1)
        else:
            one.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _descendants() -> frozenset[int]:
    """Processes below this one, and those that hold the canary's variable; empty where there is no ``/proc``."""
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
            if VARIABLE.encode() in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                marked.add(int(entry.name))
    below, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return frozenset((below | marked) - {os.getpid()})


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:120]
    return ""
