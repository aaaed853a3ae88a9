"""Measurements: per file one bench, ``run(args)``, which yields rows of one form, ours beside its peers.

A bench reads its options as ``getattr(args, "name", None)``; the command line refuses those that a bench does not read.
Where another module reads them for it, its constant ``OPTIONS`` lists all of them. ``ARTIFACT`` is the name of its file
under ``--out`` when it is not the bench's own.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from importlib.resources import files
from types import ModuleType


def names() -> list[str]:
    """Names of the benches: the modules here that have a ``run``."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if "\ndef run(" in _source(found.name))


def module(name: str) -> ModuleType:
    """A bench's module."""
    return importlib.import_module(f"{__name__}.{name}")


def options(name: str) -> frozenset[str]:
    """Names of the options that a bench reads."""
    declared = getattr(module(name), "OPTIONS", None)
    return frozenset(declared or re.findall(r'getattr\(args, "(\w+)"', _source(name)))


def artifact(name: str) -> str:
    """File name of a bench's rows under ``--out``."""
    return f"{getattr(module(name), 'ARTIFACT', name)}.jsonl"


def _source(name: str) -> str:
    path = files(__name__).joinpath(f"{name}.py")
    return path.read_text(encoding="utf-8") if path.is_file() else ""
