"""Blocks marked ``console`` are typed in as they stand, in an empty folder, and must succeed.

Blocks with a title become files of that name first. ``pip install .`` is done as pip's result looks: the folder on the
path, and its entry points as metadata; building needs a network, and is tried by the environment ``plugin``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_CONSOLES = [p for p in PAGES if any(m[1] == "console" for m in BLOCK.finditer(p.read_text(encoding="utf-8")))]


def environ(folder: Path) -> dict[str, str]:
    """This interpreter's programs first; nothing that is set outside reaches the commands but the cache's place."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("APEX_") or k == "APEX_CACHE"}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return {**kept, "PATH": path, "PYTHONPATH": str(folder / "site"), "NO_COLOR": "1", "XDG_STATE_HOME": str(folder)}


def install(folder: Path) -> None:
    """The project in this folder, as if installed."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    site = folder / "site"
    about = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["apex_framework"]
    (about / "entry_points.txt").write_text(
        "[apex_framework]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
    )
    for module in folder.glob("*.py"):
        (site / module.name).write_text(module.read_text())


def type_in(line: str, folder: Path) -> None:
    """One command line, which must end with status 0."""
    if shlex.split(line) == ["pip", "install", "."]:
        install(folder)
        return
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environ(folder), capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, f"$ {line}\nstatus {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in WITH_CONSOLES])
def test_what_a_page_types_in_succeeds(page: Path, tmp_path: Path) -> None:
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        language, mark, text = block.groups()
        if title := re.search(r'title="([\w.-]+)"', mark):
            (tmp_path / title[1]).write_text(text)
        elif language == "console":
            for line in text.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    type_in(line.removeprefix("$ "), tmp_path)


def test_pages_type_in_only_what_is_run_here() -> None:
    """A line that begins with $ outside a console block would look tried without being it."""
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            assert block[1] == "console" or not re.search(r"^\$ ", block[3], re.MULTILINE), f"{page}: {block[3][:80]}"
