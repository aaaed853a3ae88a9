"""(kind, name) to an object of that kind, or an error that names who is at fault."""

from __future__ import annotations

from typing import Any

import pytest

from apex_framework.catalog import Catalog, Owner, missing_members
from apex_framework.errors import (
    ConfigError,
    MissingExtraError,
    NameTakenError,
    PluginError,
    UnknownNameError,
)
from apex_framework.hookspecs import KINDS
from apex_framework.interfaces import Roster, Routes

MINE = Owner("mine", "my-dist", "1.2")


class Line:
    """A topology that takes a spec and an option."""

    name = "line"

    def __init__(self, spec: str = "", *, width: int = 1) -> None:
        if width < 1:
            raise ValueError("width must be positive")
        self.spec, self.width = spec, width

    def routes(self, roster: Roster) -> Routes:
        """Nothing."""
        return Routes({})


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    made.add("topology", "line", Line, summary="a line", owner=MINE)
    return made


def test_it_makes_what_was_registered(catalog: Catalog) -> None:
    made = catalog.make("topology", "line", width=3)
    assert isinstance(made, Line) and (made.spec, made.width) == ("", 3)


def test_text_after_the_first_colon_is_the_factorys_spec(catalog: Catalog) -> None:
    assert catalog.make("topology", "line:a,b:c").spec == "a,b:c"
    assert catalog.make("topology", "line:").spec == ""


def test_an_unknown_name_gets_a_suggestion(catalog: Catalog) -> None:
    with pytest.raises(UnknownNameError) as caught:
        catalog.make("topology", "lime:x")
    assert caught.value.remedy == "did you mean 'line'?"
    with pytest.raises(UnknownNameError):
        catalog.names("topologies")


def test_a_name_taken_twice_names_both(catalog: Catalog) -> None:
    with pytest.raises(NameTakenError) as caught:
        catalog.add("topology", "line", Line, owner=Owner("yours"))
    assert caught.value.owners == ("mine", "yours")


def test_the_same_name_may_stand_in_two_kinds(catalog: Catalog) -> None:
    catalog.add("lane", "line", Line, owner=MINE)
    assert catalog.names("lane") == catalog.names("topology") == ("line",)
    assert [(e.kind, e.name) for e in catalog.entries()] == [("topology", "line"), ("lane", "line")]


@pytest.mark.parametrize("name", ["", "a:b", "a b", "-x", 3])
def test_impossible_names_are_refused(catalog: Catalog, name: Any) -> None:
    with pytest.raises(PluginError):
        catalog.add("topology", name, Line, owner=MINE)


def test_the_wrong_type_is_the_plugins_fault(catalog: Catalog) -> None:
    catalog.add("topology", "number", lambda: 3, owner=MINE)
    with pytest.raises(PluginError) as caught:
        catalog.make("topology", "number")
    assert "plugin mine (my-dist 1.2) made an object of type int, which is no Topology" in caught.value.cause
    assert "it lacks name, routes" in caught.value.cause


def test_an_option_that_does_not_fit_is_the_users_fault(catalog: Catalog) -> None:
    with pytest.raises(ConfigError, match="topology 'line' takes no option 'height'"):
        catalog.make("topology", "line", height=3)
    with pytest.raises(ConfigError, match="width must be positive"):
        catalog.make("topology", "line", width=0)


def test_a_failing_factory_is_the_plugins_fault(catalog: Catalog) -> None:
    def fails() -> None:
        raise OSError("disk")

    catalog.add("store", "bad", fails, owner=MINE)
    with pytest.raises(PluginError, match=r"store 'bad' of plugin mine \(my-dist 1.2\) cannot be made: OSError: disk"):
        catalog.make("store", "bad")


def test_a_missing_package_of_an_extra_gives_the_line_to_install_it(catalog: Catalog) -> None:
    def needs() -> None:
        import no_such_module_anywhere  # type: ignore[import-not-found]  # noqa: F401 - it must not exist

    catalog.add("store", "far", needs, requires="gpu", owner=MINE)
    catalog.add("store", "bug", needs, owner=MINE)
    with pytest.raises(MissingExtraError) as caught:
        catalog.make("store", "far")
    assert caught.value.remedy == "pip install 'my-dist[gpu]'"
    with pytest.raises(PluginError, match="ModuleNotFoundError"):
        catalog.make("store", "bug")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_knows_its_members(kind: str) -> None:
    assert missing_members(kind, object())
