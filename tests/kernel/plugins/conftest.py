"""Plugins of strangers: real modules and real metadata on the path, for one test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAD = "from apex_framework.hookspecs import ApexSpec, hookimpl\n"
TOPOLOGY = """
    @hookimpl
    def apex_topologies(self, add):
        class Made:
            name = "{name}"
            def routes(self, roster):
                return None
        add("{name}", Made, summary="for a test")
"""


class Strangers:
    """Makes distributions, each with entry points of the APEX group."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.modules: list[str] = []

    def install(self, name: str, body: str, *, distribution: str = "", metadata: str = "", head: str = HEAD) -> None:
        """A plugin of that name; ``body`` is indented inside its class, or the whole module if it is not."""
        distribution = distribution or f"stranger-{name}"
        module = f"{distribution}_{name}".replace("-", "_")
        self.modules.append(module)
        if body.lstrip("\n").startswith("    "):
            body = f"{head}\nclass Plugin(ApexSpec):\n{body}\n\nplugin = Plugin()\n"
        (self._place / f"{module}.py").write_text(body)
        info = self._place / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{metadata}")
        points = info / "entry_points.txt"
        old = points.read_text() if points.exists() else "[apex_framework]\n"
        points.write_text(f"{old}{name} = {module}\n")

    def topology(self, plugin: str, name: str, *, distribution: str = "") -> None:
        """A plugin that registers one topology."""
        self.install(plugin, TOPOLOGY.format(name=name), distribution=distribution)


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Strangers]:
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    made = Strangers(place)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)
