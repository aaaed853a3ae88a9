"""``apex suite make``."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from apex_framework.errors import EnvironmentProblem, SandboxError, UsageError
from apex_framework.interfaces import Level, Sandbox

from .making import Made, Wanted, make

_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


@click.command("make")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="FILE.jsonl; base commits go to FILE.repos.",
)
@click.option("--commit", default="HEAD", metavar="REV", help="HEAD, a branch, a tag or a whole hash (HEAD).")
@click.option("--name", metavar="OWNER/NAME", help="Name of the repository in the tasks: local/FOLDER.")
@click.option("--tests", multiple=True, metavar="PATH", help="Only these test files or folders.")
@click.option("--source", "sources", multiple=True, metavar="PATH", help="Faults only in these files or folders.")
@click.option("--count", type=click.IntRange(min=1), default=20, metavar="N", help="Tasks that are wanted (20).")
@click.option("--seed", type=int, default=0, help="Decides which faults, and which tests are hidden (0).")
@click.option("--sandbox", default="auto", metavar="NAME", help="What confines the tests: auto, or one by name.")
@click.option("--allow-weaker-sandbox", is_flag=True, help="Also run them where no sandbox holds files and network.")
@click.pass_obj
def command(
    context: Any, /, repo: Path, out: Path, sandbox: str, allow_weaker_sandbox: bool, name: str | None, **options: Any
) -> None:
    """Make fault tasks in the SWE-bench format out of a Python repository with passing tests.

    An interrupted command goes on when it is called again with the same options.
    """
    wanted = Wanted(repo.absolute(), name or default_name(repo), out.absolute(), **options)
    _check(wanted)
    catalog = context.plugins.catalog
    chosen = chosen_sandbox(catalog, sandbox, allow_weaker=allow_weaker_sandbox)
    if chosen.probe().level < Level.LANDLOCK:
        context.say(f"warning: tests run in the sandbox {chosen.name}: they can read, change and send what you can")
    provider = catalog.make("workspace", "checkout", sandbox=chosen)
    try:
        made = make(wanted, provider, _Talk(context.say))
    finally:
        provider.close()
    if made.tasks < wanted.count:
        context.say(f"only {made.tasks} of {wanted.count} tasks: no more faults that are seen")
    value = {
        "file": str(wanted.out),
        "repos": str(wanted.repos),
        "environment": str(wanted.environment),
        "tasks": made.tasks,
        "faults_tried": made.tried,
        "not_kept": dict(made.reasons),
        "unstable_tests_left_out": made.unstable_tests,
    }
    context.emit(value, _told(wanted, made))


def default_name(repo: Path) -> str:
    """``local/`` and the folder's name."""
    return "local/" + (
        re.sub(r"[^A-Za-z0-9_.-]+", "-", repo.absolute().name.removesuffix(".git")).strip("-.") or "repo"
    )


def chosen_sandbox(catalog: Any, name: str, *, allow_weaker: bool) -> Sandbox:
    """The sandbox of this name, or with ``auto`` the strongest here. Raises SandboxError when it holds too little."""
    names = [name] if name != "auto" else [*catalog.names("sandbox")]
    best: Sandbox | None = None
    told = []
    for candidate in names:
        try:
            made: Sandbox = catalog.make("sandbox", candidate)
            if best is None or made.probe().level > best.probe().level:
                best = made
        except (SandboxError, OSError) as error:
            if name != "auto":
                raise
            told.append(f"{candidate}: {error}")
    if best is None or (best.probe().level < Level.LANDLOCK and not allow_weaker):
        what = f"{best.name} is the strongest" if best else "; ".join(told) or "none is registered"
        raise SandboxError(
            f"a repository's tests need a sandbox that holds files and network; {what}",
            "install bubblewrap or use a kernel with Landlock; or accept it: --allow-weaker-sandbox",
        )
    return best


class _Talk:
    """A line for each new task, and for every tenth fault."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last = say, 0

    def __call__(self, done: int, of: int, tried: int) -> None:
        if done != self._last or tried % 10 == 0:
            self._say(f"{done} of {of} tasks, {tried} faults tried")
        self._last = done


def _check(wanted: Wanted) -> None:
    if importlib.util.find_spec("pytest") is None:
        raise EnvironmentProblem(
            f"the repository's tests run under pytest, which {sys.executable} has not",
            f"{sys.executable} -m pip install pytest",
        )
    if not wanted.repo.is_dir():
        raise UsageError(f"{wanted.repo}: there is no such folder", "a folder with .git in it, or a bare clone")
    if not _NAME.fullmatch(wanted.name) or ".." in wanted.name:
        raise UsageError(f"--name {wanted.name}: not OWNER/NAME")
    if wanted.out.suffix != ".jsonl":
        raise UsageError(f"--out {wanted.out}: its name must end in .jsonl")


def _told(wanted: Wanted, made: Made) -> str:
    places = f"--data {wanted.out} --repos {wanted.repos}"
    lines = [
        f"{made.tasks} tasks; {made.tried} faults tried. To use them:",
        f"  apex suite check swebench_lite/test {places} --environments {wanted.environment}",
        f"  apex run --suite swebench_lite/test {places} --set suite_options=environments={wanted.environment}",
        "Faults that were not kept:" if made.reasons else "Every fault was kept.",
    ]
    lines += [f"  {n} x {reason}" for reason, n in sorted(made.reasons.items(), key=lambda r: -r[1])]
    if made.unstable_tests:
        lines.append(
            f"{made.unstable_tests} tests do not pass each time, or have a space in their name: no task relies on them"
        )
    return "\n".join(lines)
