"""``apex suite fetch`` and folders of data: what is downloaded is whole, what is there stays, and nothing is half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from swebench_world import World, make_world

from apex_framework.errors import UsageError
from apex_suites.swebench.folders import data_files, is_whole, read_folder
from apex_suites.swebench.suite import SweBenchSuite

DATASET = "SWE-bench/SWE-bench_Lite"
COMMIT = "c" * 40
NAMES = {split: f"{split}-00000-of-00001.parquet" for split in ("dev", "test")}
APEX = (
    "import os, resource, sys\n"
    "if most := int(os.environ.get('MOST_BYTES', 0)):\n"
    "    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
    "from apex_suites.swebench import downloads\n"
    "downloads.HOST = sys.argv[1]\n"
    "from apex_framework.cli.boundary import run\n"
    "sys.exit(run(sys.argv[2:]))\n"
)


def parquet(*rows: Mapping[str, Any]) -> bytes:
    pyarrow = pytest.importorskip("pyarrow", reason="parquet needs the extra [swebench]")
    sink = pyarrow.BufferOutputStream()
    parquet = pytest.importorskip("pyarrow.parquet")
    whole = [{**row, "PASS_TO_PASS": json.dumps(row["PASS_TO_PASS"])} for row in rows]
    parquet.write_table(
        pyarrow.Table.from_pylist([{k: v for k, v in row.items() if k != "split"} for row in whole]), sink
    )
    return bytes(sink.getvalue())


@dataclass
class Hub:
    """A hub on this machine with one dataset; ``stall`` holds its downloads up, ``cut`` breaks off the first of each file."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    stall: threading.Event | None = None
    cut: int = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        self.asked.append(f"{request.command} {path}")
        if path.startswith(f"/api/datasets/{DATASET}"):
            siblings = [{"rfilename": name} for name in ("README.md", *self.files)]
            told = {"id": DATASET, "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
            self._send(request, json.dumps(told).encode(), {"Content-Type": "application/json"})
            return
        head, _, name = path.partition(f"/resolve/{COMMIT}/")
        if head != f"/datasets/{DATASET}" or name not in self.files:
            self._send(request, b"", {}, status=404)
            return
        if request.command == "GET" and self.stall is not None:
            self.stall.wait(60)
        data = self.files[name]
        told_of = {"ETag": f'"{name.replace("/", "")}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        start = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if request.command == "GET" and self.cut and not start:
            self._send(request, data[: self.cut], told_of, length=len(data))
            request.close_connection = True
            return
        if start:
            told_of["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(request, data[start:], told_of, status=206 if start else 200)

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        data: bytes,
        headers: Mapping[str, str],
        status: int = 200,
        length: int = -1,
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(data) if length < 0 else length))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.answer(self)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        if made.stall is not None:
            made.stall.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "world")


@pytest.fixture
def host(world: World, tmp_path: Path) -> str:
    """Where repositories are cloned from: a folder of them, by owner and name."""
    (tmp_path / "host" / "demo").mkdir(parents=True)
    (world.repos / "demo+tiny").rename(tmp_path / "host" / "demo" / "tiny")
    return f"file://{tmp_path}/host"


def filled(hub: Hub, world: World) -> Hub:
    pytest.importorskip("huggingface_hub", reason="the hub needs the extra [swebench]")
    hub.files = {
        f"data/{NAMES['dev']}": parquet({**world.row, "instance_id": "demo__tiny-1"}),
        f"data/{NAMES['test']}": parquet({**world.row, "instance_id": "demo__tiny-2"}),
    }
    return hub


