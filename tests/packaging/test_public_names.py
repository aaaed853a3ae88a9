"""Every public name exists, and is typed."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from pathlib import Path
from typing import Any

import pytest

import apex_framework
from apex_framework import testing

PACKAGES = sorted(
    {
        "apex_framework",
        *(
            p.value
            for p in importlib.metadata.entry_points(group="apex_framework")
            if p.dist and p.dist.name == "apex-framework"
        ),
    }
)


@pytest.mark.parametrize("name", apex_framework.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(apex_framework, name) is not None


@pytest.mark.parametrize("name", testing.__all__)
def test_every_kit_resolves(name: str) -> None:
    assert callable(getattr(testing, name))


def test_names_are_listed_once_and_unknown_ones_are_attribute_errors() -> None:
    assert len(set(apex_framework.__all__)) == len(apex_framework.__all__)
    assert set(dir(apex_framework)) == set(apex_framework.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = apex_framework.no_such_name


def test_star_import_brings_all_of_them() -> None:
    names: dict[str, Any] = {}
    exec("from apex_framework import *", names)
    assert set(apex_framework.__all__) <= set(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_marked_as_typed(package: str) -> None:
    file = importlib.import_module(package).__file__
    assert file is not None and (Path(file).parent / "py.typed").is_file()


def public_callables() -> list[Any]:
    found = []
    for name in apex_framework.__all__:
        thing = getattr(apex_framework, name)
        if inspect.isfunction(thing):
            found.append(pytest.param(thing, id=name))
        elif inspect.isclass(thing) and thing.__module__.startswith("apex_framework"):
            members = {
                m: f for m, f in vars(thing).items() if inspect.isfunction(f) and f.__module__ == thing.__module__
            }
            found += [
                pytest.param(f, id=f"{name}.{m}")
                for m, f in members.items()
                if not m.startswith("_") or m == "__init__"
            ]
    return found


@pytest.mark.parametrize("function", public_callables())
def test_every_public_function_is_fully_annotated(function: Any) -> None:
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    generated = function.__qualname__.endswith("__init__") and "<string>" in function.__code__.co_filename
    assert not bare, f"without a type: {bare}"
    assert generated or signature.return_annotation is not signature.empty
