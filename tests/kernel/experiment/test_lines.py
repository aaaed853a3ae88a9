"""Lines end where a newline is, everywhere: whoever reads a run's files reads the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from apex_framework.analysis import episode_folder, iterate_lines, read_episodes
from apex_framework.cli.exporting import Exporting
from apex_framework.errors import ArtifactError
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.lines import read_rows, to_line
from apex_framework.experiment.plan import Plan
from apex_framework.interfaces import MetricSample
from apex_framework.telemetry.registry import Registry, to_row
from apex_reports.lines import lines, trace_path

Read = Callable[[Path], list[object]]
READERS: dict[str, Read] = {
    "run": lambda path: list(read_rows(path)),
    "analysis": lambda path: list(iterate_lines(path)),
    "reports": lambda path: [line.row for line in lines(path)],
}


class Takes:
    """An exporter that keeps the last metrics that it was given."""

    name = "takes"

    def __init__(self) -> None:
        self.samples: tuple[MetricSample, ...] = ()

    def emit(self, event: object) -> None: ...

    def metrics(self, samples: tuple[MetricSample, ...]) -> None:
        self.samples = samples

    def close(self) -> None: ...


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
class TestReaders:
    def test_letters_that_end_lines_elsewhere_end_none_and_a_torn_line_is_left_out(
        self, read: Read, tmp_path: Path
    ) -> None:
        rows = [{"a": "x\u2028y\x85z\x0b\x0c\x1c"}, {"a": 2}]
        (tmp_path / "l.jsonl").write_bytes(b"".join(map(to_line, rows)) + b'{"a": 3}')
        assert read(tmp_path / "l.jsonl") == rows

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (b'{"a": ' + b"[" * 100_000, "not JSON"),
            (b"", "not JSON"),
            (b"{]", "not JSON"),
            (b'{"a": "\xff"}', "not JSON"),
            (b"[1]", "not an object"),
        ],
    )
    def test_damage_has_its_file_and_line(self, read: Read, tmp_path: Path, line: bytes, words: str) -> None:
        (tmp_path / "l.jsonl").write_bytes(b'{"a": 1}\n' + line + b"\n")
        with pytest.raises(ArtifactError, match=rf"l\.jsonl, line 2: {words}"):
            read(tmp_path / "l.jsonl")


def test_only_analysis_needs_a_file_unless_it_may_be_missing(tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    assert READERS["run"](gone) == READERS["reports"](gone) == list(iterate_lines(gone, missing_ok=True)) == []
    with pytest.raises(ArtifactError, match=r"cannot read .*gone\.jsonl"):
        READERS["analysis"](gone)


def test_a_run_with_any_letter_and_any_depth_goes_on_or_says_why(
    tmp_path: Path, make_plan: Callable[..., Plan], fake_episodes: ModuleType
) -> None:
    plan, registry = make_plan(), Registry()
    registry.counter("messages_dead_total", reason="a\u2028b\x85c").inc()
    measured = tuple(to_row(sample) for sample in registry.snapshot())
    with RunFolder.create(tmp_path / "r", plan) as folder:
        folder.add(replace(fake_episodes.work(next(plan.jobs())), metrics=measured))
    with RunFolder.reopen(tmp_path / "r") as folder:
        exporting, takes = Exporting(folder), Takes()
        exporting.add(takes)
        exporting.open()
        exporting.result(fake_episodes.work(list(plan.jobs())[1]))
    assert "a\u2028b\x85c" in {value for sample in takes.samples for _, value in sample.labels}
    with (tmp_path / "r/calls.jsonl").open("ab") as file:
        file.write(b'{"a": ' + b"[" * 100_000 + b"\n")
    with pytest.raises(ArtifactError, match=r"calls\.jsonl, line \d+: not JSON"):
        RunFolder.reopen(tmp_path / "r")
    assert len(read_episodes(tmp_path / "r")) == 1


@pytest.mark.parametrize("name", ["a/b", "..", "ü", "a:b,c@d+e=f g", "50%", "t\udcff"])
def test_reports_find_an_episodes_files_where_the_run_put_them(name: str, tmp_path: Path) -> None:
    key = (name, name, 3)
    assert trace_path(tmp_path, key) == episode_folder(tmp_path, key) / "trace.jsonl"
    assert episode_folder(tmp_path, key).resolve().parents[2] == (tmp_path / "episodes").resolve()
