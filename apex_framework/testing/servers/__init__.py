"""Loopback servers for tests of clients: they keep to the protocols of model servers, or break them in scripted ways.

``OpenAIServer`` and ``OllamaServer`` answer as their protocols say; ``FaultServer`` misbehaves in one of the
``MISBEHAVIOURS``. Each runs in a thread of its own::

    with FaultServer("stall_after_tokens") as server:
        ...  # point a client at server.url
"""

from __future__ import annotations

from .faults import MISBEHAVIOURS, FaultServer
from .model import Model
from .ollama import OllamaServer
from .openai import OpenAIServer
from .wire import LoopbackServer, Request, Wire

__all__ = ["MISBEHAVIOURS", "FaultServer", "LoopbackServer", "Model", "OllamaServer", "OpenAIServer", "Request", "Wire"]
