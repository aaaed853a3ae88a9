"""Resources: results too large for a message, kept by the door and read in pages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ...interfaces.tool import Capability, ToolCall, ToolResult, ToolSpec
from .codes import E_NOTFOUND, E_POLICY
from .oplog import digest

PREFIX: Final = "apex://results/"
MOST_KEPT: Final = 64 * 2**20
"""Characters that one door keeps in all; the oldest resource goes first."""
HEAD: Final = 2_000
"""Characters of a resource that come with the answer."""
PAGE: Final = 16_384
"""Characters that one reading gives at most."""
SHORT: Final = 200
"""Characters of a text that stays with the answer, and of its name."""
FIELDS: Final = 32
"""Short fields that stay with the answer at most."""

READ = ToolSpec(
    "resource.read",
    "A page of a large result: limit characters of its JSON text from offset on. `next` is the next offset, null at the end.",
    {
        "type": "object",
        "properties": {
            "uri": {"type": "string"},
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": PAGE},
        },
        "required": ["uri"],
        "additionalProperties": False,
    },
)
"""Built into every door. Nobody needs it in a capability: what it gives, its caller was given before."""


@dataclass(frozen=True, slots=True)
class _Kept:
    owner: Capability
    spec: ToolSpec
    text: str


class Resources:
    """Texts by address, each for the agent and the workspace that it was made for.

    An address follows from the content: the same call made again, in this life of a session or the next, has the same.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def is_gone(self, value: Mapping[str, Any]) -> bool:
        """Whether a value names a resource that is not kept here."""
        uri = value.get("resource")
        return isinstance(uri, str) and uri.startswith(PREFIX) and uri not in self._kept

    def keep(self, call: ToolCall, spec: ToolSpec, value: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Keep a value whose JSON form is ``text``; what stands in its place: short fields, address, size and head."""
        who = call.capability
        uri = f"{PREFIX}{digest(f'{who.agent_id} {who.role} {spec.name} {text}')}"
        before = self._kept.pop(uri, None)
        self._kept[uri] = _Kept(who, spec, text)
        self._size += len(text) - (len(before.text) if before is not None else 0)
        while self._size > self._most and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone.text)
        fields = ((k, v) for k, v in value.items() if len(str(k)) <= SHORT)
        plain = ((k, v) for k, v in fields if isinstance(v, int | float) or (isinstance(v, str) and len(v) <= SHORT))
        short = dict(islice(plain, FIELDS))
        return {**short, "resource": uri, "size": len(text), "head": text[:HEAD]}

    def read(self, call: ToolCall) -> ToolResult:
        """A page. Refused to everybody else with the code of a resource that is not there."""
        uri, asking = call.arguments["uri"], call.capability
        kept = self._kept.get(uri)
        if kept is None or not _same(kept.owner, asking):
            return ToolResult(
                False, error=E_NOTFOUND, detail=f"no resource {uri[:80]!r} for this agent: make the call again"
            )
        if kept.spec.name not in asking.tools or not kept.spec.scopes <= asking.scopes:
            return ToolResult(False, error=E_POLICY, detail=f"{kept.spec.name} is not among this agent's tools")
        offset, limit = int(call.arguments.get("offset", 0)), int(call.arguments.get("limit", PAGE))
        text = kept.text[offset : offset + limit]
        end = offset + len(text)
        return ToolResult(
            True,
            {"text": text, "offset": offset, "next": end if end < len(kept.text) else None, "size": len(kept.text)},
        )


def _same(owner: Capability, asking: Capability) -> bool:
    whose, who = (owner.agent_id, owner.role), (asking.agent_id, asking.role)
    return owner.workspace is asking.workspace and whose == who
