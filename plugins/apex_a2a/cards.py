"""Agent cards: ours, and whether somebody else's is what its signer wrote."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apex_framework import __version__
from apex_framework.errors import ConfigError
from apex_framework.ports import Clock, SystemClock

from .envelope import EXTENSION
from .refusal import E_CARD, Refusal
from .settings import CardKey, Settings, Signing
from .strict import read_json

if TYPE_CHECKING:
    from a2a.types import AgentCard

INPUT_MODES: Final = ("text/plain", "application/json")
ALGORITHMS: Final = ("ES256", "EdDSA")
_HEADER: Final = frozenset({"alg", "kid", "typ", "exp"})
"""Fields of a protected header; any other (``jku``, ``jwk``, ``x5u``, ``x5c``, ``crit``) could change which key counts."""


def our_card(settings: Settings, http_url: str, grpc_address: str = "", *, secured: bool = True) -> AgentCard:
    """The card that we serve: one skill, what it takes and gives, how to authenticate. Signed when a key is set."""
    from a2a.types import (
        AgentCapabilities,
        AgentCard,
        AgentExtension,
        AgentInterface,
        AgentSkill,
        HTTPAuthSecurityScheme,
        SecurityRequirement,
        SecurityScheme,
        StringList,
    )

    interfaces = [AgentInterface(url=http_url, protocol_binding="JSONRPC", protocol_version="1.0")]
    if grpc_address:
        interfaces.append(AgentInterface(url=grpc_address, protocol_binding="GRPC", protocol_version="1.0"))
    card = AgentCard(
        name="APEX",
        description="A team of agents that repairs a Python project until its tests pass, and answers with the patch.",
        version=__version__,
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=settings.push.enabled,
            extended_agent_card=False,
            extensions=[AgentExtension(uri=EXTENSION, description="Messages of a team, with epoch and audience.")],
        ),
        default_input_modes=list(INPUT_MODES),
        default_output_modes=["text/x-diff", "application/json"],
        skills=[
            AgentSkill(
                id="repair",
                name="Repair",
                description='Text: the issue. Data: {"files": {path: text}, "tests": [paths]}. Answer: a unified diff.',
                tags=["python", "repair", "tests"],
            )
        ],
    )
    if secured:
        card.security_schemes["bearer"].CopyFrom(
            SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        )
        card.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
    if settings.signing.key:
        sign(card, settings.signing)
    return card


def sign(card: AgentCard, signing: Signing) -> None:
    """Add our signature to a card. Raises ConfigError for a key that cannot be used."""
    from a2a.utils.signing import create_agent_card_signer

    if signing.alg not in ALGORITHMS or not signing.kid:
        raise ConfigError(f"[signing] alg is {signing.alg!r} and kid {signing.kid!r}", "alg ES256 or EdDSA, and a kid")
    try:
        pem = Path(signing.key).read_bytes()
    except OSError as error:
        raise ConfigError(f"{signing.key}: {error.strerror or error}", "give the private key's file") from None
    header: Any = {"kid": signing.kid, "alg": signing.alg, "typ": "JOSE"}
    try:
        create_agent_card_signer(pem, header)(card)
    except Exception as error:  # noqa: BLE001 - the edge to a library that raises of many kinds for a key it cannot use
        raise ConfigError(f"{signing.key} cannot sign with {signing.alg}: {type(error).__name__}") from None


def read_card(
    data: bytes, keys: Mapping[str, CardKey], *, signed: bool = True, clock: Clock | None = None
) -> AgentCard:
    """A card as its server sent it. Raises Refusal E_CARD unless, with ``signed``, a key of ours signed it.

    Keys come from ``keys`` alone, each with the algorithm that it is for: what a card says of where to find one, or
    of what else to believe, makes it refused. The signature must be over the canonical form (RFC 8785).
    """
    from a2a.types import AgentCard
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        found = read_json(data)
        if not isinstance(found, dict):
            raise Refusal(E_CARD, "a card is an object")
        card: AgentCard = ParseDict(found, AgentCard(), ignore_unknown_fields=True)
    except Refusal as refusal:
        raise Refusal(E_CARD, refusal.what) from None
    except (ParseError, ValueError, TypeError, RecursionError):
        raise Refusal(E_CARD, "not an agent card") from None
    if signed:
        check_signature(card, keys, clock=clock)
    return card


def check_signature(card: AgentCard, keys: Mapping[str, CardKey], *, clock: Clock | None = None) -> None:
    """Raises Refusal E_CARD unless every signature of the card is well formed, and one is by a key of ours."""
    from a2a.utils.signing import SignatureVerificationError, create_signature_verifier

    if not card.signatures:
        raise Refusal(E_CARD, "the card is not signed")
    now = datetime.fromtimestamp((clock or SystemClock()).wall(), UTC)
    problem = "no signature by a key of ours"
    for signature in card.signatures:
        header = _header(signature.protected)
        kid, key = header["kid"], keys.get(header["kid"])
        if signature.HasField("header") and signature.header.fields:
            raise Refusal(E_CARD, "a signature has a header that nobody signed")
        if key is None:
            continue
        if header["alg"] != key.alg:
            raise Refusal(E_CARD, "a signature's algorithm is not its key's")
        if key.not_after and now.date().isoformat() > key.not_after:
            raise Refusal(E_CARD, "the key of the signature has expired")
        expires = header.get("exp", now.timestamp() + 1)
        if type(expires) not in (int, float) or expires <= now.timestamp():
            raise Refusal(E_CARD, "the signature has expired")
        alone = type(card)()
        alone.CopyFrom(card)
        del alone.signatures[:]
        alone.signatures.append(signature)
        pem = _pem(key, kid)
        try:
            create_signature_verifier(partial(_only, pem), [key.alg])(alone)
        except SignatureVerificationError:
            problem = "the signature does not fit the card"
            continue
        except Exception as error:  # noqa: BLE001 - the edge to a library: whatever it trips over is no proof
            raise Refusal(E_CARD, f"the signature cannot be checked: {type(error).__name__}") from None
        return
    raise Refusal(E_CARD, problem)


def _only(pem: bytes, _kid: str | None, _jku: str | None) -> bytes:
    """The one key that counts, whatever the signature says of keys."""
    return pem


def _header(protected: str) -> dict[str, Any]:
    try:
        padded = protected.encode() + b"=" * (-len(protected) % 4)
        header = read_json(base64.b64decode(padded, b"-_", validate=True), max_bytes=4096, max_depth=2)
    except (Refusal, binascii.Error, ValueError):
        raise Refusal(E_CARD, "a signature's header cannot be read") from None
    if not isinstance(header, dict) or set(header) - _HEADER:
        raise Refusal(E_CARD, "a signature's header names what is not relied on")
    if header.get("alg") not in ALGORITHMS or not isinstance(header.get("kid"), str):
        raise Refusal(E_CARD, f"a signature's algorithm is none of {', '.join(ALGORITHMS)}, or its key has no name")
    return header


def _pem(key: CardKey, kid: str) -> bytes:
    if key.pem.lstrip().startswith("-----BEGIN"):
        pem = key.pem.encode()
    else:
        try:
            pem = Path(key.pem).read_bytes()
        except OSError as error:
            raise ConfigError(f"[keys.{kid}] pem: {error.strerror or error}", "a PEM text, or its file") from None
    if b"PUBLIC KEY" not in pem:
        raise ConfigError(f"[keys.{kid}] pem holds no public key", "give the public key, and keep the private one away")
    return pem
