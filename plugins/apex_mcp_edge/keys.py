"""The keys of a server in an ``mcpServers`` file: ours, those that other hosts read, and misspelt ones."""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from apex_framework.errors import ConfigError

USED: Final = ("apex", "args", "command", "cwd", "disabled", "env", "headers", "transport", "type", "url")
IGNORED: Final = frozenset(
    {
        *("alwaysAllow", "autoApprove", "autoStart", "description", "dev", "displayName", "gallery", "icon", "id"),
        *("name", "note", "notes", "timeout", "trust", "version", "watchPaths"),
    }
)
"""What other hosts have there and what changes neither which tools are taken here nor how the server is reached."""
INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("httpUrl", "serverUrl", "baseUrl", "endpoint"), "write it as url"),
    "envFile": "write what it holds into env; ${NAME} takes a value from the environment",
    "workingDirectory": "write it as cwd",
    **dict.fromkeys(
        ("enabledTools", "includeTools", "excludeTools", "disabledTools", "allowedTools"),
        'name the tools that are taken: "apex": {"tools": [...]}',
    ),
    "enabled": 'write it as disabled, the other way round: "disabled": true',
    **dict.fromkeys(
        ("auth", "authProviderType", "oauth", "authorization_token", "bearerToken", "requestInit"),
        "a token belongs into headers",
    ),
}
"""What other hosts read and what would mean something else if it were left out, and what to write instead."""
_OF_COMMANDS: Final = frozenset({"args", "cwd", "env"})
_OF_URLS: Final = frozenset({"headers"})
_OVER_PIPES: Final = frozenset({"stdio", "local"})
_OVER_HTTP: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http", "remote"})

_log = logging.getLogger(__name__)


def check_keys(where: str, given: Mapping[str, Any]) -> None:
    """Raises ConfigError for a key that means nothing here; says once which known ones of other hosts are ignored."""
    for key in given:
        if key in USED:
            continue
        if key in INSTEAD:
            raise ConfigError(f"{where}: {key!r} is not read here", INSTEAD[key])
        if key not in IGNORED:
            raise ConfigError(f"{where} has no setting {key[:40]!r}", nearest(key, USED))
    unused = _OF_COMMANDS if "url" in given else _OF_URLS
    if ignored := tuple(sorted((IGNORED | unused) & given.keys())):
        _say(where, ignored)
    if not isinstance(given.get("disabled", False), bool):
        raise ConfigError(f"{where}: disabled is not true or false")
    for key in ("type", "transport"):
        if key in given:
            _check_type(f"{where}: {key}", given[key], "url" in given)


def nearest(key: str, known: Iterable[str]) -> str:
    """What a misspelt key may have meant, in words."""
    known = sorted(known)
    by_small = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(key.casefold(), by_small, n=1)
    meant = f"did you mean {by_small[close[0]]!r}? " if close else ""
    return f"{meant}known: {', '.join(known)}"


def _check_type(where: str, given: object, has_url: bool) -> None:
    fits = _OVER_HTTP if has_url else _OVER_PIPES
    if isinstance(given, str) and given in fits:
        return
    if given == "sse":
        raise ConfigError(f"{where} 'sse' is not spoken here", "ask for streamable HTTP: the url often ends in /mcp")
    said = "a url" if has_url else "a command"
    raise ConfigError(f"{where} {given!r:.40} does not go with {said}", f"leave it out, or write {min(fits)!r}")


@functools.lru_cache(maxsize=256)
def _say(where: str, keys: tuple[str, ...]) -> None:
    _log.warning("%s: ignored here: %s", where, ", ".join(keys))
