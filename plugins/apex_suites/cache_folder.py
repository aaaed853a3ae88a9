"""Where suites keep what took long to find out."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder ``name`` below ``$APEX_CACHE``, or below the system's place for caches. (``mini``, which is frozen, has its own.)"""
    if os.environ.get("APEX_CACHE"):
        return Path(os.environ["APEX_CACHE"]) / name
    import platformdirs

    return Path(platformdirs.user_cache_dir("apex-framework")) / name
