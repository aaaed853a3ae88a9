"""The one door to tools: every call of an agent goes through it, whatever it is for."""

from .codes import E_ARG, E_BUDGET, E_DIRECT, E_EPOCH, E_LOOP, E_NOTFOUND, E_POLICY, E_TIMEOUT, E_TOOL
from .oplog import known_secrets
from .resources import READ
from .seal import SealedServer
from .service import ToolService
from .settings import DoorSettings

__all__ = [
    "E_ARG",
    "E_BUDGET",
    "E_DIRECT",
    "E_EPOCH",
    "E_LOOP",
    "E_NOTFOUND",
    "E_POLICY",
    "E_TIMEOUT",
    "E_TOOL",
    "READ",
    "DoorSettings",
    "SealedServer",
    "ToolService",
    "known_secrets",
]
