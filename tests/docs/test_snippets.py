"""What the documentation shows works: Python runs, commands exist with their options, settings are valid."""

from __future__ import annotations

import contextlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from apex_framework.cli.program import apex
from apex_framework.config import load_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
EXTRAS = {
    "a2a",
    "aiohttp",
    "google",
    "grpc",
    "mcp",
    "ollama",
    "opentelemetry",
    "pandas",
    "prometheus_client",
    "uvicorn",
}
"""What the environment with all extras has and others may lack."""


@dataclass(frozen=True)
class Snippet:
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(*languages: str) -> Iterator[Snippet]:
    """Fenced blocks in some languages; a block marked ``no-run`` after its language is left alone."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if match[1] in languages and "no-run" not in match[2]:
                yield Snippet(page, text[: match.start()].count("\n") + 1, match[1], match[3])


def commands() -> Iterator[tuple[Snippet, str]]:
    """Lines that call ``apex``, continued lines joined."""
    for snippet in snippets("sh", "bash", "console"):
        for line in snippet.text.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("$ ")
            if re.match(r"(python -m apex_framework|apex)\s", line):
                yield snippet, line


def of_pages(*languages: str) -> list[object]:
    return [pytest.param(s, id=str(s)) for s in snippets(*languages)]


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_python_on_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "snippet"}
    for snippet in snippets("python"):
        if snippet.page == page:
            padding = "\n" * snippet.line  # so that a traceback shows the page's line
            try:
                exec(compile(padding + snippet.text, str(page), "exec"), names)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in EXTRAS:
                    raise
                pytest.skip(f"{page.name} needs {error.name}: run where everything is installed")


@pytest.mark.parametrize("line", [pytest.param(line, id=f"{s}: {line[:60]}") for s, line in commands()])
def test_commands_exist_with_the_options_that_are_shown(line: str) -> None:
    words = shlex.split(line, comments=True)
    words = words[3:] if words[0] == "python" else words[1:]
    if cut := next((i for i, word in enumerate(words) if word in {"|", ">", ">>", "&&", ";", "||"}), 0):
        words = words[:cut]
    with contextlib.suppress(click.exceptions.Exit):  # --version and --help end where they stand
        parse(apex, words)


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse as the program would, down to the last subcommand, without running anything."""
    context = command.make_context(command.name, list(words), parent=parent)
    if not isinstance(command, click.Group):
        return
    first = context._protected_args if hasattr(context, "_protected_args") else context.protected_args  # click 8.1
    if rest := [*first, *context.args]:
        _, inner, arguments = command.resolve_command(context, rest)
        assert inner is not None
        parse(inner, arguments, context)


@pytest.mark.parametrize("snippet", of_pages("toml"))
def test_settings_that_are_shown_are_valid(snippet: Snippet, tmp_path: Path) -> None:
    data = tomllib.loads(snippet.text)
    if "project" in data or "build-system" in data:
        return
    (tmp_path / "apex.toml").write_text(snippet.text)
    load_settings(directory=tmp_path, environ={})
