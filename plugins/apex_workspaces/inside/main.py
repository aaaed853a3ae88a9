"""The test process: learns from its standard input what to do, does it, tells what happened, and ends."""

import json
import os
import random
import sys
from typing import Any

from .lines import Lines
from .telling import make_teller


class Job:
    """What is to be done, and the means that every runner uses."""

    def __init__(self, request: "dict[str, Any]") -> None:
        self.root = str(request["root"]) + os.sep
        self.todo = {test: index for index, test in request["todo"]}  # type: dict[str, int]
        self.args = list(request["args"])  # type: list[str]
        self.paths = list(request["paths"])  # type: list[str]
        self.collect = bool(request["collect"])
        self.uncovered = set(request["uncovered"])  # type: set[str]
        self.tell = make_teller(int(request["fd"]), str(request["nonce"]))
        self.budget = int(request["step_budget"])
        self._coverage = bool(request["coverage"])
        self._exit = os._exit
        self._current = []  # type: list[int]
        self._lines = Lines(self.root, self.budget, self._exceeded, self._coverage)
        request.clear()

    def start(self, indices: "list[int]") -> None:
        """These tests are in hand now."""
        self._current = list(indices)
        self.tell(start=self._current)
        random.seed(0)
        self._lines.begin()

    def finish(self, index: int, status: str, detail: str) -> None:
        """A test's outcome."""
        self._lines.end()
        self.tell(index=index, status=status, detail=detail, steps=self._lines.steps, lines=self._covered())

    def end(self, status: int) -> None:
        """All was done: the process ends with the status that is told. What was registered to run at exit does not run."""
        self.tell(done=status)
        self._exit(status)

    def _covered(self) -> "dict[str, list[int]]":
        if not self._coverage:
            return {}
        return {path: found for path, found in self._lines.lines().items() if path not in self.uncovered}

    def _exceeded(self, place: str) -> None:
        # Nothing is raised: the code under test could catch it. The process ends here, whatever it is in.
        detail = f"still running after {self.budget:,} lines, at {place}"
        lines = self._covered()
        for index in self._current:
            self.tell(index=index, status="timeout", detail=detail, steps=self.budget, lines=lines)
        self.tell(stopped=1)
        self._exit(0)


def main() -> None:
    """Never returns."""
    with os.fdopen(os.dup(0), "rb") as wire:
        request = json.loads(wire.readline().decode("utf-8"))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(int(request["fd"]), False)
    runner, modules = request.pop("runner"), request.pop("path")
    job = Job(request)
    os.chdir(job.root)
    if runner == "pytest":
        from .run_pytest import run
    else:
        from .run_unittest import run
    for name in [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]:
        del sys.modules[name]
    # Only from here on can a file of the repository be found: none of the above is one.
    # An empty entry would stand for whatever folder a test changes to.
    sys.path[:] = [*modules, *(place for place in sys.path if place)]
    # As where the repository is installed: Pythons that its tests start find it, too.
    os.environ["PYTHONPATH"] = os.pathsep.join([*modules, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.argv = ["tests"]
    job.end(run(job))
