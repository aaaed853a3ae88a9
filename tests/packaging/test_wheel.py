"""What the wheel holds: exactly the packages, typed, with the licence and the entry points."""

from __future__ import annotations

import configparser
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from apex_framework.experiment.code import tree_digest

pytest.importorskip("build", reason="the environment `plugin` has what builds wheels")
pytest.importorskip("hatchling", reason="the environment `plugin` has what builds wheels")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=110)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def plugin_packages() -> set[str]:
    return {p.parent.name for p in (ROOT / "plugins").glob("*/__init__.py")}


def test_the_top_level_names_are_the_kernel_and_every_plugin(wheel: zipfile.ZipFile) -> None:
    names = {name.partition("/")[0] for name in wheel.namelist()}
    assert {n for n in names if not n.endswith(".dist-info")} == {"apex_framework", *plugin_packages()}


def test_every_file_of_the_packages_is_in_it_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tracked = subprocess.run(["git", "ls-files", "apex_framework", "plugins"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode != 0:
        pytest.skip("not a checkout")
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {f.removeprefix("plugins/") for f in tracked.stdout.splitlines()} <= inside
    assert not [name for name in inside if "__pycache__" in name or name.startswith(("tests/", "docs/", "examples/"))]


def test_the_code_of_the_wheel_has_the_digest_of_the_checkout(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    for package in sorted(plugin_packages()):
        assert tree_digest(tmp_path / package) == tree_digest(ROOT / "plugins" / package), package
    assert tree_digest(tmp_path / "apex_framework") == tree_digest(ROOT / "apex_framework")


def test_every_package_is_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{p}/py.typed" for p in ("apex_framework", *plugin_packages())} <= set(wheel.namelist())


def test_metadata_licence_and_entry_points(wheel: zipfile.ZipFile) -> None:
    (info,) = {n.partition("/")[0] for n in wheel.namelist() if n.endswith(".dist-info/METADATA")}
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    points = configparser.ConfigParser()
    points.read_string(wheel.read(f"{info}/entry_points.txt").decode())
    assert points["console_scripts"]["apex"] == "apex_framework.cli:main"
    assert set(points["apex_framework"].values()) == plugin_packages()


def test_pyproject_lists_every_plugin_wherever_plugins_are_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert listed == {"apex_framework", *(f"plugins/{p}" for p in plugin_packages())}
    assert set(project["tool"]["mypy"]["packages"]) == {"apex_framework", *plugin_packages()}
