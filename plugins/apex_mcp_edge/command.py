"""``apex mcp``: serve our tools, write them into a host's configuration, look at outside servers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apex_framework.errors import EnvironmentProblem, MissingExtraError, UsageError

from . import hosts
from .launch import Offer, address, checked_root, door, tested, token_of

if TYPE_CHECKING:
    from .serving import Served

_TOOLS = click.argument("tools", metavar="fs|git|test ...", nargs=-1, required=True)
_ROOT = click.option("--root", metavar="DIR", help="The folder that may be read and changed. There is no default.")
_READ_ONLY = click.option("--read-only", is_flag=True, help="Only the tools that change nothing.")
_WORKSPACE = click.option(
    "--workspace", metavar="NAME", help="Where tests run, on a copy (local for unittest, checkout for other runners)."
)
_RUNNER = click.option("--runner", default="unittest", metavar="NAME", help="How tests are run (unittest).")


@click.group()
def mcp() -> None:
    """Offer our tools to MCP hosts, and look at outside MCP servers."""


@mcp.command()
@_TOOLS
@_ROOT
@_READ_ONLY
@click.option("--http", metavar="HOST:PORT", help="Streamable HTTP instead of stdin and stdout; loopback only.")
@click.option("--allow-remote", is_flag=True, help="Let --http bind an address that others reach.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token that a host must send; without it one is made and shown.",
)
@click.option("--origin", "origins", multiple=True, metavar="URL", help="An origin that browsers may call from.")
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="A rule that may deny calls.")
@click.option("--scope", "scopes", multiple=True, metavar="NAME", help="A scope that calls hold.")
@_WORKSPACE
@_RUNNER
@click.pass_obj
def serve(context: Any, /, tools: tuple[str, ...], root: str | None, http: str | None, **options: Any) -> None:
    """Serve tools over one folder, on stdin and stdout, or over HTTP.

    What is served can be read and changed by whoever speaks to it, within the folder and nowhere else.
    """
    offer = Offer(
        tools,
        checked_root(root),
        options["read_only"],
        options["policies"],
        options["scopes"],
        *_tests(tools, options),
    )
    if http is None and (options["token_file"] or options["origins"] or options["allow_remote"]):
        raise UsageError("--token-file, --origin and --allow-remote belong to --http")
    bound = None if http is None else (*address(http, remote=options["allow_remote"]), token_of(options["token_file"]))
    made = _served(context, offer)
    if bound is None:
        _run(_over_stdio, made)
    else:
        host, port, token = bound
        shown = "" if options["token_file"] else f"\ntoken {token}"
        _run(_over_http, made, host, port, token, options["origins"], lambda url: context.say(f"{url}{shown}"))


@mcp.command()
@_TOOLS
@_ROOT
@_READ_ONLY
@click.option(
    "--client",
    default=".mcp.json",
    metavar="claude|cursor|vscode|FILE",
    help="Whose configuration: a host's, or any mcpServers file (.mcp.json).",
)
@click.option("--name", help="Name of the server there (apex-fs, ...).")
@click.option("--force", is_flag=True, help="Replace another server of the same name.")
@_WORKSPACE
@_RUNNER
@click.pass_obj
def install(context: Any, /, tools: tuple[str, ...], root: str | None, client: str, **options: Any) -> None:
    """Write our servers into a host's configuration; everything else in the file stays."""
    folder = checked_root(root)
    known = context.plugins.catalog
    for tool in tools:
        known.entry("tool", tool)
    if options["name"] and len(tools) > 1:
        raise UsageError("--name fits one server, not several")
    workspace, runner = _tests(tools, options)
    known.entry("workspace", workspace)
    if "test" in tools:
        tested(known.make, folder, workspace, runner).close()
    chosen = () if runner == "unittest" and workspace == "local" else ("--workspace", workspace, "--runner", runner)
    servers = {
        options["name"] or f"apex-{tool}": hosts.entry(
            tool, folder, *(chosen if tool == "test" else ()), read_only=options["read_only"]
        )
        for tool in tools
    }
    path, key = hosts.place(client)
    hosts.replace(path, hosts.merged(path, key, servers, force=options["force"]))
    value = {"file": str(path.absolute()), key: servers}
    lines = [f"  {name}: {' '.join([s['command'], *s['args']])}" for name, s in servers.items()]
    context.emit(value, "\n".join([f"wrote to {path.absolute()}:", *lines]))


@mcp.command("tools")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def tools_of(context: Any, /, file: Path) -> None:
    """Start the outside servers of an mcpServers file and list their tools, with the hash that pins each server."""
    made = context.plugins.catalog.make("tool", f"mcp:{file}")
    try:
        rows = [{"tool": s.name, "scopes": sorted(s.scopes), "read_only": s.read_only} for s in made.tools]
        pins = made.pins
    finally:
        made.shut()
    lines = [f"{row['tool']}  (scope {', '.join(row['scopes'])})" for row in rows]
    lines += [f"{name}: pin {pin}" for name, pin in pins.items()]
    context.emit({"tools": rows, "pins": pins}, "\n".join(lines) or "no tools")


def _tests(tools: tuple[str, ...], options: Mapping[str, Any]) -> tuple[str, str]:
    """Workspace provider and runner; ``local`` knows unittest alone. Raises UsageError where no tests are offered."""
    runner = options["runner"]
    if "test" not in tools and (options["workspace"] or runner != "unittest"):
        raise UsageError("--workspace and --runner belong to the tools test", "leave them out, or offer test as well")
    return options["workspace"] or ("local" if runner == "unittest" else "checkout"), runner


def _served(context: Any, offer: Offer) -> Served:
    try:
        from .serving import Served
    except ImportError as error:
        raise MissingExtraError("apex mcp serve", "mcp", error.name or "") from error
    service, capability = door(context.plugins.catalog.make, offer)
    if not capability.tools:
        raise UsageError(f"{', '.join(offer.tools)} has no tool that only reads", "leave --read-only out")
    return Served(service, capability, name=f"apex-{'-'.join(dict.fromkeys(offer.tools))}")


def _run(work: Any, *arguments: Any) -> None:
    import asyncio

    asyncio.run(work(*arguments))


async def _over_stdio(made: Served) -> None:
    from .stdio import stdio

    server = made.server()
    try:
        async with stdio() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await made.close()


async def _over_http(made: Served, host: str, port: int, token: str, origins: tuple[str, ...], say: Any) -> None:
    from .http import application, listen, runner

    try:
        socket = listen(host, port)
    except OSError as error:
        raise EnvironmentProblem(f"{host}:{port} cannot be bound: {error.strerror or error}") from error
    with socket:
        port = socket.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        names = [f"{shown}:{port}"] + [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        web = runner(application(made.server(), list(dict.fromkeys(names)), token, origins))
        say(f"http://{shown}:{port}/mcp")
        sys.stderr.flush()
        try:
            await web.serve(sockets=[socket])
        finally:
            await made.close()
