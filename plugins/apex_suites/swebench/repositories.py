"""Where the user keeps clones of the repositories."""

from __future__ import annotations

from pathlib import Path


def names(repo: str) -> tuple[str, ...]:
    """What a clone of ``owner/name`` may be called, the usual name first."""
    plain = (repo.replace("/", "+"), repo.replace("/", "__"), repo)
    return tuple(f"{name}{ending}" for name in plain for ending in ("", ".git"))


def find(folder: Path, repo: str) -> Path | None:
    """The clone of a repository below a folder: a bare one, or one with its files."""
    for name in names(repo):
        place = folder / name
        if (place / "HEAD").is_file() or (place / ".git").exists():
            return place.absolute()
    return None
