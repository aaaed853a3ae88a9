"""Stands in for a Docker engine: what the official SWE-bench package asks of its socket, with folders for images.

It shares its folder with the stand-in for the program ``docker`` (``../workspaces/stand_in_docker.py``). Commands are started on
this machine, with the container's folder for ``/``: it confines nothing.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shlex
import shutil
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, unquote, urlsplit

PLACES = ("/testbed", "/eval.sh", "/tmp/patch.diff")


class Engine(socketserver.ThreadingUnixStreamServer):
    """``home`` has ``images/NAME``; ``asked`` is what was asked of it, ``told`` the commands that were run."""

    daemon_threads = True

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[str] = []
        self.told: list[str] = []
        self.execs: dict[str, dict[str, Any]] = {}
        (home / "containers").mkdir(parents=True, exist_ok=True)
        super().__init__(str(home / "socket"), _Handler)

    def image(self, name: str) -> Path:
        """Where the folder of an image is, or would be."""
        return self.home / "images" / name.replace("/", "__").replace(":", "__")

    def files(self, container: str) -> Path:
        """What a container has for ``/``."""
        return self.home / "files" / container

    def inside(self, container: str, text: str) -> str:
        """Paths of the container as this machine has them."""
        for place in PLACES:
            text = text.replace(place, f"{self.files(container)}{place}")
        return text


class _Handler(BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *args: Any) -> None:
        self.server.asked.append(format % args)

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path, query = unquote(re.sub(r"^/v[\d.]+", "", url.path)), parse_qs(url.query)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = path.strip("/").split("/")
        home = self.server.home
        if path == "/version":
            return self._say({"ApiVersion": "1.44", "Version": "0.0"})
        if parts[0] == "images" and parts[1] == "create":
            return self._say({"message": f"No such image: {query['fromImage'][0]}"}, 404)
        if parts[0] == "images":
            name = "/".join(parts[1:-1])
            if not self.server.image(name).is_dir():
                return self._say({"message": f"No such image: {name}"}, 404)
            return self._say({"Id": "sha256:0", "RepoTags": [name]})
        if path == "/containers/create":
            name, said = query["name"][0], json.loads(body)
            shutil.copytree(self.server.image(said["Image"]), self.server.files(name), symlinks=True)
            record = {"image": said["Image"], "labels": {}, "pid": 0}
            (home / "containers" / name).write_text(json.dumps(record))
            return self._say({"Id": name, "Warnings": []}, 201)
        if parts[0] == "exec":
            return self._exec(parts[1], parts[2])
        container = parts[1]
        if not (home / "containers" / container).exists():
            return self._say({"message": f"No such container: {container}"}, 404)
        if parts[2] == "json":
            return self._say({"Id": container, "Name": f"/{container}", "State": {"Status": "running"}})
        if parts[2] == "start":
            return self._say(None, 204)
        if parts[2] == "archive":
            target = self.server.files(container) / query["path"][0].strip("/")
            target.mkdir(parents=True, exist_ok=True)
            with tarfile.open(fileobj=io.BytesIO(body)) as tar:
                for member in tar.getmembers():
                    text = tar.extractfile(member).read().decode()  # type: ignore[union-attr]  # they are files
                    (target / member.name).write_text(self.server.inside(container, text))
            return self._say({})
        name = secrets.token_hex(8)
        self.server.execs[name] = {"container": container, **json.loads(body)}
        return self._say({"Id": name}, 201)

    def _exec(self, name: str, what: str) -> None:
        one = self.server.execs[name]
        if what == "json":
            return self._say({"ExitCode": one["status"], "Pid": one.get("pid", 0), "Running": False})
        # The client reads the socket itself from here to its end, and only what comes after these lines.
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.end_headers()
        self.wfile.flush()
        time.sleep(0.1)
        command = one["Cmd"] if isinstance(one["Cmd"], list) else shlex.split(one["Cmd"])
        self.server.told.append(shlex.join(command))
        inside = [self.server.inside(one["container"], word) for word in command]
        child = subprocess.Popen(
            inside,
            cwd=self.server.files(one["container"]) / (one.get("WorkingDir") or "testbed").strip("/"),
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        record = self.server.home / "containers" / one["container"]
        record.write_text(json.dumps({**json.loads(record.read_text()), "pid": child.pid}))
        one["pid"] = child.pid
        output = child.communicate()[0]
        one["status"] = child.returncode
        if output:
            self.wfile.write(b"\1\0\0\0" + len(output).to_bytes(4, "big") + output)

    def _say(self, value: Any, status: int = 200) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def engine(home: Path) -> Iterator[Engine]:
    """One that answers, and its program on the path."""
    tools = home / "tools"
    tools.mkdir(parents=True)
    source = (Path(__file__).parents[1] / "workspaces" / "stand_in_docker.py").read_text(encoding="utf-8")
    (tools / "docker").write_text(source.replace("#!/usr/bin/env python3", f"#!{sys.executable} -I", 1))
    (tools / "docker").chmod(0o755)
    answering = Engine(home)
    thread = threading.Thread(target=answering.serve_forever, daemon=True)
    thread.start()
    there = {
        "DOCKER_HOST": f"unix://{home / 'socket'}",
        "STAND_IN": str(home),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }
    try:
        with mock.patch.dict(os.environ, there):
            yield answering
    finally:
        answering.shutdown()
        answering.server_close()
        thread.join()