def started(folder: Path, hub: Hub, host: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(folder / "hf"),
        "XDG_STATE_HOME": str(folder / "state"),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **more,
    }
    command = [sys.executable, "-c", APEX, host, "suite", "fetch", "swebench_lite", *arguments, "--json"]
    return subprocess.Popen(
        command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def fetched(folder: Path, hub: Hub, host: str, *arguments: str, **more: str) -> tuple[int, Any, str]:
    done = started(folder, hub, host, *arguments, **more)
    out, err = done.communicate(timeout=120)
    return done.returncode, json.loads(out), err


def test_data_and_repositories_are_downloaded_once(hub: Hub, world: World, host: str, tmp_path: Path) -> None:
    filled(hub, world)
    flags = ["--data", "lite", "--repos", "clones"]
    status, found, err = fetched(tmp_path, hub, host, *flags)
    data, clone = tmp_path / "lite", tmp_path / "clones" / "demo+tiny"
    assert (status, found["fetched"]) == (0, [*(str(data / name) for name in NAMES.values()), str(clone)]), err
    assert "data/test-00000-of-00001.parquet" in err and "1/1 demo/tiny: cloning" in err
    assert {path.name: path.read_bytes() for path in data.iterdir()} == {
        name: hub.files[f"data/{name}"] for name in NAMES.values()
    }
    assert [path.name for path in (tmp_path / "clones").iterdir()] == ["demo+tiny"] and (clone / "HEAD").is_file()
    seen = subprocess.run(
        ["git", "-C", clone, "cat-file", "-t", world.row["base_commit"]], capture_output=True, text=True
    )
    assert seen.stdout.strip() == "commit", seen.stderr
    suite = SweBenchSuite(data=data, repos=clone.parent, environments=world.environments)
    assert [task.id for split in NAMES for task in suite.candidates(split)] == ["demo__tiny-1", "demo__tiny-2"]

    asked = len(hub.asked)
    status, again, _ = fetched(tmp_path, hub, "file:///nowhere", *flags)
    assert (status, again["fetched"], len(hub.asked)) == (0, [], asked)
    (data / NAMES["test"]).unlink()
    status, again, _ = fetched(tmp_path, hub, host, *flags, HF_HUB_OFFLINE="1", MOST_BYTES="1000")
    assert (status, [path.name for path in data.iterdir()]) == (3, [NAMES["dev"]]) and again["error"]["code"] == "E0300"
    # from the hub's cache
    status, again, _ = fetched(tmp_path, hub, host, *flags, HF_HUB_OFFLINE="1")
    assert (status, len(again["fetched"]), len(hub.asked)) == (0, 2, asked)


def test_a_dry_run_downloads_nothing(hub: Hub, host: str, tmp_path: Path) -> None:
    status, found, _ = fetched(tmp_path, hub, host, "--dry-run", "--data", "lite", "--repos", "clones")
    assert status == 0 and DATASET in found["sources"][0] and "git clone --bare" in found["sources"][1]
    assert not hub.asked and not (tmp_path / "lite").exists() and not (tmp_path / "clones").exists()


@pytest.mark.parametrize("how", ["nobody there", "offline", "no such dataset", "a part is missing"])
def test_without_the_hub_one_line_says_what_to_download_and_nothing_is_left(
    how: str, hub: Hub, world: World, host: str, tmp_path: Path
) -> None:
    filled(hub, world)
    more = {"HF_HUB_OFFLINE": "1"} if how == "offline" else {}
    if how == "nobody there":
        more["HF_ENDPOINT"] = "http://127.0.0.1:9"
    elif how == "no such dataset":
        hub.files = {}
    elif how == "a part is missing":
        hub.files = {"data/test-00000-of-00002.parquet": hub.files[f"data/{NAMES['test']}"]}
    status, found, _ = fetched(tmp_path, hub, host, "--data", "a/lite", "--repos", "clones", **more)
    error = found["error"]
    assert (status, error["code"]) == (3, "E0300") and f"{DATASET} cannot be downloaded" in error["cause"]
    assert f"/datasets/{DATASET}" in error["remedy"] and "\n" not in error["cause"] + error["remedy"]
    assert not (tmp_path / "a").exists() and not (tmp_path / "clones").exists()


@pytest.mark.slow
def test_a_download_that_was_cut_off_goes_on(hub: Hub, world: World, host: str, tmp_path: Path) -> None:
    filled(hub, world).cut = 1000
    status, found, err = fetched(tmp_path, hub, host, "--data", "lite")
    if status:  # the package gave up: nothing is there, and what came is not asked for again
        assert not (tmp_path / "lite").exists()
        hub.cut = 0
        status, found, err = fetched(tmp_path, hub, host, "--data", "lite")
    assert (status, len(found["fetched"])) == (0, 2), err
    assert (tmp_path / "lite" / NAMES["test"]).read_bytes() == hub.files[f"data/{NAMES['test']}"]
    assert "--repos DIR" in err


def test_an_interrupt_ends_it_at_once_and_leaves_nothing(hub: Hub, world: World, host: str, tmp_path: Path) -> None:
    filled(hub, world).stall = threading.Event()
    child = started(tmp_path, hub, host, "--data", "lite")
    deadline = time.monotonic() + 60
    while not any(line.startswith("GET /datasets") for line in hub.asked) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, json.loads(out)["error"]["code"]) == (130, "E0130"), err
    assert not (tmp_path / "lite").exists()


