"""Data files that somebody else wrote: every complaint is one line that names its place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.errors import UsageError
from apex_suites.programs import rows as module
from apex_suites.programs.rows import read_rows, unique


def test_lines_lists_and_packed_files_are_read(tmp_path: Path) -> None:
    values = [{"a": 1}, {"a": 2}]
    lines = "".join(f"{json.dumps(v)}\n\n" for v in values).encode()
    (tmp_path / "lines").write_bytes(lines)
    (tmp_path / "list").write_text(json.dumps(values, indent=1))
    (tmp_path / "packed").write_bytes(gzip.compress(lines))
    for name in ("lines", "list", "packed"):
        assert [r.values for r in read_rows(tmp_path / name)] == values
    assert [r.where for r in read_rows(tmp_path / "lines")] == [f"{tmp_path}/lines:1", f"{tmp_path}/lines:3"]


BAD = {
    "empty": (b"", "holds no row"),
    "blank": (b"\n \n", "holds no row"),
    "cut": (b'{"a": 1}\n{"a": ', ":2: not JSON"),
    "bytes": (b'{"a": 1}\n{"a": "\xff"}\n', ":2: byte 7 is not UTF-8"),
    "number": (b'{"a": 1}\n\n3\n', ":3: int instead of an object"),
    "deep": (b'{"a": ' + b"[" * 100_000 + b"\n", ":1: not JSON"),
    "list": (b'[{"a": 1}, 2]', "[1]: int instead of an object"),
    "half": (b'[{"a": 1},\n', ":2: not JSON"),
    "packed": (gzip.compress(b'{"a": 1}\n' * 100)[:-9], "cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_name_file_and_line(name: str, tmp_path: Path) -> None:
    data, told = BAD[name]
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_rows(tmp_path / "data")
    assert told in caught.value.cause and str(tmp_path / "data") in caught.value.cause
    assert "\n" not in caught.value.cause and caught.value.remedy


def test_a_missing_file_a_folder_and_a_huge_line_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_rows(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="cannot be read") as caught:
        read_rows(tmp_path)
    assert caught.value.remedy == "--data FILE names one file that can be read"
    monkeypatch.setattr(module, "MOST_LINE", 100)
    (tmp_path / "huge").write_text('{"a": 1}\n{"a": "' + "x" * 200 + '"}\n')
    with pytest.raises(UsageError, match=":2: a line of more than 100 bytes"):
        read_rows(tmp_path / "huge")


def test_fields_are_checked(tmp_path: Path) -> None:
    (tmp_path / "data").write_text('{"text": "\\ud800", "number": true, "texts": ["a", 1], "other": 3}\n')
    row = read_rows(tmp_path / "data")[0]
    for read, told in (
        (lambda: row.text("absent"), "no field 'absent'"),
        (lambda: row.text("other"), "must be text, not int"),
        (lambda: row.text("text"), "not valid Unicode"),
        (lambda: row.number("number"), "must be a number"),
        (lambda: row.texts("texts"), "a list of texts"),
    ):
        with pytest.raises(UsageError, match=told) as caught:
            read()
        assert caught.value.cause.startswith(f"{tmp_path}/data:1: ")
    with pytest.raises(UsageError, match=r"'x' is there already, at .*data:1"):
        unique([row, row], ["x", "x"])


@given(data=st.binary(max_size=60))
def test_whatever_the_bytes_are_it_is_rows_or_one_clear_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(data)
    try:
        assert read_rows(path)
    except UsageError as error:
        assert str(path) in error.cause and "\n" not in error.cause
