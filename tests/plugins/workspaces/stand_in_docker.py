#!/usr/bin/env python3
"""Stands in for the ``docker`` program: the calls that the ``swebench`` workspaces make, with folders for images.

It keeps the contract of their command lines, refuses options that it does not know, and starts programs of this machine: it
confines nothing. Images are folders below ``$STAND_IN/images``, containers files below ``$STAND_IN/containers``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

Given = dict[str, list[str]]
HOME = Path(os.environ["STAND_IN"])
VALUED = {
    *("--name", "--label", "--pull", "--network", "--cap-drop", "--security-opt", "--user", "--tmpfs", "--memory"),
    *("--memory-swap", "--pids-limit", "--ulimit", "--mount", "--workdir", "--env", "--entrypoint"),
}
PLAIN = {"--rm", "--init", "--read-only"}


def fail(text: str, status: int = 1) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(status)


def image(name: str) -> Path | None:
    place = HOME / "images" / name.replace("/", "__").replace(":", "__")
    return place if place.is_dir() else None


def container(name: str) -> Path:
    return HOME / "containers" / name


def options(words: list[str]) -> tuple[Given, list[str]]:
    found: Given = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in PLAIN:
            found[word] = ["yes"]
        elif word in VALUED:
            found.setdefault(word, []).append(words.pop(0))
        else:
            fail(f"unknown flag: {word}", 125)
    return found, words


def created(words: list[str]) -> tuple[Given, list[str], dict[str, Any]]:
    given, rest = options(words)
    name = rest.pop(0)
    if given["--pull"] != ["never"]:
        fail("it would be fetched", 125)
    if image(name) is None:
        fail(f"Unable to find image {name!r} locally", 125)
    labels = dict(label.split("=", 1) for label in given["--label"])
    record: dict[str, Any] = {"image": name, "labels": labels, "given": given, "pid": 0}
    container(given["--name"][0]).parent.mkdir(exist_ok=True)
    container(given["--name"][0]).write_text(json.dumps(record))
    return given, rest, record


def create(words: list[str]) -> None:
    print(created(words)[0]["--name"][0])


def run(words: list[str]) -> None:
    given, rest, record = created(words)
    with open(HOME / "runs", "a") as file:
        file.write(json.dumps(given) + "\n")
    mount = dict(part.split("=", 1) for part in given["--mount"][0].split(","))
    if given["--workdir"] != [mount["target"]]:
        fail("the command would run elsewhere", 125)
    env = {"PATH": os.environ["PATH"], **dict(pair.split("=", 1) for pair in given["--env"])}
    try:
        child = subprocess.Popen(
            [given["--entrypoint"][0], *rest], cwd=mount["source"], env=env, start_new_session=True
        )
    except OSError as error:
        remove([given["--name"][0]])
        fail(f"exec: {error.strerror}", 127)
    record["pid"] = child.pid
    container(given["--name"][0]).write_text(json.dumps(record))
    status = child.wait()
    remove(["--force", given["--name"][0]])
    raise SystemExit(status if status >= 0 else 128 - status)


def kill(words: list[str]) -> None:
    for name in words:
        if not container(name).exists():
            fail(f"No such container: {name}")
        end(json.loads(container(name).read_text())["pid"])


def end(pid: int) -> None:
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def remove(words: list[str]) -> None:
    for name in words:
        if name != "--force" and container(name).exists():
            end(json.loads(container(name).read_text())["pid"])
            container(name).unlink()


def copy(words: list[str]) -> None:
    source, into = words
    name, path = source.split(":", 1)
    place = image(json.loads(container(name).read_text())["image"]) or HOME
    tree = place / path.lstrip("/").removesuffix("/.")
    if not tree.is_dir():
        fail(f"Could not find the file {path} in container {name}")
    shutil.copytree(tree, into, symlinks=True, dirs_exist_ok=True)


def ps(words: list[str]) -> None:
    wanted = words[words.index("--filter") + 1].removeprefix("label=").split("=", 1)
    assert words[words.index("--format") + 1] == '{{.ID}} {{.Label "apex-framework.scratch"}}'
    for file in sorted((HOME / "containers").glob("*")):
        labels = json.loads(file.read_text())["labels"]
        if labels.get(wanted[0]) == wanted[1]:
            print(file.name, labels["apex-framework.scratch"])


def version(words: list[str]) -> None:
    if (HOME / "stopped").exists():
        fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
    print("0.0 stand-in")


def inspect(words: list[str]) -> None:
    if image(words[-1]) is None:
        fail(f"No such image: {words[-1]}")
    print("sha256:0")


def stop(words: list[str]) -> None:
    kill([word for word in words if not word.startswith("--time=")])


CALLS = {f.__name__: f for f in (version, create, run, kill, stop, ps)} | {"rm": remove, "cp": copy}
if sys.argv[1:3] == ["image", "inspect"]:
    inspect(sys.argv[3:])
else:
    CALLS[sys.argv[1]](sys.argv[2:])
