"""Odd names that are legal are taken as they are: two thousand of them, and those that look like options."""

from __future__ import annotations

import asyncio
import random
import unicodedata
from pathlib import Path

import pytest

from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp.fs import FsServer
from apex_mcp.names import addressable, plain, private

ODD = [
    "-rf", "--help", "-", "~", "~root", "$HOME", "${IFS}", "`id`", "$(id)", "%2e%2e", "..\\x", "...", "....", ". .",
    "a b", " leading", "trailing ", "a;b", "a|b", "a&b", "a>b", "*", "?", "[a-z]", "{a,b}", "'", '"', "\\", "a\\b", "#",
    "!x", "^", "@", ":", "a:b", "C:", "NUL", "con.txt", "aux", "git", ".gitignore", ".gitattributes", ".github",
    "git~", "x.git", ".apexrc", "apex", "conftest_.py", "test.pthx", "é", "e\u0301", "ﬁ", "Å", "İ", "ß", "😀", "👨‍👩‍👧", "中文",
    "عربي", "עברית", "\u202egnp.exe", "\u00a0", "\u2028", "\ufeffx", "𝒳", "x" * 255, "é" * 127,
]  # fmt: skip
ALPHABET = "abcXYZ019-_.~ $%&'()+,;=@[]^`{}!#\\*?|<>\":éßñøПривет中文日本한국אבعر😀🎉\u0301\u200d\u202e\u00a0ﬁ𝒳Å"


def legal_names(count: int, seed: int) -> list[str]:
    """Names and short paths without a way up, a control character, a private or a protected name."""
    random_ = random.Random(seed)
    names = dict.fromkeys(ODD)
    while len(names) < count:
        parts = ["".join(random_.choices(ALPHABET, k=random_.randint(1, 24))) for _ in range(random_.randint(1, 3))]
        if all(p not in (".", "..") and not private(p) for p in parts):
            names.setdefault("/".join(parts))
    return list(names)[:count]


def same_file(names: list[str]) -> list[str]:
    """Names of which none is a folder of another."""
    folders = {"/".join(n.split("/")[:d]) for n in names for d in range(1, n.count("/") + 1)}
    return [n for n in names if n not in folders]


def test_two_thousand_odd_names_are_accepted_by_every_tool_and_mean_themselves(tmp_path: Path) -> None:
    server, capability = FsServer(), Capability(FolderWorkspace(tmp_path), frozenset())
    names = same_file(legal_names(2040, seed=17))[:2000]
    assert len(names) == 2000

    async def ask(tool: str, **given: object) -> ToolResult:
        result = await server.call(ToolCall(tool, given, capability))
        assert result.ok, (tool, given, result)
        return result

    async def go() -> None:
        for number, name in enumerate(names):
            await ask("fs.write", path=name, text=f"{number}\n")
        listed = (await ask("fs.list")).value["paths"]
        assert sorted(listed) == sorted(names)
        for number, name in enumerate(names):
            assert (await ask("fs.read", path=name)).value["text"] == f"{number}\n"
            assert (tmp_path / name).read_text() == f"{number}\n"
        for number, name in enumerate(names[:200]):
            edit = {"path": name, "line": 1, "search": f"{number}", "replace": "new"}
            await ask("fs.patch", edits=[edit])
            await ask("fs.outline", path=name)
            await ask("fs.move", path=name, to=f"moved-{number}")
            await ask("fs.transaction", steps=[{"op": "move", "path": f"moved-{number}", "to": name}])
            await ask("fs.delete", path=name)

    asyncio.run(go())


@pytest.mark.parametrize(
    "name", [".git", ".GIT", "．git", ".gi\u200dt", ".git ", ".git..", ".git:x", "git~1", "a\\.git", ".gıt", ".ɡit"]
)
def test_private_names_are_private_in_every_disguise(name: str) -> None:
    assert private(name)


def test_what_is_protected_is_so_in_every_disguise(tmp_path: Path) -> None:
    server, capability = FsServer(), Capability(FolderWorkspace(tmp_path), frozenset())
    for name in (
        "CONFTEST.PY",
        "cоnftest.py",
        "conftest.py.",
        "ＣＯＮＦＴＥＳＴ.py",
        "x.PTH",
        "x.pth ",
        ".vsCode/a",
        "a\\conftest.py",
    ):
        call = ToolCall("fs.write", {"path": name, "text": ""}, capability)
        assert asyncio.run(server.call(call)).error == "E_PROTECTED", name


def test_a_name_is_folded_once_and_for_all() -> None:
    for name in legal_names(2000, seed=3):
        assert plain(plain(name)) == plain(name)
        assert plain(unicodedata.normalize("NFD", name)) == plain(unicodedata.normalize("NFC", name))


def test_a_file_whose_name_no_path_can_give_is_not_listed(tmp_path: Path) -> None:
    for raw in (b"bad\xff", b"new\nline", b"ok"):
        with open(bytes(tmp_path) + b"/" + raw, "w") as file:
            file.write("word\n")
    server, capability = FsServer(), Capability(FolderWorkspace(tmp_path), frozenset())
    assert asyncio.run(server.call(ToolCall("fs.list", {}, capability))).value["paths"] == ["ok"]
    hits = asyncio.run(server.call(ToolCall("fs.search", {"regex": "wor."}, capability))).value["hits"]
    assert [hit["path"] for hit in hits] == ["ok"]
    assert not addressable("\udcff") and addressable("\u202e") and addressable(" ")
