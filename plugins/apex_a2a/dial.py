"""How a remote is reached: which of its card's addresses, over which channel, with which token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from apex_framework.errors import RuntimeFault

from .settings import Remote
from .strict import MAX_BYTES

if TYPE_CHECKING:
    from a2a.types import AgentCard

MOST_ANSWERED: Final = 4 * MAX_BYTES
"""Bytes of one response, a card's or a stream's, and of one message over gRPC."""


def check_interfaces(name: str, remote: Remote, card: AgentCard) -> None:
    """Raises RuntimeFault unless the card offers the remote's binding, and on the remote's own host alone.

    The token is for the remote that was configured, and not for whomever its card names.
    """
    offered = [each for each in card.supported_interfaces if each.protocol_binding == remote.binding]
    if not offered:
        has = ", ".join(sorted({each.protocol_binding[:32] for each in card.supported_interfaces})) or "nothing"
        raise RuntimeFault(f"remote {name}: its card offers {has}, not {remote.binding}")
    home = urlsplit(remote.url).hostname
    for each in offered:
        address = each.url if "//" in each.url else f"//{each.url}"
        if urlsplit(address).hostname != home:
            raise RuntimeFault(f"remote {name}: its card names another host")


def channel(address: str, *, secure: bool) -> Any:
    """A gRPC channel on which no message is larger than MOST_ANSWERED; TLS for a remote whose url is https."""
    import grpc

    options = [("grpc.max_receive_message_length", MOST_ANSWERED), ("grpc.enable_http_proxy", 0)]
    target = address.rpartition("//")[2].rstrip("/")
    if secure:
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
    return grpc.aio.insecure_channel(target, options)


def bearer(token: str) -> Any:
    """The token with every call, whatever the card says of how to authenticate."""
    from a2a.client.client import ClientCallContext
    from a2a.client.interceptors import ClientCallInterceptor

    class Bearer(ClientCallInterceptor):
        async def before(self, args: Any) -> None:
            args.context = args.context or ClientCallContext()
            args.context.service_parameters = {
                **(args.context.service_parameters or {}), "Authorization": f"Bearer {token}",
            }  # fmt: skip

        async def after(self, args: Any) -> None: ...

    return Bearer()
