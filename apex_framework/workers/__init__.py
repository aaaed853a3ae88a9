"""Models in processes of their own: what a backend that loads a model here, not on a server, is made of.

A plugin brings an ``Engine``, which knows one library; ``WorkerBackend`` gives each instance of it a process, speaks with
it, starts it again when it dies, and is the backend. No context is shared between instances, and nothing that breaks in
one (a crash in native code, no memory left, a hang) reaches this process.
"""

from .backend import ModelInfo, WorkerBackend
from .engine import Answered, Ask, Engine, EngineError
from .examining import context_finding, gigabytes, memory_finding
from .fleet import FleetSettings
from .machine import Memory, available_memory, file_digest, instances_from, memory_now
from .memory import Holder, MemoryCare, MemoryLimits, MemoryWatch, Pressure
from .rotation import Shelf
from .shelved import ShelvedBackend, shelved
from .stops import StopCutter

__all__ = [
    "Answered",
    "Ask",
    "Engine",
    "EngineError",
    "FleetSettings",
    "Holder",
    "Memory",
    "MemoryCare",
    "MemoryLimits",
    "MemoryWatch",
    "ModelInfo",
    "Pressure",
    "Shelf",
    "ShelvedBackend",
    "StopCutter",
    "WorkerBackend",
    "available_memory",
    "context_finding",
    "file_digest",
    "gigabytes",
    "instances_from",
    "memory_finding",
    "memory_now",
    "shelved",
]