def test_an_interrupted_clone_ends_at_once_and_leaves_nothing(
    hub: Hub, world: World, host: str, tmp_path: Path
) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/cloning\nfor last; do :; done\nmkdir $last\nexec sleep 60\n")
    slow.chmod(0o755)
    flags = ["--data", str(world.data), "--repos", "a/clones"]
    child = started(tmp_path, hub, host, *flags, PATH=f"{slow.parent}:{os.environ['PATH']}")
    deadline = time.monotonic() + 60
    while not (tmp_path / "cloning").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, json.loads(out)["error"]["code"]) == (130, "E0130"), err
    assert not (tmp_path / "a").exists()


def test_a_repository_that_cannot_be_cloned_is_named_and_half_of_it_is_not_there(
    hub: Hub, world: World, host: str, tmp_path: Path
) -> None:
    world.write(world.row, {**world.row, "instance_id": "other-1", "repo": "zzz/gone"})
    flags = ["--data", str(world.data), "--repos", "clones"]
    status, found, _ = fetched(tmp_path, hub, host, *flags)
    assert status == 3 and "zzz/gone cannot be cloned" in found["error"]["cause"]
    assert found["error"]["remedy"] == f"by hand: git clone --bare {host}/zzz/gone {tmp_path}/clones/zzz+gone"
    assert [path.name for path in (tmp_path / "clones").iterdir()] == ["demo+tiny"] and not hub.asked
    world.write(world.row)
    assert fetched(tmp_path, hub, host, *flags)[1]["fetched"] == []


def test_where_to_download_is_asked_for(hub: Hub, host: str, tmp_path: Path) -> None:
    assert fetched(tmp_path, hub, host)[1]["error"]["exit_status"] == 2
    assert "called like a file" in fetched(tmp_path, hub, host, "--data", "lite.jsonl")[1]["error"]["cause"]
    assert not hub.asked


def lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_cache_of_the_hub_is_read_at_the_snapshot_that_main_names(world: World, tmp_path: Path) -> None:
    cache = tmp_path / "datasets--SWE-bench--SWE-bench_Lite"
    row = {key: value for key, value in world.row.items() if key != "split"}
    for age, name in enumerate(("new", "old")):
        place = cache / "snapshots" / name / "data"
        place.mkdir(parents=True)
        (cache / "blobs").mkdir(exist_ok=True)
        (cache / "blobs" / name).write_bytes(parquet({**row, "PASS_TO_PASS": [], "instance_id": f"{name}-1"}))
        (place / NAMES["test"]).symlink_to(cache / "blobs" / name)
        os.utime(place.parent, (1e9 - age, 1e9 - age))
    (cache / "snapshots" / "empty").mkdir()
    assert [one.instance_id for one in read_folder(cache)] == ["new-1"]
    (cache / "refs").mkdir()
    for main, found in (("old", "old-1"), ("empty", "new-1"), ("gone", "new-1")):
        (cache / "refs" / "main").write_text(main)
        assert [one.instance_id for one in read_folder(cache)] == [found]
    suite = SweBenchSuite(data=cache, repos=world.repos, environments=world.environments)
    assert [task.id for task in suite.candidates("test")] == ["new-1"]
    shutil.rmtree(cache / "blobs")
    with pytest.raises(UsageError, match="holds no file of a split"):
        read_folder(cache)


def test_a_plain_folder_is_read_by_split_and_must_be_whole(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "lite"
    folder.mkdir()
    row = {key: value for key, value in world.row.items() if key != "split"}
    with pytest.raises(UsageError, match="holds no file of a split"):
        read_folder(folder)
    (folder / "test.jsonl").write_text(lines({**row, "instance_id": "t-1"}))
    (folder / "dev.jsonl").write_text(lines({**row, "instance_id": "d-1"}))
    for name in ("testing.jsonl", "README.md", ".test.jsonl.1.part", "results.jsonl"):
        (folder / name).write_text("{")
    assert [(one.instance_id, one.split) for one in read_folder(folder)] == [("d-1", "dev"), ("t-1", "test")]
    (folder / "dev-00000-of-00001.jsonl").write_text(lines({**row, "instance_id": "d-1"}))
    with pytest.raises(UsageError, match=r"'d-1' is in .*, too"):
        read_folder(folder)
    (folder / "dev-00000-of-00001.jsonl").unlink()
    (folder / "test.jsonl").rename(folder / "test-00001-of-00002.jsonl")
    assert not is_whole(folder)
    with pytest.raises(UsageError, match="1 of 2 files of the split 'test'"):
        data_files(folder)
