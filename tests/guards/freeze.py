"""What is frozen before a controller is trained: solver, agents and tasks, file by file.

``python tests/guards/freeze.py`` writes ``plugins/apex_controllers/policies/frozen.json`` anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
POLICIES = PLUGINS / "apex_controllers" / "policies"
FROZEN = POLICIES / "frozen.json"
PARTS = ("apex_repair/**/*.py", "apex_repair/vocabulary.txt", "apex_agents/**/*.py", "apex_suites/mini/**/*.py",
         "apex_suites/mini/tables/*.toml")  # fmt: skip


def files() -> Iterator[Path]:
    """Every frozen file, in a fixed order."""
    yield from sorted({path for part in PARTS for path in PLUGINS.glob(part) if "__pycache__" not in path.parts})


def hashes() -> dict[str, str]:
    """Path below plugins/ -> sha256 of its content, line ends made alike."""
    return {
        path.relative_to(PLUGINS).as_posix(): hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
        for path in files()
    }


def digest(found: Mapping[str, str]) -> str:
    """One hash of all of them."""
    return hashlib.sha256(json.dumps(dict(found), sort_keys=True).encode()).hexdigest()


def policies() -> list[Path]:
    """The trained policies that are shipped."""
    return sorted(POLICIES.glob("*.npz"))


def main() -> None:
    """Write the file and say what it holds."""
    found = hashes()
    FROZEN.write_text(json.dumps({"digest": digest(found), "files": found}, indent=1) + "\n")
    print(f"{FROZEN.relative_to(ROOT)}: {len(found)} files, digest {digest(found)[:16]}")


if __name__ == "__main__":
    main()
