"""Attempts to get out, made inside a sandbox; run as a script by ``python -I -S``, with the standard library only.

Its first argument is a JSON object that says where the canaries are; it prints one JSON object: name -> whether the attempt
got out, with the reason. Every attempt is harmless where it succeeds: it reads canaries, writes marks beside them, and
sets clock and name to what they are.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_COLUMN = 0 if platform.machine() in ("x86_64", "AMD64") else 1
# fmt: off
_CALLS = {
    "add_key": (248, 217), "bpf": (321, 280), "clock_settime": (227, 112), "finit_module": (313, 273),
    "io_uring_setup": (425, 425), "kexec_load": (246, 104), "memfd_create": (319, 279), "mount": (165, 40),
    "open_by_handle_at": (304, 265), "perf_event_open": (298, 241), "process_vm_readv": (310, 270), "ptrace": (101, 117),
    "sethostname": (170, 161), "setns": (308, 268), "unshare": (272, 97), "userfaultfd": (323, 282),
}
# fmt: on
_STOPPED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
where: dict[str, Any] = {}
PROBES: dict[str, Callable[[], object]] = {}
INHERITED: list[int] = []
"""Descriptors that were open at the start, besides the three that a program has."""


def probe(function: Callable[[], object]) -> Callable[[], object]:
    """Register an attempt: an exception says that it was stopped, an answer that is true that it got out."""
    PROBES[function.__name__] = function
    return function


def reached(name: str, *arguments: Any) -> str:
    """What a system call answered, unless it was refused. Raises PermissionError."""
    ctypes.set_errno(0)
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = _libc.syscall(ctypes.c_long(_CALLS[name][_COLUMN]), *given)
    number = ctypes.get_errno()
    if result < 0 and number in _STOPPED:
        raise PermissionError(number, os.strerror(number))
    return f"{name} answered {result} ({os.strerror(number)})"


# --- files --------------------------------------------------------------------------------------


@probe
def read_canary() -> object:
    with open(where["canary"]) as file:
        return file.read()


@probe
def list_folder_outside() -> object:
    return os.listdir(where["outside"])


@probe
def write_outside() -> object:
    with open(os.path.join(where["outside"], "written"), "w") as file:
        return file.write("x")


@probe
def append_to_canary() -> object:
    with open(where["canary"], "a") as file:
        return file.write("x")


@probe
def delete_outside() -> object:
    os.unlink(where["victim_file"])
    return True


@probe
def move_out() -> object:
    with open("inside.txt", "w") as file:
        file.write("x")
    os.rename("inside.txt", os.path.join(where["outside"], "moved"))
    return True


@probe
def read_through_symlink() -> object:
    os.symlink(where["canary"], "link")
    try:
        with open("link") as file:
            return file.read()
    finally:
        os.unlink("link")


@probe
def read_through_hard_link() -> object:
    os.link(where["canary"], "hard")
    with open("hard") as file:
        return file.read()


@probe
def read_through_proc_root() -> object:
    with open(f"/proc/self/root{where['canary']}") as file:
        return file.read()


@probe
def write_to_shared_tmp() -> object:
    """The harness looks whether the mark is there for others, too."""
    with open(where["mark"], "w") as file:
        return file.write("x")


@probe
def change_mode_outside() -> object:
    os.chmod(where["canary"], 0o640)
    return True


@probe
def change_times_outside() -> object:
    os.utime(where["canary"])
    return True


@probe
def change_attribute_outside() -> object:
    os.setxattr(where["canary"], "user.apex", b"x")
    return True


@probe
def make_device() -> object:
    os.mknod("device", 0o600 | 0o020000, os.makedev(1, 1))
    return True


@probe
def open_disk_or_kernel_log() -> object:
    names = [f"/dev/{n}" for n in os.listdir("/dev") if n.startswith(("vd", "sd", "nvme", "mem", "kmsg", "loop0"))]
    for name in names:
        try:
            os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            continue
        return name
    return False


@probe
def change_root() -> object:
    os.chroot("/")
    return True


@probe
def gain_by_set_user_id() -> object:
    return _libc.prctl(39, 0, 0, 0, 0) == 0  # PR_GET_NO_NEW_PRIVS


@probe
def open_by_handle() -> object:
    return reached("open_by_handle_at", -100, ctypes.create_string_buffer(64), 0)


@probe
def secret_in_environment() -> object:
    return where["secret"] in os.environ.values()


@probe
def inherited_descriptor() -> object:
    return INHERITED


# --- network ------------------------------------------------------------------------------------


@probe
def tcp_to_host() -> object:
    return socket.create_connection(("127.0.0.1", where["tcp"]), 2).recv(5)


@probe
def udp_to_host() -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(2)
        sender.connect(("127.0.0.1", where["udp"]))  # so that an answer of "nobody there" comes back at once
        sender.send(b"out")
        return sender.recv(5)


@probe
def udp_to_name_server() -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"\0" * 12, ("192.0.2.53", 53))  # an address for documentation: it reaches nobody


@probe
def unix_socket() -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(where["unix"])
        return client.recv(5)


@probe
def abstract_socket() -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + where["abstract"])
        return client.recv(5)


@probe
def raw_socket() -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@probe
def packet_socket() -> object:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


# --- processes ----------------------------------------------------------------------------------


@probe
def signal_to_outside() -> object:
    os.kill(where["victim"], 0)
    return _is_victim()


def _is_victim() -> bool:
    """Whether that number is the process outside here, too: in a tree of its own it is nobody, or somebody else."""
    return where["victim"] != os.getpid() and os.getpgid(where["victim"]) != os.getpgid(0)


@probe
def environment_of_outside() -> object:
    with open(f"/proc/{where['victim']}/environ", "rb") as file:
        return where["secret"].encode() in file.read()


@probe
def memory_of_outside() -> object:
    with open(f"/proc/{where['victim']}/mem", "rb") as file:
        return bool(file)


@probe
def trace_outside() -> object:
    answer = reached("ptrace", 16, where["victim"], 0, 0)
    os.waitpid(where["victim"], os.WNOHANG) if "answered 0" in answer else None
    return answer


@probe
def read_memory_by_call() -> object:
    return reached("process_vm_readv", where["victim"], None, 0, None, 0, 0)


@probe
def limit_outside() -> object:
    return resource.prlimit(where["victim"], resource.RLIMIT_NOFILE) if _is_victim() else False


@probe
def slow_down_outside() -> object:
    os.setpriority(os.PRIO_PROCESS, where["victim"], 19)
    return _is_victim()


@probe
def shared_memory_of_outside() -> object:
    _libc.shmat.restype = ctypes.c_void_p
    address = _libc.shmat(where["shared_memory"], None, 0o10000)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no such segment")
    return where["secret"].encode() in ctypes.string_at(address, 64)


@probe
def join_namespace() -> object:
    fd = os.open(f"/proc/{where['victim']}/ns/net", os.O_RDONLY)
    return reached("setns", fd, 0)


@probe
def new_user_namespace() -> object:
    return reached("unshare", 0x10000000)


@probe
def mount_something() -> object:
    try:
        return reached("mount", b"none", b".", b"tmpfs", 0, None)
    finally:
        _libc.umount2(os.getcwd().encode(), 2)


@probe
def terminal_input() -> object:
    leader, follower = os.openpty()
    import fcntl

    os.setsid()
    fcntl.ioctl(follower, 0x540E, 0)  # TIOCSCTTY
    fcntl.ioctl(follower, 0x5412, b"x")  # TIOCSTI
    os.close(leader)
    return True


# --- the kernel ---------------------------------------------------------------------------------


@probe
def load_module() -> object:
    return reached("finit_module", -1, b"", 0)


@probe
def load_kernel() -> object:
    return reached("kexec_load", 0, 0, None, 0)


@probe
def bpf_program() -> object:
    return reached("bpf", 0, None, 0)


@probe
def watch_performance() -> object:
    return reached("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)


@probe
def user_fault() -> object:
    return reached("userfaultfd", 1)


@probe
def kernel_keys() -> object:
    return reached("add_key", b"user", b"apex", b"x", 1, -1)


@probe
def io_uring() -> object:
    return reached("io_uring_setup", 1, ctypes.create_string_buffer(256))


@probe
def set_clock() -> object:
    now = time.time()
    return reached("clock_settime", 0, (ctypes.c_long * 2)(int(now), int(now % 1 * 1e9)))


@probe
def set_host_name() -> object:
    name = os.uname().nodename.encode()
    return reached("sethostname", name, len(name))


@probe
def run_from_memory() -> object:
    return reached("memfd_create", b"apex", 0)


# --- amounts ------------------------------------------------------------------------------------


@probe
def much_memory() -> object:
    import mmap

    return len(mmap.mmap(-1, where["memory"] + (64 << 20)))


@probe
def large_file() -> object:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("large", "wb") as file:
        try:
            file.truncate(where["file_size"] + 1)
            return True
        finally:
            os.unlink("large")


@probe
def many_open_files() -> object:
    kept = [os.open(".", os.O_RDONLY) for _ in range(where["open_files"] + 8)]
    return len(kept)


@probe
def endless_work() -> object:
    return resource.getrlimit(resource.RLIMIT_CPU)[1] in (-1, resource.RLIM_INFINITY)


@probe
def core_dump() -> object:
    return resource.getrlimit(resource.RLIMIT_CORE)[1] != 0


@probe
def live_on() -> object:
    """The harness looks for its mark when the sandbox has ended."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.alarm(0)
            os.closerange(0, 256)
            while True:
                with open("alive", "w") as file:
                    file.write(str(time.time()))
                time.sleep(0.05)
        os._exit(0)
    return False


