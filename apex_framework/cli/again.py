"""The command that makes the same run anywhere: what a file or a variable said here, it says itself."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..config import Settings

FILES = ("budgets", "controller_file", "out")
"""Not repeated: what such a file says is in the settings by name, and a run folder is no setting of the run."""


def differing(settings: Settings) -> dict[str, str]:
    """The settings that are not as they are where nobody says anything, each as ``--set`` takes it."""
    usual = type(settings).model_validate({})
    return {
        name: _text(name, getattr(settings, name))
        for name in type(settings).model_fields
        if name not in FILES and getattr(settings, name) != getattr(usual, name)
    }


def command_again(settings: Settings, argv: Sequence[str], config: str) -> str:
    """The command line of ``apex run``, with ``--set`` for what it did not say; empty in any other command.

    Where a value cannot be said in one text, the file ``config`` says all of them.
    """
    found = click.get_current_context(silent=True)
    if found is None or found.info_name != "run":
        return ""
    texts = differing(settings)
    said = _said(found.params)
    places = [name for name in ("data", "repos") if found.params.get(name) is not None]
    if places:
        own = {name: value for name, value in settings.suite_options.items() if name not in places}
        texts.pop("suite_options", None)
        texts |= {"suite_options": _text("suite_options", own)} if own else {}
    words = _without(argv, "--config") if found.params.get("config_file") is not None else list(argv)
    missing = {name: text for name, text in texts.items() if name not in said}
    if any(not _reads_back(settings, name, text) for name, text in missing.items() if name != "suite_options"):
        return shlex.join(["apex", *words, "--config", config])
    return shlex.join(["apex", *words, *(word for n, text in missing.items() for word in ("--set", f"{n}={text}"))])


def _said(params: Mapping[str, Any]) -> set[str]:
    """The settings that flags said."""
    from ..config import ALIASES

    names = {name for name, value in params.items() if value is not None and value != ()}
    for assignment in params.get("assignments") or ():
        name = assignment.partition("=")[0].strip().replace("-", "_")
        names.add(ALIASES.get(name, name))
    if "/" in str(params.get("suite") or ""):
        names.add("split")
    return names


def _text(name: str, value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={inner}" for key, inner in value.items())
    if isinstance(value, tuple):
        return (" " if name == "controllers" else ",").join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reads_back(settings: Settings, name: str, text: str) -> bool:
    try:
        return bool(getattr(type(settings).model_validate({name: text}), name) == getattr(settings, name))
    except ValueError:
        return False


def _without(words: Sequence[str], option: str) -> list[str]:
    """The words without an option and its value."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and not word.startswith(f"{option}="):
            skip = word == option
            if not skip:
                kept.append(word)
        else:
            skip = False
    return kept
