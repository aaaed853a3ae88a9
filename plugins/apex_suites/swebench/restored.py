"""Names that newer Pythons removed, put back for old code. Installed as an environment's ``sitecustomize``; changes no repository.

Each exists only where the interpreter lacks it, and does what the last Python that had it did.
"""

from typing import Any


def _collections() -> None:
    import collections
    import collections.abc

    for name in collections.abc.__all__:
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))


def _inspect() -> None:
    import inspect
    from collections import namedtuple

    if hasattr(inspect, "getargspec"):
        return
    ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")

    def getargspec(func: Any) -> Any:
        full = inspect.getfullargspec(func)
        if full.kwonlyargs or full.annotations:
            raise ValueError("Function has keyword-only parameters or annotations, use inspect.signature()")
        return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)

    def formatargspec(
        args: Any, varargs: Any = None, varkw: Any = None, defaults: Any = None, *_: Any, **__: Any
    ) -> str:
        first = len(args) - len(defaults or ())
        words = [name if at < first else f"{name}={defaults[at - first]!r}" for at, name in enumerate(args)]
        words += [f"*{varargs}"] if varargs else []
        return f"({', '.join([*words, *([f'**{varkw}'] if varkw else [])])})"

    module: Any = inspect
    module.ArgSpec, module.getargspec, module.formatargspec = ArgSpec, getargspec, formatargspec


def _gettext() -> None:
    import gettext
    import inspect
    from functools import wraps

    def without_codeset(function: Any) -> Any:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("codeset", None)
            return function(*args, **kwargs)

        return called

    for name in ("translation", "install"):
        if "codeset" not in inspect.signature(getattr(gettext, name)).parameters:
            setattr(gettext, name, without_codeset(getattr(gettext, name)))


def _smaller() -> None:
    import base64
    import fractions
    import math
    import platform
    import threading
    import time
    import xml.etree.ElementTree as etree

    absent = [
        (fractions, "gcd", math.gcd),
        (time, "clock", time.perf_counter),
        (base64, "encodestring", base64.encodebytes),
        (base64, "decodestring", base64.decodebytes),
        (platform, "linux_distribution", lambda *_, **__: ("", "", "")),
        (platform, "dist", lambda *_, **__: ("", "", "")),
        (threading.Thread, "isAlive", threading.Thread.is_alive),
    ]
    for owner, name, value in absent:
        if not hasattr(owner, name):
            setattr(owner, name, value)
    if not hasattr(etree.ElementTree, "getiterator"):
        etree.ElementTree.getiterator = etree.ElementTree.iter  # type: ignore[attr-defined]  # gone since 3.9


def _unittest() -> None:
    """Names of tests as Pythons before 3.11 printed them, for data that was recorded there.

    In 3.6, a docstring that begins with an empty line had no first line, and its test was printed by its name alone.
    """
    import os

    recorded = os.environ.get("NATIVE_TEST_NAMES")
    if recorded not in ("3.6", "3.9"):
        return
    import unittest.case
    from unittest.util import strclass

    def __str__(self: Any) -> str:
        return f"{self._testMethodName} ({strclass(self.__class__)})"

    def short_description(self: Any) -> Any:
        return (self._testMethodDoc or "").split("\n")[0].strip() or None

    case: Any = unittest.case.TestCase
    case.__str__ = __str__
    if recorded == "3.6":
        case.shortDescription = short_description


def restore() -> None:
    """All of them."""
    for part in (_collections, _inspect, _gettext, _smaller, _unittest):
        part()


if __name__ == "sitecustomize":
    restore()
