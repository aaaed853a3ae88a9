"""Who may import whom, read from the sources."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "apex_framework"
PLUGINS = sorted(p for p in (ROOT / "plugins").iterdir() if (p / "__init__.py").exists())

FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"errors"}),
    frozenset({"interfaces", "events", "ports", "tool_events"}),
    frozenset({"services", "runtime", "budget", "telemetry", "timeloop", "workers", "git"}),
    frozenset({"session"}),
    frozenset({"episode"}),
    frozenset({"experiment", "analysis"}),
    frozenset({"cli", "scripts", "benches", "__main__"}),
)
"""From the ground up: a room imports its own floor and those below."""

FRAME = {"": 1, "hookspecs": 1, "catalog": 1, "plugins": 1, "timelimit": 1, "config": 1, "specified": 1}
"""The frame around the rooms, and the highest floor that each part of it may import; any floor above 0 may use it."""

THIRD_PARTY = {
    "pluggy": ("hookspecs", "plugins"),
    "pydantic": ("config",),
    "yaml": ("config",),
    "click": ("cli", "scripts", "testing"),
    "rich": ("cli",),
    "platformdirs": ("cli", "experiment"),
    "numpy": ("analysis",),
    "scipy": ("analysis",),
    "pandas": ("analysis",),
}
"""Package -> the parts of the kernel that may import it. Benches may import any peer, inside a function."""

PUBLIC = {
    "",
    "interfaces",
    "errors",
    "events",
    "ports",
    "testing",
    "analysis",
    "hookspecs",
    "workers",
    "git",
}
"""Modules of the kernel that plugins may import; every module inside interfaces, testing and analysis is public too."""

PLUGIN_THIRD_PARTY = {"click", "numpy", "scipy", "platformdirs", "yaml", "pluggy"}
"""What plugins may import without an extra."""

PLUGIN_EXTRAS = {
    "apex_a2a": {"a2a", "google", "grpc", "httpx", "starlette", "uvicorn", "cryptography"},
    "apex_exporters": {"prometheus_client", "opentelemetry"},
    "apex_cuda": {"torch", "transformers", "vllm"},
    "apex_llm": {"aiohttp", "httpx", "ollama"},
    "apex_mcp_edge": {"anyio", "httpx2", "mcp", "mcp_types", "pydantic", "uvicorn"},
    "apex_metal": {"llama_cpp"},
    "apex_suites": {"huggingface_hub", "pyarrow", "swebench", "zstandard"},
    "apex_workspaces": {"pytest"},  # that of a task's environment, in a process of its own
}
"""Plugin -> packages of an extra that its entries require; its own module stays light."""


@dataclass(frozen=True)
class Import:
    """One import statement: where it stands and what it names."""

    file: Path
    line: int
    module: str
    names: tuple[str, ...]
    typing_only: bool
    late: bool = False
    """Inside a function."""

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports(file: Path, package: str) -> Iterator[Import]:
    """Every import of a file, relative ones made absolute."""

    def walk(node: ast.AST, typing_only: bool, late: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            only = typing_only or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
            inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(file, child.lineno, alias.name, (), typing_only, late)
            elif isinstance(child, ast.ImportFrom):
                base = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
                module = ".".join([*base, *(child.module.split(".") if child.module else [])])
                yield Import(file, child.lineno, module, tuple(a.name for a in child.names), typing_only, late)
            else:
                yield from walk(child, only, inside)

    yield from walk(ast.parse(file.read_text(encoding="utf-8")), False, False)


def package_of(file: Path, source_root: Path) -> str:
    return ".".join(file.parent.relative_to(source_root).parts)


def kernel_imports() -> Iterator[tuple[str, Import]]:
    """(part of the kernel that a file belongs to, import)."""
    for file in sorted(KERNEL.rglob("*.py")):
        inside = file.relative_to(KERNEL)
        part = inside.parts[0].removesuffix(".py") if inside.parts[0] != "__init__.py" else ""
        for found in imports(file, package_of(file, ROOT)):
            yield part, found


def targets(found: Import) -> Iterator[str]:
    """Parts of the kernel that an import names."""
    head, _, rest = found.module.partition(".")
    if head != "apex_framework":
        return
    if rest:
        yield rest.split(".")[0]
        return
    for name in found.names:
        yield name if (KERNEL / name).is_dir() or (KERNEL / f"{name}.py").is_file() else ""


def floor(part: str) -> int | None:
    return next((level for level, rooms in enumerate(FLOORS) if part in rooms), None)


def top_level(module: str) -> str:
    return module.partition(".")[0]


def is_foreign(module: str) -> bool:
    return top_level(module) not in sys.stdlib_module_names and top_level(module) != "apex_framework"


def test_every_part_of_the_kernel_has_a_place() -> None:
    parts = {p.name.removesuffix(".py") for p in KERNEL.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    placed = set().union(*FLOORS) | set(FRAME) | {"testing", "__init__"}
    assert parts <= placed, f"without a floor: {sorted(parts - placed)}"


def test_a_room_imports_only_its_floor_and_those_below() -> None:
    wrong = []
    for part, found in kernel_imports():
        mine = floor(part)
        if mine is None or found.typing_only:
            continue
        for target in targets(found):
            theirs = floor(target)
            too_high = theirs is not None and theirs > mine
            frame_from_the_ground = target in FRAME and mine == 0
            if too_high or frame_from_the_ground or (target == "testing" and part not in ("benches", "scripts")):
                wrong.append(str(found))
    assert wrong == []


def test_the_frame_imports_only_contracts() -> None:
    wrong = [
        str(found)
        for part, found in kernel_imports()
        if part in FRAME and not found.typing_only
        for target in targets(found)
        if target not in FRAME and (floor(target) is None or (floor(target) or 0) > FRAME[part])
    ]
    assert wrong == []


def test_the_kernel_imports_only_what_each_part_may() -> None:
    wrong = [
        str(found)
        for part, found in kernel_imports()
        if is_foreign(found.module)
        and not found.typing_only
        and part not in THIRD_PARTY.get(top_level(found.module), ())
        and not (part == "benches" and found.late)
    ]
    assert wrong == []


def test_the_kernel_never_imports_a_plugin() -> None:
    names = {p.name for p in PLUGINS}
    assert [str(found) for _, found in kernel_imports() if top_level(found.module) in names] == []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda p: p.name)
def test_a_plugin_imports_only_public_modules_and_no_other_plugin(plugin: Path) -> None:
    wrong = []
    for file in sorted(plugin.rglob("*.py")):
        for found in imports(file, package_of(file, plugin.parent)):
            head, _, rest = found.module.partition(".")
            if head == "apex_framework":
                modules = [rest] if rest else [n if (KERNEL / n).exists() else "" for n in found.names]
                wrong += [
                    str(found)
                    for m in modules
                    if m not in PUBLIC and m.split(".")[0] not in ("interfaces", "testing", "analysis")
                ]
            elif is_foreign(found.module) and head not in {
                plugin.name,
                *PLUGIN_THIRD_PARTY,
                *PLUGIN_EXTRAS.get(plugin.name, ()),
            }:
                wrong.append(str(found))
    assert wrong == []


def test_the_kits_import_nothing_above_the_services() -> None:
    allowed = {"testing", *FRAME}.union(*FLOORS[:3])
    wrong = [
        str(found)
        for part, found in kernel_imports()
        if part == "testing" and not found.typing_only
        for target in targets(found)
        if target not in allowed
        # Not a kit: it rehearses a team in the very session that it will work in, and is loaded for that only.
        and not (target == "session" and "testing/rehearsal.py" in str(found))
        # Nor is this: a hostile model is let loose in a whole episode, sandbox and judge included.
        and not (target == "episode" and "testing/attack_range.py" in str(found))
    ]
    assert wrong == []


def test_no_star_imports_but_of_the_contracts() -> None:
    stars = [str(f) for _, f in kernel_imports() if "*" in f.names and f.module != "apex_framework.interfaces"]
    assert stars == []
