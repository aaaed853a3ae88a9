"""What a launcher is told: paths, means and amounts, made from a confinement."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from apex_framework.interfaces.sandbox import Confinement

HERE: Final = str(Path(__file__).resolve().parent)
"""Holds ``inside``, which launchers import by path."""
_START: Final = "import sys;sys.path.insert(0,sys.argv.pop(1));from inside.launch import main;main()"
_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
# fmt: off
_FACTS: Final = (
    "/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd",
    "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/protocols", "/etc/services", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/timezone", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems",
    "/sys/devices/system/cpu", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.shares",
)
# fmt: on
_NAMES: Final = ("/etc/resolv.conf",)
"""Besides, with a network."""
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY: Final = "/dev/shm"
_SHARED_BYTES: Final = 64 * 1024**2
_OF_A_PREFIX: Final = (
    "bin",
    "include",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "share",
    "pyvenv.cfg",
    "Python",
    "Resources",
)


def make_plan(limits: Confinement, *, namespaces: bool, own_network: bool = True) -> dict[str, Any]:
    """A plan of all means, not yet supervised. ``namespaces`` False leaves them out, and then all sockets."""
    private = [SHARED_MEMORY] if namespaces else []
    return {
        "readable": readable(limits),
        "writable": writable(limits),
        "devices": list(_DEVICES),
        "private": private,
        "shared_memory": min(_SHARED_BYTES, limits.memory),
        "network": limits.network,
        "namespaces": namespaces,
        "own_network": own_network,
        "landlock": True,
        "seccomp": True,
        "supervised": False,
        "restricted": True,
        "limits": {
            "memory": limits.memory,
            "cpu_s": max(1, round(limits.cpu_s)),
            "processes": limits.processes,
            "file_size": limits.file_size,
            "open_files": limits.open_files,
        },
    }


def readable(limits: Confinement) -> list[str]:
    """This interpreter, system programs and libraries, a few facts in ``/etc`` and ``/proc``, and what was asked for."""
    prefixes = sorted({sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix})
    own = [os.path.join(prefix, part) for prefix in prefixes for part in _OF_A_PREFIX]
    names = _NAMES if limits.network else ()
    known = [*_PROGRAMS, *_FACTS, *names, *own, os.path.realpath(sys.executable)]
    return [*filter(os.path.exists, known), *map(str, limits.readable)]


def writable(limits: Confinement) -> list[str]:
    """The root first."""
    return [str(limits.root), *map(str, limits.writable)]


def launcher(plan: Mapping[str, Any]) -> list[str]:
    """The command in front of a program that confines it by the plan."""
    return [sys.executable, "-I", "-S", "-B", "-c", _START, HERE, json.dumps(plan)]
