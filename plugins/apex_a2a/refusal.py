"""Refusals: what an outsider is told when something is not done, always with a stable code."""

from __future__ import annotations

from typing import Final

from apex_framework.errors import RuntimeFault

E_ARG: Final = "E_ARG"
"""Not a well-formed request, envelope or value."""
E_AUTH: Final = "E_AUTH"
"""No token, or one that nobody has."""
E_AUTHZ: Final = "E_AUTHZ"
"""Known, but not allowed this: another's role, an audience, a broadcast."""
E_CARD: Final = "E_CARD"
"""An agent card whose signature cannot be relied on."""
E_DEPTH: Final = "E_DEPTH"
"""Nested too deeply."""
E_EPOCH: Final = "E_EPOCH"
"""Written for another epoch of the topology, or another episode."""
E_NOTFOUND: Final = "E_NOTFOUND"
"""No such task among the asker's own."""
E_POLICY: Final = "E_POLICY"
"""Tools and models are not reached from outside, and what a policy denies."""
E_QUOTA: Final = "E_QUOTA"
"""Too many tasks, requests, bytes or tokens."""
E_SIZE: Final = "E_SIZE"
"""Too many bytes."""
E_SLOW: Final = "E_SLOW"
"""A request that does not arrive in time."""
E_URL: Final = "E_URL"
"""An address that must not be connected to."""

CODES: Final = frozenset(
    {E_ARG, E_AUTH, E_AUTHZ, E_CARD, E_DEPTH, E_EPOCH, E_NOTFOUND, E_POLICY, E_QUOTA, E_SIZE, E_SLOW, E_URL}
)


class Refusal(RuntimeFault):
    """Not done, and nothing of it was; ``refusal`` is one of CODES.

    ``rpc`` is JSON-RPC's own number for it where the call itself is at fault, and ``call`` that call's id.
    """

    def __init__(
        self, refusal: str, cause: str, remedy: str = "", *, rpc: int = 0, call: str | int | None = None
    ) -> None:
        super().__init__(f"{refusal}: {cause}", remedy)
        self.refusal, self.what = refusal, cause
        self.rpc, self.call = rpc, call
