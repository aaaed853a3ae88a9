"""``apex a2a``: serve a team, make tokens, check cards, attack a server of one's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from apex_framework import load_plugins
from apex_framework.errors import CheckFailedError, ConfigError, UsageError

from .refusal import Refusal
from .settings import Settings, read_settings, token_hash


@click.group()
def a2a() -> None:
    """A team as an A2A agent, and what keeps it safe."""


@a2a.command()
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings: a2a.toml.")
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of HTTP (8700); 0: any.")
@click.option("--grpc-port", type=click.IntRange(0, 65535), help="Port of gRPC; 0: none.")
@click.option("--insecure-local", is_flag=True, help="No tokens; on loopback only.")
@click.option("--trust-task-code", is_flag=True, help="Run outsiders' tests in a sandbox weaker than they demand.")
@click.pass_obj
def serve(
    context: Any,
    config: Path | None,
    host: str | None,
    port: int | None,
    grpc_port: int | None,
    insecure_local: bool,
    trust_task_code: bool,
) -> None:
    """Serve until interrupted. The card is at /.well-known/agent-card.json, JSON-RPC at /."""
    settings = read_settings(config) if config is not None else Settings()
    given = {"host": host, "port": port, "grpc_port": grpc_port}
    server = replace(settings.server, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]  # each value has its own field's type
    work = replace(settings.work, trust_task_code=settings.work.trust_task_code or trust_task_code)
    settings = replace(settings, server=server, work=work)
    from .server import admitted, serving

    admitted(settings, insecure_local=insecure_local)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # it logs what clients send, in full

    async def run() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(each, over.set)
        async with serving(settings, _plugins(context).catalog, insecure_local=insecure_local) as running:
            where = {"url": running.url, "grpc_port": running.grpc_port, "principals": len(running.settings.principals)}
            words = f"A2A at {running.url}" + (f", gRPC at port {running.grpc_port}" if running.grpc_port else "")
            click.echo(json.dumps(where) if getattr(context, "json", False) else words)
            await over.wait()

    asyncio.run(run())


@a2a.command()
@click.argument("name")
@click.pass_obj
def token(context: Any, name: str) -> None:
    """Make a token for principal NAME: the token for it, the lines for a2a.toml."""
    if not name.isidentifier() or len(name) > 64:
        raise UsageError(f"{name!r} is no name of a principal", "letters, digits and _, at most 64")
    made = secrets.token_urlsafe(32)
    digits = token_hash(made)
    if getattr(context, "json", False):
        click.echo(json.dumps({"principal": name, "token": made, "token_sha256": digits}))
    else:
        click.echo(
            f'token (give it to {name}, it is not kept): {made}\n\n[principals.{name}]\ntoken_sha256 = "{digits}"'
        )


@a2a.command()
@click.argument("card", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--config", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Settings with [keys].")
@click.pass_obj
def verify(context: Any, card: Path, config: Path) -> None:
    """Is the signature of an agent card in file CARD by a key of the store?"""
    from .cards import read_card

    settings = read_settings(config)
    try:
        data = card.read_bytes()
    except OSError as error:
        raise ConfigError(f"{card}: {error.strerror or error}", "give a card's file") from None
    try:
        found = read_card(data, settings.keys)
    except Refusal as refusal:
        raise CheckFailedError(
            str(refusal), "do not talk to it; ask its operator for the card, or for the key"
        ) from None
    click.echo(
        json.dumps({"name": found.name, "ok": True}) if getattr(context, "json", False) else f"{found.name}: signed"
    )


@a2a.command()
@click.option(
    "-n", "count", type=click.IntRange(min=0), default=5_000, help="Fuzzed bodies over each of HTTP and gRPC (5,000)."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the bodies (0).")
@click.pass_obj
def attack(context: Any, count: int, seed: int) -> None:
    """The evil client against a server of its own on this machine: every attack, then fuzzed bodies, over HTTP and gRPC.

    Exit status 5 when an attack is not refused with its code, or a body breaks the server.
    """
    from .siege import siege

    for name in ("a2a", "apex_a2a"):  # every refusal would be told
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    report = asyncio.run(siege(_plugins(context).catalog, count, seed))
    if getattr(context, "json", False):
        click.echo(json.dumps(report))
    else:
        for name, row in report["attacks"].items():
            click.echo(f"{'refused' if row['ok'] else 'NOT REFUSED'}  {row['code']:<11} {name}")
        click.echo(
            f"{report['refused']} of {len(report['attacks'])} attacks refused, {report['reached']} messages reached a router"
        )
        for way, row in report["fuzz"].items():
            click.echo(
                f"{count:,} bodies over {way}: {row['broken']} broke it, {row['per_s']:,.0f}/s, +{row['grown_mib']:.1f} MiB"
            )
    broken = sum(row["broken"] for row in report["fuzz"].values())
    if report["refused"] < len(report["attacks"]) or report["reached"] or broken:
        first = next((row["first"] for row in report["fuzz"].values() if row["first"]), "")
        raise CheckFailedError(f"the server did not hold: {broken} bodies broke it", first)


def _plugins(context: Any) -> Any:
    return context.plugins if hasattr(context, "plugins") else load_plugins()
