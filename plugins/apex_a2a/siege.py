"""The siege: every attack, every forged card and so many spoilt bodies against a server made for it."""

from __future__ import annotations

from typing import Any

from apex_framework import Catalog

from .evil import ATTACKS, besieged
from .evil_cards import CARDS
from .evil_fuzz import fuzz
from .refusal import E_CARD, Refusal


async def siege(catalog: Catalog, bodies: int, seed: int) -> dict[str, Any]:
    """Every attack, the cards, and so many fuzzed bodies. What held: counts, and per attack its code."""
    attacks: dict[str, dict[str, Any]] = {}
    async with besieged(catalog) as under:
        for name, (code, attack) in ATTACKS.items():
            got = await attack(under)
            attacks[name] = {"code": got, "ok": got == code}
        reached = under.held.reached
    for name, forge in CARDS.items():
        try:
            forge()
            got = "believed"
        except Refusal as refusal:
            got = refusal.refusal
        attacks[f"card: {name}"] = {"code": got, "ok": got == E_CARD}
    fuzzed = await fuzz(catalog, bodies, seed)
    refused = sum(row["ok"] for row in attacks.values())
    return {"attacks": attacks, "refused": refused, "reached": reached, **fuzzed}
