"""Settings: file < environment < flag, into one model, each value with its origin.

The only part of the kernel that imports pydantic, so import it where it is used.
"""

from .loading import (
    ALIASES,
    BACKEND_VARIABLES,
    ENVIRONMENT_PREFIX,
    Configuration,
    file_in_force,
    load_settings,
    meant,
    read_table,
)
from .settings import CALLS, CONFINING, TOOLS, Names, Settings, Tokens, json_schema

__all__ = [
    "ALIASES",
    "BACKEND_VARIABLES",
    "CALLS",
    "CONFINING",
    "ENVIRONMENT_PREFIX",
    "TOOLS",
    "Configuration",
    "Names",
    "Settings",
    "Tokens",
    "file_in_force",
    "json_schema",
    "load_settings",
    "meant",
    "read_table",
]
