"""What every command gets: the plugins, and the two ways out (data on stdout, talk on stderr)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ..plugins import Plugins


class Context:
    """Global options and what hangs on them, loaded when first asked for."""

    def __init__(
        self,
        *,
        json: bool = False,
        block: tuple[str, ...] = (),
        safe_mode: bool = False,
        strict_plugins: bool = False,
        no_color: bool = False,
    ) -> None:
        self.json = json
        self.block = block
        self.safe_mode = safe_mode
        self.strict_plugins = strict_plugins
        self.no_color = no_color or bool(os.environ.get("NO_COLOR"))
        self._plugins: Plugins | None = None
        self._console: Console | None = None

    @property
    def plugins(self) -> Plugins:
        """The loaded plugins. Broken ones are named on stderr, once. Raises PluginError with --strict-plugins."""
        if self._plugins is None:
            for broken in self.load_plugins().report.broken:
                where = f" ({broken.distribution} {broken.version})" if broken.distribution else ""
                click.echo(f"warning: plugin {broken.name}{where} is BROKEN and left out: {broken.error}", err=True)
        return self.load_plugins()

    def load_plugins(self) -> Plugins:
        """The loaded plugins, without a word about broken ones."""
        if self._plugins is None:
            from ..plugins import load_plugins

            self._plugins = load_plugins(block=self.block, safe_mode=self.safe_mode, strict=self.strict_plugins)
        return self._plugins

    @property
    def console(self) -> Console:
        """Where talk and progress go: stderr."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(stderr=True, no_color=self.no_color or None, highlight=False)
        return self._console

    def emit(self, value: Any, text: str | None = None) -> None:
        """Write a result to stdout: ``value`` as one line of JSON with --json, else ``text`` (or the value itself)."""
        if self.json:
            click.echo(json.dumps(value, ensure_ascii=False, default=str))
        else:
            click.echo(str(value) if text is None else text, color=False if self.no_color else None)

    def say(self, text: str) -> None:
        """Write a line of talk to stderr."""
        click.echo(text, err=True, color=False if self.no_color else None)
