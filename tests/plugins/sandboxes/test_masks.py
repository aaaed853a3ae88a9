"""Twelve machines on which something is missing: what is reported holds, and what does not hold is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from apex_framework.interfaces import Level
from apex_sandboxes.inside import kernel, landlock

MASKS = [
    *product((False, True), (False, True), (False, True), (True,)),
    *product((False, True), (False, True), (False,), (False,)),
]
"""Landlock, namespaces, filter of system calls, bubblewrap: which of them are there."""

# Hides what the mask says behind a filter of system calls of its own, then asks for a strong sandbox and tries it.
MACHINE = """
import ctypes, errno, json, os, socket, struct, subprocess, sys
sys.path[:0] = json.loads(sys.argv[2])
has = dict(zip(("landlock", "namespaces", "seccomp", "bwrap"), json.loads(sys.argv[1])))
from apex_sandboxes.inside import kernel, landlock, seccomp
x86 = kernel.machine() == "x86_64"
code = [(0x20, 0, 0, 0)]
refuse = lambda number: (0x06, 0, 0, 0x50000 | number)
if not has["landlock"]:
    for number in (444, 445, 446):
        code += [(0x15, 0, 1, number), refuse(errno.EOPNOTSUPP)]
if not has["namespaces"]:
    code += [(0x15, 0, 1, 272 if x86 else 97), refuse(errno.EPERM), (0x15, 0, 1, 435), refuse(errno.ENOSYS)]
    code += [(0x15, 0, 4, 56 if x86 else 220), (0x20, 0, 0, 16), (0x45, 0, 1, 0x7E020000), refuse(errno.EPERM)]
    code += [(0x06, 0, 0, 0x7FFF0000)]
if not has["seccomp"]:
    code += [(0x15, 0, 1, 317 if x86 else 277), refuse(errno.ENOSYS)]
    code += [(0x15, 0, 4, 157 if x86 else 167), (0x20, 0, 0, 16), (0x15, 0, 1, 22), refuse(errno.EINVAL)]
    code += [(0x06, 0, 0, 0x7FFF0000)]
code.append((0x06, 0, 0, 0x7FFF0000))
packed = b"".join(struct.pack("=HBBI", *line) for line in code)
kept = ctypes.create_string_buffer(packed, len(packed))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(code), ctypes.cast(kept, ctypes.c_void_p).value)
kernel.no_new_privileges()
kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(program))
from apex_sandboxes import bubblewrap
if not has["bwrap"]:
    bubblewrap._USUAL = "/nonexistent"
    os.environ["PATH"] = "/nonexistent"
from pathlib import Path
from apex_framework.episode.confining import Demand, choose
from apex_framework.errors import SandboxError
from apex_framework.interfaces import Confinement, Level
from apex_framework.plugins import load_plugins
catalog = load_plugins().catalog
try:
    chosen = choose(catalog, "auto", Demand(Level.LANDLOCK, "a test"))
except SandboxError as error:
    print(json.dumps({"refused": error.cause}))
    raise SystemExit
root = Path(sys.argv[3]) / "root"
root.mkdir()
(root.parent / "canary").write_text("canary")
server = socket.create_server(("127.0.0.1", 0))
spy = "import socket,sys\\n"
spy += "try: print(open(sys.argv[1]).read())\\nexcept OSError: print('held')\\n"
spy += "try: print(socket.create_connection(('127.0.0.1', int(sys.argv[2])), 2) and 'connected')\\nexcept OSError: print('held')"
argv = [sys.executable, "-I", "-S", "-c", spy, str(root.parent / "canary"), str(server.getsockname()[1])]
sandbox = catalog.make("sandbox", chosen.name)
wrapped = subprocess.run(sandbox.wrap(argv, Confinement(root)), cwd=root, capture_output=True, text=True).stdout.split()
child = os.fork()
if child == 0:
    sandbox.enter(Confinement(root))
    with open(root / "entered", "w") as file:
        os.dup2(file.fileno(), 1)
    os.execv(argv[0], argv)
os.waitpid(child, 0)
entered = (root / "entered").read_text().split()
print(json.dumps({"name": chosen.name, "level": chosen.status.level, "seen": wrapped + entered}))
"""


def ask(mask: tuple[bool, ...], folder: Path) -> dict[str, Any]:
    folder.mkdir()
    argv = [sys.executable, "-I", "-B", "-c", MACHINE, json.dumps(mask), json.dumps(sys.path), str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_nothing_falls_back_in_silence(tmp_path: Path) -> None:
    try:
        kernel.machine()
    except OSError as error:
        pytest.skip(str(error))
    if not landlock.version():
        pytest.skip("this kernel has no Landlock to hide")
    assert len(MASKS) == 12
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path / str(number) for number in range(len(MASKS))]
        answers = list(pool.map(ask, MASKS, folders))
    for mask, told in zip(MASKS, answers, strict=True):
        has_landlock, has_namespaces, has_seccomp, _ = mask
        if "refused" in told:
            assert not (has_landlock and has_seccomp), (mask, told)
        else:
            assert has_seccomp and told["level"] >= Level.LANDLOCK, (mask, told)
            assert told["seen"] == ["held"] * 4, (mask, told)
            if not has_namespaces:
                assert told["name"] != "landlock" or told["level"] == Level.LANDLOCK, (mask, told)
