"""Repositories: copies of standard-library modules that import each other and nothing that stands in for them."""

from __future__ import annotations

import ast
import sys

import pytest

from apex_suites.mini.imports import rewrite_imports, without_accelerators
from apex_suites.mini.inputs import PLACEHOLDER, make_cases
from apex_suites.mini.plan import SIZES
from apex_suites.mini.sources import SPLITS, Source, build, module_file, originals, read_table

TABLE = [source for split in SPLITS for source in read_table(split)]
COPIED = frozenset({"json", "json.decoder", "email.utils"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import json", "from repo_x import json"),
        ("import json as j", "import repo_x.json as j"),
        ("import json.decoder", "import repo_x.json.decoder; from repo_x import json"),
        ("import os, json", "import os; from repo_x import json"),
        ("from json import loads", "from repo_x.json import loads"),
        ("from json import (\n    loads,\n    dumps)", "from repo_x.json import (\n    loads,\n    dumps)"),
        ("from email import utils, message", "from repo_x.email import utils; from email import message"),
        ("from email import utils", "from repo_x.email import utils"),
        ("from os import path", "from os import path"),
        ("if a:\n    from json import x as y", "if a:\n    from repo_x.json import x as y"),
    ],
)
def test_imports_of_copied_modules_lead_to_the_copies(before: str, after: str) -> None:
    assert rewrite_imports(before, "m", False, COPIED, "repo_x") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [("from .decoder import x", "from .decoder import x"), ("from .scanner import y", "from json.scanner import y")],
)
def test_relative_imports_stay_only_between_copies(before: str, after: str) -> None:
    assert rewrite_imports(before, "json", True, COPIED, "repo_x") == after


def test_accelerators_give_way_to_what_happens_without_them() -> None:
    text = "try:\n    A = 1\n    from _c import f\nexcept ImportError:\n    f = None\nfrom _c import g\nx = 1\n"
    assert ast.dump(ast.parse(without_accelerators(text, frozenset({"_c"})))) == ast.dump(
        ast.parse("A = 1\nf = None\nx = 1\n")
    )
    assert without_accelerators(text, frozenset()) == text


def test_names_and_modules_belong_to_one_source() -> None:
    names = [s.name for s in TABLE]
    modules = [m.rstrip("?") for s in TABLE for m in s.modules]
    assert len(set(names)) == len(names)
    assert len(set(modules)) == len(modules)


def test_there_are_enough_modules_on_this_python() -> None:
    found = {split: sum(bool(originals(s)) for s in TABLE if s.split == split) for split in SPLITS}
    assert found["test"] >= 40 and found["dev"] >= 15 and found["train"] >= 18
    assert SIZES["dev"] >= 120 and SIZES["train"] >= 200 and SIZES["test"] >= 300


def test_this_python_lacks_no_source() -> None:
    assert [s.name for s in TABLE if not originals(s)] == []


@pytest.mark.parametrize("source", TABLE, ids=[s.name for s in TABLE])
def test_a_repository_parses_and_never_imports_an_original(source: Source) -> None:
    repository = build(source)
    assert repository is not None
    own = set(originals(source))
    for path, text in {**repository.files, "tests": repository.prelude}.items():
        tree = ast.parse(text)
        inner = {id(n) for o in ast.walk(tree) if isinstance(o, ast.Try | ast.FunctionDef) for n in ast.walk(o)}
        for node in ast.walk(tree):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                named = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
            for name in named:
                assert name not in own, f"{path} imports {name}"
                # The refusal of an accelerator is expected where the module itself expects it.
                hit = any(name == b or name.startswith(b + ".") for b in repository.block)
                assert not hit or id(node) in inner, f"{path} imports {name}"


@pytest.mark.parametrize("source", TABLE, ids=[s.name for s in TABLE])
def test_cases_are_expressions_each_once_some_visible_most_hidden(source: Source) -> None:
    cases = make_cases(source, "salt")
    texts = [c.expression for c in cases]
    assert len(set(texts)) == len(texts) and len(texts) >= 60
    assert 0.2 < sum(c.visible for c in cases) / len(cases) < 0.45
    for text in texts:
        compile(text, "case", "eval")
    assert cases == make_cases(source, "salt") != make_cases(source, "pepper")


def test_pools_are_used_and_are_python() -> None:
    for source in TABLE:
        wanted = {m for call in source.calls for m in PLACEHOLDER.findall(call)}
        assert set(source.pools) <= wanted, source.name


def test_the_test_package_is_no_source() -> None:
    assert not [m for s in TABLE for m in s.modules if m.partition(".")[0] in ("test", "tests", "idlelib")]
    assert module_file("no_such_module_here") is None
    assert module_file("json") is not None and "json" in sys.stdlib_module_names
