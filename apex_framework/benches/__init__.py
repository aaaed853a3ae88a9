"""Measurements: per file one bench, ``run(args)``, which yields rows of one form, ours beside its peers."""

from __future__ import annotations

import pkgutil


def names() -> list[str]:
    """Names of the benches."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
