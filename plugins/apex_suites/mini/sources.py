"""Sources: modules of the running Python's standard library, and the small repositories made of them."""

from __future__ import annotations

import hashlib
import sysconfig
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .imports import rewrite_imports, without_accelerators

TABLES = Path(__file__).with_name("tables")
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class Source:
    """A row of the table: which modules, and how they are driven."""

    name: str
    split: str
    modules: tuple[str, ...]
    """Dotted names; ``x?`` is left out where this Python has no ``x``."""
    use: str
    """Code at the top of the tests: imports and small driver functions."""
    calls: tuple[str, ...]
    """Expressions with ``@placeholders``."""
    pools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts that a placeholder of this name stands for, as Python expressions."""
    accelerators: tuple[str, ...] = ()
    """C modules that the copy must not fall back on."""

    @property
    def package(self) -> str:
        """Name of the package in the repository."""
        return f"repo_{self.name}"


@dataclass(frozen=True, slots=True)
class Repository:
    """A source's files as they are before any fault."""

    source: Source
    files: Mapping[str, str]
    prelude: str
    block: tuple[str, ...]


def hash_texts(parts: Iterable[str]) -> str:
    """SHA-256 over texts, each ended by a zero byte."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return total.hexdigest()


def read_table(split: str, folder: Path = TABLES) -> tuple[Source, ...]:
    """The sources of a split, in the order of the table."""
    with open(folder / f"{split}.toml", "rb") as file:
        rows = tomllib.load(file)["source"]
    return tuple(
        Source(
            name=row["name"],
            split=split,
            modules=tuple(row.get("modules", (row["name"],))),
            use=row["use"].strip("\n") + "\n",
            calls=tuple(line.strip() for line in row["calls"].splitlines() if line.strip()),
            pools={k: tuple(v) for k, v in row.get("pools", {}).items()},
            accelerators=tuple(row.get("accelerators", ())),
        )
        for row in rows
    )


def module_file(name: str) -> Path | None:
    """The file of a module of the standard library, found without importing anything."""
    base = Path(sysconfig.get_paths()["stdlib"]).joinpath(*name.split("."))
    return next((p for p in (base / "__init__.py", base.with_suffix(".py")) if p.is_file()), None)


def originals(source: Source) -> dict[str, Path]:
    """Dotted names and files of a source's modules; empty when this Python lacks one of them."""
    found: dict[str, Path] = {}
    for name in source.modules:
        file = module_file(name.removesuffix("?"))
        if file is not None:
            found[name.removesuffix("?")] = file
        elif not name.endswith("?"):
            return {}
    return found


def build(source: Source) -> Repository | None:
    """The repository of a source; None when this Python lacks one of its modules."""
    found = originals(source)
    if not found:
        return None
    block = (*sorted(found), *source.accelerators)
    copied = frozenset(found)
    files = {f"{source.package}/__init__.py": f'"""{source.name}: a small library."""\n'}
    for module, path in found.items():
        is_package = path.name == "__init__.py"
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
        text = without_accelerators(text, frozenset(source.accelerators))
        files[copy_path(source.package, module, is_package)] = rewrite_imports(
            text, module, is_package, copied, source.package
        )
        parent = module.rpartition(".")[0]
        while parent:
            if parent not in found:
                files.setdefault(copy_path(source.package, parent, True), "")
            parent = parent.rpartition(".")[0]
    prelude = rewrite_imports(source.use, "tests", False, copied, source.package)
    return Repository(source, dict(sorted(files.items())), prelude, block)


def copy_path(package: str, module: str, is_package: bool) -> str:
    """Where a module lives in the repository."""
    return f"{package}/{module.replace('.', '/')}{'/__init__.py' if is_package else '.py'}"
