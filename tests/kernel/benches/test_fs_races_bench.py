"""``apex bench fs-races``: ours and a peer that checks before it opens, in the same run."""

from __future__ import annotations

from types import SimpleNamespace

from apex_framework.benches import fs_races


def test_ours_never_lets_anything_out() -> None:
    rows = list(fs_races.run(SimpleNamespace(seconds=0.1)))
    assert {row["case"] for row in rows} == {"directory", "file", "parent", "hard link"}
    assert {row["contender"] for row in rows} == {"apex", "apex, a step at a time", "path strings"}
    assert all(row["value"] == 0 for row in rows if row["metric"] == "escapes" and row["contender"] != "path strings")
    assert all(isinstance(row["value"], int) and row["value"] > 0 for row in rows if row["metric"] == "calls")
