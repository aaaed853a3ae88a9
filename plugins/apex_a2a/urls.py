"""Addresses that clients name: judged after they are resolved, and connected to as they were judged."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from .refusal import E_URL, Refusal
from .settings import Push

_log = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port -> addresses."""
MOST_URL: Final = 2048
MOST_CONFIGS: Final = 8


@dataclass(frozen=True, slots=True)
class Target:
    """A judged address: where to connect, and what the other end is called."""

    scheme: str
    host: str
    address: str
    port: int
    path: str


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, by the machine's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


async def vet(url: str, push: Push, find: Resolve = resolve) -> Target:
    """Where a URL leads, when every address that it has may be connected to. Raises Refusal E_URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise Refusal(E_URL, "not a URL") from None
    if len(url) > MOST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise Refusal(E_URL, "not a URL that is followed")
    schemes = ("https", "http") if push.plain_http else ("https",)
    if parts.scheme not in schemes:
        raise Refusal(E_URL, f"only {' and '.join(schemes)}")
    if not host or parts.username is not None or parts.password is not None or parts.fragment or "%" in host:
        raise Refusal(E_URL, "a host, and no names of users or fragments")
    port = port or (443 if parts.scheme == "https" else 80)
    try:
        addresses = await asyncio.wait_for(find(host, port), push.deadline_s)
    except (OSError, UnicodeError, TimeoutError):
        raise Refusal(E_URL, "the host has no address") from None
    if not addresses:
        raise Refusal(E_URL, "the host has no address")
    for address in addresses:
        if not allowed(address, push.allow):
            raise Refusal(E_URL, "the host is not on the public net")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, addresses[0], port, path)


def allowed(address: str, networks: Sequence[str]) -> bool:
    """Whether an address is public, or in one of the operator's networks."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or found
    if any(found in ipaddress.ip_network(each, strict=False) for each in networks):
        return True
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


class PinnedSender:
    """Sends notifications: judged again each time, to the very address that was judged, following no redirect."""

    def __init__(self, configs: Any, push: Push, find: Resolve = resolve) -> None:
        """``configs`` is the SDK's store of push configurations."""
        self._configs, self._push, self._find = configs, push, find
        self.sent = self.failed = 0

    async def send_notification(self, task_id: str, event: Any) -> None:
        """Best effort: what fails is counted and logged."""
        from a2a.utils.proto_utils import to_stream_response
        from google.protobuf.json_format import MessageToJson

        body = MessageToJson(to_stream_response(event), indent=None).encode()
        for config in (await self._configs.get_info_for_dispatch(task_id))[:MOST_CONFIGS]:
            try:
                async with asyncio.timeout(self._push.deadline_s):
                    await self._post(config, body)
                self.sent += 1
            except Exception as error:  # noqa: BLE001 - somebody else's server: whatever it does is no fault of the task
                self.failed += 1
                _log.warning("a2a: a notification of %s was not delivered: %s", task_id, error)

    async def _post(self, config: Any, body: bytes) -> None:
        import httpx

        target = await vet(config.url, self._push, self._find)
        headers = {"Host": f"{target.host}:{target.port}", "Content-Type": "application/json"}
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        if config.HasField("authentication") and config.authentication.credentials:
            auth = config.authentication
            headers["Authorization"] = f"{auth.scheme or 'Bearer'} {auth.credentials}"
        literal = f"[{target.address}]" if ":" in target.address else target.address
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=self._push.deadline_s) as client,
            client.stream(
                "POST",
                f"{target.scheme}://{literal}:{target.port}{target.path}",
                content=body,
                headers=headers,
                extensions={"sni_hostname": target.host},
            ) as response,
        ):
            if not response.is_success:  # a redirect is none
                raise Refusal(E_URL, f"answered {response.status_code}")
