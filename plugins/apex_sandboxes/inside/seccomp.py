"""Which system calls a process, and all that it starts, may make: everything but a list (man 2 seccomp).

Files are Landlock's business and resources those of limits; here is what neither can hold: other processes' memory and
limits, namespaces, mounts, keys, modules, clocks, sockets, and input put into the terminal.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterator

from . import kernel

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Columns: x86_64, aarch64; None where there is no such call. Newer calls have one number everywhere.
# fmt: off
_DENIED = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "delete_module": (176, 106), "execveat": (322, 281),
    "fanotify_init": (300, 262), "finit_module": (313, 273), "init_module": (175, 105), "ioperm": (173, None),
    "iopl": (172, None), "kcmp": (312, 272), "process_mrelease": (448, 448), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "lookup_dcookie": (212, 18), "memfd_create": (319, 279), "migrate_pages": (256, 238),
    "modify_ldt": (154, None), "mount": (165, 40), "move_pages": (279, 239), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "perf_event_open": (298, 241), "personality": (135, 92), "pivot_root": (155, 41),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "reboot": (169, 142), "request_key": (249, 218), "sethostname": (170, 161), "setdomainname": (171, 162),
    "setns": (308, 268), "settimeofday": (164, 170), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "uselib": (134, None), "vhangup": (153, 58),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "memfd_secret": (447, 447), "mount_setattr": (442, 442), "move_mount": (429, 429), "open_tree": (428, 428),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "quotactl_fd": (443, 443),
}
_ATTRIBUTES: dict[str, tuple[int, int | None]] = {
    "chmod": (90, None), "chown": (92, None), "lchown": (94, None), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "msgget": (68, 186), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191), "msgctl": (71, 187), "msgsnd": (69, 189), "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181),
}
"""What Landlock does not know: modes, owners, times, attributes, and objects that have a number instead of a path."""
_OWN_ONLY = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
"""Calls whose first argument is a process: only for the caller, 0."""
_PRIORITY, _IO_PRIORITY = (141, 140), (251, 30)
_ABSENT = {"clone3": (435, 435), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)}
# fmt: on
"""Answered as if the kernel did not know them, so that libraries take the older way."""
_CLONE, _SOCKET, _IOCTL = (56, 220), (41, 198), (16, 29)
_NAMESPACES = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)
_INET = (2, 10)
_SOCK_PLAIN, _SOCK_KIND = (1, 2), 0xF

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24

Instruction = tuple[int, int, int, int]


def restrict(*, sockets: bool, attributes: bool) -> None:
    """Install the filter; with ``sockets``, internet sockets of streams and datagrams are allowed. Raises OSError.

    ``attributes`` False for a process that shares its mounts and its IPC with others: it changes no mode, owner or time.
    """
    code = program(kernel.machine(), sockets=sockets, attributes=attributes)
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
    filters = ctypes.create_string_buffer(packed, len(packed))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    wanted = Program(len(code), ctypes.cast(filters, ctypes.c_void_p).value)
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(wanted))


def program(machine: str, *, sockets: bool, attributes: bool) -> list[Instruction]:
    """The filter's instructions: (code, jump if true, jump if false, constant)."""
    column = list(_ARCH).index(machine)
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":  # the x32 calls have other numbers for the same things
        code += [(_JUMP_GREATER_EQUAL, 0, 1, 0x40000000), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    denied = _DENIED if attributes else {**_DENIED, **_ATTRIBUTES}
    for table, reason in ((denied, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for row in table.values():
            number = row[column]
            if number is not None:
                code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | reason)]
    special = [(_CLONE, _clone()), (_IOCTL, _ioctl()), (_SOCKET, _socket(sockets))]
    special += [(numbers, _own((_FIRST, 0))) for numbers in _OWN_ONLY.values()]
    special += [(_PRIORITY, _own((_FIRST, 0), (_SECOND, 0))), (_IO_PRIORITY, _own((_FIRST, 1), (_SECOND, 0)))]
    for numbers, rest in special:
        body = list(rest)
        code += [(_JUMP_EQUAL, 0, len(body), numbers[column]), *body]
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _clone() -> Iterator[Instruction]:
    yield (_LOAD, 0, 0, _FIRST)
    yield (_JUMP_SET, 0, 1, _NAMESPACES)
    yield (_RETURN, 0, 0, _ERROR | errno.EPERM)
    yield (_RETURN, 0, 0, _ALLOW)


def _ioctl() -> Iterator[Instruction]:
    yield (_LOAD, 0, 0, _SECOND)
    for request in _TERMINAL_INPUT:
        yield (_JUMP_EQUAL, 0, 1, request)
        yield (_RETURN, 0, 0, _ERROR | errno.EPERM)
    yield (_RETURN, 0, 0, _ALLOW)


def _own(*arguments: tuple[int, int]) -> Iterator[Instruction]:
    for place, wanted in arguments:
        yield (_LOAD, 0, 0, place)
        yield (_JUMP_EQUAL, 1, 0, wanted)
        yield (_RETURN, 0, 0, _ERROR | errno.EPERM)
    yield (_RETURN, 0, 0, _ALLOW)


def _socket(allowed: bool) -> Iterator[Instruction]:
    """Sockets with a path lead out of a network namespace, so there is none of them; pairs are another call."""
    if allowed:
        yield (_LOAD, 0, 0, _SECOND)
        yield (_AND, 0, 0, _SOCK_KIND)
        yield (_JUMP_EQUAL, 2, 0, _SOCK_PLAIN[0])
        yield (_JUMP_EQUAL, 1, 0, _SOCK_PLAIN[1])
        yield (_RETURN, 0, 0, _ERROR | errno.EPERM)
        yield (_LOAD, 0, 0, _FIRST)
        for family in _INET:
            yield (_JUMP_EQUAL, 0, 1, family)
            yield (_RETURN, 0, 0, _ALLOW)
    yield (_RETURN, 0, 0, _ERROR | errno.EPERM)
