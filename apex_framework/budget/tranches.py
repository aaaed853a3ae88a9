"""What a guard holds of ceilings that it shares with other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..errors import ApexError
from ..interfaces.budget import Refills, Tranche
from ..ports import Effects
from .entries import ScopeInstance
from .ledger import Ledger

_log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""Seconds that a refill may take before the call that waits for it is denied."""


class Tranches:
    """Leases more when a tranche runs out, and hands back at the end what was not spent.

    A refill whose caller was cancelled goes on in its thread; what it leased is in the total that the next one reports.
    """

    def __init__(self, ledger: Ledger, effects: Effects) -> None:
        self._ledger = ledger
        self._effects = effects
        self._free: dict[str, int] = {}
        self._held: dict[str, tuple[Refills, str]] = {}
        self.closed = False
        self.drawing = asyncio.Lock()
        """Held while somebody leases: many callers that run short together lease once."""

    def free(self, instance_id: str, otherwise: int) -> int:
        """Tokens that nobody had leased when this process last looked; ``otherwise`` if it never did."""
        return self._free.get(instance_id, otherwise)

    async def draw(self, scope: Refills, instance: ScopeInstance, tokens: int) -> tuple[bool, str]:
        """Lease what is missing for a reservation: whether there is more now, and the reason when it cannot be known."""
        balance = self._ledger.balance(instance.id)
        missing = balance.used + balance.reserved + tokens - (balance.limits.tokens or 0)
        if missing <= 0:
            return True, ""
        self._held[instance.id] = scope, instance.key

        def refill() -> Tranche:
            return scope.refill(instance.key, missing)

        try:
            async with asyncio.timeout(PATIENCE_S):
                tranche = await self._effects.run(refill, cost=lambda _: 0.0)
            if not _sound(tranche):
                raise TypeError(f"refill answered {tranche!r}")
        except TimeoutError:
            _log.error("budget scope %r: no refill within %g s; the call is denied", instance.name, PATIENCE_S)
            return False, "policy:refill_timeout"
        except ApexError as error:
            _log.error("budget scope %r: %s; the call is denied", instance.name, error)
            return False, f"policy:{getattr(error, 'reason', 'refill_failed')}"
        except Exception:  # noqa: BLE001 - a plugin's edge: a ceiling that cannot be reached admits nothing
            _log.exception("budget scope %r failed; the call is denied", instance.name)
            return False, "policy:refill_failed"
        self._free[instance.id] = tranche.free
        return self._ledger.lease(instance.id, tranche.leased), ""

    async def close(self) -> None:
        """Lease no more, and free what was leased and is neither spent nor reserved. What cannot be handed back counts as spent: a warning."""
        self.closed = True
        while self._held:
            instance_id, (scope, key) = self._held.popitem()
            balance = self._ledger.balance(instance_id)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._effects.run(_handing(scope, key, balance.used + balance.reserved), cost=lambda _: 0.0)
            except Exception as error:  # noqa: BLE001 - a plugin's edge: no episode fails for what is only counted too high
                _log.warning("the rest of tranche %s was not handed back and counts as spent: %s", instance_id, error)


def _handing(scope: Refills, key: str, used: int) -> Callable[[], None]:
    return lambda: scope.hand_back(key, used)


def _sound(tranche: object) -> bool:
    return isinstance(tranche, Tranche) and all(type(n) is int and n >= 0 for n in (tranche.leased, tranche.free))
