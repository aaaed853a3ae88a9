"""``python -m apex_framework.scripts.reference --out docs/reference.md``: the reference, made from the sources.

Contracts are read as text, so the page does not depend on the Python that makes it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click

from ..errors import RunFolderError
from .contracts import contracts, words

EPISODE_COLUMNS = {
    "arm": "name of the arm",
    "task_id": "the task",
    "seed": "the episode's seed; arms are compared on equal (task_id, seed)",
    "success": "whether the hidden tests pass",
    "tokens": "tokens of all settled model calls, in and out",
    "steps": "messages handled",
    "switches": "committed switches of topology",
    "denied": "model calls that the budget refused",
    "status": "`finished`, `quiet`, `max_steps`, or `infrastructure` (could not be run: neither success nor failure)",
    "reason": "why it ended, in words",
    "visible_passed": "whether all visible tests pass at the end",
    "overfit": "visible tests pass and hidden ones fail",
    "overspent": "tokens above the budget",
    "violations": "settlements that took a scope above its limit",
    "aborted": "switches that were aborted",
    "calls": "model calls made",
    "failed_calls": "of these, how many had no answer and were not cancelled",
    "message_tokens": "part of the prompts that came from other agents' messages",
    "denied_tokens": "sum of the estimates that were refused",
    "test_runs": "test runs by agents",
    "topologies": "steps spent in each topology",
    "budget": "tokens that the episode had",
    "cluster": "unit of independence: a module or a repository",
    "family": "kind of task within the suite",
    "suite_digest": "hash of everything that decides tasks and verdicts",
    "evaluator": "who judged",
    "faults": "first five errors of agents",
    "decision_ms": "wall milliseconds of every decision, sorted",
    "wall_ms": "wall milliseconds of the episode",
}
"""Columns of episodes.jsonl."""

FILES = (
    (
        "run.json",
        "the plan: suite with digest, tasks, arms, seeds, versions; its digest, the command, and one that makes it anywhere",
    ),
    ("config.toml", "the settings in force, as a configuration file"),
    ("episodes.jsonl", "one line per finished episode, in the plan's order"),
    ("decisions.jsonl", "one line per decision: `DecisionTaken` with arm, task_id and seed"),
    ("switches.jsonl", "one line per switch: `SwitchFinished`"),
    ("calls.jsonl", "one line per model call: `CallSettled`, or `CallDenied` with status `denied`"),
    ("events.jsonl", "one line per other event: tool calls, probes, pins, pressure, stalls"),
    ("ops.jsonl", "one line per tool call, refused ones included: `OperationLogged`; see [tools](tools.md)"),
    ("episodes/ARM/TASK/SEED/metrics.jsonl", "the episode's metrics, as its worker counted them"),
    ("episodes/ARM/TASK/SEED/trace.jsonl", "what every message went through: `MessageMoved`"),
    ("episodes/ARM/TASK/SEED/patch.diff", "the team's change"),
    ("predictions/ARM.jsonl", "patches in the SWE-bench form"),
    ("metrics/summary.json", "counters and histograms with fixed buckets, per arm"),
    (
        "metrics/metrics.jsonl",
        "every metric per arm, histograms with bins and quantiles; see [telemetry](telemetry.md)",
    ),
    ("metrics/throughput.jsonl", "messages per arm and class: admitted, acknowledged, dead, refused, per second"),
    ("metrics/latency_attrib.jsonl", "where the time of messages (every fourth), decisions and switches went"),
    ("export/", "what exporters wrote; not part of the manifest"),
    ("report/", "the built-in reports as they were when the run ended"),
    ("DONE", "SHA-256 of what the run wrote; its presence says that the run is finished"),
)
"""Files of a run folder."""


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Where the page is written.")
@click.pass_obj
def main(context: Any, /, out: Path) -> None:
    """Write the reference as one Markdown page."""
    text = page()
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write {out}: {error.strerror}", "choose another --out") from error
    context.emit({"out": str(out), "lines": text.count("\n")}, f"{out}: {text.count(chr(10))} lines")


def page() -> str:
    """The whole page."""
    parts = ["# Reference", "Made by `python -m apex_framework.scripts.reference --out docs/reference.md`."]
    for title, lines in (
        ("Commands", _commands()),
        ("Settings", _settings()),
        ("Hooks", _hooks()),
        ("Built-in plugins", _built_in()),
        ("Contracts", _contracts()),
        ("Events", contracts(importlib.import_module("apex_framework.events"), "###")),
        ("Errors and exit statuses", _errors()),
        ("Run folder", _run_folder()),
        ("Benches", _benches()),
    ):
        parts += [f"## {title}", *lines]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    cells = [[str(c).replace("|", "\\|").replace("\n", " ") for c in row] for row in (head, *rows)]
    cells.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# --- the program ------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    from ..cli import COMMANDS
    from ..cli.program import apex

    yield "Every command takes `--json`; results go to stdout, talk to stderr."
    yield _options(apex)
    for name, (place, _) in COMMANDS.items():
        module, _, attribute = place.partition(":")
        yield from _command(f"apex {name}", getattr(importlib.import_module(module), attribute))


def _command(name: str, command: click.Command) -> Iterator[str]:
    places = [p for p in command.params if isinstance(p, click.Argument)]
    arguments = " ".join(p.metavar or (f"{p.name}" if p.required else f"[{p.name}]").upper() for p in places)
    yield f"### `{name}{' ' + arguments if arguments else ''}`"
    yield words((command.help or "").replace("\b", ""))
    yield _options(command)
    if isinstance(command, click.Group):
        for inner, child in sorted(command.commands.items()):
            yield from _command(f"{name} {inner}", child)


def _options(command: click.Command) -> str:
    rows = []
    for p in command.params:
        if isinstance(p, click.Option) and "--help" not in p.opts:
            said = p.show_default and not callable(p.default)
            value = "" if p.is_flag or p.count else p.metavar or p.type.name.upper()
            flags = " / ".join([", ".join(p.opts), *p.secondary_opts])
            rows.append((_code(f"{flags} {value}".strip()), p.help or "", _code(p.default) if said else ""))
    return _table(("option", "meaning", "default"), rows) if rows else ""


def _settings() -> Iterator[str]:
    from ..config import ALIASES, ENVIRONMENT_PREFIX, Settings

    yield (
        "In `apex.toml`, in the table `[tool.apex]` of `pyproject.toml`, or as a variable; a flag of the command wins over "
        "a variable, a variable over the file. `apex config show --origin` says what is in force and why."
    )
    rows = []
    for name, field in Settings.model_fields.items():
        default = field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]  # ours take no argument
        rows.append(
            (
                _code(name),
                _code(_type(field.annotation)),
                _code(_value(default)),
                _code(ENVIRONMENT_PREFIX + name.upper()),
                field.description or "",
            )
        )
    yield _table(("setting", "type", "default", "variable", "meaning"), rows)
    yield "Other spellings: " + ", ".join(f"`{other}` for `{name}`" for other, name in ALIASES.items()) + "."


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, get_args(annotation)))
    if get_origin(annotation) in (tuple, list):
        return "list of str"
    if get_origin(annotation) is dict:
        return "table of str"
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join("unset" if a is type(None) else _type(a) for a in get_args(annotation))
    return {"Path": "path"}.get(getattr(annotation, "__name__", ""), getattr(annotation, "__name__", str(annotation)))


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _errors() -> Iterator[str]:
    from .. import errors
    from ..cli.program import EPILOG

    yield EPILOG.replace("\b", "").strip().replace("Exit status:\n", "").replace("  ", "* ", 1).replace("\n  ", "\n* ")
    yield "An error is one line of cause with a code, and one line of remedy; with `--json` it is an object on stdout."
    found = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.ApexError)]
    rows = [(_code(c.code), _code(c.__name__), c.exit_status, words(c.__doc__ or "")) for c in found]
    yield _table(("code", "class", "status", "meaning"), sorted(rows))


def _run_folder() -> Iterator[str]:
    yield _table(("file", "what it holds"), [(_code(name), text) for name, text in FILES])
    yield "### `episodes.jsonl`"
    yield "Wall time appears only in columns that end in `_ms`; everything else is the same for the same seed."
    yield _table(("column", "meaning"), [(_code(name), text) for name, text in EPISODE_COLUMNS.items()])


def _benches() -> Iterator[str]:
    from .. import benches

    yield "`apex bench NAME` prints one row per contender and metric."
    rows = []
    for name in benches.names():
        doc = ast.get_docstring(ast.parse(inspect.getsource(importlib.import_module(f"{benches.__name__}.{name}"))))
        rows.append((_code(name), words(doc or "").partition("\n\n")[0]))
    yield _table(("bench", "what it measures"), rows)


# --- the contracts ----------------------------------------------------------------------------


def _hooks() -> Iterator[str]:
    from ..catalog import _PROTOCOLS
    from ..hookspecs import KINDS, ApexSpec
    from ..testing import __all__ as public

    kits = {name.removeprefix("check_"): name for name in public if name.startswith("check_")}
    rows = []
    for kind, hook in KINDS.items():
        what, doc = _PROTOCOLS.get(kind, "click.Command"), getattr(ApexSpec, hook).__doc__
        rows.append((_code(hook), _code(kind), _code(what), words(doc), _code(kits.get(kind, ""))))
    yield "Each registering hook is passed `add(name, factory, *, summary, requires)`."
    yield _table(("hook", "kind", "contract", "adds", "kit in `apex_framework.testing`"), rows)
    observers = [(name, hook) for name, hook in vars(ApexSpec).items() if name.startswith("apex_on_")]
    yield "Observers are told an event and return nothing; one that fails is logged once and harms nobody."
    yield _table(
        ("hook", "when"),
        [
            (_code(f"{name}({', '.join(list(inspect.signature(h).parameters)[1:])})"), words(h.__doc__ or ""))
            for name, h in observers
        ],
    )


def _built_in() -> Iterator[str]:
    from ..plugins import OWN_DISTRIBUTION, load_plugins

    entries = load_plugins(environ={"APEX_PLUGINS": ""}).catalog.entries()
    own = [e for e in entries if e.owner.distribution == OWN_DISTRIBUTION]
    yield _table(("kind", "name", "summary"), [(_code(e.kind), _code(e.name), e.summary) for e in own])


def _contracts() -> Iterator[str]:
    from .. import interfaces

    names = [node.module for node in ast.parse(inspect.getsource(interfaces)).body if isinstance(node, ast.ImportFrom)]
    for name in (*(n for n in names if n and n != "__future__"), "prompting"):
        module = importlib.import_module(f"{interfaces.__name__}.{name}")
        yield f"### `apex_framework.interfaces.{name}`"
        yield from contracts(module, "####")


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], main, "reference"))
