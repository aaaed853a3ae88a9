"""The siege: every attack over HTTP and gRPC, every forged card, and so many spoilt bodies over each."""

from __future__ import annotations

from typing import Any

from apex_framework import Catalog

from .evil import ATTACKS, besieged
from .evil_cards import CARDS
from .evil_fuzz import fuzz
from .evil_grpc import GRPC_ATTACKS, grpc_besieged, grpc_fuzz
from .refusal import E_CARD, Refusal


async def siege(catalog: Catalog, bodies: int, seed: int) -> dict[str, Any]:
    """Every attack, the cards, and so many fuzzed bodies over each way. What held: counts, and per attack its code."""
    attacks: dict[str, dict[str, Any]] = {}
    async with besieged(catalog) as under:
        for name, (code, attack) in ATTACKS.items():
            got = await attack(under)
            attacks[name] = {"code": got, "ok": got == code}
        reached = under.held.reached
    async with grpc_besieged(catalog) as over:
        for name, (code, grpc_attack) in GRPC_ATTACKS.items():
            got = await grpc_attack(over)
            attacks[name] = {"code": got, "ok": got == code}
        reached += over.held.reached
    for name, forge in CARDS.items():
        try:
            forge()
            got = "believed"
        except Refusal as refusal:
            got = refusal.refusal
        attacks[f"card: {name}"] = {"code": got, "ok": got == E_CARD}
    fuzzed = {"http": await fuzz(catalog, bodies, seed), "grpc": await grpc_fuzz(catalog, bodies, seed)}
    refused = sum(row["ok"] for row in attacks.values())
    return {"attacks": attacks, "refused": refused, "reached": reached, "fuzz": fuzzed}
