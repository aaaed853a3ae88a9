"""Downloads what the suites read: data from the hub into a folder, repositories as bare clones. Nothing is left half-written."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from apex_framework.errors import EnvironmentProblem, GitError, MissingExtraError, UsageError
from apex_framework.git import GitLimits, run_git
from apex_framework.ports import SystemFiles

from . import repositories
from .folders import data_files, is_whole

HOST: Final = "https://github.com"
_LIMITS: Final = GitLimits(seconds=4 * 3600.0)
"""Of one clone: the largest is some 300 MB."""

Say = Callable[[str], None]


def fetch_data(dataset: str, folder: Path, say: Say) -> list[Path]:
    """Every split of a dataset, as files of the hub's; nothing where they are. Raises EnvironmentProblem, MissingExtraError.

    They come by way of the hub's own cache, which goes on with a download that was interrupted.
    """
    if folder.is_file() or is_whole(folder):
        return []
    if folder.suffix:
        raise UsageError(f"{folder} is to be a folder, and is called like a file", "--data DIR")
    files = _from_hub(dataset, say)
    with _made(folder, "--data"):
        # The split ``test`` is the last: where it is, the others are.
        for file in files:
            SystemFiles().replace(folder / file.name, file.read_bytes())
    return [folder / file.name for file in files]


def fetch_repositories(repos: Iterable[str], folder: Path, say: Say) -> list[Path]:
    """A bare clone of each that is not there. Raises EnvironmentProblem; clones that were done by then stay."""
    missing = [repo for repo in repos if repositories.find(folder, repo) is None]
    found = []
    for number, repo in enumerate(missing, 1):
        say(f"{number}/{len(missing)} {repo}: cloning")
        started = time.perf_counter()
        with _made(folder, "--repos"):
            found.append(_cloned(repo, folder / repositories.names(repo)[0]))
        say(f"{number}/{len(missing)} {repo}: {time.perf_counter() - started:.0f} s")
    return found


def _from_hub(dataset: str, say: Say) -> tuple[Path, ...]:
    try:
        from huggingface_hub import HfApi, constants, hf_hub_download
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        raise MissingExtraError(f"downloading {dataset}", "swebench", "huggingface_hub") from None
    disable_progress_bars()
    kept = Path(constants.HF_HUB_CACHE) / f"datasets--{dataset.replace('/', '--')}"
    try:
        info = HfApi(token=False).dataset_info(dataset)
        names = [one.rfilename for one in info.siblings or () if one.rfilename.startswith("data/")]
        for name in names:
            say(f"{dataset}: {name}")
            hf_hub_download(dataset, name, repo_type="dataset", revision=info.sha, token=False)
        return data_files(kept / "snapshots" / str(info.sha))
    except Exception as error:  # noqa: BLE001 - whatever the package's HTTP library of the day raises
        if is_whole(kept):
            say(f"{dataset}: the hub does not answer ({_line(error)}); taken from its cache")
            return data_files(kept)
        raise EnvironmentProblem(
            f"{dataset} cannot be downloaded: {_line(error)}",
            f"by hand: the files data/*.parquet of {constants.ENDPOINT}/datasets/{dataset}, into the folder of --data",
        ) from None


def _line(error: Exception) -> str:
    told = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {told[:200]}" if told else type(error).__name__


def _cloned(repo: str, target: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix=".apex-clone-", dir=target.parent) as place:
        made, address = Path(place) / "made", f"{HOST}/{repo}"
        command = ["-c", "http.followRedirects=initial", "clone", "--quiet", "--bare", "--template=", "--no-local"]
        try:
            run_git(made, [*command, "--", address, str(made)], protocols=urlsplit(HOST).scheme, limits=_LIMITS)
        except GitError as error:
            raise EnvironmentProblem(
                f"{repo} cannot be cloned: {error.cause}", f"by hand: git clone --bare {address} {target}"
            ) from None
        made.rename(target)
    return target


@contextlib.contextmanager
def _made(folder: Path, option: str) -> Iterator[None]:
    """A folder that is there inside; one that was made for it and stays empty goes again. Raises EnvironmentProblem."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise EnvironmentProblem(f"{folder} cannot be written: {error.strerror}", f"choose another {option}") from None
    finally:
        with contextlib.suppress(OSError):
            for place in new:
                place.rmdir()