# --- amounts of several processes: each in a sandbox of its own, which must end it --------------


def many_processes() -> object:
    """Twice as many as are permitted, for a while."""
    for _ in range(2 * where["processes"]):
        if os.fork() == 0:
            time.sleep(6)
            os._exit(0)
    time.sleep(4)
    return True


def much_memory_together() -> object:
    """Four times a half of what is permitted, all of it written to."""
    for _ in range(4):
        if os.fork() == 0:
            kept = bytearray(b"x") * (where["memory"] // 2)
            time.sleep(6)
            os._exit(len(kept) & 1)
    time.sleep(4)
    return True


def much_work_together() -> object:
    """Four processes, each for a little less than is permitted."""
    for _ in range(4):
        if os.fork() == 0:
            while time.process_time() < where["cpu_s"] * 0.7:
                pass
            os._exit(0)
    for _ in range(4):
        os.wait()
    return True


GREEDY = {function.__name__: function for function in (many_processes, much_memory_together, much_work_together)}


def attempt(function: Callable[[], object], seconds: int = 5) -> tuple[bool, str]:
    """Whether an attempt got out, made in a child of its own, and what was seen."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            got = function()
            told = [bool(got), str(got)]
        except BaseException as error:  # noqa: BLE001 - whatever stopped it is the answer
            told = [False, f"{type(error).__name__}: {error}"]
        os.write(writable, json.dumps(told).encode()[:4000])
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if not data:
        return False, f"ended with {status}"
    out, reason = json.loads(data)
    return bool(out), str(reason)[:120]


def main() -> None:
    """Make every attempt, or those that were asked for, and print what came of it."""
    where.update(json.loads(sys.argv[1]))
    if where["only"]:
        print("took it" if GREEDY[where["only"]]() else "stopped")
        return
    for fd in range(3, 256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        INHERITED.append(fd)
    print(json.dumps({name: attempt(PROBES[name]) for name in where.get("some", PROBES)}))


if __name__ == "__main__":
    main()
