"""Python environments of tasks: made once per content, kept in the user's cache, shared by processes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from apex_framework.errors import EnvironmentProblem, WorkspaceError
from apex_framework.interfaces import Sandbox
from apex_framework.interfaces.sandbox import Confinement

from . import removing, state
from .plain import PlainSandbox
from .recipe import Recipe
from .running import Interpreter

_FORM: Final = 2
_INSTALL_S: Final = 1800.0
_OLDEST, _OLDEST_FOR_UV = (3, 6), (3, 8)
_FACTS: Final = "import sys,json;print(json.dumps([list(sys.version_info[:3]),sys.executable,sys.base_prefix]))"
_FOR_THE_NETWORK: Final = (
    "https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_OFFLINE",
    "UV_CONFIG_FILE", "REQUESTS_CA_BUNDLE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter of this machine."""

    version: tuple[int, ...]
    program: str
    prefix: str


class Environments:
    """Below one folder: per environment a folder, a lock, and a mark that it is whole."""

    def __init__(self, folder: Path, *, sandbox: Sandbox | None = None) -> None:
        self._folder, self._sandbox = folder, sandbox or PlainSandbox()

    def get(self, recipe: Recipe, files: state.State) -> Interpreter:
        """The environment of a recipe; made if there is none, which may take minutes.

        Two processes that want the same one make it once. Raises EnvironmentProblem when there is no such interpreter,
        WorkspaceError when something cannot be installed; nothing is left of it then.
        """
        python = find_python(recipe.python)
        packages = list(recipe.packages)
        if recipe.runner == "pytest" and not any(_named(p) == "pytest" for p in packages):
            packages.append("pytest")
        home = self._folder / _key(recipe, python, packages, files)
        interpreter = Interpreter(str(home / "env/bin/python"), (home, Path(python.prefix)))
        if (home / "whole").exists():
            return interpreter
        with self._locked(home):
            if not (home / "whole").exists():
                removing.remove(home)
                home.mkdir()
                try:
                    self._make(home, python, packages, recipe, files)
                except BaseException:
                    removing.remove(home)
                    raise
                (home / "whole").touch()
        return interpreter

    @contextlib.contextmanager
    def _locked(self, home: Path) -> Iterator[None]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(home.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvironmentProblem(
                f"{self._folder} cannot be written: {error.strerror}", "set XDG_CACHE_HOME"
            ) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _make(self, home: Path, python: Python, packages: Sequence[str], recipe: Recipe, files: state.State) -> None:
        env, modern = home / "env", python.version[:2] >= _OLDEST_FOR_UV
        uv = find_uv() if modern else ""
        with_pip = bool(recipe.pre_install or (packages and not uv))
        command = [python.program, "-I", "-m", "venv", *([] if with_pip else ["--without-pip"]), str(env)]
        _do(command, home, "the environment cannot be made")
        program = str(env / "bin/python")
        pip = [program, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        if with_pip and modern:  # or what is there would depend on who made it
            _do([*pip, "uninstall", "--yes", "setuptools"], home, "setuptools cannot be removed")
        if packages:
            wheels = ["--only-binary", ":all:"] if recipe.binary_only else []
            tool = [uv, "pip", "install", "--quiet", "--python", program] if uv else [*pip, "install"]
            _do([*tool, *wheels, "--", *packages], home, f"{', '.join(packages)} cannot be installed")
        if with_pip and modern and not recipe.pre_install and not any(_named(p) == "pip" for p in packages):
            _do([*pip, "uninstall", "--yes", "pip"], home, "pip cannot be removed")
        for path, text in recipe.site:
            file = _site_packages(env) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if recipe.pre_install:
            source = home / "source"
            source.mkdir()
            state.Folder(source).write(files)
            limits = Confinement(source, cpu_s=_INSTALL_S, writable=(env,), readable=(Path(python.prefix),))
            for words in recipe.pre_install:
                argv = [word.replace("{python}", program) for word in words]
                _do(self._sandbox.wrap(argv, limits), source, f"{' '.join(argv)} failed", network=False)


def find_python(wanted: str) -> Python:
    """An interpreter by path or version (``3.6``, ``3.11.7``), among pyenv's, uv's and the search path's; never downloaded.

    Empty: the one that runs this. Raises EnvironmentProblem.
    """
    parts = wanted.split(".")
    by_version = bool(wanted) and os.sep not in wanted
    if by_version and (not 2 <= len(parts) <= 3 or not all(part.isdigit() for part in parts)):
        raise EnvironmentProblem(f"{wanted!r} is neither a version of Python nor the path of one", "say it as 3.9")
    if by_version and tuple(map(int, parts[:2])) < _OLDEST:
        raise EnvironmentProblem(f"Python {wanted} is too old for the test runners", "3.6 is the oldest")
    found = [python for python in map(_facts, _candidates(wanted)) if python is not None]
    fitting = [p for p in found if not by_version or [str(n) for n in p.version[: len(parts)]] == parts]
    if not fitting:
        raise EnvironmentProblem(
            f"there is no Python {wanted} here", f"uv python install {wanted}, or pyenv install {wanted}"
        )
    best = max(fitting, key=lambda p: p.version)
    if best.version[:2] < _OLDEST:
        raise EnvironmentProblem(f"Python {'.'.join(map(str, best.version))} is too old", "3.6 is the oldest")
    return best


def _site_packages(env: Path) -> Path:
    found = sorted(env.glob("lib/python3*/site-packages"))
    if not found:
        raise WorkspaceError(f"{env} has no site-packages", "delete the environment: it is made anew")
    return found[0]


def find_uv() -> str:
    """Path of uv; empty when there is none."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv") or ""


def _candidates(wanted: str) -> list[str]:
    if not wanted:
        return [sys.executable]
    if os.sep in wanted:
        return [wanted]
    minor = ".".join(wanted.split(".")[:2])
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [str(path) for path in sorted(pyenv.glob(f"{minor}*/bin/python"))]
    found += [str(Path(part) / f"python{minor}") for part in os.get_exec_path()]
    if not any(os.access(path, os.X_OK) for path in found) and (uv := find_uv()):
        command = [uv, "python", "find", "--no-project", wanted]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, env=environment)
            found += done.stdout.split()
    return [path for path in dict.fromkeys(found) if os.access(path, os.X_OK)]


@lru_cache(maxsize=64)
def _facts(program: str) -> Python | None:
    """What a program says of itself, if it is a Python that runs (a shim may not)."""
    try:
        done = subprocess.run([program, "-I", "-c", _FACTS], capture_output=True, text=True, timeout=20, check=False)
        version, executable, prefix = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Python(tuple(version), executable, prefix)


def _key(recipe: Recipe, python: Python, packages: Sequence[str], files: state.State) -> str:
    facts = [_FORM, python.version, python.program, sorted(packages), recipe.binary_only, recipe.pre_install]
    if recipe.site:
        facts.append(recipe.site)
    h = hashlib.sha256(json.dumps(facts).encode())
    if recipe.pre_install:
        for path in sorted(files):
            mode, data = files[path]
            h.update(f"{path}\0{mode}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    for package in packages:
        if os.path.isfile(package):
            h.update(Path(package).read_bytes())
    return h.hexdigest()[:32]


def _named(package: str) -> str:
    name = package.strip()
    for at, c in enumerate(name):
        if not (c.isalnum() or c in "-_."):
            return name[:at].lower()
    return name.lower()


def _do(command: Sequence[str], cwd: Path, failed: str, *, network: bool = True) -> None:
    """Run a step; its last line of complaint is the error's."""
    environment: Mapping[str, str] = {
        "PATH": os.pathsep.join((str(cwd / "env/bin"), os.defpath)),
        "HOME": str(cwd),
        "LC_ALL": "C.UTF-8",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_CACHE_DIR": str(cwd.parent / "uv"),
        "PIP_CACHE_DIR": str(cwd.parent / "pip"),
        **({name: os.environ[name] for name in _FOR_THE_NETWORK if network and name in os.environ}),
    }
    try:
        done = subprocess.run(
            list(command), cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=_INSTALL_S, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise WorkspaceError(f"{failed}: it took longer than {_INSTALL_S:g} s") from None
    except OSError as error:
        raise WorkspaceError(f"{failed}: {error.strerror}") from None
    if done.returncode:
        raise WorkspaceError(
            f"{failed}: {_complaint(done.stdout)}", "see the task's run; without a network nothing can be fetched"
        )


def _complaint(output: bytes) -> str:
    lines = [
        " ".join(line.split()) for line in output[-20_000:].decode("utf-8", "replace").splitlines() if line.strip()
    ]
    telling = [
        line for line in lines if line.lower().startswith(("error", "×", "fatal", "exception")) or "Error:" in line
    ]
    told = (telling or lines or ["it said nothing"])[-1 if not telling else 0]
    return "".join(c for c in told if c.isprintable())[:300]
