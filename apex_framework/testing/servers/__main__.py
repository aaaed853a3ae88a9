"""``python -m apex_framework.testing.servers KIND``: a test server until its input ends; prints its address."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Callable

from . import MISBEHAVIOURS, FaultServer, LoopbackServer, OllamaServer, OpenAIServer

SERVERS: dict[str, Callable[..., LoopbackServer]] = {
    "openai": OpenAIServer,
    "vllm": lambda **options: OpenAIServer(vllm=True, **options),
    "llama": lambda **options: OpenAIServer(llama=True, **options),
    "ollama": OllamaServer,
    **{f"fault:{name}": lambda name=name, **options: FaultServer(name, **options) for name in MISBEHAVIOURS},
}


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="python -m apex_framework.testing.servers", description=__doc__)
    parser.add_argument("kind", choices=SERVERS, metavar="KIND", help=", ".join(SERVERS))
    parser.add_argument("--port", type=int, default=0, help="0 (default): any that is free")
    parser.add_argument("--rtt-ms", type=float, default=0.0, help="emulated distance in milliseconds")
    parser.add_argument("--certificate", help="PEM file with key and chain: speak TLS")
    given = parser.parse_args()
    tls = None
    if given.certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(given.certificate)
    with SERVERS[given.kind](port=given.port, tls=tls, rtt_s=given.rtt_ms / 1000) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
