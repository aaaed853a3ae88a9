"""The way of results out of the test process: one line each, opened by a word that the tests were never shown."""

import os
import re
from _json import encode_basestring_ascii as _quoted
from typing import Any

_CONTROL = re.compile("\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b\\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# As it is printed, and as ``id`` gives it on a 64-bit Linux.
_ADDRESS = re.compile("(?<=0x)[0-9a-fA-F]{4,}|(?<![\\w.])(?:9[3-5][0-9]{12}|13[89][0-9]{12}|140[0-7][0-9]{11})(?!\\w)")
MOST_DETAIL = 1500


def make_teller(fd: int, nonce: str) -> Any:
    """A function that sends one fact, whole; in a process that was forked from this one it does nothing.

    All that it uses is bound now: a test may replace attributes of any module.
    """
    write, getpid, owner, dump = os.write, os.getpid, os.getpid(), _dumped
    opening, number = nonce, [0]

    def tell(**fact: Any) -> None:
        if getpid() != owner:
            return
        number[0] += 1
        data = (f"{opening} {number[0]} {dump(fact)}\n").encode("ascii")
        while data:
            data = data[write(fd, data) :]

    return tell


def _dumped(value: Any, quoted: Any = _quoted) -> str:
    """JSON of texts, whole numbers, None, lists and dicts by text."""
    if isinstance(value, str):
        return str(quoted(value))
    if value is None:
        return "null"
    if isinstance(value, int):
        return f"{value:d}"
    if isinstance(value, dict):
        return "{{{}}}".format(",".join([_dumped(str(k)) + ":" + _dumped(v) for k, v in value.items()]))
    return "[{}]".format(",".join([_dumped(v) for v in value]))


def clean(text: str, root: str) -> str:
    """Without what differs between runs or could drive a terminal."""
    return _CONTROL.sub("", _ADDRESS.sub("0", text.replace(root, "")))


def describe(root: str, kind: Any, value: BaseException, trace: Any) -> str:
    """The end of a traceback: frames of the repository only, relative paths, no addresses, one size."""
    try:
        text = str(value)
    except Exception as broken:  # noqa: BLE001 - __str__ of a repository's exception may raise anything
        text = f"<{type(broken).__name__} in __str__>"
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(root):
            frames.append(f'  File "{code.co_filename[len(root) :]}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    if isinstance(value, SyntaxError) and (value.filename or "").startswith(root):
        text = "{} ({}, line {})".format(value.msg, (value.filename or "")[len(root) :], value.lineno)
    name = getattr(kind, "__qualname__", "Error")
    tail = clean(f"{name}: {text}" if text else name, root)
    if len(tail) > MOST_DETAIL * 2 // 3:
        half = MOST_DETAIL // 3
        tail = tail[: half - 3] + " … " + tail[-half:]
    head = clean("\n".join(frames[-8:]), root)[-(MOST_DETAIL - len(tail) - 1) :]
    return head + "\n" + tail if head else tail
