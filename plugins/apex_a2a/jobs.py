"""What a client's message asks for: a job, or what is missing to one."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from a2a.types import Message
from google.protobuf.json_format import MessageToDict

from .refusal import E_ARG, E_SIZE, Refusal
from .strict import plain, text
from .work import MOST_FILES, Job

HOW: Final = 'Send a text, and a data part {"files": {path: text}, "tests": [paths]}.'
"""How a job is written."""
MOST_NAME: Final = 255
"""Bytes of a file's name, as file systems have it."""


class Incomplete(Refusal):
    """Well formed, but not yet a job: whoever sent it is told what a job is."""


def read_job(task_id: str, principal: str, message: Message) -> Job:
    """The job in a message: texts are the issue; data or named parts bring files. Raises Refusal, or Incomplete."""
    issue, files, tests = [], {}, []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "text" and part.filename:
            files[part.filename] = part.text
        elif kind == "text":
            issue.append(part.text)
        elif kind == "raw" and part.filename:
            try:
                files[part.filename] = part.raw.decode()
            except UnicodeDecodeError:
                raise Refusal(E_ARG, f"file {part.filename[:64]!r} is no text") from None
        elif kind == "data":
            data = plain(MessageToDict(part.data))
            if not isinstance(data, dict) or set(data) - {"issue", "files", "tests"}:
                raise Refusal(E_ARG, 'data is {"issue": text, "files": {path: text}, "tests": [paths]}')
            issue += [data["issue"]] if "issue" in data else []
            more, named = data.get("files", {}), data.get("tests", [])
            if not isinstance(more, dict) or not isinstance(named, list):
                raise Refusal(E_ARG, "files is a table of texts by path, tests a list of paths")
            files.update(more)
            tests += named
        else:
            raise Refusal(E_ARG, "a part is a text, a file that is a text, or data; addresses are not fetched")
    if not all(isinstance(each, str) for each in [*issue, *files.values(), *tests]):
        raise Refusal(E_ARG, "issue, files and tests are texts")
    if not any(each.strip() for each in issue) or not files:
        raise Incomplete(E_ARG, "an issue and the project's files: what is wrong, and where")
    if len(files) > MOST_FILES:
        raise Refusal(E_SIZE, f"at most {MOST_FILES} files")
    for path in [*files, *tests]:
        text(path, "a path", 256)
        if path.startswith("/") or "\\" in path or any(each in ("", ".", "..") for each in path.split("/")):
            raise Refusal(E_ARG, f"path {path[:64]!r} does not stay in the project")
        if any(len(each.encode()) > MOST_NAME for each in path.split("/")):
            raise Refusal(E_ARG, f"path {path[:64]!r} has a name of more than {MOST_NAME} bytes")
    if both := sorted(set(files) & {str(folder) for path in files for folder in PurePosixPath(path).parents}):
        raise Refusal(E_ARG, f"{both[0][:64]!r} is a file and a folder")
    named = tuple(dict.fromkeys(tests)) or tuple(p for p in sorted(files) if p.rpartition("/")[2].startswith("test_"))
    if missing := [each for each in named if each not in files]:
        raise Refusal(E_ARG, f"test {missing[0][:64]!r} is not among the files")
    return Job(task_id, principal, "\n".join(issue).strip(), files, named)
