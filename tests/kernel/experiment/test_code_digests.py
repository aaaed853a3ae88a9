"""Which code made a run: the same digest wherever it lies, another one for other code, and other code written down."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from apex_framework.errors import ArtifactError
from apex_framework.experiment import code
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.code import GONE_ON, code_changes, code_digests, note_code, tree_digest
from apex_framework.experiment.plan import Plan
from apex_framework.hookspecs import PROJECT


def package(root: Path, reverse: bool = False) -> Path:
    files = {"__init__.py": "a = 1", "inner/table.json": "{}", "inner/work.py": "b = 2", "cli/words.py": "c = 3"}
    for name, text in sorted(files.items(), reverse=reverse):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_same_files_have_one_digest_wherever_they_lie_and_whatever_python_keeps_beside_them(tmp_path: Path) -> None:
    here = package(tmp_path / "checkout" / "plugins" / "x")
    there = package(tmp_path / "site-packages" / "x", reverse=True)
    (there / "inner" / "__pycache__").mkdir()
    (there / "inner" / "__pycache__" / "work.pyc").write_bytes(b"\0")
    (there / ".swp").write_text("x")
    assert tree_digest(here) == tree_digest(there)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "inner" / "work.py").write_text("b = 3"),
        lambda root: (root / "inner" / "table.json").write_text("[]"),
        lambda root: (root / "inner" / "work.py").rename(root / "inner" / "play.py"),
        lambda root: (root / "more.py").write_text(""),
    ],
)
def test_other_code_has_another_digest(tmp_path: Path, change: Callable[[Path], object]) -> None:
    root = package(tmp_path)
    before = tree_digest(root, frozenset({"cli"}))
    change(root)
    assert tree_digest(root, frozenset({"cli"})) != before


def test_what_only_tells_of_results_does_not_count(tmp_path: Path) -> None:
    root = package(tmp_path)
    before = tree_digest(root, frozenset({"cli"}))
    (root / "cli" / "words.py").write_text("c = 4")
    assert tree_digest(root, frozenset({"cli"})) == before != tree_digest(root)


def test_kernel_and_plugins_are_covered_and_reports_are_not() -> None:
    found = code_digests()
    assert {"apex_framework", "apex_agents", "apex_controllers", "apex_repair", "apex_suites"} <= found.keys()
    assert "apex_reports" not in found
    assert found == code_digests()


def install(root: Path, files: dict[str, str], *modules: str) -> None:
    """A distribution of somebody else with these plugins, on this path."""
    points = "".join(f"p{number} = {module}\n" for number, module in enumerate(modules))
    info = {
        "METADATA": "Metadata-Version: 2.1\nName: stranger\nVersion: 1\n",
        "entry_points.txt": f"[{PROJECT}]\n{points}",
    }
    for name, text in {**files, **{f"stranger-1.dist-info/{name}": text for name, text in info.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_code_of_plugins_of_others_is_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "strange/__init__.py": "",
        "strange/moves.py": "patience = 6",
        "lone.py": "",
        "house/tools/inner/__init__.py": "",
    }
    install(
        tmp_path,
        files | {"house/tools/__init__.py": "", "house/of_others.py": ""},
        "strange.moves",
        "lone",
        "house.tools.inner",
        "gone",
        "lone.gone",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    before = code_digests()
    assert {"strange", "lone", "house.tools"} <= before.keys() and not {"house", "gone", "lone.gone"} & before.keys()
    (tmp_path / "house/of_others.py").write_text("a = 1")
    assert code_digests() == before
    for name in ("strange/moves.py", "lone.py", "house/tools/__init__.py"):
        (tmp_path / name).write_text("patience = 7")
    assert code_changes(before, code_digests()).count("->") == 3


def test_what_differs_is_named() -> None:
    before = {"a": "1" * 64, "b": "2" * 64, "c": "3" * 64, "d": "4" * 64, "e": "5" * 64}
    assert code_changes(before, dict(before)) == ""
    assert code_changes(before, {**before, "b": "f" * 64}) == "b 222222222222 -> ffffffffffff"
    assert code_changes(before, {}).endswith("c 333333333333 -> none and 2 more")


def test_a_run_keeps_its_code_and_every_other_code_that_it_was_gone_on_with(
    tmp_path: Path, make_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r"
    RunFolder.create(path, make_plan(), code=code_digests()).close()

    def go_on() -> str:
        with RunFolder.reopen(path) as folder:
            return note_code(folder)

    assert go_on() == ""
    monkeypatch.setattr(code, "tree_digest", lambda root, left_out: "f" * 64)
    assert "gone on with other code than before: apex_a2a" in go_on()
    assert go_on() == ""
    monkeypatch.undo()
    assert "ffffffffffff ->" in go_on()
    run = json.loads((path / "run.json").read_text())
    assert run["code"] == run[GONE_ON][1]["code"] == code_digests()
    assert len(run[GONE_ON]) == 2


def test_a_run_of_before_there_were_digests_says_that_its_beginning_is_not_on_file(
    tmp_path: Path, make_plan: Callable[..., Plan]
) -> None:
    path = tmp_path / "r"
    RunFolder.create(path, make_plan()).close()
    with RunFolder.reopen(path) as folder:
        assert "with which it was begun is not on file" in note_code(folder)
        assert note_code(folder) == ""
    run = json.loads((path / "run.json").read_text())
    run[GONE_ON] = [3]
    (path / "run.json").write_text(json.dumps(run))
    with RunFolder.reopen(path) as folder, pytest.raises(ArtifactError, match="code is damaged"):
        note_code(folder)
