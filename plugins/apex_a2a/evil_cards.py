"""Forged cards: each call hands one to ``read_card``, which must refuse it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from .cards import read_card
from .settings import CardKey

KID: Final = "operator-1"
CARD: Final[Mapping[str, Any]] = {
    "name": "agent",
    "description": "d",
    "version": "1",
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
}


def encoded(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def canonical(card: Mapping[str, Any]) -> bytes:
    """The canonical form of such plain cards: sorted names, no spaces."""
    return json.dumps(card, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def key_pair(alg: str = "ES256") -> tuple[Any, str]:
    """A fresh private key, and the PEM text of its public half."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private: Any = ec.generate_private_key(ec.SECP256R1()) if alg == "ES256" else ed25519.Ed25519PrivateKey.generate()
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return private, pem


def signed(private: Any, card: Mapping[str, Any], payload: bytes | None = None, **header: Any) -> dict[str, Any]:
    """A card with a signature over ``payload`` (its canonical form)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    head = {"alg": "ES256", "kid": KID, "typ": "JOSE", **header}
    protected = encoded(json.dumps(head).encode())
    data = f"{protected}.{encoded(canonical(card) if payload is None else payload)}".encode()
    if isinstance(private, bytes):
        import hashlib
        import hmac

        signature = hmac.digest(private, data, hashlib.sha256)
    elif isinstance(private, ec.EllipticCurvePrivateKey):
        r, s = utils.decode_dss_signature(private.sign(data, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    else:
        signature = b"" if private is None else private.sign(data)
    return {**card, "signatures": [{"protected": protected, "signature": encoded(signature)}]}


def _try(make: Callable[[Any, str], dict[str, Any] | bytes], **key: str) -> Callable[[], object]:
    def forge() -> object:
        private, pem = key_pair()
        card = make(private, pem)
        data = card if isinstance(card, bytes) else json.dumps(card).encode()
        return read_card(data, {KID: CardKey("ES256", pem, **key)})

    return forge


def _changed(private: Any, _pem: str) -> dict[str, Any]:
    return {**signed(private, CARD), "name": "another"}


def _unprotected(private: Any, _pem: str) -> dict[str, Any]:
    card = signed(private, CARD)
    card["signatures"][0]["header"] = {"kid": "attacker"}
    return card


CARDS: Final[Mapping[str, Callable[[], object]]] = {
    "not signed": _try(lambda private, pem: dict(CARD)),
    "alg none": _try(lambda private, pem: signed(None, CARD, alg="none")),
    "the public key as HS256 secret": _try(lambda private, pem: signed(pem.encode(), CARD, alg="HS256")),
    "another key": _try(lambda private, pem: signed(key_pair()[0], CARD)),
    "a key that nobody knows": _try(lambda private, pem: signed(private, CARD, kid="attacker")),
    "another algorithm than the key's": _try(lambda private, pem: signed(key_pair("EdDSA")[0], CARD, alg="EdDSA")),
    "jku": _try(lambda private, pem: signed(private, CARD, jku="https://evil.example/keys")),
    "x5u": _try(lambda private, pem: signed(private, CARD, x5u="https://evil.example/cert")),
    "jwk": _try(lambda private, pem: signed(private, CARD, jwk={"kty": "EC"})),
    "critical extension": _try(lambda private, pem: signed(private, CARD, crit=["b64"], b64=False)),
    "over another form than the canonical": _try(
        lambda private, pem: signed(private, CARD, payload=json.dumps(CARD).encode())
    ),
    "changed after signing": _try(_changed),
    "an unsigned header": _try(_unprotected),
    "the key has expired": _try(lambda private, pem: signed(private, CARD), not_after="2020-01-01"),
    "the signature has expired": _try(lambda private, pem: signed(private, CARD, exp=1_000_000_000)),
    "names given twice": _try(
        lambda private, pem: json.dumps(signed(private, CARD)).replace("{", '{"name":"first",', 1).encode()
    ),
    "no object": _try(lambda private, pem: b"[]"),
    "nested too deep": _try(lambda private, pem: b"[" * 5000),
    "a megabyte": _try(lambda private, pem: b" " * 2**20),
}
"""Name -> a call that must raise Refusal E_CARD."""
