"""The error boundary: every way a command can end becomes an exit status and at most two lines on stderr."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from ..errors import ApexError

LOG_LIMIT = 1_000_000
"""Bytes of the log of errors after which it is begun anew; the last one is kept as ``errors.log.1``."""


def run(arguments: Sequence[str], command: click.Command | None = None, name: str = "apex") -> int:
    """Run ``apex``, or another command that takes a Context, with these arguments; never raises."""
    from .context import Context
    from .program import apex

    as_json = "--json" in arguments
    try:
        if command is None:
            result = apex.main(args=list(arguments), prog_name=name, standalone_mode=False)
        else:
            result = command.main(args=list(arguments), prog_name=name, standalone_mode=False, obj=Context())
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except ApexError as error:
        _log(error)
        return _tell(error.code, error.cause, error.remedy, error.exit_status, as_json=as_json)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else name
        return _tell("E0200", error.format_message(), f"see: {where} --help", 2, as_json=as_json)
    except click.FileError as error:
        return _tell("E0300", error.format_message(), "", 3, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        return _tell(
            "E0130", "interrupted", "the same command again; a run goes on with: apex resume RUN", 130, as_json=as_json
        )
    except SystemExit as leaving:
        if "PacifyFlush" in type(sys.stdout).__name__:  # click's own answer to a reader that went away
            return 141
        return leaving.code if isinstance(leaving.code, int) else 1
    except BrokenPipeError:
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001 - the program's edge: a bug is told in one line and kept in the log
        path = _log(error)
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return _tell(
                "E0200", f"too long a name: {str(error.filename)[:60]}…", "give a shorter one", 2, as_json=as_json
            )
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        return _tell("E0001", f"bug in apex: {cause}", f"traceback: {path}", 1, as_json=as_json)


def _tell(code: str, cause: str, remedy: str, status: int, *, as_json: bool) -> int:
    if as_json:
        error = {"code": code, "cause": cause, "remedy": remedy, "exit_status": status}
        click.echo(json.dumps({"error": error}, ensure_ascii=False))
    else:
        click.echo(_printable(f"error[{code}]: {cause}" + (f"\n  {remedy}" if remedy else "")), err=True)
    return status


def _printable(text: str) -> str:
    """Without what a terminal would obey: names come from anywhere."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def _log(error: BaseException) -> Path | None:
    """Append a traceback to the log; the path, or None (and the traceback on stderr) when it cannot be written."""
    text = "".join(traceback.format_exception(error))
    try:
        import platformdirs

        path = Path(platformdirs.user_state_dir("apex-framework", appauthor=False)) / "errors.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_suffix(".log.1"))
        with path.open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} pid {os.getpid()}\n{text}\n")
    except OSError:
        if not isinstance(error, ApexError):
            click.echo(text, err=True)
        return None
    return path
