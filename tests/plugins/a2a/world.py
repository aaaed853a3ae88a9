"""What tests of A2A share: a router with an outsider's seat, envelopes, settings, the official client."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from apex_a2a.bridge import A2ABridge, Outsider
from apex_a2a.envelope import EXTENSION
from apex_a2a.settings import Settings, settings_from, token_hash
from apex_framework import Router, RouteTable, load_plugins
from apex_framework.interfaces import AgentID, Member, Roster
from apex_framework.testing.scripted import ManualClock

CATALOG = load_plugins().catalog
GUEST = AgentID("alice_guest")
ROSTER = Roster(
    (Member(AgentID("planner"), "planner"), Member(AgentID("coder"), "coder"), Member(GUEST, "guest")),
    AgentID("planner"),
)
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": (
        "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n"
        "    def test_zero(self):\n        self.assertEqual(add(2, 0), 2)\n"
    ),
}
ISSUE = "add returns the difference instead of the sum of a and b"


class Town:
    """A router of three members, one of them alice's guest, and the bridge to it."""

    def __init__(self, topology: str = "flat", **options: Any) -> None:
        self.clock = ManualClock()
        make = CATALOG.make
        self.router = Router(
            RouteTable.compile(make("topology", topology), ROSTER),
            lanes=make("lane", "drr_wred"),
            transport=make("transport", "inproc"),
            clock=self.clock,
            rng=random.Random(0),
            **options,
        )
        outsiders = {"alice": Outsider("alice", (GUEST,), frozenset({"planner"})), "bob": Outsider("bob", ())}
        self.bridge = A2ABridge(self.router, ROSTER, "ep", outsiders, clock=self.clock, topology=lambda: topology)


def envelope(number: int | str = 1, data: dict[str, Any] | None = None, **table: Any) -> dict[str, Any]:
    """An A2A message that carries an envelope."""
    return {
        "messageId": f"e{number}",
        "role": "ROLE_USER",
        "parts": [{"data": data or {"kind": "note", "n": number}}],
        "metadata": {EXTENSION: {"episode": "ep", "epoch": 0, "audience": "planner", **table}},
    }


def settings(**tables: Any) -> Settings:
    """A server on any port, for alice (token ``t-alice``) and bob."""
    base: dict[str, Any] = {
        "server": {"port": 0, "grpc_port": 65536, "header_s": 5.0},
        "work": {"trust_task_code": True},
        "principals": {name: {"token_sha256": token_hash(f"t-{name}")} for name in ("alice", "bob")},
    }
    for name, table in tables.items():
        base[name] = {**base.get(name, {}), **table}
    return settings_from(base)


@asynccontextmanager
async def client(running: Any, name: str = "alice", *, grpc: bool = False) -> AsyncIterator[Any]:
    """The official client."""
    import grpc as grpc_library
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.client.auth import AuthInterceptor, CredentialService

    class Token(CredentialService):
        async def get_credentials(self, security_scheme_name: str, context: Any) -> str:
            return f"t-{name}"

    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        card = await A2ACardResolver(http, running.url).get_agent_card()
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=grpc_library.aio.insecure_channel,
            supported_protocol_bindings=["GRPC" if grpc else "JSONRPC"],
        )
        made = ClientFactory(config).create(card, interceptors=[AuthInterceptor(Token())])
        async with made:
            yield made


def repair_request(**options: Any) -> Any:
    """A request that begins a task."""
    from a2a.helpers import new_data_part, new_message, new_text_part
    from a2a.types import Role, SendMessageConfiguration, SendMessageRequest

    message = new_message([new_text_part(ISSUE), new_data_part({"files": FILES})], role=Role.ROLE_USER)
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(**options))
