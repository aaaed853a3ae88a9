"""The ``apex`` program. One small file per command; none is imported before it is called.

A new command is one line in ``COMMANDS``: name -> ("module:attribute of the click command", one line of help).
``--json`` is added to each of them; the command takes ``@click.pass_obj`` and gets a ``cli.context.Context``.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "config": ("apex_framework.cli.config:config", "Show the settings in force and where each came from."),
    "plugins": ("apex_framework.cli.plugins:plugins", "List plugins: what they bring, their status and load time."),
}
"""The kernel's commands, in alphabetical order. Plugins add theirs by the hook ``apex_commands``."""


def main() -> None:
    """Run ``apex`` and exit with its status."""
    import sys

    from .boundary import run

    sys.exit(run(sys.argv[1:]))
