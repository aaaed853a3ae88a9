"""What plain ``git apply`` refuses: the commands of the official harness, in its order, on a copy of the whole tree.

As there, the first that ends with status 0 has applied the patch, what it leaves behind (``.orig``) included; after the last one a
patch that could be taken back counts as applied, too.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from apex_framework.errors import GitError
from apex_framework.git import Repository, converse
from apex_framework.interfaces import Sandbox
from apex_framework.interfaces.sandbox import Confinement

from .patches import PatchError, encoded, lay_out

NO_PATCH: Final = "GNU patch 2.7.3 or later, which the official harness tries next, is not installed here"
SECONDS: Final = 300
"""For all of them."""
_MEMORY: Final = 4 * 1024**3
_LARGEST: Final = 1024**3
_SCRIPT: Final = """
cd "$1" && git reset --quiet >/dev/null 2>&1 && : >../probe && chmod 600 ../probe || exit 1
try() { "$@" >/dev/null 2>&1 </dev/null; }
afresh() { try git checkout -- . ; try git clean -fd; }
say() { echo "$1"; exit 0; }
try git apply --verbose "$2" && say "git apply"
afresh; try git apply --verbose --3way "$2" && say "git apply --3way"
afresh; try git apply --verbose --reject "$2" && say "git apply --reject"
afresh; test -n "$3" && try "$3" $4 --batch --forward --fuzz=5 -p1 -i "$2" && say "patch with fuzz 5"
try git apply --check --reverse "$2" && say "these commands together"
say ""
"""
_ED: Final = re.compile(rb"^[ \tX]*\d[\d,]*[acd][\d,]*[ \t]*\r?$", re.MULTILINE)
"""A line that ``patch`` may take for one of an ed script, and then starts that program, which can start others."""


def apply_leniently(patch: str, root: Path, sandbox: Sandbox | None, refused: PatchError) -> str:
    """Apply a diff to the tree at ``root`` that git ``refused``; what applied it, in words.

    Raises PatchError that says why git refused it when nothing else takes it either, or it would write to ``.git``.
    """
    data = encoded(patch)
    with tempfile.TemporaryDirectory(prefix="apex-patch-") as name:
        place = Path(name).resolve()
        inside, tree = place / "inside", place / "inside" / "tree"
        try:
            repository = Repository.init(place / "git")
            base = repository.snapshot(root, "base")
            repository.set_branch("main", base)
            shutil.copytree(root, tree, symlinks=True)
            # Nothing is asked of the copy that the commands work in: it is theirs.
            shutil.copytree(repository.git_dir, inside / "git")
            (inside / "patch.diff").write_bytes(data)
            told = _run(inside, tree, "-u" if _ED.search(data) else "", sandbox)
            if not told:
                raise PatchError(f"{refused}; {NO_PATCH}" if not gnu_patch() else str(refused))
            if any(tree.rglob(".git")):
                raise PatchError("it writes to .git")
            changed = repository.changed(base, repository.snapshot(tree, "patch"))
        except GitError as error:
            raise PatchError(error.cause) from None
        lay_out(changed, tree, root)
    return f"applied by {told}, as the official harness does"


@functools.cache
def gnu_patch() -> str:
    """The program, of a version that writes nowhere but below its folder; empty where there is none."""
    program = shutil.which("patch") or ""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    version = re.match(r"GNU patch (\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return os.path.abspath(program) if version and tuple(int(n or 0) for n in version.groups()) >= (2, 7, 3) else ""


def _run(inside: Path, tree: Path, form: str, sandbox: Sandbox | None) -> str:
    """What applied it; nothing where all refuse it, or they come to no end."""
    words = ["sh", "-c", _SCRIPT, "sh", str(tree), str(inside / "patch.diff"), gnu_patch(), form]
    limits = Confinement(inside, memory=_MEMORY, cpu_s=SECONDS, file_size=_LARGEST)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "TMPDIR": str(inside),
        "LC_ALL": "C",
        "GIT_DIR": str(inside / "git"),
        "GIT_WORK_TREE": str(tree),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
    }
    # A sandbox without namespaces lets nobody set the mode of a file, as patch does. Neither program runs code of a patch.
    for command in ([sandbox.wrap(words, limits)] if sandbox else []) + [words]:
        done = converse(command, environment, b"", SECONDS, 1024**2, 2 * _MEMORY)
        if done.why or done.status == 0:
            return done.output.decode("utf-8", "replace").partition("\n")[0] if not done.why else ""
    return ""
