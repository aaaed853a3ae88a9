"""Where an https address may lead: judged once it is resolved, and then connected to as it was judged."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from ..errors import ConfigError, GitError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""What a translator of networks (NAT64) takes for an IPv4 address."""
_NOWHERE: Final = "192.0.2.1"
"""An address of documentation: nobody answers."""
_NUMBER: Final = re.compile(r"\d+|0[xX][0-9a-fA-F]*")


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks as an operator writes them. Raises ConfigError."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise ConfigError(f"tool git: {error}", "networks are as 10.0.0.0/8 or fd00::/8") from None


def pinned(address: str, networks: Sequence[Network]) -> str:
    """What git's ``http.curloptResolve`` must be for this address, whose every address is public or in ``networks``.

    Empty for an address in numbers. Behind a proxy it is the proxy that resolves and connects, so a name that nobody
    here knows is let pass to it, and to nothing else. Raises GitError (``E_PROTO``).
    """
    host, port = _host_of(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        if not _proxied():
            raise GitError("E_PROTO", f"{host} has no address") from None
        return f"{host}:{port}:{_NOWHERE}"
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if not addresses or not all(_allowed(each, networks) for each in addresses):
        raise GitError("E_PROTO", f"{host} is not on the public net", "allow its network: git:networks=…")
    if addresses == [host]:
        return ""
    return f"{host}:{port}:{','.join(f'[{a}]' if ':' in a else a for a in addresses)}"


def _host_of(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").lower(), parts.port or 443
    except ValueError:
        raise GitError("E_PROTO", f"{address[:200]!r} is no address") from None
    last = host.rpartition(".")[2]
    if not host or not last:
        raise GitError("E_PROTO", f"{address[:200]!r} names no host")
    if _NUMBER.fullmatch(last):  # an odd way to write an address in numbers: programs differ in what they read
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise GitError("E_PROTO", f"{host} is not an address as a.b.c.d") from None
    return host, port


def _allowed(text: str, networks: Sequence[Network]) -> bool:
    try:
        found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    every: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = [found]
    if isinstance(found, ipaddress.IPv6Address):  # on its way it may become an address of the older kind
        carried = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _TRANSLATED else found.ipv4_mapped
        if carried is not None:
            found, every = carried, [carried]
        elif found.sixtofour is not None:
            every.append(found.sixtofour)
    if any(found in network for network in networks if network.version == found.version):
        return True
    return all(a.is_global and not (a.is_multicast or a.is_reserved or a.is_unspecified) for a in every)


def _proxied() -> bool:
    return bool(os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY"))
