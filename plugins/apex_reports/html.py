"""The report as one HTML page that needs nothing beside itself: no script, no network, no font."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from apex_framework.interfaces import Illustrated

from . import sections
from .findings import Findings, find
from .plain import markup
from .style import PAGE_STYLE


class Html:
    """Verdict first, then all that it rests on; every figure drawn by hand, with its numbers beside it."""

    def __init__(self, best_static: str = "") -> None:
        self._best_static = best_static

    @property
    def name(self) -> str:
        """``html``."""
        return "html"

    @property
    def suffix(self) -> str:
        """``.html``."""
        return ".html"

    def render(self, runs: tuple[Path, ...]) -> str:
        """The page. Raises ArtifactError, NotComparableError."""
        return page(find(runs, self._best_static))

    def illustrate(self, runs: tuple[Path, ...]) -> Illustrated:
        """The page, and its figures as SVG and CSV files. Raises ArtifactError, NotComparableError."""
        found = find(runs, self._best_static)
        files = {name: text for figure in found.figures for name, text in figure.files().items()}
        return Illustrated(page(found), files)


def page(found: Findings) -> str:
    """The page of findings."""
    run = found.answer.run
    parts = [(name, title, body) for name, title, body in sections.all_of(found) if body]
    links = "".join(f'<li><a href="#{name}">{markup(title)}</a></li>' for name, title, _ in parts)
    inside = "\n".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{markup(title)}</h2>\n{body}</section>'
        for name, title, body in parts
    )
    digest = base64.b64encode(hashlib.sha256(PAGE_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"APEX report: {run.suite}/{run.split}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{markup(title)}</title>
<style>{PAGE_STYLE}</style>
</head>
<body>
<a class="skip" href="#verdict">To the verdict</a>
<header>
<h1>{markup(title)}</h1>
<p>{markup(found.content.question)}</p>
{sections.verdict(found)}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main>
{inside}
</main>
<footer><p>Every number on this page was made from the files of the run folders that are named under “Do it again”. The page
holds no script and asks no network for anything.</p></footer>
</body>
</html>
"""
